# What a machine's network, its lack of NVLink and its order of messages make of times.  cluster_unprepared.sh runs every
# kernel and backend on a machine that nobody prepared.
cat >odd.ini <<'END_OF_FILE'
[cluster]
include = h100-cx7
[nvlink]
gpus = 4
over = pcie
egress-rate = 20 GB/s
ingress-rate = 20 GB/s
[node]
gpus = 4
nics = 2
sockets = 2
pcie-rate = 28.6 GB/s
root-rate = 24 GB/s
socket-rate = 20 GB/s
[nic]
ports = 2
rate = 24 GB/s
header = 82 B
mtu = 1024 B
ack = 78 B
[network]
topology = leaf-spine
nodes = 4
nodes-per-leaf = 2
spines = 2
oversubscription = 3:1
hop = 450 ns
buffer = 1 MB
quantum = 16 KiB
END_OF_FILE
$EPTWIN cluster show odd.ini | grep '^network'
alltoallv() {
    sed "s/^topology.*/topology = leaf-spine\nrouting = $1/" odd.ini >routed.ini
    $EPTWIN simulate --cluster routed.ini --kernel alltoallv --num-ranks 16 --matrix uniform:65536 --output - |
        awk -F, '$1 == "alltoallv" && $3 == "time_us_max" { print $4 }'
}
# V2's epilogues copy in the GPU's own memory: what they could not be faster than is its time.
$EPTWIN simulate --cluster h200 --kernel v2 --num-ranks 2 --num-tokens 2048 --output record.csv
awk -F, '$1 == "combine_reduce" && $3 ~ /^(bottleneck|bound_tightest)$/ { print $1, $3, $4 }
         $1 == "combine_reduce" && $3 == "efficiency_pct" { print ($4 > 85 && $4 <= 100 ? "by it alone nearly as long" : $4) }' record.csv
# Of two spines, static routing uses one: its uplink of 32 GB/s carries what 8 GPUs send to 8 others, in 131 us at best.
# Adaptive routing uses both and leaves the limit to PCIe: two GPUs' 1.6 MB to other nodes over a NIC's 28.6 GB/s, in 55.
echo "$(alltoallv static) $(alltoallv adaptive) $(alltoallv ecmp)" |
    awk '{ print "static:", ($1 > 131 && $1 < 131 * 1.5 ? "by the uplink" : $1)
           print "adaptive:", ($2 > 55 && $2 < 131 ? "by PCIe" : $2)
           print "ecmp:", ($3 >= 0.99 * $2 && $3 <= $1 ? "between" : $3) }'
# GPUs that nothing joins have only their NICs.
sed '/^over/d; s/^gpus = 4/gpus = 1/' odd.ini >alone.ini
$EPTWIN simulate --cluster alone.ini --num-ranks 16 --ranks-per-node 4; echo "exit $?"
# What a queue pair sends arrives in order, though a short message may fit where a busy link has a gap.
$EPTWIN simulate --cluster h100-cx7 --kernel normal --cached --num-ranks 32 --dtype bf16 --num-tokens 128 \
    --set network.topology=leaf-spine \
    --set network.nodes-per-leaf=1 --set network.routing=ecmp --set network.flow-key=address --set network.spines=8 \
    --output order.csv
grep -c '^combine,all,time_us,' order.csv

# Without NVLink normal kernels store over PCIe, whose rate the cluster must say; V2 kernels send by the NIC.
$EPTWIN simulate --cluster h100-cx7 --kernel normal --num-ranks 8 --num-tokens 64 --disable-nvlink 2>&1 | sed "s|of .*h100|of h100|"
$EPTWIN simulate --cluster h100-cx7 --kernel normal --num-ranks 8 --num-tokens 128 --disable-nvlink --set node.pcie-rate=57GB/s |
  grep -c '^\(dispatch\|combine\),all,bottleneck,link,$'
$EPTWIN simulate --cluster h100-cx7 --kernel v2 --num-ranks 4 --num-tokens 64 --disable-nvlink |
  grep -c '^\(dispatch\|combine\),all,physical_nvl_gbs,0,'
