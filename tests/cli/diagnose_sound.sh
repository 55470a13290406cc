# Sound machines are called sound: published ones, older versions among them, and predictions with noise.
source/tests/accuracy/threads/sound/run "$EPTWIN" h100_gin h100_roce_4_nodes h20_both_ports h20_ll_nvlink \
    h20_ll_two_ports h800_after_ibgda h800_first h800_ll_first ib_write_bw_host
echo '# predictions, each up to 20 % off'
noisy() {
    awk -F, -v OFS=, -v seed="$1" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "predicted_us") at = i
            print "kernel,num-ranks,num-tokens,num-sms,cached,phase,measured_us"; next }
        { seed = (seed * 1103515245 + 12345) % 2147483648
          print $1, $2, $3, $4, $5, $6, $at * (0.8 + 0.4 * seed / 2147483648) }'
}
{
    echo kernel,num-ranks,num-tokens,num-sms,cached,phase,measured_us
    for tokens in 64 256 1024; do
        for phase in dispatch combine; do
            echo ll,16,$((tokens / 8)),,,$phase,1
            echo normal,16,$tokens,24,true,$phase,1
        done
    done
} | $EPTWIN validate - --cluster h100-cx7 --output predicted.csv >/dev/null
for seed in 1 2 3; do
    noisy $seed <predicted.csv >noisy.csv
    $EPTWIN diagnose noisy.csv --cluster h100-cx7 2>/dev/null | tail -1
done
