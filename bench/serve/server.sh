# Sourced by compare.sh and load_table.sh: a server on core 0 and its end. Sets server_pid; the log is $cache/server.log.

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
