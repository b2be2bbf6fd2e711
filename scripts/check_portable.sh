#!/usr/bin/env bash
# Checks that a program needs only glibc 2.36 or newer and no other library: check_portable.sh PROGRAM
# Reports the first library or symbol version that is not allowed. Only reads the file, which may be stripped.
set -euo pipefail
export LC_ALL=C
program=$1
newest_glibc=2.36  # version in Debian 12

fail() {
  echo "error: $program: $*" >&2
  exit 1
}

libraries=$(readelf -dW "$program" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
[ -n "$libraries" ] || fail "no needed libraries found: is it a dynamic program?"
for library in $libraries; do
  case $library in
    libc.so.6 | libm.so.6 | libdl.so.2 | libpthread.so.0 | librt.so.1 | ld-linux-x86-64.so.2) ;;
    *) fail "needs $library" ;;
  esac
done
# objdump prints "(GLIBC_2.34)" before each symbol that comes from a library.
versions=$(objdump -T "$program" | grep '\*UND\*' | grep -o '(\?[A-Z][A-Z]*_[0-9][0-9.]*)\?' | tr -d '()' | sort -uV)
[ -n "$versions" ] || fail "no versions of symbols found"
for version in $versions; do
  case $version in
    GLIBC_*) ;;
    *) fail "needs symbols of version $version" ;;
  esac
  number=${version#GLIBC_}
  [ "$(printf '%s\n' "$number" "$newest_glibc" | sort -V | tail -1)" = "$newest_glibc" ] ||
    fail "needs glibc $number, the limit is $newest_glibc (build it on Debian 12)"
done
rpath=$(readelf -dW "$program" | sed -n 's/.*(\(RPATH\|RUNPATH\)).*\[\(.*\)\]/\2/p')
[ -z "$rpath" ] || fail "looks for libraries in $rpath"
echo "$program: needs ${libraries//$'\n'/ }, at most $(tail -1 <<<"$versions")"
