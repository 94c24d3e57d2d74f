#!/usr/bin/env python3
"""asyncmesh_info says what a bug report needs, as JSON and as text, and refuses what it cannot use.

    info_test.py PROGRAM WITH_CUDA     WITH_CUDA: AUTO, ON, OFF, as the build was told
"""
import json
import os
import shutil
import subprocess
import sys

FACTS = [('asyncmesh', 'version'), ('ucx', 'version'), ('ucx', 'path'), ('ucx', 'resources'), ('cuda', 'built'), ('machine', 'cpus'),
         ('machine', 'memlock_bytes'), ('machine', 'dev_shm'), ('context', 'engine'), ('mesh', 'interface'), ('mesh', 'interface_reason'),
         ('mesh', 'engines')]


def run(*options):
    environment = {name: value for name, value in os.environ.items() if not name.startswith('ASYNCMESH_')}
    return subprocess.run([sys.argv[1], *options], env=environment, capture_output=True, text=True, timeout=60)


def main():
    done = run('--json')
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    for section, name in FACTS:
        assert name in facts[section], f'{section}.{name} is missing'
    assert os.path.exists(facts['ucx']['path'])
    assert facts['mesh']['interface'] == 'lo'

    expected = {'ON': True, 'OFF': False}.get(sys.argv[2], shutil.which('nvcc') is not None)
    assert facts['cuda']['built'] is expected, 'CUDA kernels are in the library exactly where they were asked for and nvcc is there'

    text = run()
    assert text.returncode == 0 and facts['ucx']['path'] in text.stdout, text.stderr

    refused = run('--engine', 'rma', '--tls', 'tcp')
    assert refused.returncode == 1 and 'refused' in refused.stderr, refused.stderr
    assert run('--engine', 'pigeon').returncode != 0
    assert run('--tls', 'x' * 64).returncode == 2


if __name__ == '__main__':
    main()
