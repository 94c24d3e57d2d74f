#!/usr/bin/env bash
# Installs the build into a folder of its own, and builds and runs the consumer there: by find_package on the shared and on the
# static library, and by pkg-config.
#   install_test.sh BUILD_DIR VERSION C_COMPILER
set -euo pipefail
build=$1 version=$2 compiler=$3
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix

fail() {
  echo "install_test: $*" >&2
  exit 1
}

cmake --install "$build" --prefix "$prefix" >"$work/install.log"
[[ $(ls "$prefix/include") == asyncmesh ]] || fail "more than include/asyncmesh was installed: $(ls "$prefix/include")"
[[ -z $(find "$prefix" -name '*_objects*') ]] || fail "object files were installed"

configure() {
  local folder=$1
  shift
  cmake -S "$here/consumer" -B "$work/$folder" -G Ninja -DCMAKE_C_COMPILER="$compiler" -DCMAKE_PREFIX_PATH="$prefix" "$@" \
    >"$work/$folder.log" 2>&1
}
for kind in OFF ON; do
  configure "static-$kind" -DCONSUMER_VERSION="$version" -DCONSUMER_STATIC=$kind || fail "configure: $(cat "$work/static-$kind.log")"
  cmake --build "$work/static-$kind" >"$work/build.log" 2>&1 || fail "build: $(cat "$work/build.log")"
  "$work/static-$kind/consumer"
done

# Before 1.0 a minor version may break: another one must be refused.
IFS=. read -r major minor _ <<<"$version"
for other in "$major.$((minor + 1))" "$((major + 1)).0"; do
  ! configure "version-$other" -DCONSUMER_VERSION="$other" || fail "version $other was accepted, installed is $version"
done

PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name asyncmesh.pc)")
export PKG_CONFIG_PATH
[[ $(pkg-config --modversion asyncmesh) == "$version" ]] || fail "pkg-config says another version"
# Words of flags: to be split.
# shellcheck disable=SC2046
"$compiler" -std=c99 -Wall -Wextra -Werror "$here/consumer/consumer.c" -o "$work/by-pkg-config" \
  $(pkg-config --cflags --libs asyncmesh)
LD_LIBRARY_PATH=$(pkg-config --variable=libdir asyncmesh) "$work/by-pkg-config"
