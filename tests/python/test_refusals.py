"""Ranks that must not join are told why, and a mesh can be started again at once."""
import time

import pytest

import asyncmesh
from ranks import Ranks, free_port, run_ranks


def strict(rank, odd):
    """Rank 1 joins with the settings in `odd`, rank 0 as it should. What each was told."""
    try:
        context, mesh = rank.join(**(odd if rank.rank == 1 else {}))
    except asyncmesh.Error as error:
        return type(error).__name__, str(error)
    mesh.leave(5)
    return 'joined', ''


@pytest.mark.parametrize('odd, kind, words', [
    (dict(secret='another secret'), 'Refused', 'secret'),
    (dict(replicas=3), 'Mismatch', 'replicas'),
    (dict(stages=2, replicas=1, replica=0, stage=1), 'Mismatch', 'stage')], ids=['secret', 'world', 'geometry'])
def test_a_rank_that_does_not_belong_is_refused_with_a_reason(odd, kind, words):
    with Ranks(strict, replicas=2, arguments=(odd,)) as ranks:
        told = ranks.answer(1)[1]
    assert told[0] == kind and words in told[1], told


def twice(rank):
    _, mesh = rank.join()
    if rank.rank == 1:
        try:
            rank.join()
            return 'joined twice'
        except asyncmesh.Error as error:
            mesh.leave(5)
            return str(error)
    mesh.leave(20)
    return ''


def test_the_same_rank_cannot_join_twice():
    with Ranks(twice, replicas=2, timeout=4) as ranks:
        ranks.deadline += 60
        answer = ranks.answer(1)
        assert answer[0] and answer[1] != 'joined twice', answer


def lonely(rank):
    if rank.rank == 2:
        return ''
    try:
        rank.join()
    except asyncmesh.Timeout as error:
        return str(error)
    return 'joined'


def test_a_timeout_names_the_missing_rank():
    with Ranks(lonely, replicas=3, timeout=3) as ranks:
        ranks.deadline += 60
        assert all('2' in text and text != 'joined' for text in ranks.results()[:2])


def brief(rank):
    _, mesh = rank.join()
    mesh.leave(10)
    return mesh.world


def die(rank):
    import os
    import signal
    rank.join()
    rank.say('joined')
    time.sleep(.05)
    os.kill(os.getpid(), signal.SIGKILL)


def test_starting_again_at_once_on_the_same_port_works():
    url = f'tcp://127.0.0.1:{free_port()}'
    for _ in range(3):
        assert run_ranks(brief, replicas=2, url=url) == [2, 2]


def test_starting_again_after_a_crash_of_all_works():
    url = f'tcp://127.0.0.1:{free_port()}'
    with Ranks(die, replicas=2, url=url) as ranks:
        for process in ranks.processes:
            process.join(30)
    assert run_ranks(brief, replicas=2, url=url) == [2, 2]


def secret_from_nowhere(rank):
    try:
        rank.join(url='tcp://0.0.0.0:' + rank.url.rsplit(':', 1)[1], secret='')
    except asyncmesh.Error as error:
        return type(error).__name__, str(error)


def test_a_mesh_off_loopback_needs_a_secret():
    for kind, text in run_ranks(secret_from_nowhere, replicas=2, timeout=10):
        assert kind in ('InvalidArgument', 'Refused') and 'secret' in text
