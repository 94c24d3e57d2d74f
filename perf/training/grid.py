#!/usr/bin/env python3
"""Learning rate of each way: every way on the same short grid, on a seed that no comparison uses.

    grid.py --steps 1500 --rates 1e-3 2e-3 4e-3 8e-3 --json grid.json

Only `async` runs on the link: the losses of the others do not depend on time, so they run on the bare machine.
"""
import argparse

from common import WAYS, add_arguments, job_of, run_all, time_free, write


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(p, steps=1500)
    p.add_argument('--rates', type=float, nargs='+', default=[1e-3, 2e-3, 4e-3, 8e-3], help='peak learning rates (default %(default)s)')
    p.add_argument('--seed', type=int, default=100, help='not one of the seeds of seeds.py (default %(default)s)')
    p.add_argument('--only', choices=WAYS, action='append', help='only this way (repeatable)')
    return p.parse_args()


def main():
    a = arguments()
    best, losses = {}, {}
    for name in a.only or WAYS:
        bare = dict(link='none') if time_free(name) else {}
        jobs = [job_of(a, name, a.steps, a.seed, rate, evaluations=1, **bare) for rate in a.rates]
        losses[name] = {}
        for rate, result in zip(a.rates, run_all(jobs)):
            if isinstance(result, Exception):
                print(f'{name:12s} {rate:8.1e}  {result}', flush=True)
                continue
            losses[name][rate] = result['val_loss']
            print(f'{name:12s} {rate:8.1e}  validation loss {result["val_loss"]:.4f}', flush=True)
        if losses[name]:
            best[name] = min(losses[name], key=losses[name].get)
    print('best: ' + ', '.join(f'{name} {rate:g}' for name, rate in best.items()))
    if any(rate in (min(a.rates), max(a.rates)) for rate in best.values()):
        print('a best rate lies at the edge of the grid: widen it')
    write(a.json, dict(steps=a.steps, seed=a.seed, link=a.link, losses=losses, best=best))


if __name__ == '__main__':
    main()
