#!/usr/bin/env python3
"""The machine code of the CUDA kernels, for every architecture of the build: the packing and dense kernels move 16 bytes at a time
to and from global memory, and no kernel touches local memory.

    sass_test.py COMPILE_COMMANDS SOURCE_DIR    compiles each .cu file as the build does and disassembles it
    sass_test.py --self-test

Without nvdisasm (tools/dev/nvdisasm.sh fetches it) it says so and does nothing.
"""
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

# Kernels by a part of their name, with the 128-bit accesses that they must have.
LOADS_AND_STORES = {'LDG', 'STG'}
WIDE = {
    'pack_subset_kernel': LOADS_AND_STORES, 'unpack_subset_kernel': LOADS_AND_STORES, 'quantise_kernel': LOADS_AND_STORES,
    'dequantise_kernel': LOADS_AND_STORES, 'apply_kernel': LOADS_AND_STORES, 'average_kernel': LOADS_AND_STORES,
    'NadamwBody': LOADS_AND_STORES, 'LookAheadBody': LOADS_AND_STORES, 'NesterovBody': LOADS_AND_STORES,
    'table_ema_kernel': LOADS_AND_STORES, 'compare_kernel': {'LDG'}, 'squares_kernel': {'LDG'}, 'count_kernel': {'LDG'},
}
SECTION = re.compile(r'^\.text\.(\w+):', re.M)
ACCESS = re.compile(r'\b(LDG|STG)\.E\.(?:\w+\.)*128\b')
LOCAL = re.compile(r'\b(LDL|STL)\b')


def find_nvdisasm(nvcc, source):
    own = (path for path in (source / 'build' / 'nvdisasm').rglob('nvdisasm') if path.is_file() and os.access(path, os.X_OK))
    return shutil.which('nvdisasm') or shutil.which('nvdisasm', path=os.path.dirname(nvcc)) or next(map(str, own), None)


def architectures(command):
    return sorted(set(re.findall(r'sm_\d+', command)))


def disassemble(entry, architecture, nvdisasm):
    command = [word for word in shlex.split(entry['command']) if not word.startswith('--generate-code')]
    command[command.index('-c')] = '-cubin'
    with tempfile.TemporaryDirectory() as folder:
        cubin = os.path.join(folder, 'kernels.cubin')
        command[command.index('-o') + 1] = cubin
        for run in ([*command, f'-arch={architecture}'], [nvdisasm, cubin]):
            done = subprocess.run(run, cwd=entry['directory'], capture_output=True, text=True, timeout=100)
            assert done.returncode == 0, f'{run}\n{done.stdout}{done.stderr}'
    return done.stdout


def kernels_of(sass):
    """{name of a kernel: its code}"""
    parts = SECTION.split(sass)
    return dict(zip(parts[1::2], parts[2::2]))


def complaints(architecture, kernels, wide=WIDE):
    for name, code in sorted(kernels.items()):
        if LOCAL.search(code):
            yield f'{architecture} {name}: touches local memory'
        for part, wanted in wide.items():
            # Mangled names have the length before the name: quantise_kernel is not dequantise_kernel.
            if re.search(rf'\d{part}', name) and (missing := wanted - set(ACCESS.findall(code))):
                yield f'{architecture} {name}: no 128-bit {" and ".join(sorted(missing))}'
    for part in wide:
        if not any(re.search(rf'\d{part}', name) for name in kernels):
            yield f'{architecture}: no kernel {part}'


def self_test():
    sass = ('.section .text._Z1a8a_kernelv\n.text._Z1a8a_kernelv:\n LDG.E.128 R4, [R2.64] ;\n STG.E.EF.128 [R2.64], R4 ;\n'
            '.text._Z9ba_kernelv:\n LDG.E.CONSTANT.128 R4 ;\n STG.E.64 R4 ;\n STL [R1], R2 ;\n')
    kernels = kernels_of(sass)
    assert len(kernels) == 2
    wide = {'a_kernel': LOADS_AND_STORES, 'ba_kernel': LOADS_AND_STORES, 'c_kernel': {'LDG'}}
    assert list(complaints('sm_1', kernels, wide)) == [
        'sm_1 _Z9ba_kernelv: touches local memory', 'sm_1 _Z9ba_kernelv: no 128-bit STG', 'sm_1: no kernel c_kernel']


def main():
    if sys.argv[1:] == ['--self-test']:
        return self_test()
    source = pathlib.Path(sys.argv[2])
    with open(sys.argv[1], encoding='utf-8') as file:
        entries = [entry for entry in json.load(file) if entry['file'].endswith('.cu') and '--generate-code' in entry['command']]
    assert entries, 'no .cu file is built'
    nvcc = next(word for word in shlex.split(entries[0]['command']) if os.path.basename(word) == 'nvcc')
    if not (nvdisasm := find_nvdisasm(nvcc, source)):
        print('not checked: there is no nvdisasm on the PATH, beside nvcc or in build/nvdisasm; tools/dev/nvdisasm.sh fetches it')
        return
    found = collections.defaultdict(dict)
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        jobs = {(entry['file'], architecture): pool.submit(disassemble, entry, architecture, nvdisasm)
                for entry in entries for architecture in architectures(entry['command'])}
        for (_, architecture), job in jobs.items():
            found[architecture].update(kernels_of(job.result()))
    wrong = [text for architecture, kernels in found.items() for text in complaints(architecture, kernels)]
    assert not wrong, '\n'.join(wrong)
    print('; '.join(f'{architecture}: {len(kernels)} kernels' for architecture, kernels in sorted(found.items())))


if __name__ == '__main__':
    main()
