#!/usr/bin/env bash
# Compares the speed of a program of node-llama-cpp with the package's own libllama and with tessera's: alternating runs
# (A B A B), medians.
#   node_llama.sh [ROUNDS]     default 5
# Needs node and npm. Environment variables:
#   BUILD_DIR  folder with the programs (default: build/release, built here)
#   PACKAGES   folder where npm installs the package, 85 MB (default: build/bench/node)
#   MODELS     models, with a number of tokens each: MODELS='a.gguf=64 b.gguf=16'
set -euo pipefail
rounds=${1:-5}
. "$(dirname "$0")/../scripts/common.sh"
. bench/common.sh
shared=${TESSERA_SHARED:-../shared}
if [ -z "${BUILD_DIR:-}" ]; then
  BUILD_DIR=build/release
  install_packages scripts/packages.txt
  build release tessera tessera_libllama_v0_5
fi
packages=$(realpath -m "${PACKAGES:-build/bench/node}")
mkdir -p "$packages"
[ -d "$packages/node_modules/node-llama-cpp" ] || (cd "$packages" && npm install --no-save --ignore-scripts \
  --omit=optional node-llama-cpp@3.22.1 @node-llama-cpp/linux-x64@3.22.1 >&2)

genuine() { node bench/node_llama.mjs "$packages" "$1" "$2" 1 2>/dev/null; }
ours() {
  "$BUILD_DIR/bin/tessera" llama-run --layout 0.5 -- node bench/node_llama.mjs "$packages" "$1" "$2" 1 2>/dev/null
}

echo "$(cpu_name); $rounds rounds; tokens/s, medians; 1 thread"
echo "| model | tessera | llama.cpp | ratio | samples: tessera / llama.cpp |"
echo "|-------|--------:|----------:|------:|------------------------------|"
for entry in ${MODELS:-$shared/models/stories260K.gguf=256}; do
  a=() b=()
  for ((round = 0; round < rounds; ++round)); do
    a+=("$(ours "${entry%=*}" "${entry##*=}")")
    b+=("$(genuine "${entry%=*}" "${entry##*=}")")
  done
  awk -v name="$(basename "${entry%=*}" .gguf)" -v ours="$(printf '%s\n' "${a[@]}" | median)" \
    -v theirs="$(printf '%s\n' "${b[@]}" | median)" -v a="${a[*]}" -v b="${b[*]}" \
    'BEGIN {printf "| %s | %.2f | %.2f | %.2f | %s / %s |\n", name, ours, theirs, ours / theirs, a, b}'
done
