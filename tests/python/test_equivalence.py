"""Without delay and with equal replicas the whole library is the optimiser called serially, bit for bit."""
import numpy
import pytest
import torch

import asyncmesh.torch
from ranks import run_ranks

UPDATES = 40
SETTINGS = dict(beta1=.9, psi=.04)


def model():
    torch.manual_seed(5)
    return torch.nn.Sequential(torch.nn.Linear(24, 40), torch.nn.GELU(), torch.nn.LayerNorm(40), torch.nn.Linear(40, 10))


def batch(k):
    generator = torch.Generator().manual_seed(100 + k)
    return torch.randn(16, 24, generator=generator), torch.randint(10, (16,), generator=generator)


def rate(n):
    return 1e-2 * (1 - n / (2 * UPDATES))


def values(module):
    return torch.cat([p.detach().reshape(-1) for p in module.parameters()]).numpy()


def serial(rank):
    """The same optimiser, called by hand."""
    with asyncmesh.Context() as context:
        module = model()
        optimiser = asyncmesh.torch.NAdamW(context, module.parameters(), lr=1., betas=(SETTINGS['beta1'], .999), psi=SETTINGS['psi'])
        for k in range(UPDATES):
            x, y = batch(k)
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(module(x), y).backward()
            optimiser.param_groups[0]['lr'] = rate(k)
            optimiser.step(clip_norm=1.)
        return values(module)


def whole_library(rank, averaging, mode):
    _, mesh = rank.join()
    module = model()
    stage = asyncmesh.torch.PipelineStage(mesh, module, payload_bytes=4096, mode=mode, averaging=averaging, optimiser=SETTINGS)
    stage.start()
    stage.run(UPDATES, lambda k: batch(k)[0], lambda output, k: torch.nn.functional.cross_entropy(output, batch(k)[1]), rate,
              progress=lambda n: n / UPDATES)
    before, rounds = values(module), stage.averager.info()['rounds_applied']
    stage.finish(30)
    mesh.leave(10)
    return before, values(module), rounds


@pytest.fixture(scope='module')
def serially():
    return run_ranks(serial)[0]


def relative(a, b):
    return numpy.linalg.norm(a.astype(numpy.float64) - b) / numpy.linalg.norm(b.astype(numpy.float64))


def test_one_rank_is_the_serial_optimiser(serially):
    for mode in ('deterministic', 'opportunistic'):
        before, after, _ = run_ranks(whole_library, arguments=(dict(mode='deterministic', window=0), mode))[0]
        assert numpy.array_equal(before, serially) and numpy.array_equal(after, serially), mode


@pytest.mark.parametrize('rule', ['average', 'delta', 'ema'])
def test_equal_replicas_without_delay_are_the_serial_optimiser(serially, rule):
    averaging = dict(mode='deterministic', window=0, fraction=.25, rule=rule)
    for before, after, rounds in run_ranks(whole_library, replicas=2, arguments=(averaging, 'deterministic')):
        assert rounds == UPDATES
        assert numpy.array_equal(before, serially) and numpy.array_equal(after, serially)


def test_equal_replicas_in_synchronous_mode_are_the_serial_optimiser(serially):
    for before, after, _ in run_ranks(whole_library, replicas=2, arguments=({}, 'synchronous')):
        assert numpy.array_equal(before, serially) and numpy.array_equal(after, serially)


def test_equal_replicas_with_delay_and_delta_are_within_rounding(serially):
    averaging = dict(mode='deterministic', window=3, fraction=.25, rule='delta')
    for before, after, rounds in run_ranks(whole_library, replicas=2, arguments=(averaging, 'deterministic')):
        assert rounds == UPDATES - 3
        assert 0 <= relative(before, serially) <= 1e-6 and relative(after, serially) <= 1e-6
