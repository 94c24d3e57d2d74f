"""Starts the ranks for a list of jobs and gathers what they measured."""
import json
import os
import secrets
import sys
import tempfile
from pathlib import Path

from asyncmesh import run

PACKAGE_ROOT = Path(__file__).resolve().parents[1]
BINDING_ROOT = PACKAGE_ROOT.parent


class JobFailed(RuntimeError):
    pass


def environment(directory):
    own = dict(os.environ, ASYNCMESH_JOB_DIR=directory, OMP_NUM_THREADS='1', MKL_NUM_THREADS='1')
    own['PYTHONPATH'] = os.pathsep.join([str(PACKAGE_ROOT), str(BINDING_ROOT)] + ([own['PYTHONPATH']] if own.get('PYTHONPATH') else []))
    own.setdefault('ASYNCMESH_SECRET', secrets.token_hex(16))
    return own


def run_jobs(jobs, stages=2, replicas=2, directory=None, timeout=None):
    """Runs the jobs one after the other on stages x replicas processes; returns, per job, the list of the ranks' results."""
    ranks = stages * replicas
    with tempfile.TemporaryDirectory() as scratch:
        directory = directory or scratch
        with open(os.path.join(directory, 'jobs.json'), 'w') as file:
            json.dump([job.to_json() for job in jobs], file)
        processes = run.start([sys.executable, '-m', 'language_model.worker'], ranks, stages, environment(directory),
                              die_with_caller=True)
        try:
            status = run.wait(processes, timeout=timeout)
        except BaseException:
            run.end(processes)
            raise
        if status:
            raise JobFailed(f'the job ended with status {status}')
        return [[_load(directory, index, rank) for rank in range(ranks)] for index in range(len(jobs))]


def _load(directory, index, rank):
    with open(os.path.join(directory, f'result.{index}.{rank}.json')) as file:
        return json.load(file)


__all__ = ['JobFailed', 'run_jobs']
