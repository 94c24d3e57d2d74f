#!/usr/bin/env bash
# Prints the path of a Python (>= 3.9) that has NumPy, matplotlib, pytest and PyTorch >= 2.6: the user's own python3 where it has
# them, else one in a virtual environment under build/venv, made on the first call. Everything else goes to standard error.
#   ASYNCMESH_PYTHON    the Python to start from (default: python3)
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
venv="$root/build/venv"
base="${ASYNCMESH_PYTHON:-python3}"

has_everything() {
  "$1" - >/dev/null 2>&1 <<'PYTHON'
import sys

import matplotlib, numpy, pytest, torch

assert sys.version_info >= (3, 9)
assert tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2]) >= (2, 6)
PYTHON
}

for python in "$base" "$venv/bin/python"; do
  if command -v "$python" >/dev/null && has_everything "$python"; then
    command -v "$python"
    exit 0
  fi
done

"$base" -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null ||
  { echo "venv.sh: $base is older than Python 3.9 or missing; set ASYNCMESH_PYTHON" >&2; exit 1; }
start=$SECONDS
{
  echo "python: making a virtual environment in ${venv#"$root"/}"
  "$base" -m venv --clear --system-site-packages "$venv"
  echo "python: installing PyTorch (2.6 or newer), NumPy, matplotlib and pytest from PyPI:"
  echo "        about 5 GB and a minute and a half on a fast line"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile \
    'torch>=2.6' numpy matplotlib pytest
  has_everything "$venv/bin/python" || { echo "venv.sh: what pip installed cannot be imported:"
    "$venv/bin/python" -c 'import matplotlib, numpy, pytest, torch'; exit 1; }
  echo "python: ready after $((SECONDS - start)) s"
} >&2
echo "$venv/bin/python"
