"""Finds and loads libasyncmesh: ASYNCMESH_LIBRARY, beside this package, the build tree of a checkout, then the system."""
import ctypes
import ctypes.util
import os
from pathlib import Path

_NAME = 'libasyncmesh.so'


def candidates():
    override = os.environ.get('ASYNCMESH_LIBRARY')
    if override:
        return [override]
    here = Path(__file__).resolve().parent
    checkout = here.parents[2]
    paths = [here / _NAME] + [checkout / 'build' / preset / _NAME for preset in ('release', 'cuda', 'dev')]
    found = [str(path) for path in paths if path.exists()]
    system = ctypes.util.find_library('asyncmesh')
    return found + ([system] if system else [])


def load():
    tried = candidates()
    if not tried:
        raise ImportError(f'{_NAME} not found: build it (cmake --preset release && cmake --build --preset release), or set '
                          'ASYNCMESH_LIBRARY to its path')
    try:
        return ctypes.CDLL(tried[0])
    except OSError as error:
        raise ImportError(f'cannot load {tried[0]}: {error}') from error


def path():
    """The file that is or would be loaded."""
    return candidates()[0]
