# Hybrid-EP's calls (--api): each takes longer than its kernel.  Combine brings probabilities back, too, so both kernels find
# less in the L2.  Only hybrid-ep's kernels have such calls, and no host has.
cluster=source/models/clusters/h200.ini
run() { $EPTWIN simulate --cluster "$1" --kernel hybrid-ep --num-ranks 4 --num-tokens 64 --hidden 1024 --num-experts 32 $2; }
us() { awk -F, -v phase="$2" '$1 == phase && $2 == "all" && $3 == "time_us" { print $4 }' "$1"; }

run $cluster >plain
run $cluster '--api hybrid-ep' >called
for phase in dispatch combine; do
    echo "$phase $(us plain $phase) $(us called $phase) $(us called ${phase}_call)" |
        awk '{ print $1 ": the kernel " ($2 == $3 ? "as it was" : "differs") ", the call " ($4 > $3 ? "longer" : "not longer") }'
done
grep -c _call plain
$EPTWIN simulate --cluster $cluster --kernel ll --num-ranks 4 --api hybrid-ep
echo "exit $?"
$EPTWIN simulate --cluster $cluster --kernel hybrid-ep --num-ranks 4 --api nccl-ep
echo "exit $?"
