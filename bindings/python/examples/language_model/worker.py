"""One rank: trains its stage of its replica through a list of jobs, one mesh after the other, and writes what it measured."""
import hashlib
import json
import math
import os
import sys
import time

import torch

import asyncmesh
import asyncmesh.torch

from . import data
from .model import Shape, build_stage, cross_entropy
from .settings import Job


def learning_rate(job):
    """Linear warm-up over a tenth, cosine to a tenth of the peak."""
    def rate(n):
        return job.way.lr * min((n + 1) / (job.updates * .1), 1) * (.1 + .45 * (1 + math.cos(math.pi * n / job.updates)))
    return rate


class Progress:
    """The live line, and the evaluations, of one job on one rank."""

    def __init__(self, job, pipeline, validation):
        self.job, self.pipeline, self.validation = job, pipeline, validation
        self.every = max(1, job.updates // max(1, job.evaluations))
        self.curve, self.loss = [], float('nan')
        self.tokens_per_update = job.shape.batch * job.shape.context * job.way.micro_batches * pipeline.mesh.replicas
        self.speaks = job.live and pipeline.mesh.replica == 0
        self.started = time.perf_counter()

    def train_seconds(self):
        return time.perf_counter() - self.started - self.pipeline.evaluation_s

    def __call__(self, pipeline, n, result):
        done = n + 1
        if self.job.slow_replica > 1 and pipeline.mesh.replica == 1:
            time.sleep((self.job.slow_replica - 1) * self.train_seconds() / done / self.job.slow_replica)
        if done % self.every == 0 or done == self.job.updates:
            self.evaluate(done)
        if self.speaks and (done % max(1, self.every // 2) == 0):
            self.print_line(done, result)

    def evaluate(self, done):
        if self.job.evaluations:
            value = self.pipeline.evaluate(self.validation, cross_entropy)
            self.curve.append(dict(update=done, tokens=done * self.tokens_per_update, seconds=self.train_seconds(), val_loss=value))

    def print_line(self, done, result):
        p, seconds = self.pipeline, self.train_seconds()
        stale = ', '.join(f'{name} {value}' for name, value in p.last_staleness.items())
        loss = f'loss {self.loss:.3f}  ' if p.last else ' ' * 12
        print(f'  {self.job.way.name:11s} stage {p.mesh.stage}  update {done:5d}/{self.job.updates}  '
              f'{done * self.tokens_per_update / seconds:8.0f} tokens/s  {loss}staleness: {stale:13s}  '
              f'round age {result.age_calls} calls, {result.age_ns * 1e-6:.1f} ms  open {result.open}', flush=True)


def fingerprint(module):
    digest = hashlib.sha256()
    for p in module.parameters():
        digest.update(p.detach().numpy().tobytes())
    return digest.hexdigest()


def train(job, index):
    """Runs one job; returns what this rank measured, as a dict."""
    context = asyncmesh.Context(link=job.link, engine=job.engine, tls=job.tls)
    mesh = asyncmesh.Mesh(context, run_id=f'job{index}', timeout=120)
    shape = job.shape
    module = build_stage(shape, mesh.stages, mesh.stage, job.seed)
    text, held_out = data.load(job.data or None)
    pipeline = asyncmesh.torch.PipelineStage(mesh, module, payload_bytes=shape.batch * shape.context * shape.width * 4, mode=job.way.mode,
                                             micro_batches=job.way.micro_batches, in_flight=job.way.in_flight,
                                             averaging=job.way.averaging, optimiser=job.way.optimiser, wire_dtype=getattr(torch, job.wire))
    pipeline.start()
    stream = data.Stream(text, shape, 1000 * job.seed + mesh.replica)
    progress = Progress(job, pipeline, data.validation_batches(held_out, shape, job.validation_batches))

    def inputs(k):
        return stream.batch(k)[0]

    def loss(output, k):
        value = cross_entropy(output, stream.batch(k)[1])
        progress.loss = value.item()
        if not math.isfinite(progress.loss):
            raise FloatingPointError(f'the loss of micro-batch {k} on rank {mesh.rank} is {progress.loss}')
        return value

    pipeline.run(job.updates, inputs, loss, learning_rate(job), progress, progress=lambda n: n / job.updates)
    seconds = progress.train_seconds()
    pipeline.finish()
    final = pipeline.evaluate(progress.validation, cross_entropy) if job.evaluations else None
    info, mesh_info = pipeline.averager.info(), mesh.info()
    result = dict(rank=mesh.rank, stage=mesh.stage, replica=mesh.replica, curve=progress.curve, val_loss=final, wall_s=seconds,
                  averaging_s=pipeline.averaging_s, blocked_s=pipeline.blocked_s, staleness=pipeline.staleness, delay=pipeline.delay, averager=info,
                  transports=mesh_info['transports'], link=mesh_info['link'], fingerprint=fingerprint(module),
                  bytes_dp=info['bytes_posted'] - pipeline.evaluation_bytes, bytes_pp=pipeline.bytes_sent, elements=info['elements'], tokens=job.updates * progress.tokens_per_update)
    if job.checkpoint:
        result['checkpoint'] = os.path.join(os.environ['ASYNCMESH_JOB_DIR'], f'weights.{index}.{mesh.rank}.pt')
        torch.save(module.state_dict(), result['checkpoint'])
    mesh.leave(30)
    for handle in (pipeline, mesh, context):
        handle.close()
    return result


def warm_up(job):
    """The first backward of a process imports and compiles a good deal: before any clock runs."""
    small = Shape(width=16, layers=2, heads=2, context=8, batch=2)
    module = build_stage(small, 1, 0, job.seed)
    bytes_in = torch.zeros(2, 8, dtype=torch.int64)
    torch.func.functional_call(module, dict(module.named_parameters()), (bytes_in,)).sum().backward()


def main():
    torch.set_num_threads(1)
    directory = os.environ['ASYNCMESH_JOB_DIR']
    with open(os.path.join(directory, 'jobs.json')) as file:
        jobs = [Job.from_json(values) for values in json.load(file)]
    rank = int(os.environ['RANK'])
    warm_up(jobs[0])
    for index, job in enumerate(jobs):
        try:
            result = train(job, index)
        except asyncmesh.Error as error:
            print(f'rank {rank}: {job.way.name}: {error}', file=sys.stderr, flush=True)
            return 3
        with open(os.path.join(directory, f'result.{index}.{rank}.json'), 'w') as file:
            json.dump(result, file)
    return 0


if __name__ == '__main__':
    sys.exit(main())
