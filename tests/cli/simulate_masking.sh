# Ranks that fail in a prediction: who is masked when, where the time goes, and what is refused.  Times change with every
# calibration: told is whether a phase took the timeout.
cluster="--cluster source/models/clusters/h800-cx7.ini"
small="$cluster --num-ranks 16 --num-experts 64 --num-tokens 16 --hidden 1024"
lost() { awk -F, '$2 == "all" && $3 == "time_us" { print $1, ($4 < 500 ? "no timeout" : $4 < 1000 ? "one timeout" : "more") }
                  $3 == "masked_ranks" { print $1, "masked", $4 }'; }
told() { grep -E '^# (mask-timeout|fail|ranks-masked):'; }

echo '# as the public shrink test'
$EPTWIN simulate $small --mask-timeout 500us --fail '1@dispatch|3@combine|5@clean' >shrink.csv
told <shrink.csv
lost <shrink.csv

echo '# sending and receiving apart, and commas'
$EPTWIN simulate $small --mask-timeout 0.5ms --fail 1@dispatch,3@combine,5@clean --hook >hook.csv
told <hook.csv
lost <hook.csv

echo '# by rank: the dead have no rows, and means leave them out'
$EPTWIN simulate $small --mask-timeout 500us --fail '1@dispatch|3@combine' --per-rank >ranks.csv
for phase in dispatch combine clean; do
    awk -F, -v p=$phase '$1 != p || $3 != "time_us" { next }
                         $2 == "all"                { all = $4; next }
                                                    { sum += $4; n++ }
                         $2 ~ /^[13]$/              { later = later " " $2 }
                         END { d = all - sum / n
                               print p, n, "ranks", d * d < 1e-6 ? "mean" : "not the mean", "failed later:" later }' ranks.csv
done

echo '# nobody fails: dispatch and combine are as without masking'
$EPTWIN simulate $small --mask-timeout 500us >none.csv
$EPTWIN simulate $small >off.csv
told <none.csv
lost <none.csv
grep -vE '^#|^clean|masked' none.csv >none.rows
grep -v '^#' off.csv | cmp - none.rows && echo same

echo '# less patience than any call needs: ranks that live are masked too'
$EPTWIN simulate $small --mask-timeout 1us | awk -F, '$3 == "masked_ranks" && $4 > 0' | wc -l

echo '# every layer of a trace'
$EPTWIN simulate $cluster --trace source/traces/samples/decode_ep64.ept --num-ranks 16 --num-tokens 8 --hidden 1024 --layers 0:2 \
    --mask-timeout 500us --fail 7@combine | awk -F, '$3 == "time_us" { print $1, ($4 < 500 ? "no timeout" : "timeout") }'

run() { $EPTWIN simulate $small "$@" >out; echo "exit $?, $(wc -l <out) lines of output"; }
echo '# refused'
run --fail 1@dispatch
run --fail 1@lunch --mask-timeout 1ms
run --fail dispatch --mask-timeout 1ms
run --fail 1@ --mask-timeout 1ms
run --fail -1@clean --mask-timeout 1ms
run --fail 16@clean --mask-timeout 1ms
run --fail '1@clean|1@combine' --mask-timeout 1ms
run --num-ranks 2 --fail '0@clean|1@combine' --mask-timeout 1ms
run --num-ranks 32 --fail "$(seq -s '|' 0 16 | sed 's/[0-9]*/&@clean/g')" --mask-timeout 1ms
run --mask-timeout 0us
run --mask-timeout 100
run --mask-timeout -1us
run --mask-timeout 3600001ms
run --mask-timeout 1ms --kernel normal
run --mask-timeout 1ms --kernel v2
run --fail 1@clean --kernel normal
