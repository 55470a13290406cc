# A machine that nobody prepared: 4 nodes of 4 GPUs without NVLink and 2 dual-port RoCE NICs each, on a 3:1 network with
# finite buffers.  Every kernel that needs no NVLink runs on it, and the link that is busiest stands on its drawing.
cat >odd.ini <<'END'
[cluster]
include = source/models/clusters/h100-cx7.ini
[nvlink]
gpus = 1
[node]
gpus = 4
nics = 2
sockets = 2
pcie-rate = 28.6 GB/s
root-rate = 20 GB/s
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
END
$EPTWIN cluster check odd.ini && $EPTWIN cluster show odd.ini >drawing
for kernel in 'll --num-tokens 16' 'v2 --num-tokens 64' alltoallv 'allgather --size 64KiB' 'p2p --size 4KiB'; do
    $EPTWIN simulate --cluster odd.ini --kernel $kernel --num-ranks 16 --output record.csv
    cp record.csv again.csv
    $EPTWIN simulate --cluster odd.ini --kernel $kernel --num-ranks 16 --output record.csv; cmp record.csv again.csv
    awk -F, '$3 == "busiest_link" { print $4 }' record.csv | tr - '\n' | sort -u | while read -r part; do
        grep -q "  $part " drawing || echo "$kernel: not on the drawing: $part"
    done
    awk -F, -v k="$kernel" '$3 == "busy_link_pct" && ($4 <= 0 || $4 > 100) { print k ": busy link " $4 }' record.csv
    grep -c busiest_link record.csv
done
alltoallv() {
    sed "s/^topology.*/topology = leaf-spine\nrouting = $1/" odd.ini >routed.ini
    $EPTWIN simulate --cluster routed.ini --kernel alltoallv --num-ranks 16 --matrix uniform:65536 --output - |
        awk -F, '$1 == "alltoallv" && $3 == "time_us_max" { print $4 }'
}
# Of two spines, static routing uses one: its uplink of 32 GB/s carries what 8 GPUs send to 8 others, in 131 us at best.
# Adaptive routing uses both and leaves the limit to PCIe: two GPUs' 2 MB over a NIC's 28.6 GB/s, in 69 us.
echo "$(alltoallv static) $(alltoallv adaptive) $(alltoallv ecmp)" |
    awk '{ print "static:", ($1 > 131 && $1 < 131 * 1.5 ? "by the uplink" : $1)
           print "adaptive:", ($2 > 69 && $2 < 131 ? "by PCIe" : $2)
           print "ecmp:", ($3 >= 0.99 * $2 && $3 <= $1 ? "between" : $3) }'
