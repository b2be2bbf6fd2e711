#!/usr/bin/env bash
# Compares the server with llama.cpp's: alternating runs (A B A B) on one core, medians, ratios.
#   compare.sh [ROUNDS]     default 3
# llama.cpp's server is not available as a program, but its library is. Its server's rate is the library's decode rate of
# the same round group times a factor, which was measured once with both (the design sheet serve.md, section 10.3). The
# ratios are thus estimates. The server runs on core 0, the client on core 1, the library on core 0.
# Needs npm and two cores. Environment variables:
#   BUILD_DIR  folder with the programs (default: build/release, built here)
#   CACHE_DIR  folder for llama.cpp (default: build/bench)
#   MODEL      GGUF file (default: stories260K, for which the factors hold)
#   SERVER     command that serves at the port of a last argument "--port N" (default: tessera serve with 8 slots)
#   SHORT      requests of the short scenario (default: 10000)
set -euo pipefail
rounds=${1:-3}
. "$(dirname "$0")/server.sh"
server=${SERVER:-"$BUILD_DIR/bin/tessera serve -m $model -np 8 -t 1"}

peer=$cache/node_modules/@node-llama-cpp/linux-x64/bins/linux-x64
[ -d "$peer" ] || npm install --prefix "$cache" --ignore-scripts @node-llama-cpp/linux-x64 >&2
[ -x "$cache/peer_bench" ] || cc -O2 -o "$cache/peer_bench" "$shared/tools/peer_bench.c" -ldl

# ours SCENARIO FLAGS...: prints a run's tokens per second. A new server each time begins with empty caches.
ours() {
  # shellcheck disable=SC2086  # the command has arguments
  start_server $server
  taskset -c 1 "$BUILD_DIR/bench/serve_load" "$@" --port "$port" --json >"$cache/run.json" ||
    { echo "compare.sh: failures of $*: $(sed 's/.*"failures":\(\[[^]]*\]\).*/\1/' "$cache/run.json")" >&2; exit 1; }
  stop_server
  sed 's/.*"median":{"tokens_per_s":\([0-9.e+]*\).*/\1/' "$cache/run.json" >"$cache/rate"
}
# Prints the library's decode rate.
theirs() {
  taskset -c 0 "$cache/peer_bench" "$peer" "$model" 16 64 1 5 2>/dev/null | awk '/^pp/ {print $5}' | median
}

compare() {  # NAME FACTOR SCENARIO FLAGS...
  local name=$1 factor=$2 a=() b=() round
  for ((round = 0; round < rounds; ++round)); do
    ours "${@:3}"
    a+=("$(cat "$cache/rate")")
    b+=("$(theirs)")
  done
  echo "$(printf '%s\n' "${a[@]}" | median) $(printf '%s\n' "${b[@]}" | median)" |
    awk -v name="$name" -v f="$factor" -v a="${a[*]}" -v b="${b[*]}" \
      '{printf "| %-25s | %9.0f | %9.0f | %6.2f | %9.0f | %5.2f | %s / %s |\n", name, $1, $2, f, $2 * f, $1 / ($2 * f), a, b}'
}

cpu=$(cpu_name)
echo "$cpu; $(basename "$model"); $rounds rounds; tokens/s, medians; load $(cut -d' ' -f1 /proc/loadavg)"
echo "| scenario                  |   tessera |   library | factor | llama.cpp | ratio | samples: tessera / library |"
echo "|---------------------------|----------:|----------:|-------:|----------:|------:|----------------------------|"
compare "1 stream" 0.73 streams --streams 1 --requests 100 --tokens 64
compare "8 streams" 0.67 streams --streams 8 --requests 400 --tokens 64
compare "32 streams on 8 slots" 0.41 streams --streams 32 --requests 400 --tokens 64
compare "short requests, 8 at once" 0.6 short --streams 8 --requests "${SHORT:-10000}" --tokens 8
