#!/usr/bin/env bash
# Detects regressions of speed. It measures a few fixed speeds, divides each by the speed of a calibration loop just
# before and after it, and compares these ratios with medians stored earlier on this machine. A measurement is repeated,
# up to 4 times, if the speed of the loop changed by more than 10 % around it (memory is shared with other processes).
# Run it by hand, on a machine without other load.
#   guard.sh save      measures and stores the ratios of this machine (CPU, instruction set, threads)
#   guard.sh check     measures and compares. Exit status 1: a ratio fell by more than TOLERANCE percent; 2: no ratios
#                      are stored
# Environment variables:
#   BUILD_DIR   folder with the program (default: build/release, built here)
#   CACHE_DIR   folder with the models that vs_llamacpp.sh creates (default: build/bench); missing models are skipped
#   GUARD_FILE  file for the medians (default: CACHE_DIR/guard.tsv)
#   ROUNDS      number of measurements of each speed (default: 5)
#   THREADS     number of threads (default: the program's default)
#   TESTS       regular expression that selects tests
#   TOLERANCE   in percent (default: 10)
set -euo pipefail
action=${1:-}
[ "$action" = save ] || [ "$action" = check ] || {
  echo "usage: guard.sh save|check" >&2
  exit 2
}
. "$(dirname "$0")/../scripts/common.sh"
shared=$(realpath "${TESSERA_SHARED:-../shared}")
cache=$(realpath -m "${CACHE_DIR:-build/bench}")
file=$(realpath -m "${GUARD_FILE:-$cache/guard.tsv}")
tolerance=${TOLERANCE:-10}
if [ -z "${BUILD_DIR:-}" ]; then
  BUILD_DIR=build/release
  cmake --preset release >&2
  cmake --build "$BUILD_DIR" --target tessera >&2
fi
mkdir -p "$cache" "$(dirname "$file")"
echo "load $(cut -d' ' -f1 /proc/loadavg)" >&2
measured=$(mktemp) merged=$(mktemp)
trap 'rm -f "$measured" "$merged"' EXIT

number() { sed "s/.*\"$1\":\([0-9.e+-]*\).*/\1/" <<<"$2"; }
text() { sed "s/.*\"$1\":\"\([^\"]*\)\".*/\1/" <<<"$2"; }
median() { sort -g | awk '{v[NR] = $1} END {printf "%.6g\n", (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2}'; }

# Measures the peaks, with the cheapest benchmark that reports them.
calibrate() { "$BUILD_DIR/bin/tessera" bench -q --ops '^add .* t1$' --ops-size small -t "$1" -r 1 -o jsonl; }

# measure NAME MODEL N_PROMPT N_GEN THREADS CALIBRATION FLAGS...: writes a line with four fields, separated by tabs:
# "CPU, instruction set, threads", test, ratio, tokens/s.
measure() {
  local name=$1 model=$2 n_prompt=$3 n_gen=$4 threads=$5 calibration=$6 repeat=("${@:7}") json before after ratios=() speeds=() round try
  [[ "$name" =~ ${TESTS:-.} ]] || return 0
  if [ ! -f "$model" ]; then
    echo "left out: $name: no $model" >&2
    return 0
  fi
  for ((round = 0; round < ${ROUNDS:-5}; ++round)); do
    for ((try = 0; try < 5; ++try)); do
      json=$("$BUILD_DIR/bin/tessera" bench -q -m "$model" -p "$n_prompt" -n "$n_gen" ${threads:+-t "$threads"} "${repeat[@]}" -o jsonl)
      before=$(number "peak_$calibration" "$json")
      after=$(number "peak_$calibration" "$(calibrate "$(number n_threads "$json")")")
      awk -v a="$before" -v b="$after" 'BEGIN {exit !(a < 1.1 * b && b < 1.1 * a)}' && break
    done
    speeds+=("$(number median_ts "$json")")
    ratios+=("$(awk -v s="${speeds[-1]}" -v a="$before" -v b="$after" 'BEGIN {printf "%.6g\n", 2 * s / (a + b)}')")
  done
  printf '%s, %s, %s threads\t%s\t%s\t%s\n' "$(text cpu_info "$json")" "$(text isa "$json")" "$(number n_threads "$json")" "$name" \
    "$(printf '%s\n' "${ratios[@]}" | median)" "$(printf '%s\n' "${speeds[@]}" | median)" >>"$measured"
}

for type in q4_0 q8_0 q4_k_m; do
  measure "1b ${type^^} prefill 512" "$cache/1b-$type.gguf" 512 0 "${THREADS:-}" int8_gmacs -r 1 --no-warmup
  measure "1b ${type^^} decode 64" "$cache/1b-$type.gguf" 0 64 "${THREADS:-}" read_gbps -r 1 --no-warmup
done
# The weights of this model fit in the caches, so this measures the speed of a core.
measure "stories260K decode 256" "$shared/models/stories260K.gguf" 0 256 1 f32_gmacs -r 50
if [ ! -s "$measured" ]; then
  echo "nothing was measured" >&2
  exit 2
fi

if [ "$action" = save ]; then
  # New medians replace the stored medians of the same machine and test.
  { [ ! -f "$file" ] || cat "$file"; } | awk -F'\t' 'NR == FNR {seen[$1, $2] = 1; next} !(($1, $2) in seen)' "$measured" - >"$merged"
  cat "$measured" >>"$merged"
  cp "$merged" "$file"
  echo "stored in $file:"
  cat "$measured"
  exit 0
fi

if [ ! -f "$file" ]; then
  echo "no $file: store this machine's medians first with guard.sh save" >&2
  exit 2
fi
awk -F'\t' -v tolerance="$tolerance" '
  NR == FNR {stored[$1, $2] = $3; next}
  FNR == 1 {
    print "| test | machine | tokens/s | ratio | stored | change |"
    print "|---|---|--:|--:|--:|--:|"
  }
  !(($1, $2) in stored) {printf "| %s | %s | %.1f | %s | none | |\n", $2, $1, $4, $3; next}
  {
    change = 100 * ($3 / stored[$1, $2] - 1)
    slow = change < -tolerance
    printf "| %s | %s | %.1f | %s | %s | %+.1f %%%s |\n", $2, $1, $4, $3, stored[$1, $2], change, slow ? " SLOWER" : ""
    ++n_compared
    n_slower += slow
  }
  END {
    if (n_slower > 0) exit 1
    if (n_compared == 0) exit 2
  }' "$file" "$measured"
