#!/usr/bin/env bash
# The library as programs find it: library_test.sh BUILD_DIR
# Installs to a temporary prefix, and builds and runs the examples from there, by pkg-config and by CMake.
set -euo pipefail
export LC_ALL=C
build=$(realpath "$1")
source=$(realpath "$(dirname "$0")/../..")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
n_failures=0

fail() {
  echo "FAILED: $*" >&2
  n_failures=$((n_failures + 1))
}

same() {
  [ "$2" = "$3" ] || fail "$1: got '$2', want '$3'"
}

# The installation is moved after it was made, so no file may name the prefix.
cmake --install "$build" --prefix "$tmp/first" >/dev/null
mv "$tmp/first" "$tmp/prefix"
header=$tmp/prefix/include/tessera/tessera.h
config=$(dirname "$(find "$tmp/prefix" -name tessera-config.cmake)")
library=$(find "$tmp/prefix" -name 'libtessera.so.1')
libdir=$(dirname "$library")
export LD_LIBRARY_PATH=$libdir

# ---- the header alone, in each language
warnings=(-Wall -Wextra -Wpedantic -Werror -fsyntax-only)
for standard in c99 c11 c17; do
  cc -x c -std=$standard "${warnings[@]}" -Wstrict-prototypes "$header" || fail "header in $standard"
done
for standard in c++11 c++17 c++20; do
  c++ -x c++ -std=$standard "${warnings[@]}" "$header" || fail "header in $standard"
done

# ---- the library's names are those of the header, and nothing else
sed -nE 's/^TESSERA_API .*\b(tessera_[a-z_]+)\(.*/\1/p' "$header" | sort >"$tmp/declared"
[ "$(wc -l <"$tmp/declared")" -gt 50 ] || fail "the header declares only: $(cat "$tmp/declared")"
nm -D --defined-only "$library" | sed -nE 's/^[0-9a-f]+ T (.*)@@TESSERA_1.0$/\1/p' | sort >"$tmp/exported"
diff "$tmp/declared" "$tmp/exported" || fail "declared functions (<) and exported ones (>)"
# The node without a promise has what the libraries of llama.h call.
{
  sed -nE '/^TESSERA_LLAMA_API/{s/.*\b(tessera_(llama|ggml|gguf)_[a-z0-9_]+)\(.*/\1/p}' \
    "$source"/tessera/llama/{,ggml/}api.h
  sed -nE 's/^TESSERA_GGML_REFUSED\(([a-z_]+),.*/tessera_\1/p' "$source/tessera/llama/ggml/refused.def"
} | sort >"$tmp/declared"
[ "$(wc -l <"$tmp/declared")" -gt 200 ] || fail "api.h declares only: $(cat "$tmp/declared")"
nm -D --defined-only "$library" | sed -nE 's/^[0-9a-f]+ T (.*)@@TESSERA_PRIVATE$/\1/p' | sort >"$tmp/exported"
diff "$tmp/declared" "$tmp/exported" || fail "declared private functions (<) and exported ones (>)"
others=$(nm -D --defined-only "$library" |
  grep -vE ' T tessera_[a-z0-9_]+@@TESSERA_(1.0|PRIVATE)$| A TESSERA_(1.0|PRIVATE)$' || true)
same "other exported names" "$others" ""

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
  same "version for pkg-config" "$(pkg-config --modversion tessera)" 1.0.0
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

# ---- Python, by ctypes
same "chat.py" "$(python3 "$tmp/examples/chat.py" "$model" "$prompt" 24)" "$want"
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
  "50 times, 1 thread"

[ $n_failures -eq 0 ] || exit 1
echo "the header, the library, pkg-config, CMake and the examples are as they should be"
