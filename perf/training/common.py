"""What the scripts of this folder share: paths, jobs, results as JSON."""
import json
import os
import platform
import sys
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / 'bindings' / 'python' / 'examples'), str(ROOT / 'bindings' / 'python')]

from language_model import report  # noqa: E402
from language_model.launch import JobFailed, run_jobs  # noqa: E402
from language_model.model import Shape  # noqa: E402
from language_model.settings import DEFAULT_LINK, Job, ways  # noqa: E402

WARM_UP_UPDATES = 8
WAYS = ('async', 'sync', 'async_naive')


def add_arguments(parser, steps):
    """--data, --link, --steps, --json and the sizes of the model."""
    parser.add_argument('--data', default='', help='text file or directory (default: source of the Python standard library)')
    parser.add_argument('--link', default=DEFAULT_LINK, help='emulated link of the runs whose result depends on it (default %(default)s)')
    parser.add_argument('--steps', type=int, default=steps, help='updates of async (default %(default)s)')
    parser.add_argument('--json', metavar='FILE', help='write the results there')
    parser.add_argument('--micro-batches', type=int, default=ways(1)['sync'].micro_batches, metavar='N',
                        help='per update of sync; its tokens stay the same (default %(default)s)')
    for name, default in vars(Shape()).items():
        parser.add_argument('--' + name, type=int, default=default, help='of the model (default %(default)s)')


def shape_of(options):
    return Shape(**{name: getattr(options, name) for name in vars(Shape())})


def job_of(options, name, steps, seed, lr=None, **changes):
    """The job of one way, for the tokens of `steps` updates of one micro-batch."""
    per_update = options.micro_batches if name == 'sync' else 1
    way = ways(steps // per_update)[name]
    way = replace(way, lr=lr or way.lr, micro_batches=per_update)
    settings = dict(seed=seed, link=options.link, data=options.data, live=False, validation_batches=60)
    return Job(way=way, shape=shape_of(options), updates=steps // way.micro_batches, **{**settings, **changes})


def time_free(name):
    """True where the losses do not depend on the link: synchronous, and asynchronous in lockstep."""
    return ways(1000)[name].mode != 'opportunistic'


def run_all(jobs):
    """One summary per job, or the exception that ended it. One set of processes for all; after a failure one set per job."""
    print(f'{len(jobs)} runs, {sum(job.micro_batches for job in jobs)} micro-batches per replica ...', file=sys.stderr, flush=True)
    warm_up = replace(jobs[0], updates=WARM_UP_UPDATES, evaluations=1)  # a process pays for its first forward and backward only once
    try:
        return [_summary(job, ranks) for job, ranks in zip(jobs, run_jobs([warm_up] + jobs)[1:])]
    except JobFailed as failure:
        if len(jobs) == 1:
            return [failure]
    return [run_all([job])[0] for job in jobs]


def _summary(job, ranks):
    try:
        return report.summarise(job, ranks)
    except (RuntimeError, FloatingPointError) as error:
        return error


def machine():
    return dict(cpu=_cpu(), cpus=os.cpu_count(), system=platform.platform(), python=platform.python_version())


def _cpu():
    with open('/proc/cpuinfo') as file:
        return next((line.split(':', 1)[1].strip() for line in file if line.startswith('model name')), platform.machine())


def write(path, document):
    if path:
        with open(path, 'w') as file:
            json.dump(dict(document, machine=machine()), file, indent=1)
        print(f'results: {os.path.abspath(path)}')
