#!/usr/bin/env bash
# Installs the Debian packages of tools/dev/packages that are missing. Safe to run again: with nothing missing it asks
# nothing of the network and needs no root.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

if ! command -v dpkg-query >/dev/null; then
  echo "install.sh: not a Debian system. Install what these packages hold, then build with cmake as README.md says:" >&2
  grep -v '^#' packages >&2
  exit 1
fi

missing=()
while read -r package; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ $status == installed ]] || missing+=("$package")
done < <(grep -v '^#' packages)
if ((${#missing[@]} == 0)); then
  echo "packages: all installed"
  exit 0
fi

as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "install.sh: neither root nor sudo. As root: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@"; }
# Simulating first tells whether the package lists are there and current enough; only then is an update worth its time.
resolvable() { apt-get -qq --simulate --no-install-recommends install "${missing[@]}" >/dev/null 2>&1; }
echo "packages: installing ${missing[*]}"
resolvable || apt update
apt install -y --no-install-recommends "${missing[@]}" >/dev/null ||
  { apt update && apt install -y --no-install-recommends "${missing[@]}" >/dev/null; }
