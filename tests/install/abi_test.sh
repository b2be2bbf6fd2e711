#!/usr/bin/env bash
# The ABI of the library: the header is compared with the baseline, and the comparison itself is tested on changed
# headers. Also tests what else is made of the header: the version script (cmake/exports.cmake) and the man pages.
. "$(dirname "$0")/common.sh"

# ---- the version script of a header
cat >"$tmp/made.h" <<'EOF'
/* A header [with signs that mean something to CMake; */
#define NUMBER 1
/* A. The first; [begin, end). */
TESSERA_API int tessera_first(void);
/* S. Since 1.10. Later. */
TESSERA_API const char* tessera_tenth(int a,
                                      int b);
/* A. Does two
 * things. Since 1.2. Errors: none. */
TESSERA_API void tessera_second(void);
typedef struct tessera_info {
  int size;
  int more; /* Since 1.2. */
} tessera_info;
/* A */
TESSERA_API void tessera_2_first(void);
EOF
cat >"$tmp/want.map" <<'EOF'
TESSERA_1.0 {
  global:
    tessera_first;
    tessera_2_first;
  local:
    *;
};
TESSERA_1.2 {
  global:
    tessera_second;
} TESSERA_1.0;
TESSERA_1.10 {
  global:
    tessera_tenth;
} TESSERA_1.2;
EOF
cmake "-DHEADER=$tmp/made.h" "-DOUTPUT=$tmp/got.map" -P "$source/cmake/exports.cmake"
diff "$tmp/want.map" "$tmp/got.map" || fail "version script"

header=$source/include/tessera/tessera.h
check_abi() { "$source/scripts/abi_baseline.sh" --check "$@" >"$tmp/log" 2>&1; }

# changed WHAT SED_SCRIPT: the header with a change.
changed() {
  sed -E "$2" "$header" >"$tmp/changed.h"
  if cmp -s "$header" "$tmp/changed.h"; then fail "$1: changes nothing"; fi
}
allows() {
  changed "$@"
  check_abi "$tmp/changed.h" "$tmp/now" || fail "$1 is refused: $(cat "$tmp/log")"
}
# refuses WHAT PATTERN_OF_REPORT SED_SCRIPT
refuses() {
  changed "$1" "$3"
  if check_abi "$tmp/changed.h" "$tmp/now"; then fail "$1 is allowed"; fi
  grep -qE "$2" "$tmp/log" || fail "$1: the report is $(cat "$tmp/log")"
}

# ---- man pages: a header whose functions are not described is refused
refuses_pages() {
  changed "$1" "$3"
  if python3 -B "$source/scripts/library_pages.py" "$tmp/changed.h" "$tmp/man3" >"$tmp/log" 2>&1; then fail "$1 has pages"; fi
  grep -qF -- "$2" "$tmp/log" || fail "$1: $(cat "$tmp/log")"
}
refuses_pages "a function without a letter" "tessera_cancel_reset: its comment begins without A, S or R" \
  's,^/\* S\. (Makes the object usable),/* \1,'
refuses_pages "a function without a comment" "tessera_version: its comment begins without A, S or R" \
  '/^\/\* A\. The version of the library that runs/d'
refuses_pages "a function that nothing says a word of" "tessera_version: no sentence says what it does" \
  's/^(\/\* A\.) The version of the library that runs.*/\1 *\//'
refuses_pages "a group without a summary" "want /* ---- TITLE: SUMMARY ---- */" 's/^(\/\* ---- Cancel):.* ----/\1 ----/'
sed 's,^/\* A\. The version of the library that runs,/* A. Since 1.3. The version that runs,' "$header" >"$tmp/changed.h"
python3 -B "$source/scripts/library_pages.py" "$tmp/changed.h" "$tmp/man3"
gzip -dc "$tmp/man3/tessera_version.3.gz" | grep -q '^Since 1\.3\.$' || fail "a page of version 1.3"
gzip -dc "$tmp/man3/tessera_version.3.gz" | grep -q '^tessera_version \\- the version that runs' || fail "a name of version 1.3"

# ---- the ABI
if [ "$(uname -m)" != x86_64 ]; then
  echo "skipped: the ABI: the baseline is that of x86-64"
elif ! command -v abidiff >/dev/null; then
  echo "skipped: the ABI: no abidiff (Debian: abigail-tools)"
else
  check_abi || fail "the ABI has changed (scripts/abi_baseline.sh): $(cat "$tmp/log")"
  "$source/scripts/abi_baseline.sh" "$header" "$tmp/now"
  check_abi "$header" "$tmp/now" || fail "an unchanged header: $(cat "$tmp/log")"

  allows "a new function" 's,^(TESSERA_API void tessera_cancel_reset.*)$,\1\n/* A */\nTESSERA_API int tessera_new(void);,'
  allows "a new constant" 's/^(enum \{ TESSERA_LOG_ERROR = 1,)/\1 TESSERA_LOG_DEBUG = 4,/'
  allows "a member at the end of options" 's/^\} tessera_model_options;/  int64_t more, still_more;\n&/'
  allows "a member at the end of a result" 's/^\} tessera_device_info;/  int64_t more;\n&/'
  allows "a member in the unused bytes at the end of options" 's/^\} tessera_render_options;/  int32_t more;\n&/'
  refuses "a removed function" tessera_cancel_reset '/^TESSERA_API void tessera_cancel_reset/d'
  refuses "a changed parameter" tessera_token_is_end 's/(tessera_token_is_end\(.*)int32_t token/\1int64_t token/'
  refuses "a changed result" tessera_session_n_ctx 's/int64_t (tessera_session_n_ctx)/int32_t \1/'
  refuses "a member in the middle of options" tessera_model_options 's/^.*int32_t load_mode;/  int64_t more;\n&/'
  refuses "a removed member of options" tessera_model_options '/int32_t n_gpu_layers;/d'
  refuses "a member at the end of a struct that does not grow" tessera_candidate \
    's/^\} tessera_candidate;/  float more;\n&/'
  refuses "a changed constant" "TESSERA_LOG_INFO 3" 's/TESSERA_LOG_INFO = 3/TESSERA_LOG_INFO = 4/'
  refuses "a removed constant" "TESSERA_LOG_INFO 3" 's/, TESSERA_LOG_INFO = 3//'
  refuses "a function of a later version" tessera_cancel_is_set 's,^/\* A. (1 after tessera_cancel_set),/* A. Since 1.1. \1,'
fi

finish "the version script, the man pages and the ABI are as they should be"
