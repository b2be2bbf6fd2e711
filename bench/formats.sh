#!/usr/bin/env bash
# Measures the speed table of docs/formats.md: every weight format on the 1b model (prefill 512, decode 64, 2 threads).
#   formats.sh [TYPE...]      default: all types
# Each round measures Q4_0 together with each format, so that the ratio does not depend on other load of the machine.
# Needs the package python3-numpy for the model. Environment variables:
#   BUILD_DIR  folder with the program (default: build/release, built here)
#   CACHE_DIR  folder for the F16 model (default: build/bench)
#   ROUNDS     number of measurements of each format (default: 3)
#   KEEP=1     keeps the files (12 GB)
set -euo pipefail
. "$(dirname "$0")/../scripts/common.sh"
. bench/common.sh
shared=$(realpath "${TESSERA_SHARED:-../shared}")
cache=$(realpath -m "${CACHE_DIR:-build/bench}")
if [ -z "${BUILD_DIR:-}" ]; then
  BUILD_DIR=build/release
  cmake --preset release >&2
  cmake --build "$BUILD_DIR" --target tessera >&2
fi
tessera=$BUILD_DIR/bin/tessera
types=("$@")
if [ ${#types[@]} -eq 0 ]; then
  types=(F32 F16 BF16 Q8_0 Q6_K Q5_1 Q5_0 Q5_K Q4_1 Q4_0 Q4_K IQ4_NL IQ4_XS NVFP4 MXFP4 Q3_K IQ3_S IQ3_XXS Q2_K IQ2_S IQ2_XS IQ2_XXS
    Q2_0 TQ2_0 TQ1_0 IQ1_M IQ1_S Q1_0)
fi
mkdir -p "$cache"

field() { sed "s/.*\"$1\":\([0-9.e+]*\).*/\1/"; }
run() { "$tessera" bench -q -m "$1" -p "$2" -n "$3" -t 2 -r 1 -o jsonl; }
prefill_speed() { run "$1" 512 0 | field avg_ts; }

speed() {
  if [ ! -f "$cache/1b-f16.gguf" ]; then
    "${PYTHON:-/usr/bin/python3}" "$shared/tools/make_model.py" "$cache/1b-f16.part" --preset 1b --type f16 --vocab "$shared/vocab/llama-spm.gguf" >&2
    mv "$cache/1b-f16.part" "$cache/1b-f16.gguf"
  fi
  # Uses the faster encoder of each format: the speed of a model does not depend on its codes.
  make() {
    local encoder=--compat
    case $1 in IQ2_* | IQ3_*) encoder= ;; esac
    [ -f "$cache/1b-$1.gguf" ] || "$tessera" quantize -q --pure $encoder "$cache/1b-f16.gguf" "$cache/1b-$1.gguf" "$1" >&2
  }
  make Q4_0
  echo "| format | bits | MB | prefill 512 | of Q4_0 | decode 64 | GB/s | of the read |"
  echo "|---|--:|--:|--:|--:|--:|--:|--:|"
  for type in "${types[@]}"; do
    local file=$cache/1b-$type.gguf prefill=() decode=() share=() of_read=() round line
    [ "$type" = F16 ] && file=$cache/1b-f16.gguf || make "$type"
    for ((round = 0; round < ${ROUNDS:-3}; ++round)); do
      prefill+=("$(prefill_speed "$file")")
      share+=("$(awk -v a="${prefill[-1]}" -v b="$(prefill_speed "$cache/1b-Q4_0.gguf")" 'BEGIN {print a / b}')")
      line=$(run "$file" 0 64)
      decode+=("$(field avg_ts <<<"$line")")
      of_read+=("$(field peak_share <<<"$line")")
    done
    local bytes
    bytes=$(stat -Lc %s "$file")
    awk -v t="$type" -v bytes="$bytes" -v params=1104000000 -v p="$(printf '%s\n' "${prefill[@]}" | median)" \
      -v s="$(printf '%s\n' "${share[@]}" | median)" -v d="$(printf '%s\n' "${decode[@]}" | median)" -v r="$(printf '%s\n' "${of_read[@]}" | median)" \
      'BEGIN {printf "| %s | %.2f | %.0f | %.0f | %.0f %% | %.1f | %.1f | %.0f %% |\n", t, bytes * 8 / params, bytes / 1e6, p, 100 * s, d, d * bytes / 1e9, 100 * r}'
    [ "${KEEP:-}" = 1 ] || case $type in F16 | Q4_0) ;; *) rm -f "$file" ;; esac
  done
}
speed
