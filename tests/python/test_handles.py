"""Handles in any order of destruction, settings by name, and failures as exceptions."""
import gc
import itertools
import os

import numpy
import pytest
import torch

import asyncmesh
from asyncmesh import _c
from asyncmesh.errors import check
from asyncmesh.pipeline import FORWARD, UPDATE


def everything():
    context = asyncmesh.Context()
    mesh = asyncmesh.Mesh(context, rank=0, replicas=1, stages=1)
    weights = asyncmesh.Region(context, [torch.zeros(256)])
    gradients = asyncmesh.Region(context, [torch.ones(256)])
    return [context, mesh, weights, gradients, asyncmesh.Averager(mesh, weights), asyncmesh.Optimiser(weights, gradients),
            asyncmesh.Port(mesh, 'mailbox', tag=1, slots=4, payload_bytes=64), asyncmesh.Stage(1, 0)]


@pytest.mark.parametrize('turn', range(8))
def test_objects_may_be_closed_in_any_order(turn):
    objects = everything()
    for thing in objects[turn:] + objects[:turn]:
        thing.close()
        thing.close()


def test_children_work_after_their_parents_are_closed():
    context, mesh, weights, gradients, averager, optimiser, _, _ = everything()
    for parent in (context, weights, gradients):
        parent.close()
    optimiser.step(1e-3)
    averager.call()
    averager.finish(5)
    mesh.leave(5)


def test_the_collector_may_choose_the_order():
    for order in itertools.islice(itertools.permutations(range(8)), 0, 40320, 9001):
        objects = everything()
        for index in order:
            objects[index] = None
            gc.collect(0)


def test_a_closed_object_says_so():
    context = asyncmesh.Context()
    context.close()
    with pytest.raises(ValueError, match='this Context is closed'):
        context.counters()


def test_a_context_manager_closes():
    with asyncmesh.Stage(2, 0) as stage:
        assert stage.next(True, False).kind == FORWARD
    with pytest.raises(ValueError, match='closed'):
        stage.next(True, False)


@pytest.mark.parametrize('call, error, text', [
    (lambda: asyncmesh.Context(no_such_setting=1), TypeError, "unknown setting 'no_such_setting'"),
    (lambda: asyncmesh.Context(engine='pigeon'), ValueError, 'engine must be one of auto, tag, rma, loopback'),
    (lambda: asyncmesh.Context(link='fast'), asyncmesh.InvalidArgument, 'link'),
    (lambda: asyncmesh.Context(faults='drop=2'), asyncmesh.InvalidArgument, 'drop'),
    (lambda: asyncmesh.Context(tls='x' * 65), ValueError, 'bytes too long'),
    (lambda: asyncmesh.Stage(2, 2), asyncmesh.InvalidArgument, 'stage'),
    (lambda: asyncmesh.Stage(4, 0, in_flight=2), asyncmesh.InvalidArgument, 'in flight; stage 0 of 4 needs 4'),
    (lambda: asyncmesh.Stage(4, 0, mode='sometimes'), ValueError, 'mode must be one of')],
    ids=['unknown', 'choice', 'link', 'faults', 'too long', 'stage', 'in_flight', 'mode'])
def test_a_wrong_setting_is_refused_with_a_reason(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_an_unstable_averager_is_refused_with_the_remedy(alone):
    context, mesh = alone
    region = asyncmesh.Region(context, [torch.zeros(65536)])
    with pytest.raises(asyncmesh.InvalidArgument) as caught:
        asyncmesh.Averager(mesh, region, fraction=1.0, window=64, rule='delta')
    assert caught.value.status == _c.INVALID_ARGUMENT and 'q' in str(caught.value)


@pytest.mark.parametrize('status, kind', [(_c.TIMEOUT, TimeoutError), (_c.PEER_LOST, asyncmesh.PeerLost), (_c.INVALID_ARGUMENT, ValueError),
                                          (_c.TOO_LARGE, ValueError), (_c.INVALID_STATE, asyncmesh.InvalidState),
                                          (_c.REFUSED, PermissionError), (_c.MISMATCH, asyncmesh.Mismatch),
                                          (_c.CANCELED, asyncmesh.Canceled), (_c.LINK_ERROR, asyncmesh.Error), (_c.SYSTEM, asyncmesh.Error)])
def test_a_status_becomes_its_exception(status, kind):
    with pytest.raises(kind) as caught:
        check(status)
    assert isinstance(caught.value, asyncmesh.Error) and caught.value.status == status
    assert _c.functions.status_name(status).decode() in str(caught.value)


def test_an_averager_after_finish_is_an_invalid_state(alone):
    context, mesh = alone
    averager = asyncmesh.Averager(mesh, asyncmesh.Region(context, [torch.zeros(256)]))
    averager.finish(5)
    with pytest.raises(asyncmesh.InvalidState):
        averager.call()


def test_after_fork_calls_fail_and_destroy_does_nothing(alone):
    context, _ = alone
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            context.counters()
            os.write(writer, b'no error')
        except asyncmesh.InvalidState:
            os.write(writer, b'INVALID_STATE')
        finally:
            context.close()
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert os.read(reader, 64) == b'INVALID_STATE'
    assert context.counters() is not None


def test_describe_and_counters_are_plain_python(alone):
    context, mesh = alone
    facts = context.describe()
    assert facts['asyncmesh']['version'] == asyncmesh.__version__
    assert all(isinstance(name, str) and isinstance(value, int) for name, value in context.counters().items())
    assert mesh.info()['world'] == 1 and mesh.peer(0)['state'] == 'alive'


def test_manual_progress(alone):
    with asyncmesh.Context(progress='manual') as context, asyncmesh.Mesh(context, rank=0, replicas=1, stages=1) as mesh:
        assert context.do_work() >= 0
        mesh.leave(5)
    with pytest.raises(asyncmesh.InvalidState):
        alone[0].do_work()


def test_state_goes_through_bytes(alone):
    context, mesh = alone
    gradient = torch.linspace(-1, 1, 256)
    tensors = [torch.zeros(256), torch.zeros(256)]
    optimisers = [asyncmesh.Optimiser(asyncmesh.Region(context, [t]), asyncmesh.Region(context, [gradient])) for t in tensors]
    for _ in range(5):
        optimisers[0].step(1e-2)
    optimisers[1].load(optimisers[0].save())
    tensors[1].copy_(tensors[0])
    for optimiser in optimisers:
        optimiser.step(1e-2)
    assert torch.equal(*tensors)
    with pytest.raises(asyncmesh.Error):
        optimisers[1].load(b'nonsense')


def test_a_stage_without_pipeline_alternates():
    with asyncmesh.Stage(1, 0, total=2) as stage:
        kinds = [stage.next(True, True).kind for _ in range(7)]
    assert kinds[2] == UPDATE and kinds[5] == UPDATE


def test_a_partition_covers_the_table_evenly(alone):
    context, mesh = alone
    region = asyncmesh.Region(context, [torch.zeros(1000), torch.zeros(24, 64), torch.zeros(7)])
    averager = asyncmesh.Averager(mesh, region, fraction=.2, granularity=16)
    parts = averager.partition(0)
    assert parts.shape == (1000 + 24 * 64 + 7,) and set(numpy.unique(parts)) == set(range(5))
    assert not numpy.array_equal(parts, averager.partition(1))


def test_kernel_threads_are_a_setting_of_the_context_and_of_the_environment(monkeypatch):
    with asyncmesh.Context(kernel_threads=3) as context:
        assert context.describe()['context']['kernel_threads'] == 3
    monkeypatch.setenv('ASYNCMESH_KERNEL_THREADS', '2')
    with asyncmesh.Context() as context:
        assert context.describe()['context']['kernel_threads'] == 2
    with pytest.raises(asyncmesh.InvalidArgument, match='kernel_threads 257'):
        asyncmesh.Context(kernel_threads=257)
