"""Channels and mailboxes from Python."""
import numpy
import pytest
import torch

import asyncmesh
from asyncmesh.pipeline import CONTROL, EVALUATE
from ranks import run_ranks


def ping(rank, engine):
    context, mesh = rank.join()
    there = mesh.rank_of(0, 1 - mesh.stage)
    out, into = (asyncmesh.Port(mesh, kind, peer=there, tag=5, key=9, slots=4, payload_bytes=4096) for kind in ('channel_out', 'channel_in'))
    seen = []
    for k in range(40):
        tensor = torch.arange(60, dtype=torch.float32).reshape(3, 4, 5) + k
        if mesh.stage == 0:
            out.send(tensor, micro_batch=k, version=k, timeout=20)
        frame = into.recv(version=k + mesh.stage, timeout=20)
        seen.append((frame.micro_batch, frame.version, frame.staleness, frame.shape, frame.source, float(frame.array().sum())))
        if mesh.stage == 1:
            out.send(frame.array(), micro_batch=frame.micro_batch, version=k, timeout=20)
        frame.release()
    try:
        frame.release()
        doubled = 'accepted'
    except asyncmesh.InvalidArgument:
        doubled = 'refused'
    transports = mesh.info()['transports']
    mesh.leave(10)
    return seen, doubled, transports


@pytest.mark.parametrize('engine, tls', [('tag', 'tcp'), ('tag', 'shm'), ('auto', '')], ids=['tag-tcp', 'tag-shm', 'auto'])
def test_frames_go_and_come_back(engine, tls):
    for stage, (seen, doubled, transports) in enumerate(run_ranks(ping, stages=2, arguments=(engine,), context=dict(engine=engine, tls=tls))):
        assert [row[0] for row in seen] == list(range(40))
        assert [row[2] for row in seen] == [stage] * 40
        assert all(row[3] == (3, 4, 5) and row[4] == 1 - stage and row[5] == 60 * (row[0] + 29.5) for row in seen)
        assert doubled == 'refused'
        assert engine == 'auto' or engine in transports


def bounds(rank):
    context, mesh = rank.join()
    if mesh.stage == 0:
        port = asyncmesh.Port(mesh, 'channel_out', peer=1, tag=1, key=77, slots=8, payload_bytes=256, max_untaken=3)
        sent = 0
        while port.send(torch.ones(8), sent):
            sent += 1
        try:
            port.send(torch.ones(65))
            large = 'accepted'
        except asyncmesh.InvalidArgument as error:
            large = str(error)
        try:
            port.send(torch.ones(8), timeout=.05)
            late = 'sent'
        except asyncmesh.Timeout:
            late = 'Timeout'
        rank.say('full')
        signal = asyncmesh.Port(mesh, 'channel_out', peer=1, tag=2, slots=2, payload_bytes=8)
        signal.send(timeout=20, kind=CONTROL)
        ready = any(event['kind'] == 'port_ready' and event['port_key'] == 77 for _ in range(200) for event in context.poll(.1))
        again = port.send(torch.ones(8), 99)
        mesh.leave(20)
        return sent, large, late, ready, again
    port = asyncmesh.Port(mesh, 'channel_in', peer=0, tag=1, slots=8, payload_bytes=256)
    signal = asyncmesh.Port(mesh, 'channel_in', peer=0, tag=2, slots=2, payload_bytes=8)
    nothing = signal.recv()
    assert nothing is None
    message = signal.recv(timeout=20)
    kind, size = message.kind, message.array().size
    numbers = [port.recv(timeout=20).micro_batch for _ in range(4)]
    mesh.leave(20)
    return kind, size, numbers


def test_a_bound_answers_false_and_events_tell_when_there_is_room():
    sender, receiver = run_ranks(bounds, stages=2)
    assert sender[0] == 3
    assert 'TOO_LARGE' in sender[1] and sender[2] == 'Timeout'
    assert sender[3:] == (True, True)
    assert receiver == (CONTROL, 0, [0, 1, 2, 99])


def dtypes(rank):
    context, mesh = rank.join()
    tensors = [torch.arange(6).reshape(2, 3), torch.arange(5, dtype=torch.uint8), torch.ones(4, dtype=torch.float16),
               torch.ones(4, dtype=torch.bfloat16), torch.empty(0, 3)]
    if mesh.stage == 0:
        port = asyncmesh.Port(mesh, 'channel_out', peer=1, tag=1, slots=8, payload_bytes=64)
        for tensor in tensors:
            port.send(tensor, kind=EVALUATE, timeout=20)
        mesh.leave(20)
        return None
    port = asyncmesh.Port(mesh, 'channel_in', peer=0, tag=1, slots=8, payload_bytes=64)
    arrays = []
    for _ in tensors:
        frame = port.recv(timeout=20)
        arrays.append(frame.array().copy())
        frame.release()
    mesh.leave(20)
    return arrays


def test_every_dtype_travels():
    numbers, small, half, brain, empty = run_ranks(dtypes, stages=2)[1]
    assert numpy.array_equal(numbers, numpy.arange(6).reshape(2, 3)) and numbers.dtype == numpy.int64
    assert numpy.array_equal(small, numpy.arange(5)) and small.dtype == numpy.uint8
    assert numpy.all(half == 1) and half.dtype == numpy.float16
    assert numpy.all(brain == 0x3f80) and brain.dtype == numpy.uint16
    assert empty.shape == (0, 3)


def mailbox(rank):
    context, mesh = rank.join()
    port = asyncmesh.Port(mesh, 'mailbox', tag=3, slots=8, payload_bytes=1024)
    for number in range(5):
        port.send(numpy.full(16, mesh.replica, numpy.float32), micro_batch=number, timeout=20)
    seen = []
    while len(seen) < 5 * (mesh.replicas - 1):
        frame = port.recv(timeout=20)
        seen.append((frame.source, frame.micro_batch, float(frame.array()[0])))
        frame.release()
    mesh.leave(20)
    return seen


def test_a_mailbox_takes_from_every_replica_in_order():
    for replica, seen in enumerate(run_ranks(mailbox, replicas=3)):
        for other in {0, 1, 2} - {replica}:
            assert [row for row in seen if row[0] == other] == [(other, number, float(other)) for number in range(5)]
