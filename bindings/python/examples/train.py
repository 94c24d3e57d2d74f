#!/usr/bin/env python3
"""The main job: a byte-level GPT on real text, on 2 stages x 2 replicas = 4 processes of this machine, trained three ways for the same number of tokens.

  async        pipeline stages never wait for weights, replicas exchange small parts of theirs and apply them when they arrive
  sync         the same library used synchronously: fill and drain, gradients averaged over replicas at every update
  async-naive  no look-ahead, 5 % of the parameters, 10 calls late, written over (rule `average`)

Ends with a table, a PNG and (--json) a document. The link is emulated in the transport unless it is `none`.
"""
import argparse
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1])]

import asyncmesh
from language_model import data, report
from language_model.launch import JobFailed, run_jobs
from language_model.model import Shape
from language_model.settings import DEFAULT_LINK, Job, ways

CALIBRATION_UPDATES = 30


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--data', default='', help='a text file or a directory; default: the source of the Python standard library')
    p.add_argument('--link', default=DEFAULT_LINK, help='RATE,DELAY of the emulated link, one egress bucket per rank; none: the bare machine '
                   '(default %(default)s)')
    p.add_argument('--steps', type=int, help='updates of async; default: what fits the time budget')
    p.add_argument('--budget', type=float, default=240., help='seconds of training in all three ways together (default %(default)s)')
    p.add_argument('--fast', action='store_true', help='about a minute of training')
    p.add_argument('--seed', type=int, default=0, help='of data order and initial weights; runs on arrival are not bitwise repeatable all the same')
    p.add_argument('--json', metavar='FILE', help='write the results there')
    p.add_argument('--plot', metavar='FILE', default='quickstart.png', help='the picture (default %(default)s)')
    p.add_argument('--only', choices=['async', 'sync', 'async_naive'], action='append', help='only this way (repeatable)')
    p.add_argument('--engine', default='auto', choices=['auto', 'tag', 'rma'], help='of the transport (default %(default)s)')
    p.add_argument('--tls', default='', help='medium of the tag engine: tcp, shm (default: the best there is)')
    for name, default in vars(Shape()).items():
        p.add_argument('--' + name, type=int, default=default, help='of the model (default %(default)s)')
    for way in ('async', 'sync', 'async-naive'):
        p.add_argument(f'--lr-{way}', type=float, help=f'peak learning rate of {way}')
    return p.parse_args()


def engine_of(a):
    """An emulated link is paced in the tag engine; the bare run beside it takes the same one, so that only the link differs."""
    return 'tag' if a.engine == 'auto' and a.link != 'none' else a.engine


def base_job(a, way, updates):
    shape = Shape(**{name: getattr(a, name) for name in vars(Shape())})
    return Job(way=way, shape=shape, updates=updates, seed=a.seed, link=a.link, engine=engine_of(a), tls=a.tls, data=a.data)


def calibrate(a):
    """Seconds per update of sync and async on the bare machine and on the link, and of compute per stage; printed, and the ratio that the link costs."""
    jobs, kinds = [], []
    for name, way in ways(CALIBRATION_UPDATES).items():
        for link in dict.fromkeys(('none', a.link)):
            if name != 'async_naive':
                jobs.append(replace(base_job(a, way, CALIBRATION_UPDATES), link=link, evaluations=0, live=False))
                kinds.append((name, 'none' if link == 'none' else 'link'))
    ranks = run_jobs(jobs)
    seconds = {kind: max(r['wall_s'] for r in result) / CALIBRATION_UPDATES for kind, result in zip(kinds, ranks)}
    bare, slow = seconds[('sync', 'none')], seconds.get(('sync', 'link'), seconds[('sync', 'none')])
    slow_async = seconds.get(('async', 'link'), seconds[('async', 'none')])
    alone = ranks[kinds.index(('sync', 'none'))]
    micro_batches = CALIBRATION_UPDATES * ways(1)['sync'].micro_batches
    compute = [max((r['wall_s'] - r['blocked_s'] - r['averaging_s']) / micro_batches for r in alone if r['stage'] == stage) for stage in (0, 1)]
    print(f'compute per micro-batch: stage 0 {compute[0] * 1e3:.1f} ms, stage 1 {compute[1] * 1e3:.1f} ms')
    print(f'calibration, {CALIBRATION_UPDATES} updates each: sync {bare * 1e3:.1f} ms per update bare, {slow * 1e3:.1f} ms on the link: '
          f'{slow / bare:.2f} x; async {seconds[("async", "none")] * 1e3:.1f} and {slow_async * 1e3:.1f} ms', flush=True)
    return dict(sync_none_s=bare, sync_link_s=slow, sync_ratio=slow / bare, async_none_s=seconds[('async', 'none')],
                async_link_s=slow_async, compute_s=compute)


def plan(a, calibration):
    """Updates of each way: the same number of tokens for all."""
    names = a.only or ['async', 'sync', 'async_naive']
    per_token_update = {'async': calibration['async_link_s'], 'async_naive': calibration['async_link_s'], 'sync': calibration['sync_link_s']}
    micro = {name: way.micro_batches for name, way in ways(1000).items()}
    budget = 60. if a.fast else a.budget
    steps = a.steps or max(50, int(budget / sum(per_token_update[n] / micro[n] for n in names)))
    common = 1
    for name in names:
        common = max(common, micro[name])
    steps -= steps % common
    chosen = ways(steps)
    for name in names:
        lr = getattr(a, f'lr_{name}')
        chosen[name].lr = lr or chosen[name].lr
    return [base_job(a, chosen[name], steps // micro[name]) for name in names]


def check(a):
    """Refuses what the ranks would refuse, before they are started."""
    data.load(a.data or None)
    try:
        asyncmesh.Context(link=a.link).close()
    except asyncmesh.Error as error:
        raise SystemExit(f'train.py: --link: {error}') from error


def main():
    a = arguments()
    check(a)
    emulated = 'no emulation: the bare machine' if a.link == 'none' else f'{a.link}, EMULATED in the transport: one egress bucket per rank for both axes'
    print(f'link: {emulated}', flush=True)
    try:
        calibration = calibrate(a)
        jobs = plan(a, calibration)
        results = {}
        gathered = run_jobs(jobs)
        transports = gathered[0][0]['transports']
    except JobFailed as failure:
        print(f'train.py: {failure}', file=sys.stderr)
        return 1
    for job, ranks in zip(jobs, gathered):
        results[job.way.name] = report.summarise(job, ranks)
    print('\n' + report.table(results))
    print(f'link: {emulated}; transports: {transports}; seed {a.seed}')
    if 'async' in results and 'sync' in results:
        at = report.loss_at(results['sync']['curve'], results['async']['wall_s'])
        if at is not None:
            print(f'when async ends ({results["async"]["wall_s"]:.1f} s, validation loss {results["async"]["val_loss"]:.4f}), sync is at {at:.4f}')
    report.plot(results, a.plot, f'2 stages x 2 replicas, link {a.link}')
    print(f'picture: {os.path.abspath(a.plot)}')
    if a.json:
        with open(a.json, 'w') as file:
            json.dump(report.document(results, jobs[0], transports, calibration), file, indent=1)
        print(f'results: {os.path.abspath(a.json)}')
    return 0


if __name__ == '__main__':
    sys.exit(main())
