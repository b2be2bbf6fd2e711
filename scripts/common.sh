# Shared by the scripts: installs missing packages, configures and builds a preset.

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# Lets ccache share results between clones of the project.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

# is_installed PACKAGE
is_installed() { dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'install ok installed'; }

# install_packages FILE: installs the missing packages of a list. A line A|B means A, or B where A does not exist.
install_packages() {
  local missing=() line
  while read -r line; do
    case $line in '' | \#*) continue ;; esac
    is_installed "${line%%|*}" || is_installed "${line##*|}" || missing+=("$line")
  done <"$1"
  [ ${#missing[@]} -eq 0 ] && return
  echo "installing: ${missing[*]}" >&2
  local as_root=() i
  if [ "$(id -u)" -ne 0 ]; then as_root=(sudo); fi
  "${as_root[@]}" apt-get update -qq >&2
  for i in "${!missing[@]}"; do
    line=${missing[i]}
    missing[i]=${line%%|*}
    apt-cache show "${missing[i]}" >/dev/null 2>&1 || missing[i]=${line##*|}
  done
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
}

# build PRESET [TARGET...]: configures and builds a preset.
build() {
  local preset=$1
  shift
  cmake --preset "$preset" >&2
  cmake --build --preset "$preset" ${1:+--target "$@"} >&2
}

# need_program: if BUILD_DIR is not set, sets it to build/release and builds the program there.
need_program() {
  if [ -n "${BUILD_DIR:-}" ]; then return; fi
  BUILD_DIR=build/release
  install_packages scripts/packages.txt
  build release tessera
}
