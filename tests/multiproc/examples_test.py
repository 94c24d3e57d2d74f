#!/usr/bin/env python3
"""Runs the examples of the C and C++ interfaces as users do: one process per rank, configured by the environment alone.

    examples_test.py average_vector PROGRAM
    examples_test.py ping_channel PROGRAM
"""
import os
import re
import socket
import subprocess
import sys
import time

DEADLINE_S = 30


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def launch(program, world, extra):
    """The standard output of every rank; fails unless all of them end well, and silent on standard error, by the deadline."""
    # Nothing of a mesh or a launcher that this test itself may run under.
    inherited = {name: value for name, value in os.environ.items()
                 if not name.startswith(("ASYNCMESH_", "OMPI_", "SLURM_", "TORCHELASTIC_", "MASTER_"))}
    shared = {"WORLD_SIZE": str(world), "ASYNCMESH_RENDEZVOUS": f"tcp://127.0.0.1:{free_port()}",
              "ASYNCMESH_SECRET": os.urandom(16).hex(), **extra}
    ranks = [subprocess.Popen([program], env={**inherited, **shared, "RANK": str(rank)}, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) for rank in range(world)]
    end = time.monotonic() + DEADLINE_S
    outputs, failures = [], []
    try:
        for rank, process in enumerate(ranks):
            out, err = process.communicate(timeout=max(0.1, end - time.monotonic()))
            outputs.append(out)
            if process.returncode != 0 or err:
                failures.append(f"rank {rank} ended with {process.returncode}: {err.strip()}")
    except subprocess.TimeoutExpired:
        failures.append(f"rank {len(outputs)} still runs after {DEADLINE_S} s")
    finally:
        for process in ranks:
            if process.poll() is None:
                process.kill()
            process.communicate()
    if failures:
        sys.exit("; ".join(failures))
    return outputs


def match(pattern, text):
    found = re.fullmatch(pattern, text)
    if found is None:
        sys.exit(f"{text!r} is not {pattern!r}")
    return found


def average_vector(program):
    world = 3
    weights = set()
    for rank, out in enumerate(launch(program, world, {})):
        lines = out.splitlines()
        if len(lines) != 2:
            sys.exit(f"rank {rank} printed {out!r}")
        first, second = lines
        match(rf"rank {rank} of {world}: the mean of the ranks is 1", first)
        found = match(rf"rank {rank}: after 200 steps weight\[0\] is (\S+); \d+ rounds, (\d+) bytes, over (.+)", second)
        weights.add(found[1])
        # The steps take microseconds: whether a round met its partner among them is chance. That partitions were sent is not.
        if int(found[2]) == 0 or found[3] == "nothing":
            sys.exit(f"rank {rank} sent nothing: {second}")
    # Nine digits name a float exactly: one text is one bit pattern.
    if len(weights) != 1:
        sys.exit(f"the replicas differ: {sorted(weights)}")
    # From the common 1, rank 0 alone would have come to 3 and rank 2 to 7.
    if not 3 < float(weights.pop()) < 7:
        sys.exit(f"no average of the replicas: {found[1]}")


def ping_channel(program):
    first, second = launch(program, 2, {"ASYNCMESH_STAGES": "2"})
    found = match(r"4096 bytes one way over (.+): p50 (\d+\.\d) us\n", first)
    if float(found[2]) <= 0:
        sys.exit(f"no time has passed: {first}")
    if second:
        sys.exit(f"rank 1 printed {second!r}")


if __name__ == "__main__":
    {"average_vector": average_vector, "ping_channel": ping_channel}[sys.argv[1]](sys.argv[2])
