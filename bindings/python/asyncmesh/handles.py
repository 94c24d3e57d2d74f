"""Objects of the C API as Python objects: created by their class, destroyed by `close`, `with`, or the collector, in any order."""
import ctypes
import os

from . import _c
from .errors import check

_f = _c.functions


class Handle:
    """Owns one C handle. `_destroy` names the C function that frees it."""

    _destroy = ''

    def __init__(self):
        self._handle = ctypes.c_void_p()
        self._pid = os.getpid()

    @property
    def pointer(self):
        if not self._handle:
            raise ValueError(f'this {type(self).__name__} is closed')
        return self._handle

    def close(self):
        handle, self._handle = self._handle, ctypes.c_void_p()
        if handle and self._pid == os.getpid():
            getattr(_f, self._destroy)(handle)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if getattr(self, '_handle', None):
            self.close()


def nanoseconds(seconds):
    """A timeout in seconds (None: no deadline) as the C API wants it."""
    return -1 if seconds is None else int(seconds * 1e9)


def settings(struct, options, choices=()):
    """Sets fields of a C struct from keyword arguments. `choices` maps a field to its names: in order of their numbers, or a dict to numbers."""
    known = {name for name, *_ in struct._fields_}
    for name, value in options.items():
        if name not in known:
            raise TypeError(f'unknown setting {name!r}; known: {", ".join(sorted(known - {"struct_size", "reserved"}))}')
        if isinstance(value, str):
            named = dict(choices).get(name)
            if named is None:
                value = value.encode()
            elif value in named:
                value = named[value] if isinstance(named, dict) else named.index(value)
            else:
                raise ValueError(f'{name} must be one of {", ".join(filter(None, named))}, not {value!r}')
        setattr(struct, name, value)
    return struct


def text(value):
    return bytes(value).split(b'\0', 1)[0].decode(errors='replace')


def fields(struct):
    """A C output struct as a dict of Python values."""
    result = {}
    for name, *_ in struct._fields_:
        if name not in ('struct_size', 'reserved'):
            value = getattr(struct, name)
            result[name] = text(value) if isinstance(value, bytes) else value
    return result


def save_state(save, handle):
    """Bytes of a `*_save` function."""
    need = ctypes.c_uint64()
    status = save(handle, None, 0, ctypes.byref(need))
    if status not in (_c.OK, _c.TOO_LARGE):
        check(status)
    buffer = ctypes.create_string_buffer(max(1, need.value))
    check(save(handle, buffer, need.value, ctypes.byref(need)))
    return buffer.raw[:need.value]
