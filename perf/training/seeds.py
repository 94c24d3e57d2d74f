#!/usr/bin/env python3
"""Validation losses of all three ways at equal tokens: three seeds, two lengths, with the learning rates of grid.py.

    seeds.py --lengths 1500 6000 --rates grid.json --json seeds.json

With --timed every way runs on the link, and the loss of sync at the time at which async ends is reported too. Without it only `async` does: the
losses of the others do not depend on time.
"""
import argparse
import json
import statistics
import sys

from common import WAYS, add_arguments, job_of, run_all, time_free, write
from language_model import report


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(p, steps=1500)
    p.add_argument('--lengths', type=int, nargs='+', help='updates of async (default: --steps and four times that)')
    p.add_argument('--seeds', type=int, nargs='+', default=[0, 1, 2], help='(default %(default)s)')
    p.add_argument('--rates', metavar='FILE', help="grid.py's results (default: the rates of the settings)")
    p.add_argument('--timed', action='store_true', help='all ways on the link')
    p.add_argument('--only', choices=WAYS, action='append', help='only this way (repeatable)')
    return p.parse_args()


def measure(a, names, length, rates):
    """All ways and seeds at one length."""
    jobs = []
    for seed in a.seeds:
        for name in names:
            bare = dict(link='none') if time_free(name) and not a.timed else {}
            jobs.append(job_of(a, name, length, seed, rates.get(name), evaluations=24 if a.timed else 1, **bare))
    for job, result in zip(jobs, run_all(jobs)):
        if isinstance(result, Exception):
            raise SystemExit(f'{job.way.name}, seed {job.seed}: {result}')
        yield dict(result, way=job.way.name, length=length, seed=job.seed, link=job.link)


def markdown(rows, names, seeds):
    lines = ['| updates | way | ' + ' | '.join(f'seed {s}' for s in seeds) + ' | mean | over sync |', '|---|---|' + '---|' * (len(seeds) + 2)]
    for length in dict.fromkeys(row['length'] for row in rows):
        mean = {}
        for name in names:
            losses = [row['val_loss'] for s in seeds for row in rows if (row['length'], row['way'], row['seed']) == (length, name, s)]
            mean[name] = statistics.mean(losses)
            lines.append(f'| {length} | {name} | ' + ' | '.join(f'{v:.4f}' for v in losses) + f' | {mean[name]:.4f} | ')
        for index in range(len(names)):
            name = names[index]
            over = f'{mean[name] / mean["sync"] - 1:+.2%}' if 'sync' in mean else '–'
            lines[index - len(names)] += f'{over} |'
    return '\n'.join(lines)


def at_the_end_of_async(rows):
    """Per length and seed: validation loss of async at its end and of sync at that time."""
    found = {(row['length'], row['seed'], row['way']): row for row in rows}
    for (length, seed, name), row in found.items():
        if name == 'async' and (length, seed, 'sync') in found:
            sync = report.loss_at(found[length, seed, 'sync']['curve'], row['wall_s'])
            yield dict(length=length, seed=seed, wall_s=row['wall_s'], async_loss=row['val_loss'], sync_loss=sync)


def main():
    a = arguments()
    names, rates = list(a.only or WAYS), {}
    if a.rates:
        with open(a.rates) as file:
            rates = json.load(file)['best']
    rows = []
    for length in a.lengths or [a.steps, 4 * a.steps]:
        for row in measure(a, names, length, rates):
            rows.append(row)
            print(f'{length} updates, seed {row["seed"]}, {row["way"]}: {row["val_loss"]:.4f} after {row["wall_s"]:.1f} s', file=sys.stderr, flush=True)
    print(markdown(rows, names, a.seeds))
    ends = list(at_the_end_of_async(rows)) if a.timed else []
    for end in ends:
        sync = 'no evaluation yet' if end['sync_loss'] is None else f'{end["sync_loss"]:.4f}'
        print(f'\n{end["length"]} updates, seed {end["seed"]}: async ends after {end["wall_s"]:.1f} s at {end["async_loss"]:.4f}; sync then: {sync}')
    write(a.json, dict(runs=rows, when_async_ends=ends, rates=rates, link=a.link))


if __name__ == '__main__':
    main()
