#!/usr/bin/env bash
# Compares the speed with llama.cpp's prebuilt CPU library: same files, same threads, alternating runs (A B A B),
# medians.
#   vs_llamacpp.sh [ROUNDS]     default 3; a round measures each test once, after a warm-up run
# Needs npm and the package python3-numpy. Environment variables:
#   BUILD_DIR  folder with the programs (default: build/release, built here)
#   CACHE_DIR  folder for the models and llama.cpp (default: build/bench)
#   TESTS      regular expression that selects rows of the table below: TESTS='Q8_0' vs_llamacpp.sh
#   TYPES      weight types of the 1B model (default: q4_0 q4_k_m q8_0 f16), such as TYPES='q6_k iq4_xs'
#   ISA        avx2 or avxvnni: tessera uses this instruction set, and llama.cpp its library for CPUs with no more
#   THROUGH    libllama: tessera is called through its libllama.so, by the program that calls llama.cpp's
set -euo pipefail
rounds=${1:-3}
tests=${TESTS:-.}
. "$(dirname "$0")/../scripts/common.sh"
. bench/common.sh
shared=$(realpath "${TESSERA_SHARED:-../shared}")
cache=$(realpath -m "${CACHE_DIR:-build/bench}")
if [ -z "${BUILD_DIR:-}" ]; then
  BUILD_DIR=build/release
  cmake --preset release >&2
  cmake --build "$BUILD_DIR" --target tessera ${THROUGH:+tessera_libllama_v0_5 tessera_libggml} >&2
fi
mkdir -p "$cache"

# Creates models of random weights, and quantized versions of them. Files get their final names only when complete.
make_model() {  # PRESET
  [ -f "$cache/$1-f16.gguf" ] && return
  "${PYTHON:-/usr/bin/python3}" "$shared/tools/make_model.py" "$cache/$1-f16.part" --preset "$1" --type f16 --vocab "$shared/vocab/llama-spm.gguf" >&2
  mv "$cache/$1-f16.part" "$cache/$1-f16.gguf"
}
quantize() {  # PRESET TYPE FLAGS...
  [ -f "$cache/$1-$2.gguf" ] || "$BUILD_DIR/bin/tessera" quantize -q "${@:3}" "$cache/$1-f16.gguf" "$cache/$1-$2.gguf" "$2"
}
make_model 1b
types=${TYPES:-q4_0 q4_k_m q8_0 f16}
for type in $types q4_0; do
  case $type in
    f16) ;;
    *_[sml]) quantize 1b "$type" ;;
    *) quantize 1b "$type" --pure --compat ;;
  esac
done
make_model moe
quantize moe q4_k_m

peer=$cache/node_modules/@node-llama-cpp/linux-x64/bins/linux-x64
[ -d "$peer" ] || npm install --prefix "$cache" --ignore-scripts @node-llama-cpp/linux-x64 >&2
[ -x "$cache/peer_bench" ] || cc -O2 -o "$cache/peer_bench" "$shared/tools/peer_bench.c" -ldl

case ${ISA:-} in
  '') variant= ;;
  avx2) variant=haswell ;;
  avxvnni) variant=alderlake ;;
  *) echo "error: ISA: want avx2 or avxvnni, got $ISA" >&2 && exit 2 ;;
esac
if [ -n "$variant" ]; then
  export TESSERA_ISA=$ISA
  mkdir -p "$cache/peer-$ISA"
  cp "$peer"/libllama* "$peer"/libggml.* "$peer"/libggml-base.so "$peer/libggml-cpu-$variant.so" "$cache/peer-$ISA"
  peer=$cache/peer-$ISA
fi

# ours and theirs MODEL N_PROMPT N_GEN THREADS: print tokens per second of one measured run.
ours() {
  "$BUILD_DIR/bin/tessera" bench -q -m "$1" -p "$2" -n "$3" -t "$4" -r 1 -o jsonl | sed 's/.*"avg_ts":\([0-9.e+]*\).*/\1/'
}
libllama() {  # FOLDER MODEL N_PROMPT N_GEN THREADS
  local field=2
  [ "$3" -gt 0 ] || field=5
  "$cache/peer_bench" "$@" 1 2>/dev/null | awk -v field=$field '/^pp/ {print $field}'
}
theirs() { libllama "$peer" "$@"; }
case ${THROUGH:-} in
  '') ;;
  libllama) ours() { libllama "$(realpath "$BUILD_DIR")/lib/tessera/llama/0.5/ggml" "$@"; } ;;
  *) echo "error: THROUGH: want libllama, got $THROUGH" >&2 && exit 2 ;;
esac

compare() {
  local name=$1 model=$2 n_prompt=$3 n_gen=$4 threads=$5 a=() b=() test round
  test=$([ "$n_prompt" -gt 0 ] && echo "pp$n_prompt" || echo "tg$n_gen")
  [[ "$name $test" =~ $tests ]] || return 0
  for ((round = 0; round < rounds; ++round)); do
    a+=("$(ours "$model" "$n_prompt" "$n_gen" "$threads")")
    b+=("$(theirs "$model" "$n_prompt" "$n_gen" "$threads")")
  done
  printf '%s\n' "${a[@]}" | median >"$cache/ours.median"
  printf '%s\n' "${b[@]}" | median >"$cache/theirs.median"
  paste "$cache/ours.median" "$cache/theirs.median" |
    awk -v name="$name" -v test="$test" -v t="$threads" -v a="${a[*]}" -v b="${b[*]}" \
      '{printf "| %-12s | %-6s | %7d | %9.2f | %9.2f | %5.2f | %s / %s |\n", name, test, t, $1, $2, $1 / $2, a, b}'
}

echo "$(cpu_name); $rounds rounds; tokens/s, medians; load $(cut -d' ' -f1 /proc/loadavg)"
echo "| model        | test   | threads |   tessera | llama.cpp | ratio | samples: tessera / llama.cpp |"
echo "|--------------|--------|--------:|----------:|----------:|------:|------------------------------|"
for type in $types; do
  compare "1B ${type^^}" "$cache/1b-$type.gguf" 512 0 2
  compare "1B ${type^^}" "$cache/1b-$type.gguf" 0 64 2
done
compare "1B Q4_0" "$cache/1b-q4_0.gguf" 2048 0 2  # the longest prompt that llama.cpp accepts in one call
compare "MoE Q4_K_M" "$cache/moe-q4_k_m.gguf" 512 0 2
compare "MoE Q4_K_M" "$cache/moe-q4_k_m.gguf" 0 64 2
compare "stories260K" "$shared/models/stories260K.gguf" 0 256 1
