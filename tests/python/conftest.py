"""Paths, and a deadline for every test: a test that hangs ends the run with the stacks of all threads instead of blocking it."""
import faulthandler
import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parents[1] / 'bindings' / 'python'
for path in (PACKAGE / 'examples', PACKAGE, HERE):
    if str(path) not in sys.path:
        sys.path.insert(0, str(path))
os.environ['PYTHONPATH'] = os.pathsep.join(dict.fromkeys(
    [str(HERE), str(PACKAGE), str(PACKAGE / 'examples')] + [p for p in os.environ.get('PYTHONPATH', '').split(os.pathsep) if p]))
os.environ.setdefault('OMP_NUM_THREADS', '1')
for name in [name for name in os.environ if name.startswith('ASYNCMESH_') and name != 'ASYNCMESH_LIBRARY']:
    del os.environ[name]

DEADLINE_S = 180


@pytest.fixture(autouse=True)
def deadline():
    faulthandler.dump_traceback_later(DEADLINE_S, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture
def alone():
    """(context, mesh) of a world of one."""
    import asyncmesh
    with asyncmesh.Context() as context, asyncmesh.Mesh(context, rank=0, replicas=1, stages=1) as mesh:
        yield context, mesh
