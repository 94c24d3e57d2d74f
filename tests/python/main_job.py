"""The main job, small, inside the ranks of a test."""
import os

from language_model.model import Shape
from language_model.settings import Job, Way

TINY = Shape(width=32, layers=2, heads=4, context=32, batch=8)


def job(updates, mode='opportunistic', averaging=None, **options):
    """A job of the tiny model; options are fields of Job, lr and micro_batches."""
    way = Way('test', mode, averaging=averaging or dict(fraction=.2, window=4), optimiser=options.pop('optimiser', dict(beta1=.9, psi=.04)),
              **{name: options.pop(name) for name in ('lr', 'micro_batches', 'in_flight') if name in options})
    settings = dict(shape=TINY, updates=updates, evaluations=0, validation_batches=4, live=False)
    return Job(way=way, **{**settings, **options})


def environment(rank, folder='', peer_timeout=10):
    """What a launcher would have set."""
    from ranks import SECRET
    os.environ.update(RANK=str(rank.rank), WORLD_SIZE=str(rank.replicas * rank.stages), ASYNCMESH_STAGES=str(rank.stages),
                      ASYNCMESH_RENDEZVOUS=rank.url, ASYNCMESH_SECRET=SECRET, ASYNCMESH_PEER_TIMEOUT_MS=str(int(peer_timeout * 1000)), ASYNCMESH_JOB_DIR=folder)


def train(rank, settings, peer_timeout=10, tell_after=None):
    """Runs the job as a worker process does. tell_after: says 'training' after so many updates."""
    from language_model import worker
    environment(rank, peer_timeout=peer_timeout)
    if tell_after is not None:
        ordinary = worker.Progress.__call__

        def telling(progress, pipeline, n, result):
            ordinary(progress, pipeline, n, result)
            if n + 1 == tell_after:
                rank.say('training')

        worker.Progress.__call__ = telling
    return worker.train(settings, 0)


def write_text(folder, size=300_000):
    """A text file, the same each time, that a small model can learn something from."""
    import random
    words = [''.join(random.Random(i).choices('abcdefghij', k=1 + i % 7)) for i in range(50)]
    source = random.Random(1)
    path = os.path.join(folder, 'text.txt')
    with open(path, 'w') as file:
        while file.tell() < size:
            file.write(' '.join(source.choices(words, k=12)) + '\n')
    return path
