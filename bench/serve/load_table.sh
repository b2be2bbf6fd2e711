#!/usr/bin/env bash
# Loads a server in the ways that disturb one: queues, half-open requests, slow readers, dropped streams, more arrivals
# than it can serve, a long prompt beside short ones, an assistant's growing prompts, hostile requests.
#   load_table.sh [SCENARIO...]     default: all but mixed, which needs BIG_MODEL
# Prints the figures for the table in docs/serving.md, and exits with 1 if a scenario fails. The scenarios short and
# replay take minutes; replay restarts the server at its end. The server runs on core 0 with one thread, the client on
# core 1. Needs two cores. Environment variables:
#   BUILD_DIR  folder with the programs (default: build/release, built here)
#   CACHE_DIR  folder for logs and results (default: build/bench)
#   MODEL      GGUF file (default: stories260K)
#   BIG_MODEL  GGUF file of a larger model, such as 1B in Q4_0 with a context of 131,072 tokens
#   LONG       tokens of the long prompt of mixed (default: 8000)
#   SOAK       requests of the soak (default: 100000)
set -euo pipefail
. "$(dirname "$0")/server.sh"

# load SCENARIO PATTERN FLAGS...: runs a scenario, prints its metrics that match the pattern, the process's memory, and
# its failures.
load() {
  local name=$1 pattern=$2
  shift 2
  echo "## $name $*"
  taskset -c 1 "$BUILD_DIR/bench/serve_load" "$name" --port "$port" --pid "$server_pid" "$@" >"$cache/$name.txt" ||
    status=1
  grep -E "^($pattern) |^FAILED" "$cache/$name.txt" || true
  sed -n 's/^VmHWM:\s*/memory at most                   /p' "/proc/$(cat "$cache/server.pid")/status"
}
serve() {  # FLAGS...
  command=("$BUILD_DIR/bin/tessera" serve -t 1 --metrics "$@")
  start_server "${command[@]}"
}
# A command that ends the server and starts it again with the same flags.
restart_command() {
  echo "kill $server_pid; while kill -0 $server_pid 2>/dev/null; do sleep 0.1; done; $(server_command "${command[@]}")"
}
n_vocab() {
  curl -fs "http://127.0.0.1:$port/v1/models" | sed -n 's/.*"n_vocab":\([0-9]*\).*/\1/p'
}
# The cache of prefixes is off where its growth would hide that of other memory.
run() {
  case $1 in
    short)
      serve -m "$model" -np 8 --cache-ram 0
      load short 'tokens_per_s|rss_slope.*' --requests 60000 --every 6000 ;;
    idle)
      serve -m "$model" -np 8 --cache-ram 0 --max-queue 8000 --max-connections 30000
      load idle 'beside_over_before|rss_per_idle_kb|beside_health_p99_ms|idle_ended' --idle 4500 ;;
    kept)
      serve -m "$model" -np 8
      load idle 'beside_over_before|rss_per_idle_kb|beside_health_p99_ms' --kind kept ;;
    slowloris | slow-readers)
      serve -m "$model" -np 8
      load "$1" 'beside_over_before|beside_health_p99_ms|beside_gap_max_ms' ;;
    cancel)
      serve -m "$model" -np 8
      load cancel 'dropped|wrong_lengths|until_idle_s|lost_tokens_per_drop|fds_left' ;;
    open)
      serve -m "$model" -np 8
      load open 'capacity_tokens_per_s|at_.*|goodput.*' ;;
    mixed)
      serve -m "${BIG_MODEL:?mixed needs BIG_MODEL}" -np 18 -kvu -c 131072
      load mixed 'alone_(ttft|gap)_p99_ms|beside_(ttft|gap)_p99_ms|beside_jain_index|long_ttft_ms|short_ttft.*' \
        --long-tokens "${LONG:-8000}" ;;
    replay)
      rm -rf "$cache/blocks"
      serve -m "$model" -c 131072 --cache-ram 4000 --cache-disk "$cache/blocks"
      load replay 'new_tokens|computed_tokens|computed_over_new|ttft.*' --vocab "$(n_vocab)" \
        --restart "$(restart_command)" ;;
    hostile)
      serve -m "$model" -np 8 --cache-ram 0
      load hostile 'wrong_statuses|slow_answers|answer_max_ms' ;;
    soak)
      serve -m "$model" -np 8 -c 16384 --cache-ram 0 --embeddings
      load soak 'wrong_statuses|requests_per_s|same_answer.*|[0-9]+' --requests "${SOAK:-100000}" \
        --every $((${SOAK:-100000} / 5)) ;;
    *)
      echo "load_table.sh: unknown scenario $1" >&2
      exit 2 ;;
  esac
  stop_server
}

cpu_name
status=0
[ $# -gt 0 ] || set -- short idle kept slowloris slow-readers cancel open replay hostile soak
for scenario in "$@"; do run "$scenario"; done
exit $status
