"""What ctypes believes about asyncmesh.h against what a C compiler says."""
import ctypes
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import asyncmesh.averaging
import asyncmesh.mesh
import asyncmesh.pipeline
from asyncmesh import _c

INCLUDE = Path(__file__).resolve().parents[2] / 'libasyncmesh' / 'include'
HEADER = (INCLUDE / 'asyncmesh' / 'asyncmesh.h').read_text()
HANDLES = ('context', 'mesh', 'region', 'averager', 'optimiser', 'stage', 'port')


def c_name(struct):
    return 'asyncmesh_' + re.sub('(?<!^)(?=[A-Z])', '_', struct.__name__).lower() + '_t'


def enumerators():
    bare = re.sub(r'/\*.*?\*/', '', HEADER, flags=re.S)
    return {name for body in re.findall(r'\benum\s*\{(.*?)\}', bare, re.S) for name in re.findall(r'\bASYNCMESH_\w+', body)}


@pytest.fixture(scope='module')
def c_facts(tmp_path_factory):
    """Sizes, offsets and enumerators, printed by a program that includes nothing but the public header."""
    compiler = shutil.which('cc') or shutil.which('gcc') or shutil.which('clang')
    assert compiler, 'a C compiler is needed'
    lines = []
    for struct in _c.STRUCTS:
        name = c_name(struct)
        lines.append(f'printf("\\"{name}\\": %zu,\\n", sizeof({name}));')
        for field, *_ in struct._fields_:
            lines.append(f'printf("\\"{name}.{field}\\": [%zu, %zu],\\n", offsetof({name}, {field}), sizeof((({name}*)0)->{field}));')
    for name in sorted(enumerators()):
        lines.append(f'printf("\\"{name}\\": %d,\\n", (int){name});')
    folder = tmp_path_factory.mktemp('layout')
    source = folder / 'layout_dump.c'
    source.write_text('#include <asyncmesh/asyncmesh.h>\n#include <stdio.h>\nint main(void) {\nprintf("{");\n' + '\n'.join(lines) +
                      '\nprintf("\\"end\\": 0}");\nreturn 0;\n}\n')
    subprocess.run([compiler, '-std=c99', '-Wall', '-Wextra', '-Werror', f'-I{INCLUDE}', str(source), '-o', str(folder / 'dump')],
                   check=True, timeout=60)
    return json.loads(subprocess.run([str(folder / 'dump')], check=True, timeout=60, capture_output=True, text=True).stdout)


@pytest.mark.parametrize('struct', _c.STRUCTS, ids=lambda s: s.__name__)
def test_struct_has_the_layout_of_c(struct, c_facts):
    name = c_name(struct)
    assert ctypes.sizeof(struct) == c_facts[name]
    for field, *_ in struct._fields_:
        descriptor = getattr(struct, field)
        assert [descriptor.offset, descriptor.size] == c_facts[f'{name}.{field}'], field


def test_every_struct_of_the_header_is_there():
    structs = set(re.findall(r'^\}\s*(asyncmesh_\w+_t);', HEADER, re.M))
    assert structs == {c_name(struct) for struct in _c.STRUCTS}


def test_every_function_of_the_header_has_a_prototype():
    declared = set(re.findall(r'\basyncmesh_([a-z_]+)\(', re.sub(r'/\*.*?\*/', '', HEADER, flags=re.S)))
    assert declared == set(_c.PROTOTYPES)


def test_every_loaded_function_has_argtypes_and_restype():
    for name, (result, arguments) in _c.PROTOTYPES.items():
        function = getattr(_c.functions, name)
        assert function.argtypes == arguments, name
        assert function.restype is result, name


def test_status_codes_are_those_of_the_header(c_facts):
    for name in ('OK', 'AGAIN', 'TIMEOUT', 'INVALID_ARGUMENT', 'INVALID_STATE', 'UNSUPPORTED', 'TOO_LARGE', 'NO_MEMORY', 'CANCELED',
                 'MISMATCH', 'REFUSED', 'PEER_LOST', 'LINK_ERROR', 'SYSTEM', 'INTERNAL'):
        assert getattr(_c, name) == c_facts['ASYNCMESH_' + name], name
        assert _c.functions.status_name(getattr(_c, name)) == name.encode()


@pytest.mark.parametrize('prefix, names', [
    ('ENGINE_', asyncmesh.mesh.ENGINES), ('EVENT_', asyncmesh.mesh.EVENTS), ('RULE_', asyncmesh.averaging.RULES),
    ('INIT_', asyncmesh.averaging.INITS), ('MODE_', asyncmesh.averaging.AVERAGING_MODES), ('REDRAW_', asyncmesh.averaging.REDRAWS),
    ('SELECTION_', asyncmesh.averaging.SELECTIONS), ('ROUNDING_', asyncmesh.averaging.ROUNDINGS),
    ('STAGE_', asyncmesh.pipeline.STAGE_MODES), ('PORT_', asyncmesh.pipeline.PORT_KINDS),
    ('PROGRESS_', asyncmesh.mesh.PROGRESS)], ids=lambda value: value if isinstance(value, str) else '')
def test_names_stand_in_the_order_of_their_numbers(prefix, names, c_facts):
    for number, name in enumerate(names):
        if name:
            assert c_facts['ASYNCMESH_' + prefix + name.upper()] == number


def test_wires_have_the_numbers_of_the_header(c_facts):
    assert {f'ASYNCMESH_WIRE_{name.upper()}': number for name, number in asyncmesh.averaging.WIRES.items()} == {
        name: value for name, value in c_facts.items() if name.startswith('ASYNCMESH_WIRE_')}


def test_python_defaults_are_those_of_the_header():
    values = re.search(r'ASYNCMESH_AVERAGER_CONFIG_INIT\s*\{(.*?)\}', HEADER.replace('\\\n', ' '), re.S).group(1)
    numbers = [eval(v.strip().rstrip('l'), {}) for v in values.split(',')[2:]]
    config = asyncmesh.averaging.default_averager_config()
    assert [getattr(config, name) for name, *_ in config._fields_[2:]] == pytest.approx(numbers)
    values = re.search(r'ASYNCMESH_OPTIMISER_CONFIG_INIT\s*\{(.*?)\}', HEADER.replace('\\\n', ' '), re.S).group(1)
    numbers = [eval(v.strip(), {}) for v in values.split(',')[1:-2]]
    config = asyncmesh.averaging.default_optimiser_config()
    assert [getattr(config, name) for name, *_ in config._fields_[1:-2]] == pytest.approx(numbers)
