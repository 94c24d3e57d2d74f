#!/usr/bin/env python3
"""Every CUDA kernel keeps to registers: ptxas reports no spills and no local memory, for every architecture of the build.

    resource_usage_test.py COMPILE_COMMANDS SOURCE_DIR    compiles each .cu file as the build does, with ptxas -v
    resource_usage_test.py --self-test
"""
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(\w+)'")
FRAME = re.compile(r'(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads')


def usage_of(output):
    """{(kernel, architecture): (stack, spill stores, spill loads)}; None where ptxas says nothing about an entry."""
    found, entry = {}, None
    for line in output.splitlines():
        if match := ENTRY.search(line):
            entry = match.groups()
            found[entry] = None
        elif (match := FRAME.search(line)) and entry:
            found[entry] = tuple(map(int, match.groups()))
            entry = None
    return found


def compile_with_usage(entry):
    command = shlex.split(entry['command'])
    with tempfile.TemporaryDirectory() as folder:
        command[command.index('-o') + 1] = os.path.join(folder, 'kernels.o')
        done = subprocess.run([*command, '-Xptxas', '-v'], cwd=entry['directory'], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def complaints(entry, output):
    usage, source = usage_of(output), pathlib.Path(entry['file']).read_text(encoding='utf-8')
    architectures = {f'sm_{number}' for number in re.findall(r'sm_(\w+)', entry['command'])}
    for architecture in sorted(architectures):
        kernels = [kernel for kernel, of in usage if of == architecture]
        if len(kernels) < len(re.findall(r'^\s*__global__', source, re.M)):
            yield f'{architecture}: ptxas named {len(kernels)} kernels only'
    if not architectures:
        yield 'no architecture in the compile command'
    for (kernel, architecture), numbers in usage.items():
        if numbers != (0, 0, 0):
            yield f'{architecture} {kernel}: (stack, spill stores, spill loads) = {numbers}'


def self_test():
    text = ("ptxas info    : Compiling entry function 'a' for 'sm_80'\nptxas info    : Function properties for a\n"
            "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
            "ptxas info    : Compiling entry function 'b' for 'sm_80'\n    16 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads\n"
            "ptxas info    : Compiling entry function 'c' for 'sm_80'\n")
    assert usage_of(text) == {('a', 'sm_80'): (0, 0, 0), ('b', 'sm_80'): (16, 8, 4), ('c', 'sm_80'): None}
    with tempfile.NamedTemporaryFile('w', suffix='.cu') as source:
        source.write('__global__ void a();\n__global__ void b();\n__global__ void c();\n__global__ void d();\n')
        source.flush()
        entry = {'file': source.name, 'command': 'nvcc --generate-code=arch=compute_80,code=[sm_80]'}
        assert len(list(complaints(entry, text))) == 3


def main():
    if sys.argv[1:] == ['--self-test']:
        return self_test()
    kernels = os.path.join(sys.argv[2], 'kernels', 'cuda')
    with open(sys.argv[1], encoding='utf-8') as file:
        entries = [entry for entry in json.load(file) if entry['file'].endswith('.cu') and '--generate-code' in entry['command']]
    assert {entry['file'] for entry in entries} == set(map(str, pathlib.Path(kernels).glob('*.cu'))), 'not every .cu file is built'
    wrong = [text for entry in entries for text in complaints(entry, compile_with_usage(entry))]
    assert not wrong, '\n'.join(wrong)
    print(f'{len(entries)} files: no spills, no local memory')


if __name__ == '__main__':
    main()
