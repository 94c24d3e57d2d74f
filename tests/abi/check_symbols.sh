#!/bin/sh
# Exactly the functions of symbols.txt leave the shared object, and every one is declared in the header.
# Usage: check_symbols.sh LIBRARY SYMBOLS HEADER
set -eu
exported=$(nm -D --defined-only "$1" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort)
if ! printf '%s\n' "$exported" | diff -u "$2" -; then
  echo "the exported symbols differ from $2" >&2
  exit 1
fi
for symbol in $exported; do
  grep -Eq "(^|[ *])$symbol[(]" "$3" || { echo "$symbol is not declared in $3" >&2; exit 1; }
done
for symbol in $(grep -o 'asyncmesh_[a-z_]*(' "$3" | tr -d '(' | sort -u); do
  printf '%s\n' "$exported" | grep -qx "$symbol" || { echo "$symbol is declared and not exported" >&2; exit 1; }
done
echo "$(printf '%s\n' "$exported" | wc -l) functions, all declared"
