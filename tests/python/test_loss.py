"""Ranks that are killed or stopped in the middle of the main job."""
import os
import select
import signal
import statistics
import time

import pytest

import asyncmesh
import main_job
from ranks import Ranks, run_ranks

ENDLESS = 1_000_000


def train_until_lost(rank, settings, peer_timeout):
    try:
        main_job.train(rank, settings, peer_timeout, tell_after=8)
    except asyncmesh.Error as error:
        at = time.monotonic_ns()
        rank.say('raised', type(error).__name__)
        return type(error).__name__, str(error), at
    return 'ended', '', time.monotonic_ns()


def join_and_leave(rank):
    _, mesh = rank.join()
    mesh.leave(10)
    return mesh.world


def started(settings, peer_timeout):
    ranks = Ranks(train_until_lost, replicas=2, stages=2, arguments=(settings, peer_timeout), timeout=100)
    for _ in range(4):
        assert ranks.event()[1] == 'training'
    return ranks


@pytest.fixture(scope='module')
def text(tmp_path_factory):
    return main_job.write_text(str(tmp_path_factory.mktemp('text')))


def kill(process):
    """SIGKILL; returns when it was sent and when the kernel said that the process is dead (taking apart its memory takes a while)."""
    poll, handle = select.poll(), os.pidfd_open(process.pid)
    poll.register(handle, select.POLLIN)
    sent = time.monotonic_ns()
    process.kill()
    assert poll.poll(20_000)
    dead = time.monotonic_ns()
    os.close(handle)
    return sent, dead


def test_a_killed_rank_is_named_by_the_others_at_once(text):
    """Each rank in turn, rank 0 with the rendezvous too. How late a survivor is also depends on what else the machine does: the median counts."""
    from_signal, from_death = [], []
    for victim in range(4):
        with started(main_job.job(ENDLESS, data=text), peer_timeout=20) as ranks:
            sent, dead = kill(ranks.processes[victim])
            for survivor in sorted({0, 1, 2, 3} - {victim}):
                good, (kind, message, at) = ranks.answer(survivor)
                assert good and kind == 'PeerLost' and f'rank {victim}' in message, (victim, survivor, kind, message)
                from_signal.append((at - sent) * 1e-6)
                from_death.append((at - dead) * 1e-6)
            assert ranks.answer(victim) == (False, ('died', -signal.SIGKILL, ''))
        assert run_ranks(join_and_leave, replicas=2, stages=2, url=ranks.url) == [4] * 4
    for name, late in (('signal', from_signal), ('death', from_death)):
        print(f'\nfrom the {name} to the exception: median {statistics.median(late):.1f} ms, largest {max(late):.1f} ms')
    assert statistics.median(from_death) <= 50, from_death
    assert max(from_death) <= 1000, from_death


def test_a_stopped_rank_is_named_within_peer_timeout_and_harms_nobody_afterwards(text):
    peer_timeout = 3
    with started(main_job.job(ENDLESS, data=text), peer_timeout) as ranks:
        stopped = time.monotonic_ns()
        ranks.signal(ranks.processes[3], signal.SIGSTOP)
        for survivor in range(3):
            good, (kind, message, at) = ranks.answer(survivor)
            assert good and kind == 'PeerLost' and 'rank 3' in message, (survivor, kind, message)
            assert (at - stopped) * 1e-9 <= peer_timeout
        ranks.signal(ranks.processes[3], signal.SIGCONT)
        good, (kind, message, _) = ranks.answer(3)
        assert good and kind == 'PeerLost', (kind, message)
    assert run_ranks(join_and_leave, replicas=2, stages=2, url=ranks.url) == [4] * 4


def test_a_short_pause_is_no_loss(text):
    with started(main_job.job(ENDLESS, data=text), peer_timeout=8) as ranks:
        for victim in (3, 0):
            ranks.signal(ranks.processes[victim], signal.SIGSTOP)
            time.sleep(1)
            ranks.signal(ranks.processes[victim], signal.SIGCONT)
        time.sleep(1)
        assert all(process.is_alive() for process in ranks.processes)
        assert ranks.events.empty()
