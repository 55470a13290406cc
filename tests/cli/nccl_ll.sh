# NCCL EP's low latency from the command line: predicted in a node and between nodes in both layouts, replayed with real
# bytes, refused, and where `which` has it.
times() { awk -F, '$2 == "all" && $3 == "time_us" { print $1, $4 }'; }
$EPTWIN simulate --cluster h200 --kernel nccl-ll --dtype bf16 --expand --format text | sed -n '1,9p'
echo '-- rank-major'
$EPTWIN simulate --cluster h200 --kernel nccl-ll --dtype bf16 | times
echo '-- cast on the way, fewer SMs'
$EPTWIN simulate --cluster h200 --kernel nccl-ll --num-sms 64 | times
echo '-- between nodes, send and receive apart'
$EPTWIN simulate --cluster h100-cx7 --kernel nccl-ll --backend gdaki --num-ranks 16 --dtype bf16 --hook | times
echo '-- by the NIC alone'
$EPTWIN simulate --cluster h100-cx7 --kernel nccl-ll --backend gdaki --num-ranks 8 --disable-nvlink |
    awk -F, '$2 == "all" && $3 == "physical_nvl_gbs" { print $1, $3, $4 }'
echo '-- replayed'
for more in "--ranks-per-node 4 --expand" "--ranks-per-node 2 --dtype bf16" "--ranks-per-node 1 --hook"; do
    $EPTWIN replay --ranks 4 --kernel nccl-ll --hidden 512 --num-experts 16 --num-topk 4 --num-tokens 48 --num-sms 8 $more \
        --output out.csv 2>log || cat log
    grep -E '^# checks' out.csv
done
echo '-- refused'
try() { $EPTWIN simulate --cluster h100-cx7 --kernel nccl-ll "$@"; echo "exit $?"; }
try --num-topk 10
try --hidden 640
try --num-sms 16
try --logfmt
try --ue8m0
$EPTWIN kernel show NCCL_EP_LL_SEND
$EPTWIN which --cluster h100-cx7 --num-ranks 16 --num-tokens 128 --kernel nccl-ll 2>&1 | sed "s,^.*clusters/,,"
