# Combine in LogFMT: which way its time goes where the NIC, the link or a warp's arithmetic is the longest; both worlds
# take it, whether rows fit it or not; sweeps and tables of measured rows have it as a column.
combine_us() {
    $EPTWIN simulate --cluster "$@" --num-ranks 2 --num-experts 288 |
        awk -F, '$1 == "combine" && $3 == "time_us" { print $4 }'
}
less() { awk -v a="$1" -v b="$2" 'BEGIN { print (a < b ? "less" : "not less") }'; }
rdma='h100-cx7 --disable-nvlink --num-tokens 128'
echo "128 tokens by RDMA: $(less "$(combine_us $rdma --logfmt)" "$(combine_us $rdma)")"
echo "128 tokens by RDMA that do not fit: $(less "$(combine_us $rdma --logfmt --data pattern)" "$(combine_us $rdma)")"
echo "16 tokens by NVLink: $(less "$(combine_us h200 --num-tokens 16 --logfmt)" "$(combine_us h200 --num-tokens 16)")"
echo "without LogFMT data make no difference: $(less "$(combine_us h200 --data random)" "$(combine_us h200)") \
$(less "$(combine_us h200)" "$(combine_us h200 --data random)")"

small='--ranks 4 --num-experts 8 --num-tokens 16 --num-topk 4 --repeat 2 --warmup 1 --logfmt'
for more in '--hidden 512' '--hidden 1024 --dtype bf16 --disable-nvlink' '--hidden 1536 --data pattern --hook' \
            '--hidden 1024 --round-scale --ue8m0 --ranks-per-node 2'; do
    $EPTWIN replay $small $more | grep -E '^# (logfmt|data|checks)' | tr '\n' ' '; echo "$more"
done
$EPTWIN replay $small --hidden 512 --zero-copy; echo "exit $?"
$EPTWIN replay $small --hidden 640 --dtype bf16; echo "exit $?"

$EPTWIN sweep --cluster h200 --num-ranks 2 --num-experts 64 --num-tokens 16 --logfmt true,false --output s.csv >/dev/null
grep -c ',combine,' s.csv
printf 'kernel,num-ranks,num-experts,num-tokens,logfmt,phase,measured_us\nll,2,288,16,true,combine,27\n' >rows.csv
$EPTWIN validate --cluster h200 rows.csv >validated.csv 2>/dev/null && grep -c combine validated.csv
