#!/usr/bin/env bash
# Prints the path of nvdisasm, which the test of the CUDA kernels' machine code needs: the one on the PATH or beside nvcc, else
# one from PyPI (5 MB) under build/nvdisasm, fetched on the first call. Everything else goes to standard error.
#   ASYNCMESH_PYTHON    the Python to fetch with (default: python3)
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
own="$root/build/nvdisasm"
base="${ASYNCMESH_PYTHON:-python3}"

find_own() { find "$own" -type f -name nvdisasm -perm -u+x 2>/dev/null | grep -m 1 .; }

nvcc=$(command -v nvcc || true)
for candidate in "$(command -v nvdisasm || true)" "${nvcc%/*}/nvdisasm"; do
  if [[ -x $candidate ]]; then
    echo "$candidate"
    exit 0
  fi
done
find_own && exit 0
{
  echo "nvdisasm: from PyPI into ${own#"$root"/}"
  "$base" -m venv --clear "$own"
  "$own/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile nvidia-cuda-nvdisasm
} >&2
find_own || { echo "nvdisasm.sh: PyPI's nvidia-cuda-nvdisasm holds no nvdisasm" >&2; exit 1; }
