"""Starts ranks on this machine and reaps them: python -m asyncmesh.run -n 4 [--stages 2] -- CMD [ARG ...]

Each rank gets RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, ASYNCMESH_RENDEZVOUS (a free loopback port) and a random ASYNCMESH_SECRET, unless they are
set. The first rank that fails decides the exit status; the others get `--grace` seconds to report it, then SIGTERM, then SIGKILL. A killed
rank gives 128 + signal. SIGINT and SIGTERM are passed on; ranks do not outlive the launcher.
"""
import argparse
import ctypes
import os
import secrets
import signal
import socket
import subprocess
import sys
import time


_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


def rank_environment(rank, count, stages, base):
    own = dict(base, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(count), LOCAL_WORLD_SIZE=str(count))
    if stages:
        own['ASYNCMESH_STAGES'] = str(stages)
    return own


def start(command, count, stages=None, environment=None, die_with_caller=False):
    """Starts `count` processes; returns the list of Popen objects. die_with_caller: the kernel kills them when the calling thread ends, however
    it ends."""
    caller = os.getpid()

    def bind_life():
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != caller:
            os._exit(128 + signal.SIGKILL)

    base = dict(os.environ if environment is None else environment)
    base.setdefault('ASYNCMESH_RENDEZVOUS', f'tcp://127.0.0.1:{free_port()}')
    base.setdefault('ASYNCMESH_SECRET', secrets.token_hex(16))
    processes = []
    try:
        for rank in range(count):
            processes.append(subprocess.Popen(command, env=rank_environment(rank, count, stages, base),
                                              preexec_fn=bind_life if die_with_caller else None))
    except BaseException:
        end(processes)
        raise
    return processes


def stop(processes, number):
    for process in processes:
        if process.poll() is None:
            process.send_signal(number)


def end(processes, patience=2.0):
    """SIGTERM, then SIGKILL for those that are still there; reaps all."""
    stop(processes, signal.SIGTERM)
    deadline = time.monotonic() + patience
    while any(process.poll() is None for process in processes) and time.monotonic() < deadline:
        time.sleep(.02)
    stop(processes, signal.SIGKILL)
    for process in processes:
        process.wait()


def wait(processes, grace=10.0, timeout=None):
    """Waits for all; ends the rest `grace` seconds after the first failure, and all after `timeout` seconds. Returns the exit status."""
    failed, deadline = None, None if timeout is None else time.monotonic() + timeout
    while any(process.poll() is None for process in processes):
        for rank, process in enumerate(processes):
            if failed is None and process.poll() not in (None, 0):
                failed, deadline = process.returncode, time.monotonic() + grace
                print(f'asyncmesh.run: rank {rank} (pid {process.pid}) ended with {process.returncode}', file=sys.stderr, flush=True)
        if deadline is not None and time.monotonic() > deadline:
            end(processes)
            failed = failed or 124
        time.sleep(.02)
    statuses = [process.wait() for process in processes]
    status = failed if failed is not None else next((s for s in statuses if s), 0)
    return 128 - status if status < 0 else status


def arguments(argv):
    parser = argparse.ArgumentParser(prog='python -m asyncmesh.run', description='Start local ranks and reap them.')
    parser.add_argument('-n', '--ranks', type=int, required=True, help='number of processes')
    parser.add_argument('--stages', type=int, help='pipeline stages P (ASYNCMESH_STAGES)')
    parser.add_argument('--grace', type=float, default=10.0, help='seconds between the first failure and SIGTERM')
    parser.add_argument('command', nargs=argparse.REMAINDER, help='-- CMD [ARG ...]')
    options = parser.parse_args(argv)
    options.command = options.command[1:] if options.command[:1] == ['--'] else options.command
    if not options.command:
        parser.error('no command; write it after --')
    if options.ranks < 1 or (options.stages is not None and (options.stages < 1 or options.ranks % options.stages)):
        parser.error('the number of ranks must be a positive multiple of the number of stages')
    return options


def main(argv=None):
    options = arguments(argv)
    try:
        processes = start(options.command, options.ranks, options.stages, die_with_caller=True)
    except OSError as error:
        print(f'asyncmesh.run: cannot start {options.command[0]}: {error}', file=sys.stderr)
        return 127
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda received, _: stop(processes, received))
    return wait(processes, options.grace)


if __name__ == '__main__':
    sys.exit(main())
