#!/usr/bin/env python3
"""Every CUDA kernel keeps to registers: ptxas reports no spills and no local memory, for every architecture of the build.

    resource_usage_test.py COMPILE_COMMANDS SOURCE_DIR    compiles each .cu file as the build does, with ptxas -v
    resource_usage_test.py --self-test
"""
import concurrent.futures
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
# What a kernel keeps on a stack around calls is in no frame.
STACK = re.compile(r'Used \d+ registers.* (\d+) bytes cumulative stack size')


def usage_of(output):
    """{(kernel, architecture): (stack, spill stores, spill loads)}; None where ptxas says nothing about an entry."""
    found, entry, last = {}, None, None
    for line in output.splitlines():
        if match := ENTRY.search(line):
            entry = last = match.groups()
            found[entry] = None
        elif (match := FRAME.search(line)) and entry:
            found[entry] = tuple(map(int, match.groups()))
            entry = None
        elif (match := STACK.search(line)) and found.get(last):
            found[last] = (int(match[1]), *found[last][1:])
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
            "ptxas info    : Compiling entry function 'c' for 'sm_80'\n"
            "ptxas info    : Compiling entry function 'd' for 'sm_80'\n    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
            "ptxas info    : Used 64 registers, used 1 barriers, 8 bytes cumulative stack size, 22528 bytes smem\n")
    assert usage_of(text) == {('a', 'sm_80'): (0, 0, 0), ('b', 'sm_80'): (16, 8, 4), ('c', 'sm_80'): None, ('d', 'sm_80'): (8, 0, 0)}
    with tempfile.NamedTemporaryFile('w', suffix='.cu') as source:
        source.write('__global__ void a();\n__global__ void b();\n__global__ void c();\n__global__ void d();\n__global__ void e();\n')
        source.flush()
        entry = {'file': source.name, 'command': 'nvcc --generate-code=arch=compute_80,code=[sm_80]'}
        assert len(list(complaints(entry, text))) == 4


def main():
    if sys.argv[1:] == ['--self-test']:
        return self_test()
    kernels = os.path.join(sys.argv[2], 'kernels', 'cuda')
    with open(sys.argv[1], encoding='utf-8') as file:
        entries = [entry for entry in json.load(file) if entry['file'].endswith('.cu') and '--generate-code' in entry['command']]
    assert {entry['file'] for entry in entries} == set(map(str, pathlib.Path(kernels).glob('*.cu'))), 'not every .cu file is built'
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        outputs = list(pool.map(compile_with_usage, entries))
    wrong = [text for entry, output in zip(entries, outputs) for text in complaints(entry, output)]
    assert not wrong, '\n'.join(wrong)
    print(f'{len(entries)} files: no spills, no local memory')


if __name__ == '__main__':
    main()
