# Sourced by compare.sh and load_table.sh: the programs, the folders, and a server on core 0. Sets shared, cache, model,
# port and BUILD_DIR, and builds the programs if BUILD_DIR is not given. The log of the server is $cache/server.log.
. "$(dirname "$0")/../../scripts/common.sh"
shared=$(realpath "${TESSERA_SHARED:-../shared}")
cache=$(realpath -m "${CACHE_DIR:-build/bench}")
model=${MODEL:-$shared/models/stories260K.gguf}
port=${PORT:-18080}
if [ -z "${BUILD_DIR:-}" ]; then
  BUILD_DIR=build/release
  cmake --preset release -DTESSERA_BUILD_BENCH=ON >&2
  cmake --build "$BUILD_DIR" --target tessera serve_load >&2
fi
mkdir -p "$cache"

server_pid=
stop_server() {
  [ -z "$server_pid" ] && return
  kill "$server_pid" 2>/dev/null || true
  wait "$server_pid" 2>/dev/null || true
  server_pid=
}
trap stop_server EXIT

# start_server COMMAND...: returns when GET /health of $port answers.
start_server() {
  taskset -c 0 "$@" --port "$port" >"$cache/server.log" 2>&1 &
  server_pid=$!
  for _ in $(seq 300); do
    if curl -fs "http://127.0.0.1:$port/health" >/dev/null; then return; fi
    if ! kill -0 "$server_pid" 2>/dev/null; then break; fi
    sleep 0.1
  done
  echo "${0##*/}: the server does not answer; its log:" >&2
  tail -5 "$cache/server.log" >&2
  exit 1
}
