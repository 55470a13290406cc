# Which part bounds a phase: the one that is busiest while the slowest rank runs, of whatever rank, with all its bytes.
run() { $EPTWIN simulate --cluster h100-cx7 --num-ranks 32 --num-experts 256 "$@"; }
table() {
    grep -E '^(dispatch|combine)' |
        sed -E 's/^([a-z_]+) .*  ([A-Za-z].*, [0-9]+ % busy|steps and latencies|no single part) *(.*)$/\1: \2; \3/'
}
row() { awk -F, -v OFS=, -v phase="$1" -v metric="$2" '$1 == phase && $3 == metric { print $4 }' record.csv; }

echo '# rank 0 returns the rows of a fifth of all tokens, long after its own kernel has ended'
run --routing hot-rank:0.2 --format text | table
echo '# one NIC at a quarter of its rate'
run --fault 'nic:n0.g0 rate=0.25' --format text | table
echo '# the record says the same; the bytes take so long at that rate, and no longer than the time'
run --routing hot-rank:0.2 --output record.csv >/dev/null
grep '^combine,all,bottleneck' record.csv | sed -E 's/(busy_pct|over_mean|_us|_bytes),([0-9.]+)/\1,N/'
awk -F, '$1 == "combine" { v[$3] = $NF == "B" || $NF == "us" || $NF == "GB/s" || $NF == "%" ? $(NF - 1) : $4 }
    END { at_rate = v["bottleneck_bytes"] / v["bottleneck_rate_gbs"] / 1e3
          print (at_rate <= v["bottleneck_us"] && at_rate > 0.97 * v["time_us_max"] ? "all of the time" : at_rate)
          print (v["bottleneck_us"] <= v["time_us_max"] ? "in the time" : "above the time")
          d = v["bottleneck_busy_pct"] - v["efficiency_pct"]; print (d < 1e-6 && d > -1e-6 ? "one share" : d) }' record.csv
echo '# to 24 ranks of other nodes, 128 tokens each, of 8 choices a fifth and a 32nd of the rest: 5530 rows of 14336 bytes'
row combine bottleneck_bytes | awk '{ rows = $1 / 14336; print (rows > 0.95 * 5530 && rows < 1.02 * 5530 ? "all of them" : rows) }'
echo '# shared parts: a NIC of two GPUs, an uplink, PCIe, a thread that posts, few SMs'
run --set nic.gpus-per-nic=2 --format text | table
run --set network.topology=leaf-spine --set network.nodes-per-leaf=1 --set network.spines=1 --set network.oversubscription=4:1 \
    --format text | table
run --set node.pcie-rate=20GB/s --format text | table
run --num-tokens 32 --hidden 512 --backend ibrc --format text | table
$EPTWIN simulate --cluster h100-cx7 --num-ranks 8 --num-experts 64 --num-tokens 2048 --num-sms 4 --format text | table
echo '# compare and report print it, too'
run --output even.csv >/dev/null
$EPTWIN compare record.csv even.csv --force | grep '^combine ' | grep -o 'NIC of rank 0, sending, [0-9]* % busy'
$EPTWIN report page.html record.csv && grep -o 'combine [a-z ]*by the NIC of rank 0, sending, [0-9]*.*% busy' page.html
for kernel in ll normal; do
    $EPTWIN simulate --cluster h100-cx7 --num-ranks 8 --num-experts 64 --num-tokens 2048 --num-sms 4 --kernel $kernel --output few.csv
    $EPTWIN report page.html few.csv && grep -oE 'Dispatch is bound by no [^)]*\)|no part is busy' page.html | sort -u
done

echo '# every NIC at a quarter: all of --explain counts with its rate'
slow=$(for n in 0 1 2 3; do for g in 0 1 2 3 4 5 6 7; do printf 'nic:n%d.g%d rate=0.25|' $n $g; done; done)
run --fault "${slow%|}" --explain | sed -n '/^dispatch:/,/^$/p' | grep -oE 'GB/s|at [0-9.]+ GB/s|its other work.*' |
    grep -v '^GB' | grep -v '[0-9][0-9][0-9] GB' | sed -E 's/ +[0-9.]+ us +([0-9]+) %/: \1 %/' | sort | uniq -c
run --set nic.rate=11.675GB/s --explain | sed -n '/^dispatch:/,$p' >set.txt
run --fault "${slow%|}" --explain | sed -n '/^dispatch:/,$p' | cmp - set.txt && echo 'as with a slower rate in the file'
