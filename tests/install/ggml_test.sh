#!/usr/bin/env bash
# libggml as programs find it: ggml_test.sh BUILD_DIR
# Installs to a temporary prefix, and opens the libraries of each layout from there.
. "$(dirname "$0")/common.sh"
build=$(realpath "$1")

install_and_move "$build"
llama=$(dirname "$(find "$tmp/prefix" -path '*/tessera/llama/ggml')")
ggml=$llama/ggml/libggml.so

# ---- names: those of the two lists, and none of them in libllama
headers=("$source/tessera/llama/ggml/api.h" "$source/tessera/llama/ggml/refused.def")
sed -nE 's/^(TESSERA_LLAMA_API .*\btessera_|TESSERA_GGML_REFUSED\()(gg[a-z0-9_]+)[(,].*/\2/p' "${headers[@]}" |
  sort >"$tmp/declared"
[ "$(wc -l <"$tmp/declared")" -gt 130 ] || fail "declared only: $(cat "$tmp/declared")"
nm -D --defined-only "$ggml" | sed -nE 's/^[0-9a-f]+ T //p' | sort >"$tmp/exported"
diff "$tmp/declared" "$tmp/exported" || fail "declared functions (<) and exported ones (>)"

# ---- each layout
for library in "$llama"/*/libllama.so; do
  folder=$(dirname "$library")
  layout=$(basename "$folder")
  nm -D --defined-only "$library" | sed -E 's/^[0-9a-f]+ . //' | sort >"$tmp/names"
  if grep -E '^(ggml|gguf)_' "$tmp/names"; then fail "$layout: libllama has names of ggml"; fi
  sed -nE 's/^TESSERA_LLAMA_REFUSED\(([a-z_]+),.*/\1/p' "$source/tessera/llama/refused.def" | sort >"$tmp/refused"
  missing=$(comm -23 "$tmp/refused" "$tmp/names")
  [ -z "$missing" ] || fail "$layout: refused functions that libllama does not have: $missing"
  for name in libggml.so libggml.so.0 libggml-base.so libggml-base.so.0 libggml-cpu.so libggml-cpu.so.0; do
    [ ! -e "$folder/$name" ] || fail "$layout: $name would replace the genuine one of a package"
  done
  got=$(python3 "$source/tests/install/open_ggml.py" "$folder/ggml" "$source/tests/data/story.gguf")
  [ "$got" = "q4_K, CPU, llama, 0.5.0-tessera" ] || fail "$layout: open_ggml.py: '$got'"
  got=$("$tmp/prefix/bin/tessera" llama-path "$folder")
  [ "$got" = "$folder/ggml" ] || fail "$layout: tessera llama-path: '$got'"
done

finish "libggml is as it should be in each layout"
