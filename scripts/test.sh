#!/usr/bin/env bash
# Builds and tests: test.sh [--fast | --all] [PRESET...]
# Default: every test of the release preset, the fast tests under asan, under tsan those of folders that use threads,
# and the slow checks that are due (scripts/slow_checks.py says which and when).
# --fast  leaves slow tests and slow checks out
# --all   runs every slow check, clang-tidy and the packages too, and records the slow checks that passed
# PRESET  only the tests of these presets
set -euo pipefail
. "$(dirname "$0")/common.sh"
labels='fast|slow'
mode=default
case ${1:-} in
  --fast) mode=fast labels=fast && shift ;;
  --all) mode=all && shift ;;
  -*) echo "error: want test.sh [--fast | --all] [PRESET...], got $1" >&2 && exit 2 ;;
esac
presets=("$@")
if [ ${#presets[@]} -eq 0 ]; then presets=(release asan tsan); fi
install_packages scripts/packages.txt
install_packages scripts/packages-test.txt || echo "some tests will be skipped" >&2
export GTEST_BRIEF=1  # of a failing program, the tests that failed

# run_tests PRESET CTEST_ARGUMENT...: runs tests of a preset; scripts/times.py reads the reports that they write.
run_tests() {
  local preset=$1
  shift
  echo "== $preset"
  rm -rf "build/$preset/times"
  GTEST_OUTPUT=json:$PWD/build/$preset/times/ ctest --preset "$preset" -j "$(nproc)" "$@"
}

# test_preset PRESET: builds what the preset's tests need and runs them.
test_preset() {
  local preset=$1 folders
  case $preset in
    asan)
      build "$preset"
      run_tests "$preset" -L fast
      ;;
    tsan)  # only where there are threads
      folders=(base sched cpu convert engine train cli)
      local targets=("${folders[@]/#/test_}")
      build "$preset" tessera "${targets[@]/%/_fast}"
      run_tests "$preset" -L fast -R "^($(IFS='|' && echo "${folders[*]}"))\."
      ;;
    *)
      build "$preset"
      run_tests "$preset" -L "$labels"
      ;;
  esac
}

# slow_check NAME: runs a check of scripts/slow_checks.json.
slow_check() {
  echo "== slow check: $1"
  case $1 in
    every-isa)
      build asan-every-isa test_cpu_fast test_quant_fast
      run_tests asan-every-isa -R '^(cpu|quant)\.fast$'
      ;;
    ten-megabytes)
      build release test_text_slow
      TESSERA_TEST_FULL=1 ctest --preset release -R '^text\.slow'
      ;;
    *) echo "error: scripts/slow_checks.json names $1, test.sh does not know it" >&2 && return 1 ;;
  esac
}

scripts/generate_stories.py --self-test
scripts/slow_checks.py --self-test
for preset in "${presets[@]}"; do test_preset "$preset"; done
if [ $# -gt 0 ] || [ $mode = fast ]; then exit; fi
if [ $mode = all ]; then
  checks=$(scripts/slow_checks.py all)
else
  checks=$(scripts/slow_checks.py due)
fi
for check in $checks; do slow_check "$check"; done
if [ $mode = all ]; then
  scripts/slow_checks.py passed $checks
  scripts/check_tidy.sh
  scripts/package.sh --check
fi
