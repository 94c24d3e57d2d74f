"""One pipeline stage of one replica: channels to its neighbours, stash, optimiser and averager, in the order the method asks for.

The order per update (one rank): backward -> optimiser step (writes the newest weights and their stash slot) -> averager call (rewrites both) -> next
forward. It blocks in one place only, `Context.poll`, for any of: activation, gradient, room to send, loss of a peer.
"""
import time
from collections import Counter

import torch

from .. import _c
from .. import pipeline as order
from ..averaging import Averager, Optimiser
from ..errors import PeerLost, Timeout
from ..pipeline import Port, Stage
from .stash import Scratch, Stash

_ACTIVATION, _GRADIENT, _EVALUATION = 1, 2, 3  # port tags; `key` of a port is its tag


def _tensor(frame):
    """The frame as float32: a view of the slot where it travelled so, else a copy."""
    tensor = torch.from_numpy(frame.array())
    return (tensor.view(torch.bfloat16) if tensor.dtype == torch.uint16 else tensor).to(torch.float32)


class PipelineStage:
    """module: this stage's nn.Module (one tensor in, one tensor out; the last stage's output goes to `loss`).

    payload_bytes: the largest activation, in float32. mode: 'opportunistic' | 'deterministic' | 'synchronous'. micro_batches: per update.
    in_flight: micro-batches in flight on this stage (0: the least, P - s). averaging: settings of the averager; synchronous stages average gradients
    instead. optimiser: settings of the optimiser. wire_dtype: what activations and gradients travel as in training (float32, bfloat16 or float16; half
    the bytes at the price of rounding; evaluations travel as float32); each stage chooses for what it sends. timeout: seconds in which something must come
    from the neighbours or the replicas, else `Timeout`.
    Counters: seconds blocked, in averager calls, in evaluation; `staleness`: {channel in: {versions: frames}}, `last_staleness`.
    """

    def __init__(self, mesh, module, payload_bytes, mode='opportunistic', micro_batches=1, in_flight=0, optimiser=None, averaging=None,
                 timeout=120.0, wire_dtype=torch.float32):
        self.mesh, self.context = mesh, mesh.context
        self.first, self.last = mesh.stage == 0, mesh.stage == mesh.stages - 1
        self.wire_dtype = wire_dtype
        self.synchronous, self.micro_batches, self.timeout = mode == 'synchronous', micro_batches, timeout
        self._stage_settings = dict(stages=mesh.stages, stage=mesh.stage, mode=mode, in_flight=in_flight, micro_batches=micro_batches)
        depth = max(in_flight, mesh.stages - mesh.stage, micro_batches if self.synchronous else 1)
        self.stash = Stash(self.context, module, self._ring())
        self.optimiser = Optimiser(self.stash.weights, self.stash.gradients, **(optimiser or {}))
        self.averager = Averager(mesh, self.stash.weights, **(averaging or {}))
        self._open_ports(payload_bytes, depth)
        self.version, self._moved_at = 0, 0.0
        self.blocked_s = self.averaging_s = self.evaluation_s = 0.0
        self._scratch, self.finished, self._bytes_sent, self.evaluation_bytes = None, False, 0, 0
        self.staleness = {name: Counter() for name, here in (('activation', not self.first), ('gradient', not self.last)) if here}
        self.last_staleness = dict.fromkeys(self.staleness)
        self.delay = 0

    def _ring(self):
        with Stage(**self._stage_settings) as probe:
            action = probe.next(True, True)
            return action.ring

    def _open_ports(self, payload_bytes, depth):
        slots = 1 << (depth + 1).bit_length()
        here, mesh = dict(slots=slots, payload_bytes=payload_bytes), self.mesh

        def port(kind, stage, tag):
            return Port(mesh, kind, peer=mesh.rank_of(mesh.replica, stage), tag=tag, key=tag, **here)

        self.activations_in = None if self.first else port('channel_in', mesh.stage - 1, _ACTIVATION)
        self.gradients_out = None if self.first else port('channel_out', mesh.stage - 1, _GRADIENT)
        self.evaluation_in = None if self.first else port('channel_in', mesh.stage - 1, _EVALUATION)
        self.activations_out = None if self.last else port('channel_out', mesh.stage + 1, _ACTIVATION)
        self.gradients_in = None if self.last else port('channel_in', mesh.stage + 1, _GRADIENT)
        self.evaluation_out = None if self.last else port('channel_out', mesh.stage + 1, _EVALUATION)

    def start(self, timeout=60.0):
        """All replicas take the weights of replica 0."""
        self.averager.broadcast(0, timeout=timeout)
        self.stash.wrote(0)
        self.stash.reset()

    def run(self, updates, inputs, loss, learning_rate, after_update=None, clip_norm=1.0, progress=None):
        """`updates` updates. inputs(k): input of micro-batch k (first stage); loss(output, k): scalar (last stage); learning_rate(n) of update
        n = 0, 1, ...; after_update(self, n, result) after each; progress(n) in 0..1 for the schedule of the averager."""
        schedule = Stage(**self._stage_settings, total=updates * self.micro_batches)
        self._inputs, self._loss, self._pending, self._graphs = inputs, loss, [], {}
        self._moved_at = time.perf_counter()
        self._activation = self._gradient = None
        total = updates * self.micro_batches
        self._activations_due, self._gradients_due = 0 if self.first else total, 0 if self.last else total
        while True:
            self._move()
            forward = (self.first or self._activation is not None) and not self._pending
            backward = self.last or self._gradient is not None
            action = schedule.next(forward, backward)
            if action.kind == order.FORWARD:
                self._forward(action)
            elif action.kind == order.BACKWARD:
                self._backward(action)
            elif action.kind == order.UPDATE:
                self._update(action, learning_rate, progress, clip_norm)
                if after_update:
                    after_update(self, self.version - 1, self.averager.last)
            elif action.kind == order.DONE and not self._pending:
                break
            else:
                self._wait()
                continue
            self._moved_at = time.perf_counter()

    def _move(self):
        """Sends what waits for room, takes what has come; never blocks."""
        while self._pending:
            port, tensor, micro_batch, version = self._pending[0]
            if not port.send(tensor, micro_batch, version):
                break
            self._pending.pop(0)
        if self._activation is None and self._activations_due:
            self._activation = self._receive(self.activations_in, 'activation')
            self._activations_due -= self._activation is not None
        if self._gradient is None and self._gradients_due:
            self._gradient = self._receive(self.gradients_in, 'gradient')
            self._gradients_due -= self._gradient is not None

    def _receive(self, port, name):
        frame = port.recv(self.version)
        if frame is not None:
            self.staleness[name][frame.staleness] += 1
            self.last_staleness[name] = frame.staleness
        return frame

    @property
    def bytes_sent(self):
        """Payload bytes of activations and gradients that left this rank."""
        return self._bytes_sent

    def _send(self, port, tensor, micro_batch, version):
        tensor = tensor.to(self.wire_dtype).contiguous()
        self._bytes_sent += tensor.nbytes
        if self._pending or not port.send(tensor, micro_batch, version):
            self._pending.append((port, tensor, micro_batch, version))

    def _wait(self):
        started = time.perf_counter()
        for event in self.context.poll(1.0):
            if event['kind'] in ('peer_lost', 'mesh_lost'):
                raise PeerLost(event['status'], event['text'] or f'rank {event["rank"]} was lost')
        now = time.perf_counter()
        self.blocked_s += now - started
        if now - self._moved_at > self.timeout:
            raise Timeout(_c.TIMEOUT, f'rank {self.mesh.rank} has waited {self.timeout} s for its neighbours in the pipeline')

    def _forward(self, action):
        k, version, slot = action.micro_batch, action.version, action.slot
        frame, self._activation = self._activation, None
        if self.first:
            x = self._inputs(k)
        else:
            x = _tensor(frame).requires_grad_()
        output = self.stash.forward(slot, x)
        if self.last:
            output = self._loss(output, k)
        else:
            self._send(self.activations_out, output.detach(), k, version)
        self._graphs[k] = (frame, x, output, version)

    def _backward(self, action):
        frame, x, output, version = self._graphs.pop(action.micro_batch)
        gradient, self._gradient = self._gradient, None
        if self.last:
            output.backward()
        else:
            output.backward(_tensor(gradient))
            gradient.release()
        if not self.first:
            below = x.grad
            frame.release()
            self._send(self.gradients_out, below, action.micro_batch, version)

    def _update(self, action, learning_rate, progress, clip_norm):
        mirror = self.stash.mirror(action.slot)
        n = action.version - 1
        if self.synchronous:
            started = time.perf_counter()
            self.averager.mean(self.stash.gradients, timeout=self.timeout)
            self.averaging_s += time.perf_counter() - started
        self.optimiser.step(learning_rate(n), 1.0 / self.micro_batches, clip_norm, mirror=mirror)
        if not self.synchronous:
            result = self.averager.call(progress(n) if progress else 0.0, mirror=mirror, timeout=self.timeout)
            self.averaging_s += result.time_ns * 1e-9
        self.stash.wrote(action.slot)
        self.stash.gradient.zero_()
        self.version, self.delay = action.version, action.delay

    @torch.no_grad()
    def evaluate(self, batches, loss, timeout=120.0):
        """Mean of loss(output, y) of the replicas' mean model over `batches`, a list of (x, y), on every last-stage rank; None on the others.
        Collective over all ranks at the same number of updates; the weights are not touched. Its time counts in `evaluation_s` only."""
        started, posted = time.perf_counter(), self.averager.info()['bytes_posted']
        self._scratch = self._scratch or Scratch(self.context, self.stash.module)
        if self.finished:
            self._scratch.copy_from(self.stash.parameters)
        else:
            self.averager.mean(out=self._scratch.region, timeout=timeout)
        total = 0.0
        for k, (x, y) in enumerate(batches):
            frame = None
            if not self.first:
                frame = self.evaluation_in.recv(timeout=timeout)
                x = _tensor(frame)
            output = self._scratch.forward(x)
            if self.last:
                total += float(loss(output, y))
            else:
                self.evaluation_out.send(output.contiguous(), k, kind=order.EVALUATE, timeout=timeout)
            if frame is not None:
                frame.release()
        self.evaluation_s += time.perf_counter() - started
        self.evaluation_bytes += self.averager.info()['bytes_posted'] - posted
        return total / len(batches) if self.last else None

    def finish(self, timeout=120.0):
        """One model, bitwise equal on all replicas of each stage."""
        self.averager.finish(timeout)
        self.stash.wrote(0)
        self.stash.reset()
        self.finished = True

    def close(self):
        """Closes the ports, the averager and the optimiser now, not when the collector comes."""
        ports = (self.activations_in, self.gradients_out, self.evaluation_in, self.activations_out, self.gradients_in, self.evaluation_out)
        for handle in (*ports, self.averager, self.optimiser):
            if handle is not None:
                handle.close()
