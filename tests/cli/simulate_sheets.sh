# What an SM does has one price, that of the kernel's sheet.  Plain rows, a hundred times slower, make no phase longer,
# but those with stores or loads that no sheet describes yet: notify's counts, and rows that combine pulls from peers.
times() { $EPTWIN simulate --output - --num-tokens 64 "$@" | awk -F, '$3 == "time_us" { print $1, $2, $4 }'; }
compare() {
    cluster=$1
    shift
    times --cluster "source/models/clusters/$cluster.ini" "$@" >sheet
    times --cluster "source/models/clusters/$cluster.ini" "$@" --set gpu.store-warp-rate=56MB/s >plain
    [ -s sheet ] || echo "no times"
    echo "$cluster $*: $(diff sheet plain | awk '$1 == "<" && !had[$2]++ { print $2 }' | xargs | sed "s,^$,none,")"
}
for ranks in 8 16; do
    for kernel in normal ll v2; do
        compare h100-cx7 --kernel $kernel --num-ranks $ranks
    done
done
compare h100-cx7 --kernel normal --num-ranks 16 --deepep 2025-05-01
compare gb200-nvl72 --kernel one-sided --num-ranks 8
compare gb200-nvl72 --kernel two-sided --num-ranks 8
compare mi300x-cx7 --kernel mori --num-ranks 8
compare mi300x-cx7 --kernel mori-ll --num-ranks 8
for kernel in alltoallv allgather reducescatter allreduce; do
    compare h200 --kernel $kernel --num-ranks 2
done
