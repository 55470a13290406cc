# What the call before has left in the L2: low latency of few tokens finds it, of many it does not.
run() { $EPTWIN simulate --cluster h200 --num-ranks 8 --num-experts 64 "$@"; }
time_of() { awk -F, -v p="$1" '$1 == p && $3 == "time_us_max" { printf "%.0f", 1000 * $4 }' "$2"; }
for tokens in 8 1024; do
    for flush in warm cold; do run --num-tokens $tokens --flush $flush --output $flush.csv >/dev/null; done
    for phase in dispatch combine; do
        more=$(($(time_of $phase cold.csv) - $(time_of $phase warm.csv)))
        [ $more -le 100 ] || [ $more -ge 2000 ] || more='100 to 2000'
        echo "$tokens tokens, $phase, flushed: $more ns more"
    done
done
run --num-tokens 8 --output default.csv >/dev/null; run --num-tokens 8 --flush warm --output warm.csv >/dev/null
[ "$(time_of dispatch default.csv)" = "$(time_of dispatch warm.csv)" ] && echo 'warm is the default'
echo '# answers for one are not taken for the other: both in one run'
$EPTWIN sweep --cluster h200 --num-ranks 8 --num-tokens 8 --flush cold,warm --jobs 1 --output both.csv >/dev/null 2>&1
grep -c ',cold,\|,warm,' both.csv
run --num-tokens 8 --flush lukewarm; echo "exit $?"
