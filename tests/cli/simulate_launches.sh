# Ranks that launch late, follow on without a barrier, or are slow; and what cannot be meant.
run() { "$EPTWIN" simulate --cluster h800-cx7 --num-ranks 16 --num-tokens 16 "$@"; }
time_max() { run "$@" | awk -F, '$1 == "dispatch" && $3 == "time_us_max" { print $4 }'; }
more() { awk -v a="$1" -v b="$2" -v by="$3" 'BEGIN { print (b - a > by ? "slower" : "not slower") }'; }
usual=$(time_max)
more $usual $(time_max --arrival '0us|40us|0us|0us|0us|0us|0us|0us|0us|0us|0us|0us|0us|0us|0us|0us') 30
more $usual $(time_max --slow '3:4x|5:1.5') 2
run --launch stream --arrival uniform:20us --seed 3 | grep -E 'launch|arrival|time_us_max' | cut -d, -f1-3
for bad in '--arrival 3us|4us' '--arrival soon' '--arrival uniform:1h' '--arrival file:/nowhere/times' '--slow 16:2x' \
           '--slow 3:0x' '--slow 3' '--launch later'; do
    "$EPTWIN" simulate --cluster h800-cx7 --num-ranks 16 $bad; echo "status $?"
done 2>&1
printf '1us\n2us # late\n' >times.txt
"$EPTWIN" simulate --cluster h800-cx7 --num-ranks 2 --arrival file:times.txt 2>&1 | grep -c time_us_max
printf '1us\n\nlate\n' >times.txt
"$EPTWIN" simulate --cluster h800-cx7 --num-ranks 2 --arrival file:times.txt; echo "status $?"
"$EPTWIN" simulate --cluster h800-cx7 --num-ranks 4 --arrival file:times.txt; echo "status $?"
printf '1us\n2us' >times.txt
"$EPTWIN" simulate --cluster h800-cx7 --num-ranks 4 --arrival file:times.txt; echo "status $?"
