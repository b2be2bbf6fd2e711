#!/usr/bin/env bash
# Installs the packages in a fresh Debian 12 and uses them there: check_packages.sh DIR_OF_PACKAGES
# Called by package.sh --check, which installs the required tools. mmdebstrap creates the fresh system, with the package
# sources of this machine if it runs Debian 12. Needs root, and calls sudo otherwise.
set -euo pipefail
if [ "$(id -u)" -ne 0 ]; then exec sudo "$0" "$@"; fi
export LC_ALL=C
deb=$(realpath "$1"/tessera_*.deb)
tar=$(realpath "$1"/tessera-*.tar.gz)
cd "$(dirname "$0")/.."
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
root=$tmp/debian

step() { echo "== $*" >&2; }
fail() {
  echo "error: $*" >&2
  exit 1
}

# inside ROOT COMMAND...: runs a command in that root with a clean environment, and with /proc if the root has that
# folder. The mount ends with the command.
inside() {
  # shellcheck disable=SC2016
  env -i LC_ALL=C HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    unshare --mount sh -ec '[ ! -d "$1/proc" ] || mount --bind /proc "$1/proc"; exec chroot "$@"' sh "$@"
}

# use ROOT PROGRAM: runs the first commands of a typical user inside a root.
use() {
  local version text
  version=$(inside "$1" "$2" --version)
  [ "$version" = "$(build/package/bin/tessera --version)" ] || fail "$2 --version: got '$version'"
  text=$(inside "$1" "$2" run -p "Once upon a time" -n 8 --temp 0 -q)
  [ "$(wc -w <<<"$text")" -ge 4 ] || fail "$2 run: got '$text'"
  if inside "$1" "$2" run -m /no/such/model.gguf -p x 2>/dev/null; then fail "$2: a missing model is no error"; fi
  echo "$version: $text"
}

step "lintian"
lintian --tag-display-limit 0 --fail-on error "$deb"

step "the tar.gz, beside glibc and nothing else"
mkdir "$tmp/bare"
tar -xf "$tar" -C "$tmp/bare" --strip-components=1
top=$(tar -tf "$tar" | cut -d/ -f1 | sort -u)
[ "$top" = "$(basename "$tar" .tar.gz)" ] || fail "$tar: at its top are $top"
scripts/check_portable.sh "$tmp/bare/bin/tessera"
cp "$tmp/bare/bin/tessera" "$tmp/tessera-of-tar"

step "a fresh Debian 12"
sources=()
if grep -q '^VERSION_CODENAME=bookworm' /etc/os-release; then
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
    if [ -s "$file" ]; then sources+=("$file"); fi
  done
fi
mmdebstrap --quiet --variant=minbase --include=man-db bookworm "$root" "${sources[@]}" >&2
for tool in gcc g++ cc c++ cmake tessera; do
  if inside "$root" sh -c "command -v $tool" >/dev/null; then fail "the fresh system has $tool"; fi
done
install -D -t "$tmp/bare/lib/x86_64-linux-gnu" "$root"/lib/x86_64-linux-gnu/lib{c,m}.so.6
install -D -t "$tmp/bare/lib64" "$root/lib64/ld-linux-x86-64.so.2"
use "$tmp/bare" /bin/tessera

step "a program built with the library of the tar.gz"
story=tests/data/story.gguf
flags=$(PKG_CONFIG_PATH=$tmp/bare/lib/pkgconfig pkg-config --cflags --libs tessera)
# shellcheck disable=SC2086  # flags are words
cc -std=c99 examples/library/simple.c $flags -o "$tmp/simple"
story_text=$(LD_LIBRARY_PATH=$tmp/bare/lib "$tmp/simple" "$story" "Once upon a time" 16)
[ "$(wc -w <<<"$story_text")" -ge 8 ] || fail "simple.c writes '$story_text'"

step "the .deb: installed, used, removed"
find "$root" -not -path "$root/var/*" -not -path "$root/dev/*" | sort >"$tmp/before"
cp "$deb" "$root/tmp/tessera.deb"
inside "$root" apt-get -qq -o Dpkg::Use-Pty=0 install -y --no-install-recommends /tmp/tessera.deb >&2
rm "$root/tmp/tessera.deb"
use "$root" /usr/bin/tessera
cmp "$root/usr/bin/tessera" "$tmp/tessera-of-tar" || fail "the two packages hold different programs"
commands=$(inside "$root" tessera help | sed -nE 's/^  ([a-z-]+) +.*/\1/p' | grep -vx help)
for command in "" $commands; do
  page=tessera${command:+-$command}
  inside "$root" man -w "$page" >/dev/null || fail "no man page $page"
  text=$(inside "$root" man "$page")
  [[ $text == *NAME*"$page"*SYNOPSIS* ]] || fail "man $page shows '$text'"
done
for page in libtessera libtessera-session tessera_session tessera_session_decode; do
  text=$(inside "$root" man "$page")
  [[ $text == *NAME*tessera*SYNOPSIS* ]] || fail "man $page shows '$text'"
done
bash -n "$root/usr/share/bash-completion/completions/tessera"
zsh -n "$root/usr/share/zsh/vendor-completions/_tessera"
fish --no-execute "$root/usr/share/fish/vendor_completions.d/tessera.fish"

step "the same program with the library of the .deb, where the system finds it"
cp "$tmp/simple" "$story" "$root/tmp/"
text=$(inside "$root" /tmp/simple /tmp/story.gguf "Once upon a time" 16)
[ "$text" = "$story_text" ] || fail "simple.c writes '$text', with the other library '$story_text'"
rm "$root/tmp/simple" "$root/tmp/story.gguf"

step "a plugin built from the installed header and example"
example=$root/usr/share/doc/tessera/examples/backend
cmake -S "$example" -B "$tmp/plugin" "-DTESSERA_INCLUDE=$root/usr/include" >/dev/null
cmake --build "$tmp/plugin" >/dev/null
install -D -t "$root/usr/lib/tessera/backends" "$tmp"/plugin/libtessera-backend-*.so
# Four tokens: devices round differently, and the text must end before the model hesitates between two words.
run_on() { inside "$root" tessera run -p Once -n 4 --temp 0 -c 128 -ctk f32 -ctv f32 -q --device "$1"; }
on_cpu=$(run_on cpu)
on_plugin=$(run_on example:1)
[ "$on_plugin" = "$on_cpu" ] || fail "the plugin writes '$on_plugin', the CPU '$on_cpu'"
# This plugin violates the interface by throwing a C++ exception, from a libstdc++ that the program does not share.
throwing=$root/usr/lib/tessera/backends/libtessera-backend-throws_score.so
c++ -std=c++23 -shared -fPIC -DFAULT=throws_score -DFAULT_throws_score=1 -Iinclude -o "$throwing" \
  tests/backend/plugins/faulty.cpp
text=$(inside "$root" tessera devices 2>&1) || fail "a plugin that throws ends the program: $text"
[[ $text == *throws_score.so:\ not\ used* ]] || fail "a plugin that throws is not reported: $text"
rm -r "$root/usr/lib/tessera"

inside "$root" apt-get -qq -o Dpkg::Use-Pty=0 purge -y tessera >&2
find "$root" -not -path "$root/var/*" -not -path "$root/dev/*" | sort >"$tmp/after"
diff "$tmp/before" "$tmp/after" || fail "purging the package does not restore the system"
step "packages are good"
