#!/usr/bin/env bash
# Builds and tests: test.sh [--fast] [PRESET...]
# Default: every test of the release preset, then the fast tests under asan, and under tsan those of folders that use threads.
# --fast leaves the slow tests out.
set -euo pipefail
. "$(dirname "$0")/common.sh"
labels='fast|slow'
if [ "${1:-}" = --fast ]; then
  labels=fast
  shift
fi
export GTEST_BRIEF=1  # of a failing program, the tests that failed
presets=("$@")
if [ ${#presets[@]} -eq 0 ]; then presets=(release asan tsan); fi
install_packages scripts/packages.txt
install_packages scripts/packages-test.txt || echo "some tests will be skipped" >&2
scripts/generate_stories.py --self-test
for preset in "${presets[@]}"; do
  targets=()
  select=(-L "$labels")
  if [ "$preset" = asan ]; then select=(-L fast); fi
  if [ "$preset" = tsan ]; then  # only where there are threads
    folders=(base sched cpu convert engine train cli)
    targets=("${folders[@]/#/test_}")
    targets=(tessera "${targets[@]/%/_fast}")
    select=(-L fast -R "^($(IFS='|' && echo "${folders[*]}"))\.")
  fi
  build "$preset" "${targets[@]}"
  echo "== $preset"
  ctest --preset "$preset" -j "$(nproc)" "${select[@]}"
done
