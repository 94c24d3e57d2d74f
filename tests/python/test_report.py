"""Data and report of the main job, without ranks."""
import math

import pytest
import torch

import main_job
from language_model import data, report
from language_model.settings import Job, ways


def rank(stage, replica, **changes):
    return dict(dict(stage=stage, replica=replica, fingerprint=f'of {stage}', val_loss=2. if stage else None, wall_s=4., averaging_s=.1,
                     blocked_s=1., delay=1 - stage, bytes_dp=1000, bytes_pp=500, tokens=64, link='none', transports='rma',
                     averager=dict(rounds_started=5, rounds_applied=4, rounds_skipped=1),
                     curve=[dict(update=1, tokens=32, seconds=2., val_loss=3.), dict(update=2, tokens=64, seconds=4., val_loss=2.)]), **changes)


def mesh(**changes):
    return [rank(s, r, **(changes if (s, r) == (1, 1) else {})) for r in range(2) for s in range(2)]


def test_a_summary_adds_up_the_ranks():
    result = report.summarise(main_job.job(2), mesh())
    assert result['bytes_dp'] == 4000 and result['bytes_pp'] == 2000 and result['rounds_started'] == 20
    assert result['averaging_fraction'] == pytest.approx(.025) and result['blocked_pp_fraction'] == pytest.approx(.25)
    assert result['val_ppl'] == pytest.approx(math.e ** 2) and result['delay'] == 1


def test_replicas_that_differ_fail_loudly():
    with pytest.raises(RuntimeError, match='one model'):
        report.summarise(main_job.job(2), mesh(fingerprint='another'))


def test_a_validation_loss_that_is_not_finite_fails_loudly():
    with pytest.raises(FloatingPointError):
        report.summarise(main_job.job(2), [dict(r, val_loss=float('nan')) if r['stage'] else r for r in mesh()])


def test_loss_at_a_time_is_interpolated():
    curve = mesh()[1]['curve']
    assert report.loss_at(curve, 1.) is None
    assert report.loss_at(curve, 3.) == pytest.approx(2.5)
    assert report.loss_at(curve, 9.) == 2.


def test_the_table_has_one_column_per_way():
    results = {name: report.summarise(main_job.job(2), mesh()) for name in ('async', 'sync', 'async_naive')}
    rows = report.table(results).splitlines()
    assert rows[0].split() == ['async', 'sync', 'async_naive'] and 'validation loss' in rows[1]
    assert len({len(row) for row in rows}) == 1


def test_jobs_travel_as_json():
    import json
    job = main_job.job(10, 'deterministic', dict(window=2), seed=4)
    assert Job.from_json(json.loads(json.dumps(job.to_json()))) == job
    assert set(ways(1000)) == {'async', 'sync', 'async_naive'}


def test_a_single_file_is_cut_and_never_trained_on(tmp_path):
    path = main_job.write_text(str(tmp_path), 40_000)
    train, validation = data.load(path)
    with open(path, 'rb') as file:
        whole = list(file.read())
    assert train.tolist() + validation.tolist() == whole
    assert len(validation) == len(whole) - len(whole) * 9 // 10


def test_a_directory_is_split_by_file(tmp_path):
    for index in range(20):
        (tmp_path / f'{index:02d}.txt').write_bytes(bytes([index]) * 1000)
    train, validation = data.load(str(tmp_path))
    assert set(validation.tolist()) == {0, 10} and set(train.tolist()) == set(range(20)) - {0, 10}


def test_the_default_text_is_split_by_file():
    train, validation = data.load()
    assert len(train) > 5 * len(validation) > 0


@pytest.mark.parametrize('content', [None, b'short'], ids=['missing', 'short'])
def test_too_little_text_is_refused_by_name(tmp_path, content):
    path = tmp_path / 'text'
    if content:
        path.write_bytes(content)
    with pytest.raises(SystemExit, match='text'):
        data.load(str(path))


def test_batches_are_those_of_the_seed_in_any_near_order():
    text = torch.arange(5000) % 256
    first, second = (data.Stream(text, main_job.TINY, 3) for _ in range(2))
    mine = {k: first.batch(k) for k in (1, 0, 3, 2)}
    for k in range(4):
        x, y = second.batch(k)
        assert torch.equal(mine[k][0], x) and torch.equal(mine[k][1], y) and torch.equal(x[:, 1:], y[:, :-1])


def test_the_picture_is_drawn(tmp_path):
    results = {name: report.summarise(main_job.job(2), mesh()) for name in ('async', 'sync')}
    report.plot(results, str(tmp_path / 'x.png'), 'title')
    assert (tmp_path / 'x.png').stat().st_size > 10_000
