"""Ports (channels and mailboxes) and the order of work of a pipeline stage."""
import ctypes

import numpy

from . import _c
from .buffers import ITEM_BYTES, Span
from .errors import check, check_again
from .handles import Handle, nanoseconds, settings

_f = _c.functions
PORT_KINDS = ('channel_out', 'channel_in', 'mailbox')
STAGE_MODES = ('opportunistic', 'deterministic', 'synchronous')
TRAIN, EVALUATE, CONTROL = 1, 2, 3
WAIT, FORWARD, BACKWARD, UPDATE, DONE = range(5)
READY_FORWARD, READY_BACKWARD = 1, 2
_NUMPY = {0: numpy.float32, 2: numpy.float16, 3: numpy.int64, 4: numpy.uint8}


class Received:
    """A frame, lent until `release`. `array()` is a view of it, not a copy."""

    __slots__ = ('port', 'kind', 'address', 'bytes', 'micro_batch', 'version', 'dtype', 'shape', 'source', 'staleness', 'token')

    def __init__(self, port, m):
        self.port, self.kind, self.address, self.bytes = port, m.kind, m.data, m.bytes
        self.micro_batch, self.version, self.dtype = m.micro_batch, m.version, m.dtype
        self.shape, self.source = tuple(m.shape[:m.dimensions]), m.source
        self.staleness, self.token = m.staleness, m.token

    def array(self):
        """NumPy view of the frame's shape (bfloat16 as uint16)."""
        dtype = numpy.dtype(_NUMPY.get(self.dtype, numpy.uint16))
        count = self.bytes // ITEM_BYTES[self.dtype]
        if not count:
            return numpy.empty(self.shape or 0, dtype)
        return numpy.frombuffer((ctypes.c_char * self.bytes).from_address(self.address), dtype, count).reshape(self.shape)

    def release(self):
        self.port.release(self)


class Port(Handle):
    """One end of a channel, or a mailbox over the replicas of the stage. Settings: fields of asyncmesh_port_config_t by name:
    kind, peer, tag, slots, payload_bytes, max_untaken (K), max_versions (V), key."""

    _destroy = 'port_close'

    def __init__(self, mesh, kind, **options):
        super().__init__()
        self.mesh = mesh
        config = settings(_c.PortConfig(), dict(options, kind=kind), {'kind': PORT_KINDS})
        check(_f.port_open(mesh.pointer, ctypes.byref(config), ctypes.byref(self._handle)))
        self.key = config.key
        self._send, self._message = _c.Send(), _c.Message()

    def send(self, array=None, micro_batch=0, version=0, kind=TRAIN, timeout=0.0):
        """Copies `array` (up to 4 dimensions) and returns True; False if a bound is reached (with a timeout: waits that long first,
        then raises Timeout)."""
        send = self._send
        send.kind, send.micro_batch, send.version, send.timeout_ns = kind, micro_batch, version, nanoseconds(timeout)
        if array is None:
            send.data, send.bytes, send.dimensions = None, 0, 0
        else:
            span = Span(array)
            send.data, send.bytes, send.dtype = span.address, span.bytes, span.dtype
            send.dimensions = len(span.shape)
            send.shape[:send.dimensions] = span.shape
        return check_again(_f.port_send(self.pointer, ctypes.byref(send)))

    def recv(self, version=0, timeout=0.0):
        """The next frame, or None (with a timeout: waits that long, then raises Timeout). `version`: updates this rank has applied."""
        if not check_again(_f.port_recv(self.pointer, version, nanoseconds(timeout), ctypes.byref(self._message))):
            return None
        return Received(self, self._message)

    def release(self, received):
        check(_f.port_release(self.pointer, received.token))


class Stage(Handle):
    """What a pipeline stage does next: forward, backward, update; which version of the weights it runs on; the delay that results.
    mode: 'opportunistic', 'deterministic' (1F1B) or 'synchronous' (fill and drain)."""

    _destroy = 'stage_destroy'

    def __init__(self, stages, stage, mode='opportunistic', in_flight=0, micro_batches=1, total=0):
        super().__init__()
        config = settings(_c.StageConfig(), dict(stages=stages, stage=stage, mode=mode, in_flight=in_flight, micro_batches=micro_batches,
                                                 total=total), {'mode': STAGE_MODES})
        check(_f.stage_create(ctypes.byref(config), ctypes.byref(self._handle)))
        self._action = _c.Action()

    def next(self, forward_ready, backward_ready):
        """The next action, a C struct (kind, micro_batch, version, slot, ring, delay), overwritten by the next call."""
        ready = (READY_FORWARD if forward_ready else 0) | (READY_BACKWARD if backward_ready else 0)
        check(_f.stage_next(self.pointer, ready, ctypes.byref(self._action)))
        return self._action
