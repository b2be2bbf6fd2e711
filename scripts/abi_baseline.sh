#!/usr/bin/env bash
# The ABI of the library: abi_baseline.sh [--check] [HEADER [BASELINE]]
# Writes the baseline, tests/capi/abi/libtessera-1.abi and .constants, from the header include/tessera/tessera.h.
# --check compares the header with it instead. Functions, constants, and members at the ends of structs that begin with
# their size may be added. Everything else is an error, which needs another major version.
# Needs abidw and abidiff (Debian: abigail-tools), and a C compiler for x86-64.
set -euo pipefail
export LC_ALL=C
source=$(realpath "$(dirname "$0")/..")
checks=false
if [ "${1:-}" = --check ]; then
  checks=true
  shift
fi
header=$(realpath "${1:-$source/include/tessera/tessera.h}")
baseline=${2:-$source/tests/capi/abi/libtessera-1}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

mkdir -p "$tmp/include/tessera"
cp "$header" "$tmp/include/tessera/tessera.h"
python3 -B "$source/scripts/library_stub.py" "$header" "$tmp"
cmake "-DHEADER=$header" "-DOUTPUT=$tmp/exports.map" -P "$source/cmake/exports.cmake"
(cd "$tmp" && cc -g -O0 -shared -fPIC -Iinclude stub.c -Wl,--version-script=exports.map -Wl,-soname,libtessera.so.1 \
  -o libtessera.so.1)
if $checks; then
  failed=0
  # What the baseline has is still there.
  comm -23 "$baseline.constants" "$tmp/constants" >"$tmp/changed"
  if [ -s "$tmp/changed" ]; then
    sed 's/^/error: a constant has changed, or is gone: /' "$tmp/changed" >&2
    failed=1
  fi
  abidiff --no-added-syms --suppressions "$tmp/suppressions" "$baseline.abi" "$tmp/libtessera.so.1" >&2 || failed=1
  exit $failed
fi
mkdir -p "$(dirname "$baseline")"
abidw --no-corpus-path --no-comp-dir-path --no-show-locs --no-elf-needed --no-parameter-names --type-id-style hash \
  --out-file "$baseline.abi" "$tmp/libtessera.so.1"
cp "$tmp/constants" "$baseline.constants"
