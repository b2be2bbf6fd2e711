#!/usr/bin/env bash
# Checks and measures the GPU backends on a machine that has a GPU but neither a network nor our build:
#   gpu_check.sh pack                here: collects programs, libraries and llama.cpp's GPU libraries in .gpu/
#   gpu_check.sh vulkan [FILTER]     there: runs the Vulkan tests (FILTER: of GoogleTest)
#   gpu_check.sh cuda [FILTER]       there: runs the CUDA tests
#   gpu_check.sh bench [DEVICE...]   there: compares the speed with llama.cpp's (default: cuda:0 vulkan:0)
#   gpu_check.sh amx                 there, where the CPU has AMX: tests its kernels, and compares them with AVX-512
#   gpu_check.sh run COMMAND         there: runs a shell command in the folder of the 1B models with our programs
# `pack` needs build/release and what .gpu/ holds already (git ignores that folder): peer.tar.xz with llama.cpp's
# libraries and bench/gpu_peer, make_model.py and gguf_lite.py, and llama-spm.gguf. The other machine needs python3 with
# NumPy, and PyTorch for the figures of its memory. Logs go to $OUT (default: build/gpu). Environment variables:
#   BUILD_DIR           folder with the programs (default: build/release)
#   LOADER_DEBS         packages of the Vulkan loader and what it loads, for `pack` (default: /tmp/tessera_gpu_debs)
#   TEST_SECONDS        time limit of `vulkan` and `cuda` (default: 120)
#   TEST_JOBS           test processes at once (default: 4)
#   BENCH_SECONDS       no measurement starts later than this in `bench` (default: 150)
#   ROUNDS, REPEATS     rounds in turns, and repeats of each measurement in a round (defaults: 2 and 3)
#   FORMATS, UBATCHES   defaults: "f16 q8_0 q4_k_m" and 512,2048
#   N_PROMPT, N_GEN     defaults: 4096 and 128
set -uo pipefail
cd "$(dirname "$0")/.." || exit
unpacked=/tmp/tessera_gpu
models=/dev/shm/tessera_gpu
out=$(realpath -m "${OUT:-build/gpu}")

fail() {
  echo "gpu_check: $*" >&2
  exit 1
}

# pack: writes .gpu/ours.tar.xz. In lib/ are libraries that always come from here; lib/std/ and lib/x11/ serve only a
# machine that lacks them.
pack() {
  local build=${BUILD_DIR:-build/release} stage program library deb
  set -e
  stage=$(mktemp -d)
  # shellcheck disable=SC2064
  trap "rm -rf '$stage'" EXIT
  mkdir -p .gpu "$stage/bin" "$stage/lib/std" "$stage/lib/x11" "$stage/deb"
  for program in "$build"/bin/tessera "$build"/tests/test_{vulkan,cuda,cpu}_fast; do
    if [ ! -x "$program" ]; then
      echo "missing, not packed: $program" >&2
      continue
    fi
    strip -o "$stage/bin/${program##*/}" "$program"
    while read -r library; do
      case ${library##*/} in
        libc.so* | libm.so* | libpthread.so* | libdl.so* | librt.so* | ld-linux*) ;;
        # The driver's own, and CUDA's large ones, which the machine has.
        libcuda.so* | libnvidia* | libcublas* | libcudart* | libnvrtc*) ;;
        libstdc++.so* | libgcc_s.so*) cp -L "$library" "$stage/lib/std/" ;;
        *) cp -L "$library" "$stage/lib/" ;;
      esac
    done < <(ldd "$program" | awk '$2 == "=>" && $3 ~ "^/" {print $3}')
  done
  for deb in "${LOADER_DEBS:-/tmp/tessera_gpu_debs}"/*.deb; do dpkg -x "$deb" "$stage/deb"; done
  find "$stage/deb" \( -name 'libX*.so.*' -o -name 'libxcb.so.*' -o -name 'libbsd.so.*' -o -name 'libmd.so.*' \) \
    -exec cp -P {} "$stage/lib/x11/" \;
  find "$stage/deb" \( -name 'libvulkan.so.*' -o -name 'libEGL.so.*' -o -name 'libGL*.so.*' \
    -o -name 'libOpenGL.so.*' \) -exec cp -P {} "$stage/lib/" \;
  rm -rf "$stage/deb"
  # Tests find their data under the folder of the source code at build time.
  sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$build/CMakeCache.txt" >"$stage/source_dir"
  tar -C "$stage" -c . | xz -6 -T0 >.gpu/ours.tar.xz
  ls -l .gpu
  local tree carried
  tree=$(git ls-files -z --cached --others --exclude-standard | { xargs -0 du -cb 2>/dev/null || true; } |
    awk 'END {print $1}')
  carried=$(du -sb .gpu | cut -f1)
  awk -v a="$tree" -v b="$carried" \
    'BEGIN {printf "tree %.1f MiB + .gpu %.1f MiB = %.1f MiB, limit 64\n", a / 2^20, b / 2^20, (a + b) / 2^20}'
}

# unpack: unpacks what `pack` made, once, and sets the environment of our programs.
unpack() {
  local archive sum source_dir
  mkdir -p "$unpacked" "$out"
  for archive in ours peer; do
    [ -f ".gpu/$archive.tar.xz" ] || continue
    sum=$(cksum <".gpu/$archive.tar.xz")
    [ "$(cat "$unpacked/$archive.sum" 2>/dev/null)" = "$sum" ] && continue
    {
      # -I: ignores PYTHONPATH and the folder with our helpers.
      python3 -I -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' \
        ".gpu/$archive.tar.xz" "$unpacked" 2>/dev/null && echo "$sum" >"$unpacked/$archive.sum"
    } &
  done
  wait
  [ -x "$unpacked/bin/tessera" ] || fail "no program in .gpu/ours.tar.xz: run gpu_check.sh pack, and carry .gpu"
  source_dir=$(cat "$unpacked/source_dir")
  if [ ! -e "$source_dir" ]; then
    mkdir -p "${source_dir%/*}"
    ln -s "$PWD" "$source_dir"
  fi
  local known path=$unpacked/lib folder
  known=$(ldconfig -p)
  grep -q 'libstdc++\.so\.6' <<<"$known" || path+=:$unpacked/lib/std
  grep -q 'libX11\.so\.6' <<<"$known" || path+=:$unpacked/lib/x11
  for folder in /usr/local/nvidia/lib64 /usr/local/nvidia/lib; do
    [ -d "$folder" ] && path+=:$folder
  done
  libraries=$path
  # CUDA's libraries: those of a toolkit, or else those of the Python packages.
  local name found
  for name in libcudart.so.13 libcublas.so.13 libnvrtc.so.13; do
    grep -q "$name" <<<"$known" && continue
    found=$(find /usr/local/cuda/lib64/ /usr/local/cuda-13*/lib64/ /opt/torch/.venv/lib/python3*/site-packages/nvidia \
      -name "$name" 2>/dev/null | head -1)
    [ -n "$found" ] && libraries+=:${found%/*}
  done
  export HOME=$unpacked/home
  mkdir -p "$HOME"
  choose_driver
}

# ours COMMAND...: runs a program with the libraries that came along.
ours() { LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$@"; }

# finds_gpu: lists the devices, and tells whether Vulkan has a GPU of NVIDIA.
finds_gpu() {
  ours timeout 60 "$unpacked/bin/tessera" devices >"$out/devices.txt" 2>&1
  awk '/^device/ {name = $2} name ~ /^vulkan/ && /NVIDIA/ {found = 1} END {exit !found}' "$out/devices.txt"
}

# choose_driver: names the Vulkan driver if the loader finds no GPU of NVIDIA by itself.
choose_driver() {
  local icd
  finds_gpu && return
  for icd in /usr/local/nvidia/share/vulkan/icd.d/nvidia_icd.json /etc/vulkan/icd.d/nvidia_icd.json \
    /usr/share/vulkan/icd.d/nvidia_icd.json; do
    [ -f "$icd" ] || continue
    echo "the loader finds no GPU by itself; VK_DRIVER_FILES=$icd"
    export VK_DRIVER_FILES=$icd
    export __EGL_VENDOR_LIBRARY_FILENAMES=/usr/local/nvidia/share/glvnd/egl_vendor.d/10_nvidia.json
    break
  done
  finds_gpu && return
  echo "no GPU of NVIDIA among the devices. For a diagnosis:"
  find / -xdev \( -name '*nvidia*icd*.json' -o -name 'libGLX_nvidia.so*' -o -name 'libvulkan.so*' \) 2>/dev/null | head
  [ -d /usr/local/nvidia ] && find /usr/local/nvidia -name '*icd*.json' -o -name 'libGLX_nvidia*' -o -name 'libcuda.so*'
  VK_LOADER_DEBUG=error,warn ours timeout 20 "$unpacked/bin/tessera" devices 2>&1 | head -20
}

# run_some_tests PROGRAM LOG < NAMES: one of the parallel processes. A test that ends the process is noted, and
# the remaining tests run in a new one.
run_some_tests() {
  local program=$1 log=$2 names=() left=() status crashed name
  mapfile -t names
  : >"$log"
  while [ ${#names[@]} -gt 0 ]; do
    ours "$program" --gtest_color=no --gtest_filter="$(IFS=: && echo "${names[*]}")" >"$log.part" 2>&1
    status=$?
    cat "$log.part" >>"$log"
    grep -q '^\[==========\].* ran\.' "$log.part" && break
    crashed=$(grep -a '^\[ RUN      \]' "$log.part" | tail -1 | cut -c14-)
    [ -n "$crashed" ] || break
    echo "[  CRASHED ] $crashed (status $status)" >>"$log"
    left=()
    for name in "${names[@]}"; do grep -qxF "[ RUN      ] $name" "$log.part" || left+=("$name"); done
    [ ${#left[@]} -lt ${#names[@]} ] || break
    names=("${left[@]}")
  done
  # The part that a time limit cut off is in LOG.part alone.
  rm -f "$log.part"
}

# run_tests NAME FILTER: runs a test program in parallel processes and sums up.
run_tests() {
  local name=$1 filter=$2 program=$unpacked/bin/test_${1}_fast log=$out/$1_tests.log
  local jobs=${TEST_JOBS:-4} start=$SECONDS i
  [ -x "$program" ] || fail "$program was not packed"
  mkdir -p "$unpacked/shards"
  rm -f "$unpacked/shards/$name".*
  ours timeout 60 "$program" --gtest_list_tests --gtest_filter="$filter" |
    awk '/^[^ ].*\.( |$)/ {suite = $1; next} /^  [^ ]/ {print suite $1}' |
    grep -v DISABLED_ >"$unpacked/shards/$name.all"
  export -f ours run_some_tests
  export libraries
  for ((i = 0; i < jobs; ++i)); do
    awk -v n="$jobs" -v i="$i" 'NR % n == i' "$unpacked/shards/$name.all" >"$unpacked/shards/$name.$i.names"
    mkdir -p "$unpacked/shards/tmp.$i"
    # shellcheck disable=SC2016
    TMPDIR=$unpacked/shards/tmp.$i timeout -k 5 "${TEST_SECONDS:-120}" \
      bash -c 'run_some_tests "$1" "$2" <"$3"' _ "$program" "$unpacked/shards/$name.$i.log" \
      "$unpacked/shards/$name.$i.names" || echo "tests stopped: process $i, after $((SECONDS - start)) s" &
  done
  wait
  cat "$unpacked/shards/$name".*.log "$unpacked/shards/$name".*.part >"$log" 2>/dev/null
  for i in "$unpacked/shards/$name".*.part; do
    [ -f "$i" ] && echo "STOPPED $(grep -a '^\[ RUN      \]' "$i" | tail -1 | cut -c14-): cut off by the time limit"
  done
  # Each failure, with its first message.
  awk '/^\[ RUN      \]/ {name = substr($0, 14); text = ""; n = 0; next}
       /^\[  CRASHED \]/ {print "CRASHED " $4 ": " substr($0, 14); next}
       /^\[  FAILED  \] .*\(.* ms\)$/ {print "FAILED " name ": " text; next}
       /^\[/ {name = ""; next}
       name != "" && n < 4 && NF > 0 {text = text (n++ ? " | " : "") substr($0, 1, 200)}' "$log" |
    cut -c1-500 >"$unpacked/shards/$name.failures"
  head -40 "$unpacked/shards/$name.failures"
  count() { grep -acE "$1" "$log"; }
  echo "$name tests: $(wc -l <"$unpacked/shards/$name.all") listed, $(count '^\[       OK \]') passed," \
    "$(count '^\[  FAILED  \] .* ms\)$') failed, $(count '^\[  CRASHED \]') crashed," \
    "$(count '^\[  SKIPPED \].* ms\)$') skipped, $((SECONDS - start)) s"
  # The times of slow tests hint at kernels that are slow on this GPU.
  echo "slowest: $(grep -aE '^\[ +(OK|FAILED) +\] .* ms\)$' "$log" |
    sed 's/^[^]]*\] \([^ ,]*\).* (\([0-9]*\) ms)$/\2 \1/' | sort -rn | head -5 |
    awk '{printf "%s%s %.1f s", (NR > 1 ? ", " : ""), $2, $1 / 1000}')"
  # Processes compete for the GPU's memory, so what failed runs once more by itself.
  [ -s "$unpacked/shards/$name.failures" ] || return
  awk '{sub(/:$/, "", $2); print $2}' "$unpacked/shards/$name.failures" >"$unpacked/shards/$name.again"
  # shellcheck disable=SC2016
  timeout -k 5 "${AGAIN_SECONDS:-40}" bash -c 'run_some_tests "$1" "$2" <"$3"' _ "$program" \
    "$unpacked/shards/$name.again.log" "$unpacked/shards/$name.again"
  cat "$unpacked/shards/$name.again.log" >>"$log"
  echo "again, one by one: $(grep -acE '^\[       OK \]' "$unpacked/shards/$name.again.log") pass," \
    "$(grep -acE '^\[  FAILED  \] .* ms\)$|^\[  CRASHED \]' "$unpacked/shards/$name.again.log") do not"
}

# make_models: one model of random weights with the shape of Llama 3.2 1B, in each format.
make_models() {
  mkdir -p "$models"
  [ -f "$models/q4_k_m.gguf" ] && return
  timeout 60 python3 .gpu/make_model.py "$models/part" --preset 1b --vocab .gpu/llama-spm.gguf &&
    mv "$models/part" "$models/f16.gguf"
  ours timeout 60 "$unpacked/bin/tessera" quantize -q --pure --compat "$models/f16.gguf" "$models/q8_0.gguf" q8_0
  ours timeout 60 "$unpacked/bin/tessera" quantize -q --compat "$models/f16.gguf" "$models/part" q4_k_m &&
    mv "$models/part" "$models/q4_k_m.gguf"
  ls -l "$models"
}

# memory_speed: how fast the device's memory is, as a bound for generation.
memory_speed() {
  python3 -I - <<'PYTHON'
import torch

x = torch.ones(1 << 30, dtype=torch.float32, device="cuda").view(1 << 15, 1 << 15)  # 4 GiB
y = torch.empty_like(x)


def best(run):
    times = []
    for _ in range(12):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        run()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) * 1e-3)
    return sorted(times[2:])[len(times[2:]) // 2]


size = x.numel() * 4
print(torch.cuda.get_device_name(0))
print(f"memory, copy of 4 GiB: {2 * size / best(lambda: y.copy_(x)) * 1e-9:.0f} GB/s read and written")
print(f"memory, sum of 4 GiB:  {size / best(lambda: x.sum(dim=1)) * 1e-9:.0f} GB/s read")
PYTHON
}

# measure_ours DEVICE FORMAT, measure_theirs DEVICE FORMAT: append rows "device format test side tokens/s" to samples.
measure_ours() {
  ours timeout -k 5 "${RUN_SECONDS:-60}" "$unpacked/bin/tessera" bench -q -m "$models/$2.gguf" -dev "$1" -ngl all \
    -p "${N_PROMPT:-4096}" -n "${N_GEN:-128}" -ub "${UBATCHES:-512,2048}" -r "${REPEATS:-3}" -o jsonl \
    >"$unpacked/ours.jsonl" 2>>"$out/bench.log" || echo "ours on $1, $2: $(tail -1 "$out/bench.log")"
  cat "$unpacked/ours.jsonl" >>"$out/ours.jsonl"
  python3 -I - "$1" "$2" "$unpacked/ours.jsonl" >>"$out/samples.txt" <<'PYTHON'
import json
import sys

device, form, path = sys.argv[1:]
for line in open(path):
    try:
        row = json.loads(line)
    except ValueError:
        continue  # cut off by the time limit
    test = f"pp{row['n_prompt']}" if row["n_prompt"] else f"tg{row['n_gen']}"
    for rate in row["samples_ts"]:
        print(device, form, f"{test}/ub{row['n_ubatch']}", "ours", rate)
PYTHON
}
measure_theirs() {
  local kind=${1%%:*}
  rm -f "$unpacked/peer.log"
  GPU_PEER_LOG=$unpacked/peer.log LD_LIBRARY_PATH=$unpacked/peer/$kind:$libraries \
    timeout -k 5 "${RUN_SECONDS:-60}" "$unpacked/peer/gpu_peer" "$unpacked/peer/$kind" "$models/$2.gguf" \
    "${N_PROMPT:-4096}" "${N_GEN:-128}" "${UBATCHES:-512,2048}" "${REPEATS:-3}" \
    >"$unpacked/theirs.txt" 2>>"$out/bench.log" ||
    echo "theirs on $1, $2: $(tail -1 "$out/bench.log") $(LD_LIBRARY_PATH=$unpacked/peer/$kind:$libraries \
      ldd "$unpacked/peer/$kind/libggml-$kind.so" | grep 'not found')"
  awk -v device="$1" -v form="$2" '/^ub/ {
    print device, form, $3 "/ub" $2, "theirs", $4
    print device, form, $5 "/ub" $2, "theirs", $6}' "$unpacked/theirs.txt" >>"$out/samples.txt"
  cat "$unpacked/peer.log" 2>/dev/null >>"$out/bench.log"
}

# table: medians of the samples.
table() {
  printf '%-10s %-8s %-15s %12s %12s %8s %22s %22s\n' \
    device format test ours theirs ratio 'ours min..max' 'theirs min..max'
  sort -k1,1 -k2,2 -k3,3 -k4,4 -k5,5g "$out/samples.txt" | awk '
    function spread(side) { return n[side] ? sprintf("%.0f..%.0f", v[side, 1], v[side, n[side]]) : "-" }
    function median(side, m) {
      m = n[side]
      return m == 0 ? 0 : (v[side, int((m + 1) / 2)] + v[side, int(m / 2) + 1]) / 2
    }
    function row(a, b) {
      if (key == "") return
      a = median("ours"); b = median("theirs")
      split(key, k, " ")
      printf "%-10s %-8s %-15s %12.1f %12.1f %8s %22s %22s\n", k[1], k[2], k[3], a, b,
        (a && b ? sprintf("%.2f", a / b) : "-"), spread("ours"), spread("theirs")
    }
    { if ($1 " " $2 " " $3 != key) { row(); key = $1 " " $2 " " $3; n["ours"] = n["theirs"] = 0 }
      v[$4, ++n[$4]] = $5 }
    END {row()}'
}

bench() {
  local devices=("$@") round device form start=$SECONDS
  [ $# -gt 0 ] || devices=(cuda:0 vulkan:0)
  nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,power.limit --format=csv,noheader 2>/dev/null
  make_models
  echo "models: $((SECONDS - start)) s"
  timeout 60 bash -c "$(declare -f memory_speed)"$'\n''memory_speed' 2>&1 | tail -4
  rm -f "$out/samples.txt" "$out/ours.jsonl" "$out/bench.log"
  touch "$out/samples.txt" "$out/bench.log"
  for ((round = 0; round < ${ROUNDS:-2}; ++round)); do
    for form in ${FORMATS:-f16 q8_0 q4_k_m}; do
      for device in "${devices[@]}"; do
        if [ $((SECONDS - start)) -ge "${BENCH_SECONDS:-150}" ]; then
          echo "out of time: skipped round $round, $device, $form"
          continue
        fi
        measure_ours "$device" "$form"
        measure_theirs "$device" "$form"
        echo "  $((SECONDS - start)) s: round $round, $device, $form" >&2
      done
    done
  done
  grep -hiE 'offloaded|flash attention|^ggml_(vulkan|cuda).*(NVIDIA|Device)|using device' "$out/bench.log" 2>/dev/null |
    sort -u | head -12
  echo "prefill of ${N_PROMPT:-4096} and generation of ${N_GEN:-128} tokens, tokens/s, median of" \
    "${ROUNDS:-2} rounds of ${REPEATS:-3}, $((SECONDS - start)) s:"
  table | tee "$out/table.txt"
}

# amx: products of this CPU's tile unit, beside those of AVX-512 on the same CPU.
amx() {
  local round format isa
  grep -qw amx_int8 /proc/cpuinfo || fail "this CPU has no AMX"
  run_tests cpu '*amx_*:MatmulKernelsAcrossIsas.*'
  make_models
  for ((round = 0; round < ${ROUNDS:-2}; ++round)); do
    for format in q8_0 q4_k_m; do
      for isa in avx512 amx; do
        echo "round $round, $format, $isa:"
        TESSERA_ISA=$isa ours timeout -k 5 "${RUN_SECONDS:-60}" "$unpacked/bin/tessera" bench -q \
          -m "$models/$format.gguf" -dev none -p 512 -n 32 -r "${REPEATS:-3}" --explain
      done
    done
  done | tee "$out/amx.txt"
}

case "${1:-}" in
  pack) pack ;;
  amx)
    unpack
    amx
    ;;
  vulkan | cuda)
    unpack
    awk -v kind="$1" '/^device/ {shown = $2 ~ kind} shown && !/^(matrices|rows|kv cache) /' "$out/devices.txt"
    run_tests "$1" "${2:-*}"
    ;;
  bench)
    unpack
    shift
    bench "$@"
    ;;
  run)
    unpack
    shift
    make_models
    ours bash -c "PATH=$unpacked/bin:\$PATH; cd $models; $*"
    ;;
  *)
    echo "usage: gpu_check.sh pack | vulkan [FILTER] | cuda [FILTER] | bench [DEVICE...] | amx | run COMMAND" >&2
    exit 2
    ;;
esac
