# Ranks that launch late, follow on without a barrier, or are slow; and what cannot be meant.
run() { "$EPTWIN" simulate --cluster h800-cx7 --num-ranks 16 --num-tokens 16 "$@"; }
time_max() { run "$@" | awk -F, '$1 == "dispatch" && $3 == "time_us_max" { print $4 }'; }
more() { awk -v a="$1" -v b="$2" -v by="$3" 'BEGIN { print (b - a > by ? "slower" : "not slower") }'; }
usual=$(time_max)
more $usual $(time_max --arrival '0us|40us|0us|0us|0us|0us|0us|0us|0us|0us|0us|0us|0us|0us|0us|0us') 30
more $usual $(time_max --slow '3:4x|5:1.5') 2
echo "-- eight times as slow: at most eight times as long, in every kernel"
tokens='--num-tokens 16'
for kernel in "ll $tokens" "normal --cached $tokens" "v2 $tokens" 'alltoallv --matrix uniform:16384' allgather allreduce; do
    for slow in 1 8; do
        "$EPTWIN" simulate --cluster h800-cx7 --num-ranks 16 --kernel $kernel --slow 5:$slow --output - |
            awk -F, '$3 == "time_us_max" { t += $4 } END { print t }'
    done | xargs |
        awk -v k="${kernel%% *}" '{ print k ":", ($2 > $1 ? "slower" : "not slower"), ($2 <= 8 * $1 ? "as it should" : "by far") }'
done
run --launch stream --arrival uniform:20us --seed 3 | grep -E 'launch|arrival|time_us_max' | cut -d, -f1-3
echo "-- loops, as public tests time the normal kernels"
notify() {
    run --kernel normal --num-sms 8 --num-tokens 1024 --cached "$@" |
        awk -F, '$1 == "cached_notify_combine" && $3 == "time_us_max" { print $4 }'
}
more $(notify) $(notify --launch loop) 10 # waits for the ranks whose combine ended last
run --launch loop --per-rank | grep -c ',time_us,'
for bad in '--arrival 3us|4us' '--arrival soon' '--arrival uniform:1h' '--arrival unifrom:1us' '--arrival file:/nowhere/times' \
           '--slow 16:2x' '--slow 3:0x' '--slow 3' '--launch later'; do
    "$EPTWIN" simulate --cluster h800-cx7 --num-ranks 16 $bad; echo "status $?"
done 2>&1
printf '1us\n2us # late\n' >times.txt
"$EPTWIN" simulate --cluster h800-cx7 --num-ranks 2 --arrival file:times.txt 2>&1 | grep -c time_us_max
printf '1us\n\nlate\n' >times.txt
"$EPTWIN" simulate --cluster h800-cx7 --num-ranks 2 --arrival file:times.txt; echo "status $?"
"$EPTWIN" simulate --cluster h800-cx7 --num-ranks 4 --arrival file:times.txt; echo "status $?"
printf '1us\n2us' >times.txt
"$EPTWIN" simulate --cluster h800-cx7 --num-ranks 4 --arrival file:times.txt; echo "status $?"
echo "-- the record of a replay"
record() {
    printf '# kind: replay\nphase,rank,metric,value,unit\n'
    for phase in dispatch combine; do
        for rank in $(seq 0 15); do echo "$phase,$rank,arrival_us,$([ $rank = 1 ] && echo $1 || echo 0),us"; done
    done
}
record 40 >replayed.csv
run --per-rank --arrival '0us|40us|0us|0us|0us|0us|0us|0us|0us|0us|0us|0us|0us|0us|0us|0us' | grep -v '^# ' >listed.csv
run --per-rank --arrival record:replayed.csv | grep -v '^# ' | cmp - listed.csv && echo "as the same times in a list"
bad() { run --arrival record:bad.csv >/dev/null; echo "status $?"; }
bad
grep -v '^combine' replayed.csv >bad.csv; bad
grep -v ',7,' replayed.csv >bad.csv; bad
record -1 >bad.csv; bad
record late >bad.csv; bad
record 11000000 >bad.csv; bad
(cat replayed.csv; echo dispatch,16,arrival_us,0,us) >bad.csv; bad
echo 40us >bad.csv; bad
"$EPTWIN" replay --ranks 2 --num-tokens 16 --hidden 512 --num-experts 8 --num-topk 4 --repeat 3 --output replayed.csv
awk -F, '$3 == "arrival_us" { print $1, $2, ($4 >= 0 && $4 < 1e6 ? "is a time" : $4); first = first || $4 == 0 }
         END { print (first ? "somebody is first" : "nobody is first") }' replayed.csv
run --num-ranks 2 --arrival record:replayed.csv | grep -c time_us_max
echo '# ranks that are processes: a slow one takes its core for longer'
printf '%s\n' '[host]' cores=2 'step=50 ns' 'poll=1 us' 'switch=2 us' 'store=100 ns' 'store-rate=5 GB/s' \
    'put=200 ns at 0 B' 'signal=70 ns' 'copy-row=10 ns' 'copy-rate=8 GB/s' 'cast-row=20 ns' 'cast-rate=1 GB/s' \
    'reduce-row=1 us' 'reduce-rate=6 GB/s' 'sum-row=1 us' 'sum-rate=6 GB/s' 'scan-rate=2 GB/s' >host.ini
host() { $EPTWIN simulate --cluster host.ini --num-ranks 2 --num-tokens 32 --hidden 1024 --num-experts 8 --num-topk 2 "$@" |
    sed -n 's/^dispatch,all,time_us_max,\(.*\),us/\1/p'; }
more $(host) $(host --slow 1:3x) 1
echo '# the same by bytes touched: these tokens touch 0.6 MB a rank, and eight times as many 4.5 MB'
cp host.ini flat.ini
echo 'loop-copy=2 us at 1 MB, 8 us at 2 MB' >>host.ini
ratio() { awk "BEGIN { print ($1 / $2 > $3) ? \"over $3\" : \"at most $3\" }"; }
small=$(host) large=$(host --num-tokens 256)
cp flat.ini host.ini
ratio $small $(host) 1.5
ratio $large $(host --num-tokens 256) 1.5
echo "-- what others wait for"
run --kernel normal --slow 3:2x --num-tokens 8 --explain 2>/dev/null | grep -o '  slow ranks.*' | sort | uniq -c
