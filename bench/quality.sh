#!/usr/bin/env bash
# Measures the tables of docs/quality.md.
#   quality.sh formats                      stories260K in every format that its rows allow, compared with F32
#   quality.sh activations [FILE.gguf...]   the error of 8-bit activations: each file compared with itself with float
#                                           activations; default: stories260K in these formats
#   quality.sh halves [FILE.gguf...]        the error of F16 and BF16 weights in 16-bit integers: each file compared with
#                                           itself with float activations; default: stories260K in F16 and BF16
#   quality.sh attention [FILE.gguf...]     the error of attention in f32 and int16: each file compared with itself with
#                                           float activations; default: stories260K in some formats
# Environment variables:
#   BUILD_DIR  folder with the program (default: build/release, built here)
#   TEXT       file under TESSERA_SHARED (default: text/tinyshakespeare.txt)
#   CHUNKS     number of chunks of 512 tokens to measure (default: 60)
set -euo pipefail
what=${1:?formats, activations, halves or attention}
shift
. "$(dirname "$0")/../scripts/common.sh"
shared=$(realpath "${TESSERA_SHARED:-../shared}")
if [ -z "${BUILD_DIR:-}" ]; then
  BUILD_DIR=build/release
  cmake --preset release >&2
  cmake --build "$BUILD_DIR" --target tessera >&2
fi
tessera=$BUILD_DIR/bin/tessera
model=$shared/models/stories260K.gguf
text=$shared/${TEXT:-text/tinyshakespeare.txt}
types=(F16 BF16 Q8_0 Q5_1 Q5_0 Q4_1 Q4_0 IQ4_NL NVFP4 MXFP4 Q2_0)  # blocks of 16 and 32: rows have 64 and 172 elements
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# base MODEL FLAGS...: writes the log-probabilities of a model.
base() { "$tessera" perplexity -q -m "$1" -f "$text" -c 512 --chunks "${CHUNKS:-60}" --save-all-logits "$work/base.kld" "${@:2}" >/dev/null; }
# compare MODEL FLAGS...: compares a model with them and prints JSON.
compare() { "$tessera" perplexity -q -m "$1" --kl-divergence --kl-divergence-base "$work/base.kld" --json "${@:2}"; }
# figure KEY: prints the number of a key in the JSON on stdin, or the "value" of an object.
figure() { grep -o "\"$1\": \({\"value\": \)\?[-0-9.e]*" | grep -o '[-0-9.e]*$' | head -1; }

# quantized TYPE...: writes the model in each type and prints the paths.
quantized() {
  local type
  for type in "$@"; do
    "$tessera" quantize -q --pure "$model" "$work/$type.gguf" "$type" >&2
    echo "$work/$type.gguf"
  done
}

formats() {
  base "$model"
  echo "| format | bytes | perplexity | KL mean | KL 99 % | same top token |"
  echo "|---|--:|--:|--:|--:|--:|"
  local type file json
  for type in F32 "${types[@]}"; do
    file=$work/model.gguf
    "$tessera" quantize -q --pure "$model" "$file" "$type"
    json=$(compare "$file")
    awk -v t="$type" -v bytes="$(stat -c %s "$file")" -v ppl="$(figure ppl <<<"$json")" -v kl="$(figure kl <<<"$json")" \
      -v p99="$(figure p99 <<<"$json")" -v top="$(figure same_top <<<"$json")" \
      'BEGIN {printf "| %s | %d | %.2f | %.6f | %.6f | %.2f %% |\n", t, bytes, ppl, kl, p99, 100 * top}'
  done
}

activations() {
  local files=("$@") file group json row
  [ ${#files[@]} -gt 0 ] || mapfile -t files < <(quantized "${types[@]:2}")
  echo "| file | KL mean, groups of 32 | 64 | 128 | KL 99 %, groups of 32 | 64 | 128 | same top token, groups of 32 | 64 | 128 |"
  echo "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
  for file in "${files[@]}"; do
    base "$file" --reference-activations
    local kl=() p99=() top=()
    for group in 32 64 128; do
      json=$(compare "$file" --activations int8-$group)
      kl+=("$(figure kl <<<"$json")")
      p99+=("$(figure p99 <<<"$json")")
      top+=("$(figure same_top <<<"$json")")
    done
    row=$(basename "$file" .gguf)
    awk -v row="$row" -v kl="${kl[*]}" -v p99="${p99[*]}" -v top="${top[*]}" 'BEGIN {
      split(kl, a, " "); split(p99, b, " "); split(top, c, " ")
      printf "| %s | %.2e | %.2e | %.2e | %.2e | %.2e | %.2e | %.2f %% | %.2f %% | %.2f %% |\n", row, a[1], a[2], a[3], b[1], b[2], b[3],
        100 * c[1], 100 * c[2], 100 * c[3]}'
  done
}

halves() {
  local files=("$@") file cache json
  [ ${#files[@]} -gt 0 ] || mapfile -t files < <(quantized F16 BF16)
  echo "| file | cache | KL mean | KL 99 % | same top token |"
  echo "|---|---|--:|--:|--:|"
  for file in "${files[@]}"; do
    for cache in f32 f16; do
      base "$file" --reference-activations -ctk "$cache" -ctv "$cache"
      json=$(compare "$file" -ctk "$cache" -ctv "$cache")
      awk -v row="$(basename "$file" .gguf)" -v cache="${cache^^}" -v kl="$(figure kl <<<"$json")" \
        -v p99="$(figure p99 <<<"$json")" -v top="$(figure same_top <<<"$json")" \
        'BEGIN {printf "| %s | %s | %.2e | %.2e | %.2f %% |\n", row, cache, kl, p99, 100 * top}'
    done
  done
}

attention() {
  local files=("$@") file
  [ ${#files[@]} -gt 0 ] || mapfile -t files < <(echo "$model" && quantized Q8_0 Q5_1 Q4_0)
  echo "| file | perplexity, f32 | int16 | KL mean, f32 | int16 | KL 99 %, f32 | int16 |"
  echo "|---|--:|--:|--:|--:|--:|--:|"
  for file in "${files[@]}"; do
    base "$file" --reference-activations
    local f32 int16
    f32=$(compare "$file" --attention-scores f32)
    int16=$(compare "$file" --attention-scores int16)
    echo "$(basename "$file" .gguf)" "$(figure ppl <<<"$f32")" "$(figure ppl <<<"$int16")" "$(figure kl <<<"$f32")" \
      "$(figure kl <<<"$int16")" "$(figure p99 <<<"$f32")" "$(figure p99 <<<"$int16")" |
      awk '{printf "| %s | %.3f | %.3f | %.2e | %.2e | %.2e | %.2e |\n", $1, $2, $3, $4, $5, $6, $7}'
  done
}

"$what" "$@"
