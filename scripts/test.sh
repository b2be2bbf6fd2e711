#!/usr/bin/env bash
# Builds and tests: test.sh [--fast | --all] [PRESET...] | --check NAME...
# Default: all tests of the release preset, the fast tests under asan, the fast tests of base, sched, cpu, mpi and engine
# under tsan, and the slow checks that are due (see scripts/slow_checks.py). None starts after an hour: those left out
# stay due.
# --fast   skips slow tests and slow checks
# --all    also runs every slow check, clang-tidy and the packages, and records the slow checks that passed
# --check  runs only these slow checks, and records the ones that passed
# PRESET   runs only the tests of these presets
set -euo pipefail
. "$(dirname "$0")/common.sh"
labels='fast|slow'
mode=default
case ${1:-} in
  --fast) mode=fast labels=fast && shift ;;
  --all) mode=all && shift ;;
  --check) mode=check && shift ;;
  -*) echo "error: want test.sh [--fast | --all] [PRESET...] or test.sh --check NAME..., got $1" >&2 && exit 2 ;;
esac
presets=("$@")
if [ ${#presets[@]} -eq 0 ]; then presets=(release asan tsan); fi
install_packages scripts/packages.txt
install_packages scripts/packages-test.txt || echo "some tests will be skipped" >&2
export GTEST_BRIEF=1  # print only failed tests

# run_tests PRESET CTEST_ARGUMENT...: runs tests of a preset. scripts/times.py reads the reports.
run_tests() {
  local preset=$1
  shift
  echo "== $preset"
  GTEST_OUTPUT=json:$PWD/build/$preset/times/ ctest --preset "$preset" -j "$(nproc)" "$@"
}

# test_folders PRESET FOLDER...: builds and runs the fast tests of folders.
test_folders() {
  local preset=$1
  shift
  local programs=("${@/#/test_}")
  build "$preset" "${programs[@]/%/_fast}"
  run_tests "$preset" -R "^($(IFS='|' && echo "$*"))\.fast"
}

# Tests of HTML pages spend their time in a browser.
pages='GraphPage.*'
# Single-threaded tests: kernels, which threads call independently, readers of damaged input, and HTML pages.
without_threads="*Kernels*:Hostile*:RecurrentKeys*:*Damaged*:Shards*:Fit.AtEvery*:$pages"

# test_preset PRESET: builds what the preset's tests need and runs them.
test_preset() {
  local preset=$1
  rm -rf "build/$preset/times"
  case $preset in
    asan)  # the tests of Vulkan and CUDA are a slow check
      build "$preset"
      GTEST_FILTER="-$pages" run_tests "$preset" -L fast -E '^(vulkan|cuda)\.'
      ;;
    tsan)  # the folders whose code uses threads; the folders that depend on them are a slow check
      GTEST_FILTER="-$without_threads" test_folders tsan base sched cpu mpi engine
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
      TESSERA_TEST_FULL=1 test_folders asan-every-isa cpu quant
      ;;
    all-cases-*)
      TESSERA_TEST_FULL=1 test_folders asan "${1#all-cases-}"
      ;;
    vulkan)
      test_folders asan vulkan cuda
      ;;
    threads)
      TESSERA_TEST_FULL=1 test_folders tsan-every-isa base sched cpu
      ;;
    threads-engine)
      TESSERA_TEST_FULL=1 GTEST_FILTER="-$without_threads" test_folders tsan engine
      ;;
    threads-programs)
      GTEST_FILTER="-$without_threads" test_folders tsan convert train cli
      ;;
    threads-server)
      test_folders tsan server
      ;;
    threads-library)
      test_folders tsan capi llama
      ;;
    page)
      (cd tessera/server/page/source && npm ci --ignore-scripts --no-audit --no-fund && npm run check && npm test)
      ;;
    llama-node)
      build release
      tests/install/llama_node_test.sh build/release build/npm
      tests/install/llama_program_test.sh build/release build/npm/node_modules/@node-llama-cpp/linux-x64/bins/linux-x64
      ;;
    ten-megabytes)
      build release test_text_slow
      TESSERA_TEST_FULL=1 ctest --preset release -R '^text\.slow'
      ;;
    *) echo "error: scripts/slow_checks.json names $1, test.sh does not know it" >&2 && return 1 ;;
  esac
}

# slow_checks NAME...: runs checks and records each that passed.
slow_checks() {
  local check
  for check; do
    slow_check "$check"
    scripts/slow_checks.py passed "$check"
  done
}

if [ $mode = check ]; then
  slow_checks "$@"
  exit
fi
data/tales/generate_stories.py --self-test
data/tales/generate_talks.py --self-test
scripts/slow_checks.py --self-test
for preset in "${presets[@]}"; do test_preset "$preset"; done
if [ $# -gt 0 ] || [ $mode = fast ]; then exit; fi
if [ $mode = all ]; then
  mapfile -t checks < <(scripts/slow_checks.py all)
  slow_checks "${checks[@]}"
  scripts/check_tidy.sh
  scripts/package.sh --check
else
  # A run must end within 90 minutes on a new machine. A check takes up to 20 minutes there.
  last_start=$((60 * 60))
  for check in $(scripts/slow_checks.py due); do
    if [ $SECONDS -le $last_start ]; then
      slow_check "$check"
    else
      echo "slow check left out for lack of time, and still due: $check" >&2
    fi
  done
fi
