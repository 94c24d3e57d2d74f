"""Which library is loaded, and what is said when it does not fit."""
import os
import shutil
import subprocess
import sys

import pytest

from asyncmesh import _c, _library


def import_with(library):
    done = subprocess.run([sys.executable, '-c', 'import asyncmesh'], env=dict(os.environ, ASYNCMESH_LIBRARY=str(library)), capture_output=True, text=True,
                          timeout=60)
    return done.returncode, done.stderr


def stub(folder, revision, names):
    """A shared object with these functions, each returning `revision`."""
    source = folder / 'stub.c'
    source.write_text(''.join(f'unsigned asyncmesh_{name}(void) {{ return {revision}; }}\n' for name in names))
    library = folder / f'libstub{revision}.so'
    compiler = shutil.which('cc') or shutil.which('gcc') or shutil.which('clang')
    subprocess.run([compiler, '-shared', '-fPIC', str(source), '-o', str(library)], check=True, timeout=60)
    return library


def test_the_override_comes_first(monkeypatch):
    monkeypatch.setenv('ASYNCMESH_LIBRARY', '/some/libasyncmesh.so')
    assert _library.candidates() == ['/some/libasyncmesh.so'] and _library.path() == '/some/libasyncmesh.so'


def test_another_abi_revision_is_refused(tmp_path):
    status, errors = import_with(stub(tmp_path, _c.ABI_REVISION + 1, _c.PROTOTYPES))
    assert status == 1 and f'ABI revision {_c.ABI_REVISION + 1}, this package needs {_c.ABI_REVISION}' in errors


def test_a_library_without_a_function_is_refused_by_name(tmp_path):
    status, errors = import_with(stub(tmp_path, _c.ABI_REVISION, set(_c.PROTOTYPES) - {'averager_mean'}))
    assert status == 1 and 'asyncmesh_averager_mean' in errors


@pytest.mark.parametrize('content', [None, b'no library'], ids=['missing', 'garbage'])
def test_a_file_that_is_no_library_is_refused(tmp_path, content):
    path = tmp_path / 'libasyncmesh.so'
    if content:
        path.write_bytes(content)
    status, errors = import_with(path)
    assert status == 1 and f'ImportError: cannot load {path}' in errors
