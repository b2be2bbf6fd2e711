#!/usr/bin/env bash
# Runs clang-tidy 19 with the checks of .clang-tidy: check_tidy.sh [FILE.cpp...]
# Default: all files of tessera/. JOBS=N sets the number of processes.
set -euo pipefail
. "$(dirname "$0")/common.sh"
install_packages scripts/packages-tidy.txt
# The build uses clang, so that clang-tidy knows all flags. clang 14, the default of Debian 12, lacks std::expected.
cmake -S . -B build/tidy -G Ninja -DCMAKE_CXX_COMPILER=clang++-19 -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_CXX_FLAGS=-Wno-unknown-warning-option -DCMAKE_EXPORT_COMPILE_COMMANDS=ON \
  -DTESSERA_UNITY=OFF -DTESSERA_WERROR=OFF -DTESSERA_BUILD_TESTS=OFF >/dev/null
generated=(tessera_commit) # targets whose output is included by sources
if grep -q tessera_vulkan_shaders build/tidy/build.ninja; then generated+=(tessera_vulkan_shaders); fi
cmake --build build/tidy --target "${generated[@]}" >/dev/null
scripts/tidy_units.py build/tidy "$@"
