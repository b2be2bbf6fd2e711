#!/usr/bin/env bash
# The library as programs find it: library_test.sh BUILD_DIR
# Installs to a temporary prefix, and builds and runs the examples from there, by pkg-config and by CMake.
. "$(dirname "$0")/common.sh"
build=$(realpath "$1")

install_and_move "$build"
header=$tmp/prefix/include/tessera/tessera.h
experimental=$tmp/prefix/include/tessera/tessera_experimental.h
config=$(dirname "$(find "$tmp/prefix" -name tessera-config.cmake)")
library=$(find "$tmp/prefix" -name 'libtessera.so.1')
libdir=$(dirname "$library")
export LD_LIBRARY_PATH=$libdir

# ---- the header alone, in each language
warnings=(-Wall -Wextra -Wpedantic -Werror -fsyntax-only)
for file in "$header" "$experimental"; do
  for standard in c99 c11 c17; do
    cc -x c -std=$standard "${warnings[@]}" -Wstrict-prototypes "$file" || fail "$file in $standard"
  done
  for standard in c++11 c++17 c++20; do
    c++ -x c++ -std=$standard "${warnings[@]}" "$file" || fail "$file in $standard"
  done
done

# ---- the library's names are those of the headers, and nothing else
sed -nE 's/^TESSERA_API .*\b(tessera_[a-z0-9_]+)\(.*/\1/p' "$header" "$experimental" |
  sort >"$tmp/declared"
[ "$(wc -l <"$tmp/declared")" -gt 100 ] || fail "the headers declare only: $(cat "$tmp/declared")"
cmake "-DHEADER=$header" "-DOUTPUT=$tmp/exports.map" "-DMORE=EXPERIMENTAL=$experimental" -P "$source/cmake/exports.cmake"
awk '/^TESSERA_/ { node = $1 } /^    tessera_/ { print substr($1, 1, length($1) - 1) "@@" node }' "$tmp/exports.map" |
  sort >"$tmp/want"
sed 's/@@.*//' "$tmp/want" | diff "$tmp/declared" - || fail "declared functions (<) and those of the version script (>)"
nm -D --defined-only "$library" | sed -nE 's/^[0-9a-f]+ T (.*)$/\1/p' | grep -v "@@TESSERA_PRIVATE$" | sort >"$tmp/exported"
diff "$tmp/want" "$tmp/exported" || fail "functions with their versions (<) and exported ones (>)"
# The node without a promise has what the libraries of llama.h call.
{
  sed -nE '/^TESSERA_LLAMA_API/{s/.*\b(tessera_(llama|ggml|gguf)_[a-z0-9_]+)\(.*/\1/p}' \
    "$source"/tessera/llama/{,ggml/}api.h
  sed -nE 's/^TESSERA_GGML_REFUSED\(([a-z_]+),.*/tessera_\1/p' "$source/tessera/llama/ggml/refused.def"
} | sort >"$tmp/declared"
[ "$(wc -l <"$tmp/declared")" -gt 200 ] || fail "api.h declares only: $(cat "$tmp/declared")"
nm -D --defined-only "$library" | sed -nE 's/^[0-9a-f]+ T (.*)@@TESSERA_PRIVATE$/\1/p' | sort >"$tmp/exported"
diff "$tmp/declared" "$tmp/exported" || fail "declared private functions (<) and exported ones (>)"
others=$(nm -D --defined-only "$library" | grep -vE ' T tessera_[a-z0-9_]+@@TESSERA_([0-9.]+|EXPERIMENTAL|PRIVATE)$| A TESSERA_([0-9.]+|EXPERIMENTAL|PRIVATE)$' || true)
same "other exported names" "$others" ""
version=$(sed -nE 's/^#define TESSERA_VERSION_(MAJOR|MINOR|PATCH) ([0-9]+)$/\2/p' "$header" | paste -sd.)
newest=$(sed -nE 's/^TESSERA_([0-9.]+) .*/\1/p' "$tmp/exports.map" | tail -1)
same "the newest functions and the version" "$(printf '%s\n' "$newest" "$version" | sort -V | tail -1)" "$version"

# ---- how it is linked
dynamic=$(readelf -dW "$library")
same "soname" "$(sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p' <<<"$dynamic")" libtessera.so.1
grep -q 'BIND_NOW' <<<"$dynamic" || fail "names are bound lazily"
if grep -q 'TEXTREL' <<<"$dynamic"; then fail "relocations in code"; fi
readelf -lW "$library" | grep -q 'GNU_RELRO' || fail "no RELRO"
readelf -lW "$library" | grep 'GNU_STACK' | grep -q ' RW ' || fail "an executable stack"

# ---- a program by pkg-config, and by CMake
cp -r "$source/examples/library" "$tmp/examples"
model=$source/tests/data/story.gguf
prompt="Once upon a time"
want=$("$tmp/prefix/bin/tessera" run -q -m "$model" -p "$prompt" -n 24 --temp 0 --echo 2>/dev/null)
[ "${#want}" -gt 40 ] || fail "tessera run: '$want'"
if command -v pkg-config >/dev/null; then
  export PKG_CONFIG_PATH=$libdir/pkgconfig
  same "version for pkg-config" "$(pkg-config --modversion tessera)" "$version"
  flags=$(pkg-config --cflags --libs tessera)
  # shellcheck disable=SC2086  # flags are words
  cc -std=c99 -Wall -Wextra -Wpedantic -Werror "$tmp/examples/simple.c" $flags -o "$tmp/simple"
  same "simple.c by pkg-config" "$("$tmp/simple" "$model" "$prompt" 24)" "$want"
else
  echo "skipped: pkg-config: not installed"
fi
cat >"$tmp/examples/CMakeLists.txt" <<'EOF'
cmake_minimum_required(VERSION 3.16)
project(uses_tessera LANGUAGES C)
find_package(tessera 1 REQUIRED)
add_executable(simple simple.c)
target_link_libraries(simple PRIVATE tessera::tessera)
EOF
cmake -S "$tmp/examples" -B "$tmp/build" "-Dtessera_DIR=$config" >/dev/null
cmake --build "$tmp/build" >/dev/null
same "simple.c by CMake" "$("$tmp/build/simple" "$model" "$prompt" 24)" "$want"
sed -i 's/tessera 1 REQUIRED/tessera 2 REQUIRED/' "$tmp/examples/CMakeLists.txt"
if cmake -S "$tmp/examples" -B "$tmp/other" "-Dtessera_DIR=$config" >/dev/null 2>&1; then fail "version 2 was found"; fi
same "an error of simple.c" "$("$tmp/build/simple" /no/such/file x 2>&1 || true)" \
  "error: /no/such/file: cannot open: No such file or directory"

# ---- the other examples in C
tessera() {
  "$tmp/prefix/bin/tessera" "$@" -q -m "$model" 2>/dev/null
}
for example in embed batch grammar state; do
  cc -std=c99 -Wall -Wextra -Wpedantic -Werror "$tmp/examples/$example.c" "-I$tmp/prefix/include" "$library" \
    -o "$tmp/$example" || fail "$example.c"
done
texts=("Once upon a time" "Once upon a day" "The dog ran home")
similarities=$(printf '%s\n' "${texts[@]}" | tessera embed --embd-output-format raw | awk '
  NR == 1 { split($0, first) }
  NR > 1 { sum = 0; for (i = 1; i <= NF; ++i) sum += first[i] * $i; printf "%.4f\n", sum }')
[ "$(wc -l <<<"$similarities")" = 2 ] || fail "tessera embed: '$similarities'"
same "embed.c" "$("$tmp/embed" "$model" "${texts[@]}")" "$(paste -d' ' <(echo "$similarities") \
  <(printf '%s\n' "${texts[@]:1}"))"
prompts=("Once upon a time" "One day" "The dog" "Tom and Lily" "A big bird" "It was dark" "Mom said")
fork=", there was a cat"
same "batch.c" "$("$tmp/batch" "$model" 16 "$fork" "${prompts[@]}")" \
  "$(for text in "${prompts[@]}" "${prompts[0]}$fork"; do tessera run -p "$text" -n 16 --temp 0 --echo; done)"
schema='{"type": "object", "properties": {"age": {"type": "integer", "maximum": 99}}, "required": ["age"],
  "additionalProperties": false}'
json=$("$tmp/grammar" "$model" "$schema" "Tom is three." 64)
same "grammar.c" "$json" "$(tessera run -j "$schema" -p "Tom is three." -n 64 --temp 0)"
python3 -c 'import json, sys; assert json.loads(sys.argv[1])["age"] <= 99' "$json" || fail "grammar.c: '$json'"
# The first run saves a state, the second one restores it.
for words in "" "restored 6 tokens"; do
  same "state.c ($words)" "$("$tmp/state" "$model" "$tmp/prompt.state" "$prompt" 24 2>"$tmp/words")" "$want"
  same "the words of state.c" "$(cat "$tmp/words")" "$words"
done
same "an error of state.c" "$("$tmp/state" "$model" "$model" "$prompt" 24 2>&1 || true)" \
  "error: $model: state: not a saved state of tessera"

# ---- conversations from C, C++ and Node.js: what "tessera chat" answers
# Messages with what JSON writes in another way, and a reply of several lines.
chat_template="{% for m in messages %}{{ m.content }} {% endfor %}"
chat_input=$'Once upon a time, there was a girl who said \\"Hi\\" and\t\nThe dog asked:\nä "'
talks() { "$@" --template "$chat_template" --tokens 40 <<<"$chat_input"; }
want_chat=$("$tmp/prefix/bin/tessera" chat -m "$model" --chat-template "$chat_template" --temp 0 -n 40 <<<"$chat_input")
[ "${#want_chat}" -gt 150 ] || fail "tessera chat: '$want_chat'"
no_template="error: the model has no chat template: give a name, such as chatml, or a template"
if [ -n "${flags:-}" ]; then
  # shellcheck disable=SC2086  # flags are words
  cc -std=c99 -Wall -Wextra -Wpedantic -Werror "$tmp/examples/chat.c" $flags -o "$tmp/chat-c"
  # shellcheck disable=SC2086
  c++ -std=c++20 -Wall -Wextra -Wpedantic -Werror "$tmp/examples/chat.cpp" $flags -o "$tmp/chat-cpp"
  for language in c cpp; do
    same "chat.$language" "$(talks "$tmp/chat-$language" "$model")" "$want_chat"
    same "an error of chat.$language" "$("$tmp/chat-$language" "$model" 2>&1 || true)" "$no_template"
  done
fi
if ! command -v npm >/dev/null; then
  echo "skipped: chat.mjs: no npm"
elif ! (cd "$tmp/examples" && npm install --ignore-scripts --no-audit --no-fund --prefer-offline --fetch-retries=1 \
  --fetch-timeout=20000 "$(sed -nE 's/.*npm install (koffi@[0-9.]+)$/\1/p' chat.mjs)" >"$tmp/npm.log" 2>&1); then
  echo "skipped: chat.mjs: npm cannot install koffi: $(grep -m 1 'npm error' "$tmp/npm.log")"
else
  same "chat.mjs" "$(talks node "$tmp/examples/chat.mjs" "$model")" "$want_chat"
  same "an error of chat.mjs" "$(node "$tmp/examples/chat.mjs" "$model" 2>&1 || true)" "$no_template"
fi

# ---- Python, by ctypes
same "chat.py" "$(python3 "$tmp/examples/chat.py" "$model" "$prompt" 24)" "$want"
"$tmp/prefix/bin/tessera" quantize -q "$model" "$tmp/theirs.gguf" Q8_0 2>/dev/null
same "quantize.py" "$(python3 "$tmp/examples/quantize.py" "$model" "$tmp/ours.gguf" Q8_0)" \
  "48 tensors, $(stat -c %s "$tmp/theirs.gguf") bytes from $(stat -c %s "$model")"
cmp "$tmp/ours.gguf" "$tmp/theirs.gguf" || fail "quantize.py: not the bytes of tessera quantize"
# The libraries of llama.h, which find libtessera.so by their own place.
same "libllama.so of each layout" "$(env -u LD_LIBRARY_PATH python3 "$source/tests/install/llama_library.py" "$libdir" \
  "$source/tests/llama/llama_api.h" "$model" "$prompt" 24)" "$want"
for llama in "$libdir"/tessera/llama/*/libllama.so; do
  same "other names of $llama" "$(nm -D --defined-only "$llama" | grep -vE ' T (llama_[a-z0-9_]+|_Z.*)$' || true)" ""
  same "names of $llama" "$(nm -D --defined-only "$llama" | grep -cE ' T llama_')" 241
done
# Opened and closed, and two copies at once: no thread stays, and each has names of its own.
cp "$library" "$tmp/libcopy.so"
same "dlopen and dlclose" "$(python3 "$source/tests/install/open_and_close.py" "$library" "$tmp/libcopy.so" "$model")" \
  $'100 times, 1 thread\nnothing is kept'

finish "the header, the library, pkg-config, CMake and the examples are as they should be"
