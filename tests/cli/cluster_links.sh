# A node whose PCIe no keys describe: its links one by one, and which NIC each GPU uses.
cat >odd.ini <<'END'
[cluster]
name = three GPUs, NICs crossed
include = h100-cx7
[nvlink]
gpus = 3
over = pcie
egress-rate = 50 GB/s
ingress-rate = 50 GB/s
[node]
nics = 2
nic-of = 1 0 1
[links]
g0 - pcie0 = 50 GB/s, 100 ns
g1 - pcie0 = 50 GB/s, 100 ns
nic0 - pcie0 = 50 GB/s, 100 ns
pcie0 - root0 = 25 GB/s
root0 - root1 = 15 GB/s, 300 ns
g2 - root1 = 40 GB/s
nic1 - root1 = 40 GB/s
END
$EPTWIN cluster check odd.ini
$EPTWIN cluster show odd.ini
$EPTWIN cluster show odd.ini --svg odd.svg --mark n0.root0-n0.root1 --mark n0.pcie0-n0.root0 --mark n0.g2-n0.root1 && echo drawn
echo '-- GPU 0 puts through NIC 1: 100 messages of 1 MiB cross the sockets at 15 GB/s'
stream() {
    $EPTWIN simulate --cluster odd.ini --kernel p2p --size 1MiB --num-ranks 2 --ranks-per-node 1 "$@" |
        awk -F, '$1 == "put_stream" && ($3 == "busiest_link" || $3 == "busy_link_pct") { print $3, $3 ~ /pct/ ? ($4 > 97) : $4 }
                 $1 == "put_stream" && $3 == "time_us_max" { print ($4 > 6990.5 && $4 < 1.02 * 6990.5) ? "as long as that takes" : $4 }'
}
stream
$EPTWIN simulate --cluster odd.ini --kernel allgather --num-ranks 6 --format text | sed -n '/^allgather /p'
$EPTWIN simulate --cluster odd.ini --num-ranks 6 --num-tokens 16 --num-experts 24 --fault 'link:n0.root0-n0.root1 rate=0.1' |
    grep busiest_link,
echo '-- what cannot be'
bad() { $EPTWIN cluster check bad.ini; echo "exit $?"; }
grep -v '^root0' odd.ini >bad.ini; bad
grep -v '^nic1' odd.ini >bad.ini; bad
(cat odd.ini; echo 'g3 - root1 = 40 GB/s') >bad.ini; bad
(cat odd.ini; echo 'root1 - root0 = 40 GB/s') >bad.ini; bad
(cat odd.ini; echo 'root1 - root1 = 40 GB/s') >bad.ini; bad
(cat odd.ini; echo 'g1 - leaf0 = 40 GB/s') >bad.ini; bad
sed 's/^nic-of.*/&\npcie-rate = 50 GB\/s/' odd.ini >bad.ini; bad
sed 's/^nic-of.*/nic-of = 0 1/' odd.ini >bad.ini; bad
sed 's/^nic-of.*/nic-of = 0 1 2/' odd.ini >bad.ini; bad
sed 's/^nic-of.*/nic-of = 0 one 1/' odd.ini >bad.ini; bad
(grep -v '^pcie0 - root0' odd.ini
 printf '%s = 9 GB/s\n' 'pcie0 - pcie1' 'pcie1 - pcie2' 'pcie2 - pcie3' 'pcie3 - root0') >bad.ini; bad
