#!/usr/bin/env python3
"""CPU kernels against the same work in torch eager, with the same number of threads.

Why: what a trainer would write without the kernels is a handful of torch operations, each of which reads and writes its operands
once. The kernels read and write everything once in all; this tells what that is worth, on any machine.

Run:  kernels_against_torch.py --benchmark build/release/perf/micro/kernel_benchmark [--threads 1 2] [--rounds 5] [--json FILE]
      with a Python that has torch; close other programs.
Look: `ratio`, torch's time over the kernel's: medians over rounds, in each of which both run after one another. Where torch can do it
      in several ways, its fastest counts. Goals: apply 4, nadam 2, top 5 % of 100 M values 40. With --check the exit status tells
      whether they are met.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # large pages, as the benchmark's own memory has

import torch  # noqa: E402  (reads its environment when it is imported)

BLOCK = 64
PARTS = 20
PARAMETERS = 32 << 20  # of the table that apply works on, as in the benchmark
OPTIMISED = 8 << 20
SELECTED_FROM = 100_000_000


class Apply:
    """e <- m e + (1 - m)(w - snapshot), w <- mean + lambda e, on one part of twenty, a different one each time."""

    name = "apply"
    goal = 4.0
    kernel = "Apply/rule/encoding/threads/2/0/{threads}/"

    def __init__(self) -> None:
        blocks = PARAMETERS // BLOCK
        self.w = torch.ones(blocks, BLOCK)
        self.ema = torch.zeros(blocks, BLOCK)
        self.parts = torch.randperm(blocks).chunk(PARTS)
        self.snapshot = torch.ones(len(self.parts[0]), BLOCK)
        self.mean = torch.ones(len(self.parts[0]), BLOCK)
        self.next = 0

    def part(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        part = self.parts[self.next]
        self.next = (self.next + 1) % PARTS
        return part, self.snapshot[: len(part)], self.mean[: len(part)]

    def subscripts(self) -> None:
        part, snapshot, mean = self.part()
        ema = self.ema[part].mul_(0.5).add_(self.w[part] - snapshot, alpha=0.5)
        self.ema[part] = ema
        self.w[part] = mean.add(ema, alpha=1.0)

    def index_functions(self) -> None:
        part, snapshot, mean = self.part()
        drift = torch.index_select(self.w, 0, part).sub_(snapshot)
        ema = torch.index_select(self.ema, 0, part).mul_(0.5).add_(drift, alpha=0.5)
        self.ema.index_copy_(0, part, ema)
        self.w.index_copy_(0, part, torch.add(mean, ema, alpha=1.0))

    def ways(self) -> list[Callable[[], None]]:
        return [self.subscripts, self.index_functions]


class Nadam:
    """A step of NAdam with decoupled weight decay on one large tensor."""

    name = "nadam"
    goal = 2.0
    kernel = "Nadamw/storage/mirror/threads/0/0/{threads}/"

    def __init__(self) -> None:
        self.optimisers = []
        for foreach in (False, True):
            parameter = torch.nn.Parameter(torch.ones(OPTIMISED))
            parameter.grad = torch.full((OPTIMISED,), 0.01)
            self.optimisers.append(
                torch.optim.NAdam([parameter], lr=1e-4, weight_decay=0.01, decoupled_weight_decay=True, foreach=foreach)
            )

    def ways(self) -> list[Callable[[], None]]:
        return [optimiser.step for optimiser in self.optimisers]


class Top:
    """The 5 % of 100 M elements that changed most."""

    name = "top"
    goal = 40.0
    kernel = "TopChange/million/permille/values/threads/100/50/0/{threads}/"

    def __init__(self) -> None:
        self.w = torch.randn(SELECTED_FROM)
        self.reference = torch.randn(SELECTED_FROM)

    def top(self) -> None:
        torch.topk((self.w - self.reference).abs_(), SELECTED_FROM // 20, sorted=False)

    def ways(self) -> list[Callable[[], None]]:
        return [self.top]


@dataclass
class Result:
    work: str
    threads: int
    torch_ms: float
    kernel_ms: float
    ratio: float
    goal: float


def milliseconds(way: Callable[[], None]) -> float:
    start = time.perf_counter()
    way()
    return 1e3 * (time.perf_counter() - start)


def median_ms(way: Callable[[], None], seconds: float) -> float:
    first = milliseconds(way)
    if first > 1e3 * seconds:  # so long that warming up does not show
        return first
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        times.append(milliseconds(way))
    return statistics.median(times)


def kernel_ms(benchmark: str, kernel: str, seconds: float) -> float | None:
    """None where the benchmark has no such kernel."""
    command = [benchmark, f"--benchmark_filter=^{kernel}", f"--benchmark_min_time={seconds}", "--benchmark_format=json"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    runs = json.loads(output)["benchmarks"] if output.strip() else []
    return runs[0]["real_time"] if runs else None


def compare(work: type, benchmark: str, threads: int, rounds: int, seconds: float) -> Result | None:
    kernel = work.kernel.format(threads=threads)
    if kernel_ms(benchmark, kernel, 0.01) is None:
        return None
    torch.set_num_threads(threads)
    ways = work().ways()
    of_torch: list[list[float]] = [[] for _ in ways]
    of_kernel: list[float] = []
    for _ in range(rounds):
        for way, times in zip(ways, of_torch):
            times.append(median_ms(way, seconds))
        of_kernel.append(kernel_ms(benchmark, kernel, seconds) or 0.0)
    best = min(statistics.median(times) for times in of_torch)
    own = statistics.median(of_kernel)
    return Result(work.name, threads, best, own, best / own, work.goal)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--benchmark", required=True, help="the program kernel_benchmark")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each way in each round")
    parser.add_argument("--only", choices=["apply", "nadam", "top"])
    parser.add_argument("--json", help="file for the results")
    parser.add_argument("--check", action="store_true", help="fail where a goal is missed")
    options = parser.parse_args()
    results: list[Result] = []
    for work in (Apply, Nadam, Top):
        if options.only not in (None, work.name):
            continue
        for threads in options.threads:
            with torch.no_grad():
                result = compare(work, options.benchmark, threads, options.rounds, options.seconds)
            if result is None:
                print(f"{work.name}: not in this benchmark")
                continue
            results.append(result)
            print(
                f"{result.work:6} {threads} thread(s): torch {result.torch_ms:9.2f} ms, kernel {result.kernel_ms:8.2f} ms, "
                f"ratio {result.ratio:6.2f} (goal {result.goal:g})",
                flush=True,
            )
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"torch": torch.__version__, "results": [asdict(result) for result in results]}, file, indent=1)
    return 1 if options.check and any(result.ratio < result.goal for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
