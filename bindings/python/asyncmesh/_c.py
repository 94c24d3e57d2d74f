"""The C API as ctypes sees it: every struct, constant and prototype of asyncmesh.h, nothing else.

A test compares the layouts with what the C compiler says, and checks that every function has argtypes and restype.
ctypes releases the GIL around each call, so a blocking call stops only its own thread.
"""
import ctypes
from ctypes import POINTER, c_char, c_char_p, c_double, c_float, c_int32, c_int64, c_uint32, c_uint64, c_void_p

from ._library import load

ABI_REVISION = 2

OK, AGAIN, TIMEOUT = 0, -1, -2
INVALID_ARGUMENT, INVALID_STATE, UNSUPPORTED, TOO_LARGE, NO_MEMORY = -10, -11, -12, -13, -14
CANCELED, MISMATCH, REFUSED = -20, -21, -22
PEER_LOST, LINK_ERROR = -30, -31
SYSTEM, INTERNAL = -40, -41


class Sized(ctypes.Structure):
    """A struct that starts with struct_size; filled at construction."""

    def __init__(self, **fields):
        super().__init__(**fields)
        self.struct_size = ctypes.sizeof(self)


class Config(Sized):
    _fields_ = [('struct_size', c_uint32), ('progress', c_uint32), ('engine', c_uint32), ('checksum', c_uint32), ('log_fd', c_int32),
                ('log_level', c_uint32), ('progress_cpu', c_int32), ('kernel_threads', c_uint32), ('tls', c_char * 64),
                ('net_devices', c_char * 64), ('link', c_char * 64), ('faults', c_char * 128)]


class MeshConfig(Sized):
    _fields_ = [('struct_size', c_uint32), ('rank', c_uint32), ('replicas', c_uint32), ('stages', c_uint32), ('replica', c_uint32),
                ('stage', c_uint32), ('external_rendezvous', c_uint32), ('reserved', c_uint32), ('peer_timeout_ns', c_int64),
                ('url', c_char * 256), ('secret', c_char * 256), ('run_id', c_char * 64), ('bind_address', c_char * 64),
                ('announce_address', c_char * 64)]


class Event(Sized):
    _fields_ = [('struct_size', c_uint32), ('kind', c_uint32), ('rank', c_uint32), ('status', c_int32), ('port_key', c_uint64),
                ('text', c_char * 160)]


class Counter(Sized):
    _fields_ = [('struct_size', c_uint32), ('reserved', c_uint32), ('value', c_uint64), ('name', c_char * 80)]


class MeshInfo(Sized):
    _fields_ = [('struct_size', c_uint32), ('rank', c_uint32), ('world', c_uint32), ('replica', c_uint32), ('replicas', c_uint32),
                ('stage', c_uint32), ('stages', c_uint32), ('alive', c_uint32), ('membership_epoch', c_uint64),
                ('transports', c_char * 128), ('interface_name', c_char * 64), ('link', c_char * 64)]


class PeerInfo(Sized):
    _fields_ = [('struct_size', c_uint32), ('rank', c_uint32), ('replica', c_uint32), ('stage', c_uint32), ('state', c_uint32),
                ('link_epoch', c_uint32), ('transport', c_char * 64), ('host', c_char * 64), ('reason', c_char * 160)]


class Tensor(Sized):
    _fields_ = [('struct_size', c_uint32), ('dtype', c_uint32), ('data', c_void_p), ('count', c_uint64), ('id', c_uint64),
                ('device', c_int32), ('reserved', c_uint32)]


class AveragerConfig(Sized):
    _fields_ = [('struct_size', c_uint32), ('rule', c_uint32), ('init', c_uint32), ('mode', c_uint32), ('window', c_uint32),
                ('granularity', c_uint32), ('redraw', c_uint32), ('wire', c_uint32), ('fraction', c_double), ('scale', c_double),
                ('momentum_first', c_double), ('momentum_last', c_double), ('warm_up', c_double), ('seed', c_uint64),
                ('group', c_uint64), ('create_timeout_ns', c_int64), ('selection', c_uint32), ('rounding', c_uint32)]


class AveragerCall(Sized):
    _fields_ = [('struct_size', c_uint32), ('weight', c_float), ('progress', c_double), ('mirror', c_void_p), ('timeout_ns', c_int64)]


class AveragerResult(Sized):
    _fields_ = [('struct_size', c_uint32), ('reserved', c_uint32), ('started', c_uint64), ('applied', c_uint64),
                ('skipped', c_uint64), ('open', c_uint64), ('age_rounds', c_uint64), ('age_calls', c_uint64), ('age_ns', c_uint64),
                ('wait_ns', c_uint64), ('time_ns', c_uint64), ('bytes_posted', c_uint64)]


class Mean(Sized):
    _fields_ = [('struct_size', c_uint32), ('weight', c_float), ('timeout_ns', c_int64)]


class AveragerInfo(Sized):
    _fields_ = [('struct_size', c_uint32), ('parts', c_uint32), ('blocks', c_uint64), ('elements', c_uint64), ('members', c_uint64),
                ('calls', c_uint64), ('rounds_started', c_uint64), ('rounds_applied', c_uint64), ('rounds_skipped', c_uint64),
                ('rounds_discarded', c_uint64), ('frames_discarded', c_uint64), ('not_finite', c_uint64), ('too_few', c_uint64),
                ('bytes_posted', c_uint64), ('time_ns', c_uint64), ('wait_ns', c_uint64), ('q', c_uint64), ('margin', c_double)]


class OptimiserConfig(Sized):
    _fields_ = [('struct_size', c_uint32), ('look_ahead', c_uint32), ('beta1', c_double), ('beta2', c_double), ('epsilon', c_double),
                ('weight_decay', c_double), ('psi', c_double), ('decay', POINTER(c_double)), ('lr_scale', POINTER(c_double))]


class OptimiserStep(Sized):
    _fields_ = [('struct_size', c_uint32), ('skip', c_uint32), ('lr', c_double), ('gradient_scale', c_double), ('clip_norm', c_double),
                ('mirror', c_void_p)]


class StageConfig(Sized):
    _fields_ = [('struct_size', c_uint32), ('mode', c_uint32), ('stages', c_uint32), ('stage', c_uint32), ('in_flight', c_uint32),
                ('micro_batches', c_uint32), ('total', c_uint64)]


class Action(Sized):
    _fields_ = [('struct_size', c_uint32), ('kind', c_uint32), ('micro_batch', c_uint64), ('version', c_uint64), ('slot', c_uint32),
                ('ring', c_uint32), ('delay', c_uint32), ('reserved', c_uint32)]


class PortConfig(Sized):
    _fields_ = [('struct_size', c_uint32), ('kind', c_uint32), ('peer', c_uint32), ('tag', c_uint32), ('slots', c_uint32),
                ('payload_bytes', c_uint32), ('max_untaken', c_uint32), ('max_versions', c_uint32), ('key', c_uint64)]


class Send(Sized):
    _fields_ = [('struct_size', c_uint32), ('kind', c_uint32), ('data', c_void_p), ('bytes', c_uint64), ('micro_batch', c_uint64),
                ('version', c_uint64), ('dtype', c_uint32), ('dimensions', c_uint32), ('shape', c_uint32 * 4), ('timeout_ns', c_int64)]


class Message(Sized):
    _fields_ = [('struct_size', c_uint32), ('kind', c_uint32), ('data', c_void_p), ('bytes', c_uint64), ('micro_batch', c_uint64),
                ('version', c_uint64), ('dtype', c_uint32), ('dimensions', c_uint32), ('shape', c_uint32 * 4), ('source', c_uint32),
                ('reserved', c_uint32), ('staleness', c_int64), ('token', c_uint64)]


STRUCTS = (Config, MeshConfig, Event, Counter, MeshInfo, PeerInfo, Tensor, AveragerConfig, AveragerCall, AveragerResult, Mean,
           AveragerInfo, OptimiserConfig, OptimiserStep, StageConfig, Action, PortConfig, Send, Message)

_HANDLE = c_void_p
_STATUS = c_int32
PROTOTYPES = {
    'abi_revision': (c_uint32, []),
    'version_string': (c_char_p, []),
    'status_name': (c_char_p, [_STATUS]),
    'last_error': (c_char_p, []),
    'config_from_env': (_STATUS, [POINTER(Config), POINTER(MeshConfig)]),
    'context_create': (_STATUS, [POINTER(Config), POINTER(_HANDLE)]),
    'context_destroy': (None, [_HANDLE]),
    'context_do_work': (_STATUS, [_HANDLE, POINTER(c_uint32)]),
    'context_poll': (_STATUS, [_HANDLE, POINTER(Event), c_uint32, POINTER(c_uint32), c_int64]),
    'counters_read': (_STATUS, [_HANDLE, POINTER(Counter), c_uint32, POINTER(c_uint32)]),
    'describe': (_STATUS, [_HANDLE, POINTER(c_char), c_uint64, POINTER(c_uint64)]),
    'mesh_join': (_STATUS, [_HANDLE, POINTER(MeshConfig), c_int64, POINTER(_HANDLE)]),
    'mesh_query': (_STATUS, [_HANDLE, POINTER(MeshInfo)]),
    'mesh_peer': (_STATUS, [_HANDLE, c_uint32, POINTER(PeerInfo)]),
    'mesh_leave': (_STATUS, [_HANDLE, c_int64]),
    'mesh_destroy': (None, [_HANDLE]),
    'region_create': (_STATUS, [_HANDLE, POINTER(Tensor), c_uint32, POINTER(_HANDLE)]),
    'region_rebind': (_STATUS, [_HANDLE, POINTER(Tensor), c_uint32]),
    'region_destroy': (None, [_HANDLE]),
    'averager_create': (_STATUS, [_HANDLE, _HANDLE, POINTER(AveragerConfig), POINTER(_HANDLE)]),
    'averager_call': (_STATUS, [_HANDLE, POINTER(AveragerCall), POINTER(AveragerResult)]),
    'averager_mean': (_STATUS, [_HANDLE, _HANDLE, _HANDLE, POINTER(Mean)]),
    'averager_finish': (_STATUS, [_HANDLE, c_int64]),
    'averager_query': (_STATUS, [_HANDLE, POINTER(AveragerInfo)]),
    'averager_partition': (_STATUS, [_HANDLE, c_uint64, POINTER(c_uint32), c_uint64]),
    'averager_save': (_STATUS, [_HANDLE, c_void_p, c_uint64, POINTER(c_uint64)]),
    'averager_load': (_STATUS, [_HANDLE, c_void_p, c_uint64]),
    'averager_destroy': (None, [_HANDLE]),
    'optimiser_create': (_STATUS, [_HANDLE, _HANDLE, POINTER(OptimiserConfig), POINTER(_HANDLE)]),
    'optimiser_step': (_STATUS, [_HANDLE, POINTER(OptimiserStep), POINTER(c_double)]),
    'optimiser_save': (_STATUS, [_HANDLE, c_void_p, c_uint64, POINTER(c_uint64)]),
    'optimiser_load': (_STATUS, [_HANDLE, c_void_p, c_uint64]),
    'optimiser_destroy': (None, [_HANDLE]),
    'stage_create': (_STATUS, [POINTER(StageConfig), POINTER(_HANDLE)]),
    'stage_next': (_STATUS, [_HANDLE, c_uint32, POINTER(Action)]),
    'stage_destroy': (None, [_HANDLE]),
    'port_open': (_STATUS, [_HANDLE, POINTER(PortConfig), POINTER(_HANDLE)]),
    'port_send': (_STATUS, [_HANDLE, POINTER(Send)]),
    'port_recv': (_STATUS, [_HANDLE, c_uint64, c_int64, POINTER(Message)]),
    'port_release': (_STATUS, [_HANDLE, c_uint64]),
    'port_close': (None, [_HANDLE]),
}


class _Functions:
    """The library's functions without their prefix: functions.mesh_join(...)."""

    def __init__(self, library):
        for name, (result, arguments) in PROTOTYPES.items():
            function = getattr(library, 'asyncmesh_' + name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)


functions = _Functions(load())
if functions.abi_revision() != ABI_REVISION:
    raise ImportError(f'libasyncmesh has ABI revision {functions.abi_revision()}, this package needs {ABI_REVISION}')
