#!/usr/bin/env bash
# Compares ranks of mpirun on this machine with one process, in turns, and with what the model of docs/distributed.md
# predicts: ranks.sh MODEL [ROUNDS]
# Two ranks have one thread and half of the model each, so two cores are enough; rank 0 only asks them. Prints medians
# in tokens per second.
# Needs Open MPI and a build with libtessera-mpi.so (BUILD_DIR, default build/release).
set -euo pipefail
if [ $# -lt 1 ] || [ $# -gt 2 ]; then
  echo "error: want ranks.sh MODEL [ROUNDS], got $*" >&2
  exit 2
fi
model=$(realpath "$1")
rounds=${2:-3}
. "$(dirname "$0")/../scripts/common.sh"
. bench/common.sh
program=$(realpath "${BUILD_DIR:-build/release}/bin/tessera")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
ranks=(mpirun --allow-run-as-root --oversubscribe --bind-to none -np)

# measure NAME COMMAND...: adds tokens per second of prefill and decode to the files of a row.
measure() {
  local name=$1
  shift
  "$@" bench -q -m "$model" -p 512 -n 32 -ub 64 -t 1 -r 1 -o jsonl >"$tmp/rows"
  sed -nE 's/.*"avg_ts": *([0-9.]+).*/\1/p' "$tmp/rows" | head -1 >>"$tmp/$name.prefill"
  sed -nE 's/.*"avg_ts": *([0-9.]+).*/\1/p' "$tmp/rows" | tail -1 >>"$tmp/$name.decode"
}

export TESSERA_DEVICE=none
for ((round = 0; round < rounds; ++round)); do
  TESSERA_DEVICE=none measure alone "$program"
  TESSERA_DEVICE=mpi measure layers "${ranks[@]}" 3 "$program"
  TESSERA_DEVICE=mpi measure rows env TESSERA_SPLIT_MODE=row "${ranks[@]}" 3 "$program"
done

value() { median <"$tmp/$1.$2"; }
echo "$(cpu_name), $(basename "$model"), one thread per rank"
printf '| | prefill | ratio | predicted | decode | ratio | predicted |\n|---|--:|--:|--:|--:|--:|--:|\n'
row() {  # NAME TEXT PREFILL DECODE, predicted ratios
  printf '| %s | %.1f | %.2f | %s | %.1f | %.2f | %s |\n' "$2" "$(value "$1" prefill)" \
    "$(awk -v a="$(value "$1" prefill)" -v b="$(value alone prefill)" 'BEGIN { print a / b }')" "$3" \
    "$(value "$1" decode)" "$(awk -v a="$(value "$1" decode)" -v b="$(value alone decode)" 'BEGIN { print a / b }')" "$4"
}
# Eight micro-batches over two stages: 2 * 8 / (8 + 1).
row alone 'one process' '' ''
row layers 'two ranks, layers' 1.78 1.00
row rows 'two ranks, rows' 2.00 2.00
