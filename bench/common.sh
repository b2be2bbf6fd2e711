# Shared by the benchmarks that compare runs.

# median: of the numbers on stdin.
median() { sort -g | awk '{v[NR] = $1} END {print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2}'; }
# cpu_name: as the system tells it.
cpu_name() { sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1; }
