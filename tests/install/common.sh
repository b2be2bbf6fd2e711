# Shared by the tests of installations: sets source and tmp, which is removed at the end, and counts failures.
set -euo pipefail
export LC_ALL=C
source=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
n_failures=0

fail() {
  echo "FAILED: $*" >&2
  n_failures=$((n_failures + 1))
}

# same NAME GOT WANT
same() { [ "$2" = "$3" ] || fail "$1: got '$2', want '$3'"; }

# install_and_move BUILD_DIR: installs to $tmp/prefix, where the files did not lie before, so no file may name its prefix.
install_and_move() {
  cmake --install "$1" --prefix "$tmp/first" >/dev/null
  mv "$tmp/first" "$tmp/prefix"
}

# finish TEXT: ends the test, with the text if nothing has failed.
finish() {
  [ $n_failures -eq 0 ] || exit 1
  echo "$*"
}
