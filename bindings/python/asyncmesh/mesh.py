"""Context and mesh: transports and progress, and the other ranks."""
import ctypes
import json

from . import _c
from .errors import check
from .handles import Handle, fields, nanoseconds, settings, text

_f = _c.functions
PROGRESS = ('thread', 'manual')
ENGINES = ('auto', 'tag', 'rma', 'loopback')
EVENTS = ('', 'peer_suspect', 'peer_alive', 'peer_lost', 'peer_left', 'mesh_lost', 'port_ready')
PEER_STATES = ('', 'alive', 'suspect', 'lost', 'left')
_POLL_EVENTS = 32


def configurations():
    """(Config, MeshConfig) from defaults, the ASYNCMESH_* variables and the launcher's."""
    config, mesh = _c.Config(), _c.MeshConfig()
    check(_f.config_from_env(ctypes.byref(config), ctypes.byref(mesh)))
    return config, mesh


class Context(Handle):
    """Transports and the progress owner. Settings: fields of asyncmesh_config_t by name (engine='tag', link='200Mbit,5ms', kernel_threads=4, ...);
    what is not given comes from the environment."""

    _destroy = 'context_destroy'

    def __init__(self, **options):
        super().__init__()
        config, _ = configurations()
        settings(config, options, {'progress': PROGRESS, 'engine': ENGINES})
        check(_f.context_create(ctypes.byref(config), ctypes.byref(self._handle)))
        self._events = (_c.Event * _POLL_EVENTS)()
        self._events[0].struct_size = ctypes.sizeof(_c.Event)
        self._count = ctypes.c_uint32()

    def do_work(self):
        """Manual progress: number of events handled."""
        check(_f.context_do_work(self.pointer, ctypes.byref(self._count)))
        return self._count.value

    def poll(self, timeout=0.0):
        """Waits up to `timeout` seconds for peers and ports: a list of dicts {kind, rank, status, port_key, text}; empty on timeout."""
        status = _f.context_poll(self.pointer, self._events, _POLL_EVENTS, ctypes.byref(self._count), nanoseconds(timeout))
        if status == _c.TIMEOUT:
            return []
        check(status)
        return [dict(kind=EVENTS[e.kind], rank=e.rank, status=e.status, port_key=e.port_key, text=text(e.text))
                for e in self._events[:self._count.value]]

    def counters(self):
        """All counters: {name: value}."""
        count = ctypes.c_uint32()
        check(_f.counters_read(self.pointer, None, 0, ctypes.byref(count)))
        array = (_c.Counter * (count.value + 16))()
        array[0].struct_size = ctypes.sizeof(_c.Counter)
        check(_f.counters_read(self.pointer, array, len(array), ctypes.byref(count)))
        return {text(c.name): c.value for c in array[:min(count.value, len(array))]}

    def describe(self):
        """What a bug report needs, as a dict."""
        need = ctypes.c_uint64()
        status = _f.describe(self.pointer, None, 0, ctypes.byref(need))
        if status not in (_c.OK, _c.TOO_LARGE):
            check(status)
        buffer = ctypes.create_string_buffer(need.value + 1024)
        check(_f.describe(self.pointer, buffer, len(buffer), ctypes.byref(need)))
        return json.loads(buffer.value)


class Mesh(Handle):
    """All ranks of the job: blocks until they are there. Settings: fields of asyncmesh_mesh_config_t by name; what is not given
    comes from the environment (torchrun, Slurm, Open MPI, ASYNCMESH_*)."""

    _destroy = 'mesh_destroy'

    def __init__(self, context, timeout=60.0, **options):
        super().__init__()
        self.context = context
        _, config = configurations()
        if 'stages' in options or 'rank' in options:
            _derive(config, options)
        settings(config, options)
        check(_f.mesh_join(context.pointer, ctypes.byref(config), nanoseconds(timeout), ctypes.byref(self._handle)))
        info = self.info()
        self.rank, self.world = info['rank'], info['world']
        self.replica, self.replicas = info['replica'], info['replicas']
        self.stage, self.stages = info['stage'], info['stages']

    def info(self):
        info = _c.MeshInfo()
        check(_f.mesh_query(self.pointer, ctypes.byref(info)))
        return fields(info)

    def peer(self, rank):
        info = _c.PeerInfo()
        check(_f.mesh_peer(self.pointer, rank, ctypes.byref(info)))
        result = fields(info)
        result['state'] = PEER_STATES[info.state]
        return result

    def rank_of(self, replica, stage):
        return replica * self.stages + stage

    def leave(self, timeout=10.0):
        """Says goodbye: peers report that this rank left, not that it was lost."""
        check(_f.mesh_leave(self.pointer, nanoseconds(timeout)))


def _derive(config, options):
    """replicas, replica and stage from rank, world and stages where the caller gave only some of them."""
    world = config.replicas * config.stages
    stages = options.get('stages', config.stages)
    replicas = options.get('replicas', max(1, world // stages))
    rank = options.get('rank', config.rank)
    for name, value in (('replicas', replicas), ('replica', rank // stages), ('stage', rank % stages)):
        options.setdefault(name, value)
