# A machine that nobody prepared, in fewer than 30 lines: checked, drawn, run with every kernel and backend; what bounds
# each phase is on the drawing under its name.
cat >boxes.ini <<'END'
[cluster]
name = 4 GPUs on PCIe, 2 dual-port RoCE NICs, 3:1
include = parts/roce.ini|parts/connectx7.ini|parts/hopper.ini
[gpu]
sms = 114
hbm-rate = 1700 GB/s
[nvlink]
gpus = 4
over = pcie
egress-rate = 50 GB/s
ingress-rate = 50 GB/s
[node]
nics = 2
sockets = 2
pcie-switches = 2
pcie-rate = 50 GB/s
socket-rate = 30 GB/s
socket-latency = 300 ns
[nic]
ports = 2
rate = 24 GB/s
[network]
topology = leaf-spine
nodes = 4
nodes-per-leaf = 2
spines = 2
oversubscription = 3:1
hop = 300 ns
END
[ "$(wc -l <boxes.ini)" -lt 30 ] && echo 'fewer than 30 lines'
$EPTWIN cluster check boxes.ini
$EPTWIN cluster show boxes.ini
marks() { # every bound and every kind of part that a record names; bounds of several words are no parts
    awk -F, '$2 == "all" && ($3 == "bottleneck" || $3 == "bound_tightest" || $3 == "busiest_link") { print $4 }
             $2 == "all" && $3 ~ /^bound_.*_us$/ || $3 ~ /^busy_.*_pct$/ { gsub(/^(bound|busy)_|_(us|pct)$/, "", $3); print $3 }' |
        sort -u | grep -vx '.* .*\|link' | sed 's/^/--mark=/'
}
run() {
    $EPTWIN simulate --cluster boxes.ini --num-ranks 16 "$@" --output record.csv >/dev/null || return
    awk -F, -v run="$*" '$3 == "busy_link_pct" && ($4 <= 0 || $4 > 100) { print run ": busy link " $4 }' record.csv
    $EPTWIN cluster show boxes.ini --svg drawn.svg $(marks <record.csv) && echo "$*: drawn"
}
for kernel in 'll --num-tokens 16' 'normal --num-tokens 64' 'v2 --num-tokens 64' p2p allgather allreduce \
    'alltoallv --matrix uniform:65536'; do
    for backend in ibgda ibgda-cpu ibrc libfabric gin-proxy nccl gdaki nixl uccl uccl-2025 uccl-efa mpi tcp verbs; do
        run --kernel $kernel --backend $backend
    done
done >runs
for kernel in 'll --launch stream' 'normal --cached' 'alltoallv --matrix uniform:65536 --compute 100us'; do
    run --kernel $kernel --num-tokens 64
done >>runs
grep -c drawn runs
grep -v ': drawn' runs
echo '-- busiest within a node: from socket to socket; between leaves: the uplinks'
$EPTWIN simulate --cluster boxes.ini --num-ranks 4 --kernel v2 --format text | grep '^dispatch '
$EPTWIN simulate --cluster boxes.ini --num-ranks 16 --kernel alltoallv --matrix uniform:1048576 --explain |
    sed -n '/^alltoallv:/,$p'
echo '-- NICs that ranks share, and several ports: each port, who uses it, its bytes and its rate'
shared() {
    $EPTWIN simulate --cluster boxes.ini --num-ranks 16 --kernel alltoallv --matrix uniform:1048576 --explain "$@" |
        grep -m1 '[Nn][Ii][Cc].*, sending: '
}
shared
shared --set nic.ports=1
shared --set nic.ports=1 --fault 'nics: all-on=1'
shared --set nic.ports=1 --set node.nics=8
