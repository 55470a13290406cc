# What an SM does has one price, that of the kernel's sheet.  Plain rows, a hundred times slower, make no phase longer.
# They move only where a cluster file does not say how long loads take.
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
compare gb200-nvl72 --kernel one-sided --num-ranks 16 --zero-copy
compare gb200-nvl72 --kernel two-sided --num-ranks 8
compare gb200-nvl72 --kernel mega-moe --num-ranks 8
for ranks in 8 16; do
    compare mi300x-cx7 --kernel mori --num-ranks $ranks
    compare mi300x-cx7 --kernel mori-ll --num-ranks $ranks
    compare h100-cx7 --kernel pplx --num-ranks $ranks
done
compare h200 --kernel normal --num-ranks 4 --cached
compare h200 --kernel ll --num-ranks 4 --hook --logfmt
for option in expand direct overlap cpu-sync; do
    compare h200 --kernel v2 --num-ranks 4 --$option
done
for kernel in alltoallv allgather reducescatter allreduce ag-rs p2p; do
    compare h200 --kernel $kernel --num-ranks 2
done
for issue in host copy nccl; do
    compare h200 --kernel p2p --num-ranks 2 --issue $issue
done
compare h100-cx7 --kernel allgather --num-ranks 16 --issue copy --algorithm leader
compare h100 --kernel normal --num-ranks 2 --set gpu.load=0ns
