#!/usr/bin/env bash
# Builds and tests: test.sh [--fast | --all] [PRESET...] | --check NAME...
# Default: all tests of the release preset, and the checks that are due (see scripts/slow_checks.py): the fast tests of
# changed folders under asan and tsan, then slow checks. No slow check starts after 25 minutes: those left out stay due.
# --fast   skips slow tests and slow checks
# --all    also runs asan and tsan whole, every slow check, clang-tidy and the packages, and records what passed
# --check  runs only these checks, and records the ones that passed
# PRESET   runs only the tests of these presets, all of them
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

# Vulkan and CUDA run on the CPU here, which takes long. A slow check runs them, and release if it is tested whole.
without_gpus=(-E '^(vulkan|cuda)\.')
if [ $# -gt 0 ] || [ $mode = all ]; then without_gpus=(); fi

# Tests of HTML pages spend their time in a browser.
pages='GraphPage.*'
# Single-threaded tests: kernels, which threads call independently, readers of damaged input, and HTML pages.
without_threads="*Kernels*:Hostile*:RecurrentKeys*:*Damaged*:Shards*:Fit.AtEvery*:$pages"

# test_preset PRESET [FOLDER...]: builds what the preset's tests need and runs them, of these folders or of all.
test_preset() {
  local preset=$1
  rm -rf "build/$preset/times"
  case $preset in
    asan)
      if [ $# -gt 1 ]; then
        GTEST_FILTER="-$pages" test_folders "$@"
      else  # the tests of Vulkan and CUDA are a slow check
        build "$preset"
        GTEST_FILTER="-$pages" run_tests "$preset" -L fast -E '^(vulkan|cuda)\.'
      fi
      ;;
    tsan)  # the folders whose code uses threads; the folders that depend on them are a slow check
      shift
      if [ $# -eq 0 ]; then set -- base sched cpu mpi engine; fi
      GTEST_FILTER="-$without_threads" test_folders tsan "$@"
      ;;
    *)
      build "$preset"
      run_tests "$preset" -L "$labels" "${without_gpus[@]}"
      ;;
  esac
}

# due_folders PRESET: prints the folders whose check under a sanitizer is due. engine runs the code of most folders, so
# under asan it is tested with any of them.
due_folders() {
  local folders
  mapfile -t folders < <(scripts/slow_checks.py due | sed -n "s/^$1://p")
  if [ ${#folders[@]} -eq 0 ]; then return; fi
  if [ "$1" = asan ]; then folders+=(engine); fi
  printf '%s\n' "${folders[@]}" | sort -u
}

# slow_check NAME: runs a check of scripts/slow_checks.json.
slow_check() {
  echo "== slow check: $1"
  case $1 in
    asan:* | tsan:*)
      test_preset "${1%%:*}" "${1#*:}"
      ;;
    every-isa)
      TESSERA_TEST_FULL=1 test_folders asan-every-isa cpu quant
      ;;
    all-cases-*)
      TESSERA_TEST_FULL=1 test_folders asan "${1#all-cases-}"
      ;;
    emulated-gpus)
      test_folders release vulkan cuda
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
    threads-mpi)
      TESSERA_TEST_FULL=1 test_folders tsan mpi
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
if [ $# -gt 0 ] || [ $mode = all ]; then
  if [ $# -eq 0 ]; then set -- release asan tsan; fi
  for preset; do test_preset "$preset"; done
  if [ $mode != all ]; then exit; fi
  mapfile -t checks < <(scripts/slow_checks.py all)
  mapfile -t folders < <(printf '%s\n' "${checks[@]}" | grep :)
  scripts/slow_checks.py passed "${folders[@]}"
  mapfile -t checks < <(printf '%s\n' "${checks[@]}" | grep -v :)
  slow_checks "${checks[@]}"
  scripts/check_tidy.sh
  scripts/package.sh --check
  exit
fi
test_preset release
# A run should end within 40 minutes. A slow check takes up to 15.
last_start=$((25 * 60))
for preset in asan tsan; do
  mapfile -t folders < <(due_folders "$preset")
  if [ ${#folders[@]} -gt 0 ]; then test_preset "$preset" "${folders[@]}"; fi
done
if [ $mode = fast ]; then exit; fi
for check in $(scripts/slow_checks.py due | grep -v :); do
  if [ $SECONDS -le $last_start ]; then
    slow_check "$check"
  else
    echo "slow check left out for lack of time, and still due: $check" >&2
  fi
done
