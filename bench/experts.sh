#!/usr/bin/env bash
# Measures a mixture of experts that is larger than memory (docs/experts.md): experts in the file beside a mapped file,
# in turns, each in a control group of the same size and from an empty page cache.
#   experts.sh [ROUNDS]       default: 3
# Needs root, for the control group, the package python3-numpy and 17 GB of disk. Environment variables:
#   MODEL      the model (default: made by bench/make_moe.py in CACHE_DIR)
#   LIMIT      bytes of the control group (default: 6 GiB)
#   MEMORY     of --memory (default: 5600M, a third of the model; the rest of the group is for the program itself)
#   N          tokens of a run (default: 64)
#   BUILD_DIR  folder with the program (default: build/release, built here)
#   CACHE_DIR  folder for the model (default: build/bench)
set -euo pipefail
. "$(dirname "$0")/../scripts/common.sh"
. bench/common.sh
cache=$(realpath -m "${CACHE_DIR:-build/bench}")
if [ -z "${BUILD_DIR:-}" ]; then
  BUILD_DIR=build/release
  cmake --preset release >&2
  cmake --build "$BUILD_DIR" --target tessera >&2
fi
rounds=${1:-3} limit=${LIMIT:-$((6 << 30))} memory=${MEMORY:-5600M} n=${N:-64}
model=${MODEL:-$cache/moe-30b.gguf}
if [ ! -e "$model" ]; then
  mkdir -p "$cache"
  "${PYTHON:-/usr/bin/python3}" bench/make_moe.py "$model.part" >&2
  mv "$model.part" "$model"
fi

if [ -d /sys/fs/cgroup/memory ]; then
  group=/sys/fs/cgroup/memory/tessera-bench limit_file=memory.limit_in_bytes
else
  group=/sys/fs/cgroup/tessera-bench limit_file=memory.max
fi
mkdir -p "$group"
trap 'rmdir "$group"' EXIT
echo "$limit" > "$group/$limit_file"

run() {  # FLAG...: a line of bench
  sync
  echo 3 > /proc/sys/vm/drop_caches
  (echo "$BASHPID" > "$group/cgroup.procs"
    exec "$BUILD_DIR/bin/tessera" bench -q -m "$model" -p 0 -n "$n" -r 1 -t "$(nproc)" --no-warmup -o jsonl "$@")
}
field() { sed "s/.*\"$1\":\([0-9.e+]*\).*/\1/"; }

streamed=() mapped=()
for ((round = 1; round <= rounds; ++round)); do
  line=$(run --memory "$memory")
  streamed+=("$(field median_ts <<< "$line")")
  mapped+=("$(run --no-repack --fit off | field median_ts)")
  printf 'round %d: --memory %s: %s tokens/s, %.0f %% found in memory; mapped: %s tokens/s\n' "$round" "$memory" \
    "${streamed[-1]}" "$(field expert_hit_share <<< "$line" | awk '{print 100 * $1}')" "${mapped[-1]}" >&2
done
a=$(printf '%s\n' "${streamed[@]}" | median) b=$(printf '%s\n' "${mapped[@]}" | median)
echo "$(cpu_name): $a and $b tokens/s, ratio $(awk "BEGIN {printf \"%.1f\", $a / $b}")"
