#!/usr/bin/env bash
# Builds the packages in build/package/dist, a .deb and a .tar.gz: package.sh [--check]
# --check: also installs both in a fresh Debian, runs them there and removes them (scripts/check_packages.sh; as root).
# Packages are reproducible on the same system: files have the time of the commit (or SOURCE_DATE_EPOCH).
set -euo pipefail
. "$(dirname "$0")/common.sh"
if [ $# -gt 1 ] || { [ $# -eq 1 ] && [ "$1" != --check ]; }; then
  echo "error: want package.sh [--check], got $*" >&2
  exit 2
fi
install_packages scripts/packages.txt
install_packages scripts/packages-package.txt
commit_time=$(stat -c %Y cmake/commit.txt)  # for sources from "git archive"
if [ -e .git ]; then commit_time=$(git log -1 --format=%ct); fi
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$commit_time}
export SOURCE_DATE_EPOCH
umask 022

build package
dist=build/package/dist
rm -rf "$dist"
(cd build/package && cpack --config CPackConfig.cmake) >&2
rm -rf "$dist/_CPack_Packages"
scripts/check_portable.sh build/package/bin/tessera
scripts/check_portable.sh build/package/lib/libtessera.so.1
[ "${1:-}" != --check ] || scripts/check_packages.sh "$dist"
for package in "$dist"/*; do
  echo "$package: $(stat -c %s "$package") bytes, sha256 $(sha256sum <"$package" | cut -d' ' -f1)"
done
