# Shared by the scripts: installs what is missing, configures and builds a preset.

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# ccache: another clone of the project finds what this one has compiled.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

# Installs those packages of a list that are missing.
install_packages() {
  local missing=() package
  while read -r package; do
    case $package in '' | \#*) continue ;; esac
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
  done <"$1"
  [ ${#missing[@]} -eq 0 ] && return
  echo "installing: ${missing[*]}" >&2
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then as_root=(sudo); fi
  "${as_root[@]}" apt-get update -qq >&2
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
}

# build PRESET [TARGET...]
build() {
  local preset=$1
  shift
  cmake --preset "$preset" >&2
  cmake --build --preset "$preset" ${1:+--target "$@"} >&2
}

# need_program: BUILD_DIR, if it is not set, is build/release, and the program is built there.
need_program() {
  if [ -n "${BUILD_DIR:-}" ]; then return; fi
  BUILD_DIR=build/release
  install_packages scripts/packages.txt
  build release tessera
}
