# Sourced by compare.sh and load_table.sh: the programs, the folders, and a server on core 0. Sets shared, cache, model,
# port and BUILD_DIR, and builds the programs if BUILD_DIR is not given. The log of the server is $cache/server.log, and
# its process id is in $cache/server.pid.
. "$(dirname "$0")/../../scripts/common.sh"
. bench/common.sh
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

# Ends the server and waits for its end. It may be a child of another process, which has restarted it.
stop_server() {
  [ -e "$cache/server.pid" ] || return 0
  local pid
  pid=$(cat "$cache/server.pid")
  kill "$pid" 2>/dev/null || true
  while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
  rm "$cache/server.pid"
}
trap stop_server EXIT

# The command line of a server: server_command COMMAND...
server_command() {
  printf '%q ' taskset -c 0 "$@" --port "$port"
  printf '>%q 2>&1 & echo $! >%q\n' "$cache/server.log" "$cache/server.pid"
}
# start_server COMMAND...: returns when GET /health of $port answers.
start_server() {
  rm -f "$cache/server.pid"
  eval "$(server_command "$@")"
  server_pid=$(cat "$cache/server.pid")
  for _ in $(seq 300); do
    if curl -fs "http://127.0.0.1:$port/health" >/dev/null; then return; fi
    if ! kill -0 "$server_pid" 2>/dev/null; then break; fi
    sleep 0.1
  done
  echo "${0##*/}: the server does not answer; its log:" >&2
  tail -5 "$cache/server.log" >&2
  exit 1
}
