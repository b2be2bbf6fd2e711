#!/usr/bin/env bash
# Checks that the tracked C and C++ files are formatted: check_format.sh [--fix]
# --fix formats them. Versions of clang-format differ in their output, so this requires version 14 (Debian 12, Ubuntu
# 24.04).
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v clang-format-14 >/dev/null; then
  echo "check_format: clang-format-14 is missing (apt-get install clang-format-14)" >&2
  exit 1
fi
format() { # format OPTION...
  git ls-files -z -- '*.h' '*.c' '*.cpp' '*.cuh' '*.cu' | xargs -0 -n 16 -P "$(nproc)" clang-format-14 "$@"
}
case "${1:-}" in
  --fix) format -i ;;
  '')
    if ! found=$(format --dry-run -Werror 2>&1); then
      grep ': error: ' <<<"$found" || echo "$found"
      echo "check_format: run scripts/check_format.sh --fix" >&2
      exit 1
    fi
    ;;
  *)
    echo "usage: check_format.sh [--fix]" >&2
    exit 2
    ;;
esac
