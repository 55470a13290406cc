# No part is busy for more than the time there is, no bound is above the time, and a bottleneck is never "latency" where
# the tightest bound takes half the time.
cat >host.ini <<'H'
[host]
cores = 2
step = 50 ns
poll = 1 us
switch = 2 us
store = 100 ns
store-rate = 5 GB/s
put = 200 ns at 0 B, 450 ns at 1 KB, 2.2 us at 9000 B
signal = 70 ns
copy-row = 10 ns
copy-rate = 8 GB/s
cast-row = 20 ns
cast-rate = 1 GB/s
reduce-row = 0 ns
reduce-rate = 2 GB/s
sum-row = 0 ns
sum-rate = 4 GB/s
scan-rate = 3 GB/s
H
for cluster in h800-cx7 host.ini; do
    for kernel in ll normal v2; do
        for ranks in 2 4 8; do
            for routing in uniform hot-rank:0.8; do
                $EPTWIN simulate --cluster $cluster --kernel $kernel --num-ranks $ranks --num-tokens 32 --hidden 1024 \
                    --num-experts $((ranks * 4)) --num-topk 4 --routing $routing --output r.csv || echo "$cluster $kernel $ranks"
                awk -F, -v run="$cluster $kernel $ranks $routing" '
                    /^[a-z]/ && $1 != "phase" { rows++ }
                    /_pct,/ && $4 > 100.0000001 { print run ": " $0 }
                    $3 == "bottleneck" { bottleneck = $4 }
                    $3 == "bound_tightest" { tightest = $4 }
                    $3 == "efficiency_pct" && bottleneck == "latency" && tightest != "latency" && $4 >= 50 {
                        print run ": " $1 ": latency, but " tightest " takes " $4 " %" }
                    END { if (!rows) print run ": no rows" }' r.csv
            done
        done
    done
done 2>&1
$EPTWIN simulate --cluster host.ini --num-ranks 4 --num-tokens 8 --hidden 512 --num-experts 16 --output r.csv
grep -oE 'dispatch,all,(bound_[a-z]+_us|bound_tightest,[a-z]+|bottleneck,[a-z]+)' r.csv
echo "-- a host's links are its own"
$EPTWIN simulate --cluster host.ini --num-ranks 4 --num-tokens 8 --hidden 512 --num-experts 16 --backend ibrc; echo "exit $?"
