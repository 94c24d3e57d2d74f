#!/usr/bin/env python3
"""A real mesh (2 x 2 processes, deterministic mode) against the method in one process: same model, data, weights, settings, subsets.

    compare_serial.py --steps 1500                      tests/python/serial_reference.py, written from the equations
    compare_serial.py --steps 1500 --reference FILE.py  any other implementation with the same command line

An external reference understands --mode async|sync --rule --fraction --delay --steps --lr --seed --width --layers --context --batch --beta1 --psi
--optimiser, and --partition module:function, function(elements, partitions, cycle, stage) -> part numbers; it prints lines
`step N train X validation Y`, and the last one counts. Both sides validate on 60 batches of generator seed 7. Exit status 1 if a way is off by more
than --limit.
"""
import argparse
import json
import os
import re
import subprocess
import sys

from common import ROOT, add_arguments, run_all, shape_of, write
from language_model.settings import Job, Way
from library_subsets import Subsets

RUNS = ('ema', 'average', 'delta', 'sync')


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(p, steps=1500)
    p.set_defaults(width=64, layers=2, heads=4, context=64, batch=16)
    p.add_argument('--reference', metavar='FILE', help='an external serial implementation')
    p.add_argument('--run', choices=RUNS, action='append', help='(repeatable; default: ema, average, sync)')
    p.add_argument('--fraction', type=float, default=.05)
    p.add_argument('--delay', type=int, default=10)
    p.add_argument('--lr', type=float, default=2e-3)
    p.add_argument('--beta1', type=float, default=.9)
    p.add_argument('--psi', type=float, default=.04)
    p.add_argument('--seed', type=int, default=0)
    p.add_argument('--limit', type=float, default=.002, help='largest relative difference of the validation losses (default %(default)s)')
    return p.parse_args()


def job_of(a, run):
    averaging = dict(mode='deterministic', window=a.delay, fraction=a.fraction, rule='ema' if run == 'sync' else run)
    way = Way(run, 'synchronous' if run == 'sync' else 'deterministic', lr=a.lr, averaging=averaging,
              optimiser=dict(look_ahead=1, beta1=a.beta1, psi=a.psi))
    return Job(way=way, shape=shape_of(a), updates=a.steps, seed=a.seed, data=a.data, evaluations=1, validation_batches=60, live=False, wire='float32')


def own_reference(job):
    import torch
    sys.path.insert(0, str(ROOT / 'tests' / 'python'))
    import serial_reference
    torch.set_num_threads(1)
    subsets = Subsets(job.shape, job.way.averaging)
    return serial_reference.train(job, lambda stage, cycle: torch.from_numpy(subsets(stage, cycle).astype('int64')))


def external_reference(a, job):
    mode = ['--mode', 'sync'] if job.way.mode == 'synchronous' else ['--mode', 'async', '--rule', job.way.averaging['rule'], '--partition',
                                                                       'library_subsets:part_numbers']
    numbers = [f'--{name}={getattr(a, name)}' for name in ('fraction', 'delay', 'steps', 'lr', 'seed', 'width', 'layers', 'context', 'batch', 'beta1', 'psi')]
    own = dict(os.environ, ASYNCMESH_SUBSETS=json.dumps(dict(shape=vars(job.shape), averaging=job.way.averaging)))
    own['PYTHONPATH'] = os.pathsep.join([os.path.dirname(os.path.abspath(__file__))] + ([own['PYTHONPATH']] if own.get('PYTHONPATH') else []))
    done = subprocess.run([sys.executable, a.reference, '--optimiser', 'nadamw', *mode, *numbers], env=own, check=True, stdout=subprocess.PIPE, text=True)
    return float(re.findall(r'^step \d+ train \S+ validation (\S+)', done.stdout, re.M)[-1])


def main():
    a = arguments()
    if a.reference and a.data:
        sys.exit('an external reference reads the default text')
    rows = []
    runs = a.run or ['ema', 'average', 'sync']
    jobs = [job_of(a, run) for run in runs]
    for run, job, result in zip(runs, jobs, run_all(jobs)):
        if isinstance(result, Exception):
            sys.exit(f'{run}: {result}')
        mesh = result['val_loss']
        serial = external_reference(a, job) if a.reference else own_reference(job)
        rows.append(dict(run=run, mesh=mesh, serial=serial, relative=abs(mesh - serial) / serial))
        print(f'{run:8s} mesh {mesh:.5f}  serial {serial:.5f}  relative difference {rows[-1]["relative"]:.2e}', flush=True)
    write(a.json, dict(rows=rows, steps=a.steps, fraction=a.fraction, delay=a.delay, lr=a.lr, seed=a.seed, shape=vars(shape_of(a))))
    return int(any(row['relative'] > a.limit for row in rows))


if __name__ == '__main__':
    sys.exit(main())
