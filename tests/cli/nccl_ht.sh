# NCCL EP's high throughput from the command line: predicted, with few and many SMs and tokens, replayed with real bytes,
# refused, its sheet and its place among backends.
times() { $EPTWIN simulate --cluster h200 --kernel nccl-ht --dtype bf16 "$@" | awk -F, '$2 == "all" && $3 == "time_us" { print $1, $4 }'; }
times --num-tokens 4096
echo '-- a chunk keeps one pipeline busy, and combine takes no more than 16 SMs'
for sms in 4 16 32; do times --num-ranks 4 --num-tokens 256 --num-sms $sms; done
echo '-- by experts, a token goes to a rank as often as it has experts there'
times --num-ranks 4 --num-tokens 1024 --expand
echo '-- between nodes'
$EPTWIN simulate --cluster h100-cx7 --backend gdaki --kernel nccl-ht --dtype bf16 --num-ranks 16 --num-tokens 512 |
    awk -F, '$2 == "all" && $3 == "time_us" { print $1, $4 }'
echo '-- replayed'
for more in "--num-tokens 300" "--num-tokens 70 --dtype bf16 --num-sms 2" "--num-tokens 150 --ranks-per-node 2" \
    "--num-tokens 70 --expand" "--num-tokens 150 --ranks-per-node 2 --expand --expert-alignment 8"; do
    $EPTWIN replay --ranks 4 --kernel nccl-ht --hidden 512 --num-experts 16 --num-topk 4 $more --output out.csv 2>log || cat log
    grep -E '^# checks' out.csv
done
echo '-- refused'
try() { $EPTWIN simulate --cluster h200 --num-tokens 64 --kernel nccl-ht "$@"; echo "exit $?"; }
try --num-tokens 9000
try --cached
try --num-experts 8 --hidden 128
try --disable-nvlink
try --expert-alignment 8
$EPTWIN kernel show NCCL_HT_ADD
$EPTWIN which --cluster h200 --num-tokens 4096 --kernel nccl-ht 2>&1 | sed -n 1,5p | cut -c 1-72
$EPTWIN which --cluster h100-cx7 --num-ranks 16 --num-tokens 512 --kernel nccl-ht --backend gdaki 2>&1 | sed -n 1,5p | cut -c 1-72
echo '-- Hybrid-EP: in FP8 its loop over 36 ranks does not fit into the instruction cache'
hybrid() {
    $EPTWIN simulate --cluster gb200-nvl72 --kernel hybrid-ep --num-tokens 2048 --num-topk-groups 0 --num-ranks $1 \
        --num-experts $(($1 * 8)) --dtype $2 | awk -F, '$2 == "all" && $3 == "time_us" { print $1, $4 }'
}
for dtype in fp8 bf16; do hybrid 16 $dtype; hybrid 36 $dtype; done
$EPTWIN replay --ranks 4 --kernel hybrid-ep --ranks-per-node 2 --hidden 512 --num-experts 16 --num-topk 4 --num-tokens 300 --output out.csv
grep -E '^# checks' out.csv
echo '-- the order of its sums shows in the bits where a node has many rows of a token'
$EPTWIN replay --ranks 8 --kernel hybrid-ep --ranks-per-node 4 --hidden 512 --num-experts 32 --num-topk 8 --num-tokens 100 \
    --data random --dtype bf16 --output out.csv
grep -E '^# checks' out.csv
try --kernel hybrid-ep --expand
