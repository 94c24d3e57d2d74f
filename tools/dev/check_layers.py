#!/usr/bin/env python3
"""Checks every #include of the tree against the dependency rule between the rooms.

    base <- lane <- mailbox, channel <- averaging, pipeline <- core <- capi;   mesh <- core
    transport/transport.h and kernels/kernels.h include only base
    UCX headers only below transport/ucx/, CUDA headers only below kernels/cuda/ (and one file of the transport)
    bindings, tools and perf/wire use only the public headers

Usage: check_layers.py ROOT | check_layers.py --self-test
"""
import pathlib
import re
import sys
import tempfile

SOURCES = {".h", ".hpp", ".c", ".cc", ".cu", ".cuh"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
LIBRARY = "libasyncmesh/"

# Room -> the rooms whose headers it may include, besides its own. The longest matching path decides which room a file is in.
ROOMS = {
    "base": set(),
    "lane": {"base", "seam"},
    "mailbox": {"base", "seam", "kernels", "lane"},
    "channel": {"base", "seam", "lane"},
    "averaging": {"base", "seam", "kernels", "lane", "mailbox"},
    "pipeline": {"base", "kernels", "lane", "channel"},
    "mesh": {"base"},
    "core": {"base", "seam", "kernels", "lane", "mailbox", "channel", "averaging", "pipeline", "mesh", "transport", "ucx"},
    "capi": {"base", "pipeline", "mesh", "core", "public"},
    "public": set(),
    "seam": {"base"},
    "transport": {"base", "seam"},
    "ucx": {"base", "seam"},
    "kernels": {"base"},
    "cpu": {"base", "kernels"},
    "cuda": {"base", "kernels"},
    "outside": {"public"},
}
PATHS = {
    **{LIBRARY + room + "/": room
       for room in ("base", "lane", "mailbox", "channel", "averaging", "pipeline", "mesh", "core", "capi")},
    LIBRARY + "include/": "public",
    "transport/transport.h": "seam",
    "transport/": "transport",
    "transport/ucx/": "ucx",
    "kernels/": "kernels",
    "kernels/cpu/": "cpu",
    "kernels/cuda/": "cuda",
    "bindings/": "outside",
    "tools/": "outside",
    "perf/wire/": "outside",
}
# Inside kernels/ the table's own sources tie the backends together; the header must not.
MAY_SEE_BACKENDS = re.compile(r"kernels/[^/]+\.cc$")
# Foreign headers and where alone they may appear.
FOREIGN = [
    (re.compile(r"^uc[pst]/"), re.compile(r"^(transport/ucx/|perf/|tests/)"), "UCX"),
    (re.compile(r"^(cuda|cub/|thrust/|nccl)"), re.compile(r"^(kernels/cuda/|transport/memory_type\.|perf/|tests/)"), "CUDA"),
]


def room_of(path):
    """The room of a path relative to the root; None for tests and perf/micro, which may see everything."""
    matches = [prefix for prefix in PATHS if path.startswith(prefix)]
    return PATHS[max(matches, key=len)] if matches else None


def resolve(root, source, name):
    """The included file relative to the root; None for a header that is not of this tree."""
    for base in (source.parent, root, root / "libasyncmesh", root / "libasyncmesh/include", root / "tests"):
        candidate = base / name
        if candidate.is_file():
            return candidate.resolve().relative_to(root.resolve()).as_posix()
    return None


def foreign_violation(path, name):
    for header, allowed, what in FOREIGN:
        if header.match(name) and not allowed.match(path):
            return f"{what} header <{name}> does not belong here"
    return None


def own_violation(path, target):
    room, wanted = room_of(path), room_of(target)
    if room is None or wanted == room:
        return None
    if wanted is None:
        return f'"{target}" is a test or benchmark header'
    if wanted in ROOMS[room] or (wanted in ("cpu", "cuda") and MAY_SEE_BACKENDS.match(path)):
        return None
    return f'{room} must not include {wanted} ("{target}")'


def violations_of(root, source):
    path = source.relative_to(root).as_posix()
    for number, line in enumerate(source.read_text(encoding="utf-8").splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        target = resolve(root, source, match.group(2))
        text = own_violation(path, target) if target else foreign_violation(path, match.group(2))
        if target is None and text is None and match.group(1) == '"':
            text = f'"{match.group(2)}" is not in the tree'
        if text:
            yield f"{path}:{number}: {text}"


def sources_of(root):
    for top in ("libasyncmesh", "transport", "kernels", "bindings", "tools", "tests", "perf"):
        for source in sorted((root / top).rglob("*")):
            if source.suffix in SOURCES and source.is_file():
                yield source


def check(root):
    return [violation for source in sources_of(root) for violation in violations_of(root, source)]


# Path, its one line, whether the rule allows it.
SAMPLE = [
    ("libasyncmesh/base/status.h", "#include <string>", True),
    ("libasyncmesh/lane/port.h", '#include "transport/transport.h"', True),
    ("libasyncmesh/core/context.h", '#include "mesh/mesh.h"', True),
    ("libasyncmesh/mesh/mesh.h", '#include "base/status.h"', True),
    ("libasyncmesh/include/asyncmesh/asyncmesh.h", "#include <stdint.h>", True),
    ("transport/transport.h", '#include "base/status.h"', True),
    ("transport/ucx/worker.h", "#include <ucp/api/ucp.h>", True),
    ("kernels/kernels.h", "#include <cstdint>", True),
    ("kernels/cuda/pack.cu", "#include <cuda_runtime.h>", True),
    ("tests/support/clock.h", '#include "base/status.h"', True),
    ("tests/lane/port_test.cc", '#include "lane/port.h"', True),
    ("tests/lane/other_test.cc", '#include "support/clock.h"', True),
    ("tools/good.cc", "#include <asyncmesh/asyncmesh.h>", True),
    ("libasyncmesh/base/up.h", '#include "lane/port.h"', False),
    ("libasyncmesh/mesh/side.h", '#include "lane/port.h"', False),
    ("libasyncmesh/lane/down.h", '  #  include "core/context.h"', False),
    ("libasyncmesh/core/leak.h", "#include <ucp/api/ucp.h>", False),
    ("transport/loopback/leak.h", '#include "transport/ucx/worker.h"', False),
    ("kernels/cpu/leak.h", "#include <cuda_runtime.h>", False),
    ("tools/leak.cc", '#include "base/status.h"', False),
    ("libasyncmesh/capi/past.cc", '#include "lane/port.h"', False),
    ("libasyncmesh/base/gone.h", '#include "base/gone_too.h"', False),
    ("libasyncmesh/base/test.h", '#include "../../tests/lane/port_test.cc"', False),
    ("libasyncmesh/base/help.h", '#include "support/clock.h"', False),
]


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for path, line, _ in SAMPLE:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(f"// One.\n{line}\n", encoding="utf-8")
        found = {violation.split(":")[0] for violation in check(root)}
    wrong = [path for path, _, allowed in SAMPLE if (path in found) == allowed]
    for path in wrong:
        print(f"self-test: wrong verdict on {path}", file=sys.stderr)
    return 1 if wrong else 0


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    if sys.argv[1] == "--self-test":
        return self_test()
    root = pathlib.Path(sys.argv[1])
    found = check(root)
    for violation in found:
        print(violation, file=sys.stderr)
    print(f"layers: {sum(1 for _ in sources_of(root))} files, {len(found)} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
