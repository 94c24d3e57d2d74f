"""Ranks for the tests: processes forked from a server that has imported torch and the package once, so that starting one costs milliseconds.

A rank's function stands at module level of a test file and gets a `Rank`; what it returns comes back to the test. A rank that raises
comes back as `Failed`, unless the test asks for the failures.
"""
import faulthandler
import multiprocessing
import os
import signal
import socket
import time
import traceback
from dataclasses import dataclass, field

_server = multiprocessing.get_context('forkserver')
_server.set_forkserver_preload(['torch', 'numpy', 'asyncmesh', 'asyncmesh.torch'])
SECRET = 'the secret of the tests'


def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


@dataclass
class Rank:
    """What a rank function needs to join: the geometry and its place in it. `events` carries time stamps to the test while it runs."""
    rank: int
    replicas: int
    stages: int
    url: str
    events: object
    timeout: float
    context: dict = field(default_factory=dict)
    mesh: dict = field(default_factory=dict)

    def join(self, **settings):
        """(context, mesh) of this rank."""
        import asyncmesh
        context = asyncmesh.Context(**self.context)
        options = dict(url=self.url, secret=SECRET, rank=self.rank, replicas=self.replicas, stages=self.stages,
                       replica=self.rank // self.stages, stage=self.rank % self.stages)
        return context, asyncmesh.Mesh(context, timeout=self.timeout, **{**options, **self.mesh, **settings})

    def say(self, what, value=None):
        self.events.put((self.rank, what, time.monotonic_ns(), value))


class Failed(Exception):
    """A rank raised, or ended without an answer."""


def _main(function, rank, arguments, answer):
    faulthandler.enable()
    for name in [name for name in os.environ if name.startswith('ASYNCMESH_') and name != 'ASYNCMESH_LIBRARY']:
        del os.environ[name]
    import torch
    torch.set_num_threads(1)
    try:
        answer.send((True, function(rank, *arguments)))
    except BaseException as error:
        answer.send((False, (type(error).__name__, str(error), traceback.format_exc())))
    answer.close()


class Ranks:
    """Started ranks; a context manager that leaves no process behind."""

    def __init__(self, function, replicas=1, stages=1, arguments=(), context=None, mesh=None, timeout=60.0, url=None):
        self.deadline = time.monotonic() + timeout
        self.events = _server.Queue()
        self.url = url or f'tcp://127.0.0.1:{free_port()}'
        self.processes, self._answers = [], []
        for number in range(replicas * stages):
            rank = Rank(number, replicas, stages, self.url, self.events, timeout, context or {}, mesh or {})
            reader, writer = _server.Pipe(duplex=False)
            process = _server.Process(target=_main, args=(function, rank, arguments, writer), daemon=True)
            process.start()
            writer.close()
            self.processes.append(process)
            self._answers.append(reader)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            if process.is_alive():
                process.kill()
        for process in self.processes:
            process.join(10)
        self.events.close()

    @staticmethod
    def signal(process, number):
        os.kill(process.pid, number)

    def left(self):
        return max(0.0, self.deadline - time.monotonic())

    def event(self):
        """The next (rank, what, monotonic_ns, value) that a rank said."""
        return self.events.get(timeout=self.left())

    def answer(self, rank):
        """(True, result) or (False, (type, text, traceback)); (False, ('died', exit code, '')) for a rank that ended without one."""
        reader = self._answers[rank]
        if not reader.poll(self.left()):
            raise Failed(f'rank {rank} did not answer in time')
        try:
            return reader.recv()
        except EOFError:
            self.processes[rank].join(self.left())
            return False, ('died', self.processes[rank].exitcode, '')

    def results(self):
        """What every rank returned, in order of rank; raises Failed if one raised."""
        answers = [self.answer(rank) for rank in range(len(self.processes))]
        broken = [f'rank {rank}: {value[0]}: {value[1]}\n{value[2]}' for rank, (good, value) in enumerate(answers) if not good]
        if broken:
            raise Failed('\n'.join(broken))
        return [value for _, value in answers]


def run_ranks(function, replicas=1, stages=1, arguments=(), **options):
    with Ranks(function, replicas, stages, arguments, **options) as ranks:
        return ranks.results()
