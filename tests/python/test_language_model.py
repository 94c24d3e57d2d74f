"""The main job, small: deterministic runs, one model at the end, the serial reference, torchrun, the command line."""
import itertools
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

import main_job
import serial_reference
from ranks import Ranks, free_port, run_ranks

EXAMPLES = Path(__file__).resolve().parents[2] / 'bindings' / 'python' / 'examples'
LOCKSTEP = dict(mode='deterministic', window=2, fraction=.2)


@pytest.fixture(scope='module')
def text(tmp_path_factory):
    return main_job.write_text(str(tmp_path_factory.mktemp('text')))


def fingerprints(results):
    """One per stage; all replicas of a stage must agree."""
    stages = {}
    for result in results:
        stages.setdefault(result['stage'], set()).add(result['fingerprint'])
    assert all(len(prints) == 1 for prints in stages.values()), 'the replicas of a stage differ'
    return [stages[s].copy().pop() for s in sorted(stages)]


def run(job, **options):
    return run_ranks(main_job.train, replicas=2, stages=2, arguments=(job,), **options)


def test_deterministic_runs_are_bitwise_equal_over_every_medium(text):
    def prints(seed, **medium):
        return fingerprints(run(main_job.job(60, 'deterministic', LOCKSTEP, data=text, seed=seed, **medium)))

    expected = prints(3)
    for medium in (dict(engine='tag', tls='shm'), dict(engine='tag', tls='tcp'), dict(engine='rma')):
        assert prints(3, **medium) == expected, medium
    assert prints(4) != expected


@pytest.mark.parametrize('options', [dict(), dict(mode='synchronous', micro_batches=2), dict(micro_batches=2, in_flight=4),
                                     dict(link='400Mbit,1ms')], ids=['opportunistic', 'synchronous', 'deep', 'link'])
def test_all_replicas_end_with_one_model(text, options):
    results = run(main_job.job(40, data=text, evaluations=2, **options))
    fingerprints(results)
    losses = {r['val_loss'] for r in results if r['stage'] == 1}
    assert len(losses) == 1 and math.isfinite(losses.pop())
    assert all(r['averager']['not_finite'] == 0 for r in results)
    assert all(len(r['curve']) == 2 for r in results)
    if options.get('mode') != 'synchronous':
        assert all(r['averager']['rounds_applied'] > 0 and r['averager']['wait_ns'] == 0 for r in results)


@pytest.mark.parametrize('wire, item', [('float32', 4), ('bfloat16', 2), ('float16', 2)])
def test_activations_and_gradients_travel_as_told(text, wire, item):
    job = main_job.job(5, 'deterministic', LOCKSTEP, data=text, wire=wire, evaluations=1)
    results = run(job)
    fingerprints(results)
    shape = job.shape
    assert {r['bytes_pp'] for r in results} == {5 * shape.batch * shape.context * shape.width * item}
    assert all(math.isfinite(r['val_loss']) for r in results if r['stage'] == 1)


def partitions(rank, averaging, shape, cycles):
    """The library's own subsets of both stages, by part number."""
    import asyncmesh
    from language_model.model import build_stage
    context, mesh = rank.join()
    answer = []
    for stage in range(2):
        region = asyncmesh.Region(context, [p.detach() for p in build_stage(shape, 2, stage, 0).parameters()])
        averager = asyncmesh.Averager(mesh, region, **averaging)
        answer.append([averager.partition(cycle) for cycle in range(cycles)])
        averager.close()
    mesh.leave(10)
    return answer


@pytest.mark.parametrize('way', ['ema', 'average', 'sync'])
def test_the_mesh_follows_the_serial_reference(text, way):
    import torch
    updates, averaging = 200, dict(LOCKSTEP, rule=way if way != 'sync' else 'ema')
    settings = dict(beta1=.9, psi=.3, look_ahead=1)
    job = main_job.job(updates, 'synchronous' if way == 'sync' else 'deterministic', averaging, optimiser=settings, data=text, evaluations=1, lr=5e-3,
                       wire='float32')
    tables = run_ranks(partitions, arguments=(averaging, job.shape, updates // 5 + 1))[0]
    expected = serial_reference.train(job, lambda stage, cycle: torch.from_numpy(tables[stage][cycle].astype('int64')))
    measured = next(r['val_loss'] for r in run(job) if r['stage'] == 1)
    print(f'\n{way}: mesh {measured:.5f}, serial reference {expected:.5f}: {abs(measured - expected) / expected:.2e} apart')
    assert abs(measured - expected) <= 2e-3 * expected


def test_a_loss_that_is_not_finite_fails_loudly(text):
    with Ranks(main_job.train, replicas=2, stages=2, arguments=(main_job.job(200, data=text, lr=1e30),)) as ranks:
        answers = [ranks.answer(rank) for rank in range(4)]
    assert not any(good for good, _ in answers)
    kinds = {value[0] for _, value in answers}
    assert kinds & {'FloatingPointError', 'InvalidArgument'} and kinds <= {'FloatingPointError', 'InvalidArgument', 'PeerLost', 'Canceled'}, answers


def test_torchrun_starts_a_mesh_of_two_by_two(text, tmp_path):
    jobs = [main_job.job(6, data=text)]
    (tmp_path / 'jobs.json').write_text(json.dumps([job.to_json() for job in jobs]))
    environment = {**os.environ, 'ASYNCMESH_JOB_DIR': str(tmp_path), 'ASYNCMESH_STAGES': '2', 'ASYNCMESH_SECRET': 'of torchrun'}
    port = next(p for p in (free_port() for _ in itertools.count()) if p < 65535)
    done = subprocess.run([sys.executable, '-m', 'torch.distributed.run', '--nproc-per-node', '4', '--master-addr', '127.0.0.1',
                           '--master-port', str(port), '-m', 'language_model.worker'], env=environment, capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    fingerprints([json.loads((tmp_path / f'result.0.{rank}.json').read_text()) for rank in range(4)])


REQUIRED = {'val_loss', 'val_ppl', 'tokens', 'wall_s', 'averaging_fraction', 'blocked_pp_fraction', 'bytes_dp', 'bytes_pp', 'rounds_started',
            'rounds_applied', 'rounds_skipped'}


def test_the_command_line_ends_with_table_picture_and_json(text, tmp_path):
    tiny = ['--width', '32', '--context', '32', '--batch', '4']
    done = subprocess.run([sys.executable, str(EXAMPLES / 'train.py'), '--data', text, '--link', 'none', '--steps', '24', '--json', str(tmp_path / 'x.json'),
                           '--plot', str(tmp_path / 'x.png'), *tiny],
                          capture_output=True, text=True, timeout=170)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    assert 'validation loss' in done.stdout and 'tokens/s' in done.stdout
    result = json.loads((tmp_path / 'x.json').read_text())
    assert {'link', 'transports', 'seed', 'steps', 'schema_version'} <= set(result)
    for way in ('async', 'sync', 'async_naive'):
        assert REQUIRED <= set(result[way])
    assert len({result[way]['tokens'] for way in ('async', 'sync', 'async_naive')}) == 1
    assert (tmp_path / 'x.png').read_bytes()[:8] == b'\x89PNG\r\n\x1a\n'
