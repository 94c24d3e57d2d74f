"""python -m asyncmesh.run: environment, exit status, reaping, signals."""
import os
import signal
import subprocess
import sys
import time

import pytest

from asyncmesh import run

LIMIT_S = 60


def launch(*arguments, **options):
    return subprocess.Popen([sys.executable, '-m', 'asyncmesh.run', *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def program(source):
    return ['--', sys.executable, '-c', source]


def finish(process):
    out, errors = process.communicate(timeout=LIMIT_S)
    return process.returncode, out, errors


def test_every_rank_knows_its_place():
    status, out, _ = finish(launch('-n', '4', '--stages', '2', *program(
        'import os; names = "RANK LOCAL_RANK WORLD_SIZE ASYNCMESH_STAGES ASYNCMESH_RENDEZVOUS ASYNCMESH_SECRET".split(); '
        'os.write(1, (" ".join(os.environ[n] for n in names) + "\\n").encode())')))
    rows = sorted(line.split() for line in out.splitlines())
    assert status == 0
    assert [row[:4] for row in rows] == [[str(r), str(r), '4', '2'] for r in range(4)]
    assert len({tuple(row[4:]) for row in rows}) == 1 and rows[0][4].startswith('tcp://127.0.0.1:') and len(rows[0][5]) == 32


def test_what_is_set_stays():
    status, out, _ = finish(launch('-n', '1', *program('import os; print(os.environ["ASYNCMESH_SECRET"])'),
                                   env=dict(os.environ, ASYNCMESH_SECRET='mine')))
    assert (status, out) == (0, 'mine\n')


def test_the_first_failure_decides_the_status():
    started = time.monotonic()
    status, _, errors = finish(launch('-n', '3', '--grace', '0.2', *program(
        'import os, sys, time; time.sleep(60) if os.environ["RANK"] != "1" else sys.exit(7)')))
    assert status == 7 and 'rank 1' in errors
    assert time.monotonic() - started < 30


def test_the_others_have_time_to_report():
    status, out, _ = finish(launch('-n', '2', '--grace', '20', *program(
        'import os, sys, time\nif os.environ["RANK"] == "1": sys.exit(7)\ntime.sleep(1); print("reported", flush=True); sys.exit(3)')))
    assert (status, out) == (7, 'reported\n')


def test_a_killed_rank_gives_137():
    status, _, errors = finish(launch('-n', '2', '--grace', '0.1', *program(
        'import os, signal, time\nif os.environ["RANK"] == "0": os.kill(os.getpid(), signal.SIGKILL)\ntime.sleep(60)')))
    assert status == 137 and 'rank 0' in errors


def test_a_rank_that_ignores_sigterm_is_killed():
    status, out, _ = finish(launch('-n', '2', '--grace', '0.1', *program(
        'import os, signal, sys, time\nif os.environ["RANK"] == "0": time.sleep(2); sys.exit(5)\n'
        'signal.signal(signal.SIGTERM, signal.SIG_IGN); os.write(1, b"%d\\n" % os.getpid()); time.sleep(60)')))
    assert status == 5
    with pytest.raises(ProcessLookupError):
        os.kill(int(out), 0)


@pytest.mark.parametrize('number, expected', [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_is_passed_on(number, expected):
    process = launch('-n', '2', *program('import os, signal, time\nsignal.signal(signal.SIGINT, signal.SIG_DFL)\nos.write(1, b"%d\\n" % os.getpid())\n'
                                         'time.sleep(60)'))
    pids = [int(process.stdout.readline()) for _ in range(2)]
    process.send_signal(number)
    status, _, _ = finish(process)
    assert status == expected
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_ranks_do_not_outlive_a_killed_launcher():
    process = launch('-n', '2', *program('import os, time; os.write(1, b"%d\\n" % os.getpid()); time.sleep(60)'))
    pids = [int(process.stdout.readline()) for _ in range(2)]
    process.kill()
    process.communicate(timeout=LIMIT_S)
    deadline = time.monotonic() + 10
    while any(alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(.01)
    assert not any(alive(pid) for pid in pids)


def alive(pid):
    try:
        with open(f'/proc/{pid}/stat') as file:
            return file.read().rsplit(')', 1)[1].split()[0] != 'Z'
    except FileNotFoundError:
        return False


@pytest.mark.parametrize('arguments, text', [(['-n', '2'], 'no command'), (['-n', '3', '--stages', '2', '--', 'true'], 'multiple'),
                                             (['-n', '0', '--', 'true'], 'multiple'), (['--', 'true'], '-n'),
                                             (['-n', '2', '--stages', '0', '--', 'true'], 'multiple')])
def test_wrong_arguments_are_explained(arguments, text):
    status, _, errors = finish(launch(*arguments))
    assert status == 2 and text in errors


def test_a_command_that_does_not_exist_is_127():
    status, _, errors = finish(launch('-n', '2', '--', '/no/such/program'))
    assert status == 127 and '/no/such/program' in errors


def test_a_timeout_ends_all():
    processes = run.start([sys.executable, '-c', 'import time; time.sleep(60)'], 2)
    assert run.wait(processes, timeout=.2) == 124
    assert all(process.poll() is not None for process in processes)
