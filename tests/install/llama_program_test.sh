#!/usr/bin/env bash
# A program that calls each function of llama.h with our libllama: llama_program_test.sh BUILD_DIR [GENUINE_FOLDER]
# What it prints must be tests/data/llama_program.txt, which was written with the original. GENUINE_FOLDER has that
# library (v0.5.0, as in the package @node-llama-cpp/linux-x64 3.22.1), with which the program is run as well.
# TESSERA_UPDATE=1 writes the file anew, with the original.
. "$(dirname "$0")/common.sh"
build=$(realpath "$1")
expected=$source/tests/data/llama_program.txt

cc -std=c99 -O1 -Wall -Wextra -Wpedantic -Wstrict-prototypes -Werror "$source"/tests/install/llama_program/*.c -ldl -lm \
  -o "$tmp/program"

# run NAME LIBRARY [OPTION...]: writes NAME.out.
run() {
  mkdir "$tmp/$1"
  "$tmp/program" "$2" "$source/tests/data/story.gguf" "$tmp/$1" "${@:3}" >"$tmp/$1.out" 2>"$tmp/$1.err" || {
    echo "FAILED: the program with the library $1, status $?: $(tail -n 3 "$tmp/$1.out" "$tmp/$1.err")" >&2
    exit 1
  }
}

if [ -n "${2:-}" ]; then
  genuine=$(realpath "$2")
  LD_LIBRARY_PATH=$genuine run genuine "$genuine/libllama.v0.5.0.so"
  if [ -n "${TESSERA_UPDATE:-}" ]; then cp "$tmp/genuine.out" "$expected"; fi
  diff "$expected" "$tmp/genuine.out" || { echo "FAILED: the file (<) and the original (>)" >&2 && exit 1; }
fi
run ours "$build/lib/tessera/llama/0.5/libllama.so" --ours
diff "$expected" "$tmp/ours.out" || { echo "FAILED: the original (<) and ours (>)" >&2 && exit 1; }
grep -qx "functions that were called: 241 of 241" "$tmp/ours.out"
names=$(sed -nE 's/^LLAMA_FUNCTION\([^,]+, ([a-z0-9_]+),.*/llama_\1/p' "$source/tests/install/llama_program/llama_functions.def" | sort)
declared=$(grep -oE '\bllama_[a-z0-9_]+\(' "$source/tests/llama/llama_api.h" | tr -d '(' | sort -u)
[ "$names" = "$declared" ] || { echo "FAILED: functions of the program and of llama_api.h" >&2 && exit 1; }
echo "$(wc -l <"$expected") lines are those of the original"
