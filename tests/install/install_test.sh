#!/usr/bin/env bash
# What "cmake --install" puts in place, and what the program says of its version: install_test.sh BUILD_DIR
# The list of files is exact: a new one must be named here, and in docs/install.md.
. "$(dirname "$0")/common.sh"
build=$(realpath "$1")

# What readers of man pages complain about. Style messages are matters of taste, and a date would change with every
# build.
man_warnings() { MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z "$@" >/dev/null; }
mandoc_warnings() { mandoc -T lint -W warning "$@" | grep -v 'WARNING: missing date' || true; }

# check NAME COMMAND...: the command ends well and prints nothing.
check() {
  local name=$1 output
  shift
  output=$("$@" 2>&1) || fail "$name: status $?"
  [ -z "$output" ] || fail "$name: $output"
}

# check_if_present NAME TOOL ARG...: likewise, where the tool is installed.
check_if_present() {
  if command -v "$2" >/dev/null; then check "$@"; else echo "skipped: $1: no $2"; fi
}

# ---- the list of files
env -u DESTDIR DESTDIR="$tmp/root" cmake --install "$build" --prefix /usr >/dev/null
root=$tmp/root/usr
program=$root/bin/tessera
libdir=$(dirname "$(cd "$root" && find lib* -name libtessera.so)")
commands=$("$program" help | sed -nE 's/^  ([a-z-]+) +.*/\1/p' | grep -vx help)
[ "$(wc -l <<<"$commands")" -gt 15 ] || fail "commands: only '$commands'"
# Functions and types of the library, and the groups of its header.
header=$root/include/tessera/tessera.h
library_functions=$(sed -nE 's/^TESSERA_API .*\b(tessera_[a-z0-9_]+)\(.*/\1/p' "$header")
library_links=$(sed -nE 's/^(\}|typedef( struct)? \w+) (tessera_[a-z_]+);$/\3/p; s/^typedef .*\(\*(tessera_[a-z_]+)\)\(.*/\1/p' "$header")
library_groups=$(sed -nE 's,^/\* ---- ([A-Z][A-Za-z ]*): .*,libtessera-\L\1,p' "$header" | tr ' ' -)
[ "$(wc -w <<<"$library_functions")" -gt 70 ] || fail "functions of the library: only '$library_functions'"
{
  echo bin/tessera
  echo bin/tessera-serve
  echo include/tessera/backend_plugin.h
  echo include/tessera/tessera.h
  echo include/tessera/tessera_experimental.h
  for name in libtessera.so libtessera.so.1 libtessera.so.1.0.0 pkgconfig/tessera.pc; do echo "$libdir/$name"; done
  for name in config config-release config-version; do echo "$libdir/cmake/tessera/tessera-$name.cmake"; done
  for layout in 0.5 2026-08 2026-05; do
    for name in libllama.so libllama.so.0 ggml/libllama.so ggml/libllama.so.0; do
      echo "$libdir/tessera/llama/$layout/$name"
    done
    for name in libggml libggml-base libggml-cpu; do
      for end in so so.0; do echo "$libdir/tessera/llama/$layout/ggml/$name.$end"; done
    done
  done
  for name in libllama.v0.5.0.so ggml/libllama.v0.5.0.so ggml/libggml.v0.5.0.so; do
    echo "$libdir/tessera/llama/0.5/$name"
  done
  echo "$libdir/tessera/llama/ggml/libggml.so"
  [ ! -e "$build/lib/tessera/libtessera-mpi.so" ] || echo "$libdir/tessera/libtessera-mpi.so"
  echo share/bash-completion/completions/tessera
  echo share/fish/vendor_completions.d/tessera.fish
  echo share/zsh/site-functions/_tessera
  echo share/man/man1/tessera.1.gz
  for command in $commands; do echo "share/man/man1/tessera-$command.1.gz"; done
  for name in $library_functions $library_links $library_groups libtessera; do echo "share/man/man3/$name.3.gz"; done
  for file in LICENSE README.md copyright; do echo "share/doc/tessera/$file"; done
  cd "$source" && find docs examples -type f | sed 's,^,share/doc/tessera/,'
} | sort >"$tmp/want"
(cd "$root" && find . -type f -o -type l) | sed 's,^\./,,' | sort >"$tmp/got"
check "installed files" diff "$tmp/want" "$tmp/got"
check licence cmp "$source/LICENSE" "$root/share/doc/tessera/LICENSE"
[ -x "$program" ] || fail "bin/tessera cannot be run"

# ---- man pages
readers=()
for reader in man mandoc; do
  if command -v $reader >/dev/null; then readers+=("$reader"); else echo "skipped: pages are not read: no $reader"; fi
done
for page in "$root"/share/man/man1/*.gz; do
  name=$(basename "$page" .1.gz)
  gzip -dc "$page" >"$tmp/$name.1"
  grep -q "^\.TH $name 1 " "$tmp/$name.1" || fail "$name.1: no title"
  grep -q "^${name//-/\\\\-} \\\\- ." "$tmp/$name.1" || fail "$name.1: no name with a summary"
  for reader in "${readers[@]}"; do check "$reader $name" "${reader}_warnings" "$tmp/$name.1"; done
  # No time of building: the header's four bytes for it are 0.
  same "$name.1.gz: time" "$(od -An -tu1 -j4 -N4 "$page" | tr -d ' ')" 0000
done
library_pages=()
for name in $library_functions $library_groups libtessera; do
  gzip -dc "$root/share/man/man3/$name.3.gz" >"$tmp/$name.3"
  library_pages+=("$tmp/$name.3")
  grep -q "^\.TH $name 3 " "$tmp/$name.3" || fail "$name.3: no title"
  grep -q "^${name//-/\\\\-} \\\\- ." "$tmp/$name.3" || fail "$name.3: no name with a summary"
  same "$name.3.gz: time" "$(od -An -tu1 -j4 -N4 "$root/share/man/man3/$name.3.gz" | tr -d ' ')" 0000
done
for name in $library_functions; do
  grep -A 1 '^\.SH THREADS' "$tmp/$name.3" | grep -qE '^[ASR][.,]' || fail "$name.3: no letter for threads"
done
for name in $library_links; do
  [[ $(readlink "$root/share/man/man3/$name.3.gz") == libtessera-*.3.gz ]] || fail "$name.3: no link to a group"
  gzip -dc "$root/share/man/man3/$name.3.gz" | grep -q "$name" || fail "$name.3: is not about it"
done
for reader in "${readers[@]}"; do check "$reader of the library" "${reader}_warnings" "${library_pages[@]}"; done
check "man run" cmp "$tmp/tessera-run.1" <("$program" man run)

# ---- completions
bash_completion=$root/share/bash-completion/completions/tessera
zsh_completion=$root/share/zsh/site-functions/_tessera
fish_completion=$root/share/fish/vendor_completions.d/tessera.fish
check "bash completion" bash -n "$bash_completion"
check_if_present "zsh completion" zsh -n "$zsh_completion"
check_if_present "fish completion" fish --no-execute "$fish_completion"
for command in $commands; do
  grep -q "^    $command) flags='--" "$bash_completion" || fail "bash completion: no $command"
  grep -q "^    $command) _arguments" "$zsh_completion" || fail "zsh completion: no $command"
  grep -q -- "-a $command -d" "$fish_completion" || fail "fish completion: no $command"
done

# ---- the version
commit=$(sed -n 's/^#define TESSERA_COMMIT "\(.*\)"$/\1/p' "$build/generated/commit.h")
version=$(sed -n 's/^project(tessera VERSION \([0-9.]*\).*/\1/p' "$source/CMakeLists.txt")
same "--version" "$("$program" --version)" "tessera $version${commit:+ ($commit)}"
if git -C "$source" rev-parse HEAD >/dev/null 2>&1; then
  [[ $commit =~ ^[0-9a-f]{12,}(, dirty)?$ ]] || fail "the commit of this build is '$commit'"
fi

# commit_of DIR: what the build's script finds out about a tree.
commit_of() {
  cmake "-DSOURCE_DIR=$1" "-DOUTPUT=$tmp/commit.h" -P "$source/cmake/commit.cmake"
  sed -n 's/^#define TESSERA_COMMIT "\(.*\)"$/\1/p' "$tmp/commit.h"
}
repository=$tmp/repository
mkdir -p "$repository/cmake"
cp "$source/cmake/commit.txt" "$repository/cmake/"
cp "$source/.gitattributes" "$repository/"
same "commit of a tree that is neither a clone nor an archive" "$(commit_of "$repository")" ""
if command -v git >/dev/null; then
  as_somebody() { git -C "$repository" -c user.name=somebody -c user.email=somebody@invalid "$@"; }
  as_somebody init -q
  as_somebody add .
  as_somebody commit -q -m first
  head=$(git -C "$repository" rev-parse HEAD)
  same "commit" "$(commit_of "$repository")" "${head:0:12}"
  touch -d 2001-01-01 "$tmp/commit.h"
  commit_of "$repository" >/dev/null
  same "an unchanged header is not written" "$(date -r "$tmp/commit.h" +%Y)" 2001
  mkdir "$tmp/archive"
  git -C "$repository" archive HEAD | tar -x -C "$tmp/archive"
  same "commit of an archive" "$(commit_of "$tmp/archive")" "${head:0:12}"
  echo changed >>"$repository/cmake/commit.txt"
  same "commit of a changed tree" "$(commit_of "$repository")" "${head:0:12}, dirty"
else
  echo "skipped: commits: no git"
fi

finish "installed files, man pages, completions and version are as they should be"
