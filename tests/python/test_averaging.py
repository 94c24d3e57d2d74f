"""Replicas that average NumPy arrays and torch parameters, deterministic and not."""
import time

import numpy
import pytest
import torch

import asyncmesh
import asyncmesh.torch
from ranks import run_ranks

ELEMENTS = 4096


def average_numpy(rank, rule):
    context, mesh = rank.join()
    values = numpy.full(ELEMENTS, float(mesh.replica), numpy.float32)
    region = asyncmesh.Region(context, [values[:1000], values[1000:]])
    averager = asyncmesh.Averager(mesh, region, mode='deterministic', window=2, fraction=.25, rule=rule)
    results = [averager.call(call / 24) for call in range(24)]
    applied = averager.info()['rounds_applied']
    averager.finish(20)
    mesh.leave(10)
    return values, applied, results[-1].age_calls


@pytest.mark.parametrize('rule', ['average', 'delta', 'ema'])
def test_replicas_end_with_one_vector(rule):
    (first, applied, age), (second, *_) = run_ranks(average_numpy, replicas=2, arguments=(rule,))
    assert numpy.array_equal(first, second)
    assert numpy.allclose(first, .5)
    assert applied == 22 and age == 2


def average_in(rank, wire, rounding):
    context, mesh = rank.join()
    values = numpy.linspace(-1, 1, 30000, dtype=numpy.float32) + numpy.float32(.25) * mesh.replica
    region = asyncmesh.Region(context, [values[:77], values[77:]])
    averager = asyncmesh.Averager(mesh, region, mode='deterministic', window=2, fraction=.25, rule='delta', redraw='never', wire=wire,
                                  rounding=rounding, seed=3)
    posted = max(averager.call(call / 40).bytes_posted for call in range(40))
    before = values.copy()
    averager.finish(20)
    mesh.leave(10)
    return before, posted / (30000 / 4)


@pytest.mark.parametrize('wire, rounding, bytes_per_value', [
    ('float32', 'nearest', 4), ('bfloat16', 'stochastic', 2), ('int8', 'nearest', 1.0625), ('int8', 'stochastic', 1.0625),
    ('int4', 'nearest', .5625), ('int4', 'stochastic', .5625)])
def test_replicas_come_together_on_every_wire(wire, rounding, bytes_per_value):
    (first, size), (second, _) = run_ranks(average_in, replicas=2, arguments=(wire, rounding))
    assert size == pytest.approx(bytes_per_value, rel=.02)
    codes = {'float32': 1e6, 'bfloat16': 128, 'int8': 127, 'int4': 7}[wire]
    spacing = 1.25 / codes * (1 if rounding == 'nearest' else 2)
    assert numpy.abs(first - second).max() < 1.3 * spacing
    middle = numpy.linspace(-1, 1, 30000, dtype=numpy.float32) + .125
    assert numpy.abs((first + second) / 2 - middle).max() < 1e-4, 'what the wire cannot hold is kept'
    again, _ = run_ranks(average_in, replicas=2, arguments=(wire, rounding))
    assert numpy.array_equal(again[0], first)


def test_a_wire_or_rounding_that_is_none_is_refused(alone):
    context, mesh = alone
    region = asyncmesh.Region(context, [numpy.zeros(100, numpy.float32)])
    for options in (dict(wire='int5'), dict(rounding='up')):
        with pytest.raises(ValueError, match='must be one of'):
            asyncmesh.Averager(mesh, region, **options)


def broadcast_and_mean(rank):
    context, mesh = rank.join()
    values = torch.arange(300.) + 1000 * mesh.replica
    region = asyncmesh.Region(context, [values])
    averager = asyncmesh.Averager(mesh, region)
    averager.broadcast(1, timeout=20)
    after = values.clone()
    gradient, out = torch.full((500,), float(mesh.replica)), torch.empty(500)
    averager.mean(asyncmesh.Region(context, [gradient]), asyncmesh.Region(context, [out]), weight=1. + mesh.replica, timeout=20)
    mesh.leave(10)
    return after.numpy(), gradient.numpy(), out.numpy()


def test_broadcast_and_weighted_mean():
    for replica, (after, gradient, out) in enumerate(run_ranks(broadcast_and_mean, replicas=3)):
        assert numpy.array_equal(after, numpy.arange(300.) + 1000)
        assert numpy.all(gradient == replica)
        assert numpy.allclose(out, (0 * 1 + 1 * 2 + 2 * 3) / 6)


def average_module(rank):
    context, mesh = rank.join()
    torch.manual_seed(mesh.replica)
    layer = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    layer[0].bias.requires_grad_(False)
    optimiser = torch.optim.SGD([p for p in layer.parameters() if p.requires_grad], lr=1e-2)
    averager = asyncmesh.torch.ParameterAverager(mesh, layer.parameters(), mode='deterministic', window=1, fraction=.5, rule='ema')
    averager.broadcast(0, timeout=20)
    for step in range(12):
        if step == 6:
            for p in layer.parameters():
                p.data = p.data.clone()
        optimiser.zero_grad()
        layer(torch.randn(8, 64)).square().mean().backward()
        optimiser.step()
        averager(step / 12, timeout=20)
    averager.finish(20)
    mesh.leave(10)
    return [p.detach().numpy() for p in layer.parameters()]


def test_parameters_that_moved_are_followed():
    first, second = run_ranks(average_module, replicas=2)
    for index in (0, 2, 3):
        assert numpy.array_equal(first[index], second[index])
    assert not numpy.array_equal(first[1], second[1]), 'a parameter without gradient is not averaged'


def write_under_autograd(rank):
    context, mesh = rank.join()
    layer = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    averager = asyncmesh.torch.ParameterAverager(mesh, layer.parameters(), mode='deterministic', window=0, fraction=1., rule='average')
    value = layer(torch.ones(1, 64)).sum()
    averager(timeout=20)
    try:
        value.backward()
        raised = ''
    except RuntimeError as error:
        raised = str(error)
    mesh.leave(10)
    return raised


def test_a_write_between_forward_and_backward_makes_autograd_raise():
    for raised in run_ranks(write_under_autograd, replicas=2):
        assert 'modified by an inplace operation' in raised


def average_halves(rank, dtype):
    context, mesh = rank.join()
    torch.manual_seed(mesh.replica)
    layer = torch.nn.Linear(64, 64).to(dtype)
    averager = asyncmesh.torch.ParameterAverager(mesh, layer.parameters(), mode='deterministic', window=0, fraction=1., rule='average')
    before = [p.detach().clone() for p in layer.parameters()]
    mirror = [p.detach().float() for p in layer.parameters()]
    averager.averager.call(mirror=asyncmesh.Region(context, mirror), timeout=20)
    after = [p.detach().clone() for p in layer.parameters()]
    averager.finish(20)
    mesh.leave(10)
    return [[t.detach().float().numpy() for t in tensors] for tensors in (before, after, mirror, layer.parameters())]


@pytest.mark.parametrize('dtype', [torch.bfloat16, torch.float16], ids=str)
def test_parameters_without_float32_masters_are_averaged_too(dtype):
    first, second = run_ranks(average_halves, replicas=2, arguments=(dtype,))
    for index in range(2):
        mean = torch.from_numpy((first[0][index] + second[0][index]) / 2).to(dtype).float().numpy()
        for before, after, mirror, final in (first, second):
            assert numpy.array_equal(after[index], mean)
            assert numpy.array_equal(mirror[index], mean)
            assert numpy.array_equal(final[index], mean)


def other_table(rank):
    context, mesh = rank.join()
    region = asyncmesh.Region(context, [torch.zeros(65536 + mesh.replica)])
    try:
        asyncmesh.Averager(mesh, region, create_timeout_ns=10_000_000_000)
    except asyncmesh.Mismatch as error:
        return str(error)


def test_another_table_is_a_mismatch_for_all():
    answers = run_ranks(other_table, replicas=2)
    assert all(answers), answers


def unequal(rank, slowdown, calls):
    """Replica 1 takes `slowdown` times as long per step; both go on until the fast one has made its calls."""
    context, mesh = rank.join()
    values = numpy.zeros(65536, numpy.float32)
    averager = asyncmesh.Averager(mesh, asyncmesh.Region(context, [values]), window=4, fraction=.1, rule='ema')
    averager.broadcast(0, timeout=20)
    pace = .002 * (slowdown if mesh.replica else 1)
    opened, waited = [], 0
    for call in range(calls // (slowdown if mesh.replica else 1)):
        values += 1e-3
        time.sleep(pace)
        result = averager.call(call / calls)
        opened.append(result.open)
        waited += result.wait_ns
    info = averager.info()
    averager.finish(30)
    mesh.leave(10)
    return max(opened), waited, info, values


@pytest.mark.parametrize('slowdown', [3, 10])
def test_a_fast_replica_never_waits_for_a_slow_one(slowdown):
    ranks = run_ranks(unequal, replicas=2, arguments=(slowdown, 600))
    for opened, waited, info, _ in ranks:
        assert opened <= 4 and waited == 0 and info['wait_ns'] == 0
        assert info['rounds_applied'] > 0 and info['not_finite'] == 0
    fast, slow = ranks
    assert fast[2]['rounds_skipped'] > 0, 'the window paces the fast one'
    assert numpy.array_equal(fast[3], slow[3])
