# Machines written down: drawn with every rate, and refused with file and line where they cannot be.
cp -r source/models/clusters/parts .
cat source/models/clusters/h100.ini source/models/clusters/parts/connectx7.ini >gpu.ini
cat >odd.ini <<'END'
[cluster]
name = four PCIe GPUs, two dual-port NICs, 3:1
include = gpu.ini
[nvlink]
gpus = 1
[node]
gpus = 4
nics = 2
sockets = 2
pcie-rate = 28.6 GB/s
root-rate = 20 GB/s
socket-rate = 15 GB/s
[nic]
ports = 2
rate = 24 GB/s
[network]
topology = leaf-spine
nodes = 4
nodes-per-leaf = 2
spines = 2
oversubscription = 3:1
hop = 450 ns
END
$EPTWIN cluster show odd.ini
for t in rail fat-tree dragonfly; do
    sed "s/^topology.*/topology = $t/; s/^nodes-per-leaf.*/nodes-per-leaf = 1\nleaves-per-pod = 2/" odd.ini >$t.ini
    echo "-- $t"; $EPTWIN cluster show $t.ini | sed -n '/^network/,$p'
done
echo "-- by links"
written() {
    sed -e 's/^topology.*/topology = links/; /^nodes-per-leaf/d; /^spines/d; /^oversub/d' \
        -e 's/^nodes = 4/nodes = 2/; s/^ports.*/ports = 1/' odd.ini
    echo '[links]'
    cat
}
written <<'END' >links.ini
n0.nic0 - a = 24 GB/s, 300 ns
n0.nic1 - b = 24 GB/s, 300 ns
n1.nic0 - a = 24 GB/s, 300 ns
n1.nic1 - b = 24 GB/s, 300 ns
a - b = 12 GB/s, 400 ns
END
$EPTWIN cluster show links.ini | sed -n '/^network/,$p'
echo "-- what cannot be"
bad() { $EPTWIN cluster check bad.ini; echo "exit $?"; }
grep -v '^a - b' links.ini >bad.ini; bad
grep -v '^n1.nic1' links.ini >bad.ini; bad
(cat links.ini; echo 'n0.nic5 - a = 1 GB/s') >bad.ini; bad
(cat links.ini; echo 'b - a = 1 GB/s') >bad.ini; bad
(cat links.ini; echo 'c - c = 1 GB/s') >bad.ini; bad
(cat links.ini; echo 'c - a = fast') >bad.ini; bad
sed 's/^topology.*/topology = ring/' odd.ini >bad.ini; bad
sed 's/^oversub.*/oversubscription = 0.5/' odd.ini >bad.ini; bad
sed 's/^sockets.*/sockets = 65/' odd.ini >bad.ini; bad
sed 's/^nodes = 4/nodes = 60000/; s/^nodes-per-leaf.*/nodes-per-leaf = 1/; s/^spines.*/spines = 60000/' odd.ini >bad.ini; bad
sed 's/^nodes = 4/nodes = 60000/; s/^ports.*/ports = 60000/' odd.ini >bad.ini; bad
sed 's/^include.*/include = nowhere.ini/' odd.ini >bad.ini; bad
sed 's/^include.*/include = bad.ini/' odd.ini >bad.ini; bad
sed -i 's/^sms.*/sms = many/' gpu.ini; cp odd.ini bad.ini; bad
$EPTWIN cluster show; echo "exit $?"
$EPTWIN cluster check; echo "exit $?"
$EPTWIN cluster show odd.ini 0; echo "exit $?"
echo "-- DCQCN"
cat source/models/clusters/h100.ini source/models/clusters/parts/connectx7.ini >gpu.ini
roce() { sed "s/^include.*/include = gpu.ini|parts\/dcqcn-$1.ini/; s/^topology.*/&\nrouting = spray/" odd.ini; }
roce nvidia >roce.ini; $EPTWIN cluster check roce.ini && $EPTWIN cluster show roce.ini | grep ^network
roce sigcomm15 >roce.ini; $EPTWIN cluster check roce.ini && $EPTWIN cluster show roce.ini | grep ^network
dcqcn() { (roce nvidia; printf '[dcqcn]\n'; printf '%s\n' "$@") >bad.ini; bad; }
dcqcn 'mark-all = 1 MB'
dcqcn 'gain = 5/0'
dcqcn 'gain = 0'
dcqcn 'mark-share = 1.5'
dcqcn 'mark-share = 1/'
dcqcn 'cnp-interval = 0 us'
dcqcn 'raise-bytes = 0 B'
dcqcn 'clamp-target = maybe'
dcqcn 'cnp = 4 us'
roce fuller >bad.ini; bad
printf '[dcqcn]\nmark-from = 5 KB\n' >part.ini; sed 's/^include.*/include = gpu.ini|part.ini/' odd.ini >bad.ini; bad
echo "-- across rails by NVLink"
sed 's/^topology.*/topology = rail\ncross-rail = nvlink/; s/^gpus = 1/gpus = 4/; s/^nodes = 4/nodes = 2/' odd.ini >rail.ini
$EPTWIN cluster check rail.ini && $EPTWIN cluster show rail.ini | sed -n '/^network/p; /^paths/,$p'
sed 's/^gpus = 4/gpus = 1/' rail.ini >bad.ini; bad
sed 's/^topology.*/topology = fat-tree/' rail.ini >bad.ini; bad
sed 's/^cross-rail.*/cross-rail = pxn/' rail.ini >bad.ini; bad
echo "-- what included files leave out, and take away"
printf '[cluster]\ninclude = parts/hopper.ini\n[nvlink]\ngpus = 8\n' >bad.ini; bad
printf '[cluster]\ninclude = h100-cx7\n[node]\nnics = 0\n' >none.ini
$EPTWIN cluster show none.ini | sed -n 's/^node: //p; /^network/p'
$EPTWIN simulate --cluster none.ini --num-ranks 16; echo "exit $?"
printf '[cluster]\ninclude = h200\n[network]\nlatency = 1 us\n' >bad.ini; bad
printf '[cluster]\ninclude = h100-cx7\n[node]\nroot-rate = 22 GB/s\n' >root.ini
$EPTWIN cluster show root.ini 1 | grep n0.g0
$EPTWIN cluster show h800-cx7 1 | grep ^network
