#!/usr/bin/env bash
# Runs clang-tidy 19 with the checks of .clang-tidy: check_tidy.sh [FILE.cpp...]
# Without files: all of tessera/. JOBS=N sets the number of processes.
set -euo pipefail
. "$(dirname "$0")/common.sh"
install_packages scripts/packages-tidy.txt
# clang compiles here, so that all flags are ones that clang knows. clang 14, Debian 12's own, lacks std::expected.
cmake -S . -B build/tidy -G Ninja -DCMAKE_CXX_COMPILER=clang++-19 -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_CXX_FLAGS=-Wno-unknown-warning-option -DCMAKE_EXPORT_COMPILE_COMMANDS=ON \
  -DTESSERA_UNITY=OFF -DTESSERA_WERROR=OFF -DTESSERA_BUILD_TESTS=OFF >/dev/null
generated=(tessera_commit) # sources include what these targets make
if grep -q tessera_vulkan_shaders build/tidy/build.ninja; then generated+=(tessera_vulkan_shaders); fi
cmake --build build/tidy --target "${generated[@]}" >/dev/null
scripts/tidy_units.py build/tidy "$@"
