# MoRI's kernels between nodes: what is predicted, the same kernels with real bytes, what is refused.
$EPTWIN simulate --cluster mi355x-pollara --kernel mori-ll --num-ranks 16 --num-tokens 64 --num-sms 64 --num-warps 4 \
    --format text | sed -n '5,13p'
echo '-- more blocks for other nodes: what is bound by them takes less time'
for sms in 8 32; do
    $EPTWIN simulate --cluster mi355x-pollara --kernel mori-ll --num-ranks 16 --num-tokens 512 --num-sms 64 --rdma-sms $sms |
        awk -F, '$2 == "all" && $3 == "time_us" && $1 ~ /_span/ { print $1, $4 }'
done
echo '-- replayed'
for kernel in mori mori-ll; do
    $EPTWIN replay --ranks 4 --ranks-per-node 2 --kernel $kernel --num-tokens 70 --hidden 512 --num-experts 16 \
        --num-topk 4 --num-sms 3 --num-warps 2 --rdma-sms 1 --output out.csv 2>log || cat log
    grep -E '^# (kernel|rdma-sms|checks)' out.csv
done
echo '-- refused'
try() { $EPTWIN simulate --cluster mi355x-pollara --num-ranks 16 --num-tokens 64 "$@"; echo "exit $?"; }
try --kernel mori-ll --num-sms 64 --rdma-sms 64
try --kernel mori-ll --zero-copy
try --kernel ll --rdma-sms 4
try --kernel mori-ll --num-ranks 8 --rdma-sms 4
