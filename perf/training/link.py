#!/usr/bin/env python3
"""What the link costs async: the same run on the link and on the bare machine, alternated, so that a change of the machine's mood hits both.

    link.py --link 150Mbit,1ms --pairs 3 --steps 300

Prints each wall clock, the ratio of the medians, and the share of time inside averager calls. --way sync shows the other side.
"""
import argparse
import statistics

from common import WAYS, add_arguments, job_of, run_all, write


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(p, steps=300)
    p.add_argument('--pairs', type=int, default=3, help='runs on each (default %(default)s)')
    p.add_argument('--way', choices=WAYS, default='async', help='(default %(default)s)')
    p.add_argument('--seed', type=int, default=0)
    return p.parse_args()


def main():
    a = arguments()
    kinds = ['none', a.link] * a.pairs
    jobs = [job_of(a, a.way, a.steps, a.seed, link=link, engine='tag', evaluations=1) for link in kinds]  # the engine that a link paces
    results = run_all(jobs)
    if any(isinstance(result, Exception) for result in results):
        raise SystemExit(next(str(result) for result in results if isinstance(result, Exception)))
    walls = {link: [r['wall_s'] for r, kind in zip(results, kinds) if kind == link] for link in dict.fromkeys(kinds)}
    for link, seconds in walls.items():
        print(f'{link:16s}' + ''.join(f'{s:9.2f} s' for s in seconds))
    medians = {link: statistics.median(seconds) for link, seconds in walls.items()}
    ratio = medians[a.link] / medians['none']
    averaging = max(r['averaging_fraction'] for r, kind in zip(results, kinds) if kind == a.link)
    print(f'{a.way}, {a.steps} updates: {ratio:.3f} x the wall clock of the bare machine on {a.link}; inside averager calls at most {averaging:.2%}')
    write(a.json, dict(way=a.way, steps=a.steps, link=a.link, wall_s=walls, ratio=ratio, averaging_fraction=averaging))


if __name__ == '__main__':
    main()
