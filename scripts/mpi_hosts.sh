#!/usr/bin/env bash
# Runs tessera under mpirun on "hosts" that are network namespaces of this machine: mpi_hosts.sh MODEL [KILLS]
# Compares logits and text with those of one process, over links of 1 Gbit/s with a queue of 20 ms. Then a rank is
# killed, stopped, and cut off from the network, KILLS times each (20): every job must end with an error and leave no
# process behind. Needs root, Open MPI and iproute2, and a build with libtessera-mpi.so (BUILD_DIR, default
# build/release).
set -euo pipefail
. "$(dirname "$0")/common.sh"
if [ $# -lt 1 ] || [ $# -gt 2 ]; then
  echo "error: want mpi_hosts.sh MODEL [KILLS], got $*" >&2
  exit 2
fi
model=$(realpath "$1")
n_kills=${2:-20}
program=$(realpath "${BUILD_DIR:-build/release}/bin/tessera")
hosts=(hosta hostb hostc)
network=10.77.0
tmp=$(mktemp -d)

remove_hosts() {
  local host
  for host in "${hosts[@]}"; do
    ip netns pids "$host" 2>/dev/null | xargs -r kill -9 || true
    ip netns del "$host" 2>/dev/null || true
    rm -rf "/etc/netns/$host"
  done
  ip netns del switch 2>/dev/null || true
}
finish() {
  remove_hosts
  rm -rf "$tmp"
}
trap finish EXIT

# Each host has one link to a switch. A hostname of its own tells Open MPI that it is another machine.
make_hosts() {
  local i host
  ip netns add switch
  ip -n switch link add bridge type bridge
  ip -n switch link set bridge up
  for i in "${!hosts[@]}"; do
    host=${hosts[i]}
    ip netns add "$host"
    ip link add net0 netns "$host" type veth peer name "$host" netns switch
    ip -n switch link set "$host" master bridge
    ip -n switch link set "$host" up
    ip -n "$host" address add "$network.$((i + 1))/24" dev net0
    ip -n "$host" link set lo up
    ip -n "$host" link set net0 up
    tc -n "$host" qdisc add dev net0 root tbf rate 1gbit burst 128k latency 20ms
    tc -n switch qdisc add dev "$host" root tbf rate 1gbit burst 128k latency 20ms
    mkdir -p "/etc/netns/$host"
    {
      echo "127.0.0.1 localhost"
      for i in "${!hosts[@]}"; do echo "$network.$((i + 1)) ${hosts[i]}"; done
    } >"/etc/netns/$host/hosts"
  done
}

# The agent takes the place of SSH.
cat >"$tmp/agent" <<'AGENT'
#!/bin/sh
host=$1
shift
exec ip netns exec "$host" unshare --uts sh -c "hostname $host; $*"
AGENT
chmod +x "$tmp/agent"
printf '%s slots=1\n' "${hosts[@]}" >"$tmp/hostfile"

# mpirun itself waits for minutes for a host that is cut off, unless it looks for signs of life.
keepalive=(--mca oob_tcp_keepalive_time 2 --mca oob_tcp_keepalive_intvl 1 --mca oob_tcp_keepalive_probes 2)

# job RANKS ARGUMENT...: runs tessera on the first hosts.
job() {
  local n=$1
  shift
  ip netns exec hosta unshare --uts sh -c 'hostname hosta; exec "$@"' sh \
    mpirun --allow-run-as-root -np "$n" --hostfile "$tmp/hostfile" --bind-to none --mca plm_rsh_agent "$tmp/agent" \
    --mca btl self,tcp --mca btl_tcp_if_include "$network.0/24" --mca oob_tcp_if_include "$network.0/24" \
    "${keepalive[@]}" \
    "$program" "$@"
}

fail() {
  echo "error: $*" >&2
  exit 1
}

tokens=$(seq -s, 1 60)
text=(run -m "$model" -p Once -n 40 --temp 0 -q -t 1)
remove_hosts
make_hosts
"$program" logits -q -m "$model" --tokens "$tokens" -o "$tmp/alone" -t 1 -dev none
"$program" "${text[@]}" -dev none >"$tmp/alone.txt"
for flags in "-dev mpi" "-dev mpi -sm row" "-dev mpi -ub 8" "-dev mpi --mpi-files send"; do
  # shellcheck disable=SC2086
  job 3 logits -q -m "$model" --tokens "$tokens" -o "$tmp/ranks" -t 1 $flags
  cmp "$tmp/alone" "$tmp/ranks" || fail "$flags: other logits"
  # shellcheck disable=SC2086
  job 3 "${text[@]}" $flags >"$tmp/ranks.txt"
  cmp "$tmp/alone.txt" "$tmp/ranks.txt" || fail "$flags: other text"
  echo "same bits: $flags"
done

# rank_in HOST: the process of tessera in a namespace.
rank_in() { ip netns pids "$1" | while read -r pid; do
  [ "$(cat "/proc/$pid/comm" 2>/dev/null)" != tessera ] || echo "$pid"
done; }
hurt_kill() { kill -9 "$(rank_in hostb)"; }
hurt_stop() { kill -STOP "$(rank_in hostb)"; }
hurt_cut() { ip -n hostb link set net0 down; }
mend() { ip -n hostb link set net0 up; }

for way in kill stop cut; do
  longest=0
  for ((i = 0; i < n_kills; ++i)); do
    rm -f "$tmp/out"
    job 3 run -m "$model" -p Once -n 100000 -c 128 --context-shift --ignore-eos -t 1 -dev mpi --mpi-timeout 2 >"$tmp/out" 2>"$tmp/err" &
    job=$!
    until [ "$(stat -c %s "$tmp/out" 2>/dev/null || echo 0)" -gt 200 ]; do sleep 0.05; done
    begin=$(date +%s%N)
    "hurt_$way"
    status=0
    wait "$job" || status=$?
    took=$((($(date +%s%N) - begin) / 1000000))
    [ "$status" -ne 0 ] || fail "$way: the job ended well"
    grep -q 'error: mpi:1 (hostb)\|signal 9\|ORTE has lost communication' "$tmp/err" || fail "$way: $(cat "$tmp/err")"
    [ "$took" -le "$longest" ] || longest=$took
    mend
    for _ in $(seq 100); do
      [ -n "$(for host in "${hosts[@]}"; do rank_in "$host"; done)" ] || break
      sleep 0.1
    done
    [ -z "$(for host in "${hosts[@]}"; do rank_in "$host"; done)" ] || fail "$way: a process is left"
  done
  echo "$way: $n_kills jobs ended, the slowest after $longest ms"
done
