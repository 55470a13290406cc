# UCCL's kernels read words in the host's memory, over EFA and in the code of 2025, and wait there for each other: the normal
# ones between nodes, low latency's within a node, too.  DeepEP's kernels and today's UCCL over verbs do not.
run() { $EPTWIN simulate --cluster source/models/clusters/p5en.ini --output - --num-tokens 256 "$@"; }
of() { awk -F, -v phase="$1" '$1 == phase && $3 == "time_us" { sum += $4 } END { print sum }'; }
than() { awk -v a="$1" -v b="$2" 'BEGIN { print (b > 1.05 * a ? "slower" : b == a ? "the same" : "other") }'; }
compare() {
    apart=$(run --set node.host-look=10ns "$@" | of "$phase")
    echo "$phase $*: $(than "$apart" "$(run "$@" | of "$phase")")"
}
normal='--kernel normal --num-topk 8 --num-experts 256 --cached --rdma-buffer 512 --combine-rdma-buffer 512'
for phase in dispatch combine; do
    compare $normal --num-ranks 16 --num-topk-groups 2 --backend uccl-efa
    compare $normal --num-ranks 16 --num-topk-groups 2 --backend ibgda
    compare --kernel normal --num-topk 8 --num-experts 256 --cached --num-ranks 8 --backend uccl-efa
    compare --kernel ll --num-ranks 8 --backend uccl-efa
    compare --kernel ll --num-ranks 8 --backend uccl-2025
    compare --kernel ll --num-ranks 16 --backend uccl
done
