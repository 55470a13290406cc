# Who posts, and what is broken: each backend and each fault changes what it should; what names nothing is refused.
cat >two.ini <<'END'
[cluster]
include = source/models/clusters/h100-cx7.ini
[network]
topology = leaf-spine
nodes-per-leaf = 1
spines = 4
hop = 450 ns
END
run() { $EPTWIN simulate --cluster two.ini --num-ranks 16 --num-tokens 64 --output - "$@"; }
worst() { run "$@" | awk -F, '$3 == "time_us_max" { sum += $4 } END { print sum }'; }
than() { awk -v a="$1" -v b="$2" 'BEGIN { print (b > 1.02 * a ? "slower" : "not slower") }'; }
usual=$(worst)
for backend in ibgda ibgda-cpu ibrc libfabric gin-proxy nccl gdaki nixl uccl uccl-2025 uccl-efa verbs; do
    echo "$backend: $(than $usual $(worst --backend $backend))"
done
for fault in 'nic:n1.g3 rate=0.5' 'nic:n1.nic3 down' 'link:leaf0-spine1 rate=0.25' 'link:leaf0-spine1 down' \
             'link:leaf0-spine1 down|link:leaf0-spine2 down|link:leaf0-spine3 down' 'rank:5 slow=8' 'nics: all-on=0' \
             'link:n0.g0-n0.nvlink rate=0.02'; do
    echo "$fault: $(than $usual $(worst --fault "$fault"))"
done
echo "-- nobody measured a broken machine, so no error is known"
for broken in "--fault=qp:one" "--slow 5:8x" ""; do
    run $broken --format text | awk '/^dispatch/ { print ($3 == "-" ? "none" : "one") }'
done
echo "-- several at once count together"
same() { for faults in "$1" "$2"; do run $3 --fault "$faults" | grep -v '^#' | cksum; done | uniq | wc -l; }
same 'rank:5 slow=8' 'rank:5 slow=2|rank:5 slow=4'
same 'nic:n1.g3 rate=0.25' 'nic:n1.nic3 rate=0.5|nic:n1.g3 rate=0.5'
slow() { run "$@" | grep -v '^#' | cksum; }
(slow --slow 5:8x; slow --slow 5:2x --fault 'rank:5 slow=4') | uniq | wc -l
run --fault 'rank:5 slow=500|rank:5 slow=500'
mapped=$(worst --backend ibrc)
worst --backend ibrc --fault 'gdrcopy: off' | awk -v a="$mapped" '{ print "gdrcopy: off:", ($1 > a ? "slower" : "not") }'
run --fault 'link:leaf0-spine1 rate=0.25' | grep 'busiest_link,'
run --backend ibrc --fault 'qp: one' | grep -E '^# (backend|fault)'
echo "-- a signal that a thread takes in comes behind the bytes before it, also from a slow port over links that are idle"
$EPTWIN simulate --cluster source/models/clusters/h100-cx7.ini --kernel normal --num-ranks 16 --cached --num-sms 24 \
    --num-tokens 2048 --backend ibrc --nvl-chunk 4 --rdma-chunk 4 --fault 'nic:n0.g0 rate=0.1' --output - |
    grep -c '^dispatch,all,time_us,'
echo "-- what is not there"
for fault in 'nic:n9.g0 down' 'nic:n0.g0 slow' 'nic:leaf0 down' 'nic:n0.g0' 'link:leaf0-spine9 down' 'link:leaf0 down' \
             'link:leaf0-spine0 rate=2' 'rank:16 slow=2' 'rank:1 slow=0.5' 'qp: two' 'nics: all-on=8' 'gdrcopy: off' \
             'fan:n0 down' '' '|' \
             'link:leaf0-spine0 down|link:leaf0-spine1 down|link:leaf0-spine2 down|link:leaf0-spine3 down' \
             "$(printf 'nic:n1.nic%d down|' 0 1 2 3 4 5 6)nic:n1.nic7 down" 'link:leaf0-leaf0 down' 'link:leaf0' 'link:' \
             'link:leaf0-spine0 rate=nan' 'link:n0.g0-n0.root0 rate=0.5' 'link:n0.g0-n0.root0 down' \
             'link:n0.nic0-n0.nic0.p0 down' 'link:n0.g3-n0.nvlink down' 'nonsense' 'rank:1 slow=1e9'; do
    run --fault "$fault"; echo "status $?"
done
echo "-- PCIe"
sed 's/^\[network\]/[nvlink]\nover = pcie\n[node]\nsockets = 2\npcie-rate = 28 GB\/s\n&/' two.ini >pcie.ini
pcie() { $EPTWIN simulate --cluster pcie.ini --num-ranks 16 --num-tokens 64 --output - "$@"; echo "status $?"; }
pcie | grep -E 'busiest_link,|status'
pcie --fault 'link:n1.g2-n1.root0 rate=0.2' | grep -E 'busiest_link,|status'
pcie --fault 'link:n1.root0-n1.root1 down'
sed 's/^over.*/&\ngpus = 65/' pcie.ini >many.ini
$EPTWIN cluster check many.ini; echo "status $?"
run --backend pigeon; echo "status $?"
$EPTWIN cluster backends | grep -c '^[a-z]'
$EPTWIN cluster backends all; echo "status $?"
