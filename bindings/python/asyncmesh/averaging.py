"""Regions (parameter tables), the averager and the optimiser over NumPy arrays or torch tensors."""
import ctypes

import numpy

from . import _c
from .buffers import Span
from .errors import check
from .handles import Handle, fields, nanoseconds, save_state, settings

_f = _c.functions
RULES = ('average', 'delta', 'ema')
INITS = ('first_visit', 'zero', 'parity')
AVERAGING_MODES = ('opportunistic', 'deterministic')
REDRAWS = ('every_cycle', 'never')
SELECTIONS = ('rotation', 'random')
WIRES = {'float32': 0, 'bfloat16': 1, 'float16': 2, 'int8': 16, 'int4': 17}
ROUNDINGS = ('nearest', 'stochastic')


def default_averager_config():
    """ASYNCMESH_AVERAGER_CONFIG_INIT."""
    return _c.AveragerConfig(rule=2, window=10, granularity=64, fraction=.05, scale=1., momentum_first=.5, momentum_last=.99,
                             warm_up=1 / 30, create_timeout_ns=60_000_000_000)


def default_optimiser_config():
    """ASYNCMESH_OPTIMISER_CONFIG_INIT."""
    return _c.OptimiserConfig(look_ahead=1, beta1=.99, beta2=.999, epsilon=1e-8, weight_decay=.01, psi=.004)


def _tensors(arrays):
    spans = [Span(array) for array in arrays]
    for span in spans:
        if hasattr(span.array, 'flags') and not span.array.flags.writeable:
            raise ValueError(f'an array of shape {span.shape} is read-only')
    table = (_c.Tensor * len(spans))()
    for index, (entry, span) in enumerate(zip(table, spans)):
        entry.struct_size = ctypes.sizeof(_c.Tensor)
        entry.dtype, entry.data, entry.count = span.dtype, span.address, span.count
        entry.id, entry.device = index, span.device
    return spans, table


class Region(Handle):
    """A list of dense arrays of any shapes; they are kept alive, not copied.

    As the table of an averager or optimiser: all float32, or all bfloat16 or all float16 to train without float32 masters. As a `mirror` of
    one: the same shapes in the same order, all of one of the three dtypes; it receives the weights where they are written, rounded to nearest.
    """

    _destroy = 'region_destroy'

    def __init__(self, context, arrays):
        super().__init__()
        self.context = context
        self.spans, table = _tensors(arrays)
        check(_f.region_create(context.pointer, table, len(table), ctypes.byref(self._handle)))

    @property
    def elements(self):
        return sum(span.count for span in self.spans)

    def rebind(self, arrays):
        """The same arrays at new addresses."""
        spans, table = _tensors(arrays)
        check(_f.region_rebind(self.pointer, table, len(table)))
        self.spans = spans


class Averager(Handle):
    """Sparse asynchronous averaging of a region over the replicas of this rank's stage; (2.1), (3.1)-(3.4) of the method.

    Settings: fields of asyncmesh_averager_config_t by name: fraction=0.05, window=10, rule='ema' | 'delta' | 'average',
    init='first_visit' | 'zero' | 'parity', mode='opportunistic' | 'deterministic', granularity=64,
    selection='rotation' | 'random', wire='float32' | 'bfloat16' | 'float16' | 'int8' | 'int4' (what rounds travel as; what it cannot hold of a
    replica's values stays with that replica), rounding='nearest' | 'stochastic' (for the wires below float32; drawn from seed, group, round
    and rank), redraw, seed, ...
    """

    _destroy = 'averager_destroy'

    def __init__(self, mesh, region, **options):
        super().__init__()
        self.mesh, self.region = mesh, region
        config = default_averager_config()
        settings(config, options, {'rule': RULES, 'init': INITS, 'mode': AVERAGING_MODES, 'redraw': REDRAWS, 'wire': WIRES,
                                   'rounding': ROUNDINGS, 'selection': SELECTIONS})
        check(_f.averager_create(mesh.pointer, region.pointer, ctypes.byref(config), ctypes.byref(self._handle)))
        self._call = _c.AveragerCall(weight=1., timeout_ns=-1)
        self.last = _c.AveragerResult()

    def call(self, progress=0.0, weight=1.0, mirror=None, timeout=None):
        """After each optimiser step; never waits in opportunistic mode. `progress` of the training in 0..1. Returns `last`, the C result
        struct (started, applied, skipped, open, age_rounds, age_calls, age_ns, wait_ns, time_ns, bytes_posted), overwritten by the next call."""
        call = self._call
        call.progress, call.weight, call.timeout_ns = progress, weight, nanoseconds(timeout)
        call.mirror = mirror.pointer if mirror is not None else None
        check(_f.averager_call(self.pointer, ctypes.byref(call), ctypes.byref(self.last)))
        return self.last

    def mean(self, region=None, out=None, weight=1.0, timeout=None):
        """Blocking weighted mean of a region over the replicas, bitwise equal on all; `out` defaults to in place."""
        region = region or self.region
        mean = _c.Mean(weight=weight, timeout_ns=nanoseconds(timeout))
        check(_f.averager_mean(self.pointer, region.pointer, (out or region).pointer, ctypes.byref(mean)))

    def broadcast(self, source=0, region=None, timeout=None):
        """Everyone takes the values of replica `source`."""
        self.mean(region, weight=1.0 if self.mesh.replica == source else 0.0, timeout=timeout)

    def finish(self, timeout=None):
        """Ends averaging with one model, bitwise equal on all replicas."""
        check(_f.averager_finish(self.pointer, nanoseconds(timeout)))

    def info(self):
        info = _c.AveragerInfo()
        check(_f.averager_query(self.pointer, ctypes.byref(info)))
        return fields(info)

    def partition(self, cycle=0):
        """Part number of every element in table order: uint32 array of shape (elements,). Random selection: 0 for what round `cycle`
        takes, 2 ** 32 - 1 for the rest."""
        parts = numpy.empty(self.region.elements, numpy.uint32)
        pointer = parts.ctypes.data_as(ctypes.POINTER(ctypes.c_uint32))
        check(_f.averager_partition(self.pointer, cycle, pointer, parts.size))
        return parts

    def save(self):
        return save_state(_f.averager_save, self.pointer)

    def load(self, state):
        check(_f.averager_load(self.pointer, state, len(state)))


class Optimiser(Handle):
    """NAdamW (4.3), or AdamW with look_ahead=0, on regions of equal layout and dtype; moments and arithmetic are float32. Settings: beta1, beta2,
    epsilon, weight_decay, psi, look_ahead; `decay` and `lr_scale` as lists, one number per tensor."""

    _destroy = 'optimiser_destroy'

    def __init__(self, weights, gradients, decay=None, lr_scale=None, **options):
        super().__init__()
        self.weights, self.gradients = weights, gradients
        config = default_optimiser_config()
        settings(config, options)
        for name, values in (('decay', decay), ('lr_scale', lr_scale)):
            if values is not None:
                if len(values) != len(weights.spans):
                    raise ValueError(f'{name} needs one number per tensor')
                setattr(config, name, (ctypes.c_double * len(values))(*values))
        check(_f.optimiser_create(weights.pointer, gradients.pointer, ctypes.byref(config), ctypes.byref(self._handle)))
        self._step = _c.OptimiserStep(gradient_scale=1.)
        self._norm = ctypes.c_double()

    def step(self, lr, gradient_scale=1.0, clip_norm=0.0, skip=False, mirror=None):
        """One step; returns the norm of the scaled gradient before clipping (by this stage's own norm)."""
        step = self._step
        step.lr, step.gradient_scale, step.clip_norm, step.skip = lr, gradient_scale, clip_norm, int(skip)
        step.mirror = mirror.pointer if mirror is not None else None
        check(_f.optimiser_step(self.pointer, ctypes.byref(step), ctypes.byref(self._norm)))
        return self._norm.value

    def save(self):
        return save_state(_f.optimiser_save, self.pointer)

    def load(self, state):
        check(_f.optimiser_load(self.pointer, state, len(state)))
