"""The method in one process and in lockstep, written from its equations and not from the library: what a mesh in deterministic mode must follow.

P stages x R replicas. Stage s applies the gradient of weights that are P-1-s updates old (4.1); a round sampled in call t is applied in call
t + tau with rule (3.1), (3.2) or (3.3); the EMA's momentum follows (3.4). Only the subsets come from the library (`parts(stage, cycle)`).
"""
import math

import torch

from language_model import data
from language_model.model import build_stage, cross_entropy
from language_model.worker import learning_rate


def flatten(module):
    return torch.cat([p.detach().reshape(-1) for p in module.parameters()])


def assign(module, vector):
    offset = 0
    for p in module.parameters():
        p.data.copy_(vector[offset:offset + p.numel()].view_as(p))
        offset += p.numel()


class SerialNadamw:
    """(4.3) on one flat vector, clipped to norm 1; look_ahead=0: AdamW."""

    def __init__(self, settings, n):
        self.beta1, self.psi, self.look_ahead = settings['beta1'], settings['psi'], settings['look_ahead']
        self.m, self.v, self.t, self.product = torch.zeros(n), torch.zeros(n), 0, 1.

    def step(self, w, gradient, lr, beta2=.999, decay=.01, eps=1e-8):
        self.t += 1
        gradient = gradient / max(1., gradient.norm().item())
        self.m = self.beta1 * self.m + (1 - self.beta1) * gradient
        self.v = beta2 * self.v + (1 - beta2) * gradient ** 2
        divisor = (self.v / (1 - beta2 ** self.t)).sqrt() + eps
        w -= lr * decay * w
        if not self.look_ahead:
            w -= lr / (1 - self.beta1 ** self.t) * self.m / divisor
            return
        mu, mu_next = (self.beta1 * (1 - .5 * .96 ** (k * self.psi)) for k in (self.t, self.t + 1))
        self.product *= mu
        w -= lr * (1 - mu) / (1 - self.product) * gradient / divisor
        w -= lr * mu_next / (1 - self.product * mu_next) * self.m / divisor


class SerialRounds:
    """Rounds of one stage over its replicas: rotating subsets, delay tau, one of the three rules, first visit in full."""

    def __init__(self, job, stage, replicas, n, parts):
        self.settings, self.stage, self.parts, self.updates = job.way.averaging, stage, parts, job.updates
        self.partitions = math.ceil(round(1 / self.settings['fraction'], 6))
        self.ema, self.visited = torch.zeros(replicas, n), torch.zeros(n, dtype=torch.bool)
        self.queue, self.calls = [], 0

    def momentum(self, progress, warm_up=1 / 30):
        u = (progress - warm_up) / (1 - warm_up)
        return .5 if u <= 0 else .5 + .49 * (1 - (1 + math.cos(math.pi * u)) / 2)

    def call(self, weights):
        cycle, turn = divmod(self.calls, self.partitions)
        subset = (self.parts(self.stage, cycle) == turn).nonzero().squeeze(1)
        samples = [w[subset].clone() for w in weights]
        self.queue.append((subset, sum(samples) / len(samples), samples))
        m = self.momentum(self.calls / self.updates)
        self.calls += 1
        if len(self.queue) <= self.settings['window']:
            return
        subset, mean, samples = self.queue.pop(0)
        for replica, w in enumerate(weights):
            drift = w[subset] - samples[replica]
            if self.settings['rule'] == 'average':
                drift = torch.zeros_like(drift)
            elif self.settings['rule'] == 'ema':
                old = self.ema[replica][subset]
                drift = torch.where(self.visited[subset], m * old + (1 - m) * drift, drift)
                self.ema[replica][subset] = drift
            w[subset] = mean + drift
        self.visited[subset] = True


def train(job, parts, stages=2, replicas=2):
    """Trains as the job says; returns the validation loss of the replicas' mean at the end."""
    text, held_out = data.load(job.data or None)
    model = [build_stage(job.shape, stages, s, job.seed) for s in range(stages)]
    synchronous = job.way.mode == 'synchronous'
    weights = [[flatten(model[s]) for s in range(stages)] for _ in range(replicas)]
    stash = [[[w.clone() for _ in range(1 if synchronous else stages - s)] for s, w in enumerate(row)] for row in weights]
    optimisers = [[SerialNadamw(job.way.optimiser, len(w)) for w in row] for row in weights]
    rounds = [SerialRounds(job, s, replicas, len(weights[0][s]), parts) for s in range(stages)] if not synchronous else None
    streams = [data.Stream(text, job.shape, 1000 * job.seed + r) for r in range(replicas)]
    rate = learning_rate(job)
    for k in range(job.updates):
        gradients = [gradient_of(model, [versions[0] for versions in stash[r]], streams[r].batch(k)) for r in range(replicas)]
        for s in range(stages):
            if synchronous:
                shared = sum(g[s] for g in gradients) / replicas
            for r in range(replicas):
                optimisers[r][s].step(weights[r][s], shared if synchronous else gradients[r][s], rate(k))
            if not synchronous:
                rounds[s].call([weights[r][s] for r in range(replicas)])
            for r in range(replicas):
                stash[r][s] = stash[r][s][1:] + [weights[r][s].clone()]
    for s in range(stages):
        assign(model[s], sum(weights[r][s] for r in range(replicas)) / replicas)
    return validate(model, data.validation_batches(held_out, job.shape, job.validation_batches))


def forward(model, x):
    for stage in model:
        x = stage(x)
    return x


def gradient_of(model, versions, batch):
    for stage, vector in zip(model, versions):
        assign(stage, vector)
        stage.zero_grad(set_to_none=True)
    cross_entropy(forward(model, batch[0]), batch[1]).backward()
    return [torch.cat([p.grad.reshape(-1) for p in stage.parameters()]) for stage in model]


@torch.no_grad()
def validate(model, batches):
    return sum(cross_entropy(forward(model, x), y).item() for x, y in batches) / len(batches)
