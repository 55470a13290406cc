# A step as a table, as a record, with skew, in two batches, with layers repeated; its options; its timeline.
step="$EPTWIN step --net deepseek-v3 --cluster source/models/clusters/h800-cx7.ini --num-ranks 16"
value() { grep "^$1," "$2" | cut -d, -f4; }

echo '# in words'
$step --batch 16 --layers 6 --explain --routing zipf:0.8

echo '# a record; the same again has the same bytes'
$step --batch 16 --layers 4 -o one.csv && $step --batch 16 --layers 4 -o two.csv && cmp one.csv two.csv
grep -v '^# ' one.csv
echo '# repeated layers stand for all'
$step --batch 16 --layers all -o all.csv
awk -v a="$(value step,all,time_us all.csv)" -v b="$(value step,all,time_us one.csv)" \
    'BEGIN { e = 100 * (b / a - 1); print (e < 1 && e > -1 ? "within 1 %" : e " %") }'
echo '# ... and their shares for its; what nothing hides of the last layer does not count for each further one'
for schedule in sequential stages; do
    $step --batch 64 --layer 0 --layers 8 --schedule $schedule -o some.csv &&
        $step --batch 64 --layer 0 --layers all --schedule $schedule -o all.csv
    for metric in time_us compute_pct wire_pct; do
        awk -v a="$(value step,all,$metric all.csv)" -v b="$(value step,all,$metric some.csv)" -v m="$schedule, $metric" \
            'BEGIN { e = m ~ /pct/ ? b - a : 100 * (b / a - 1)
                     print m ": " (e < 1 && e > -1 ? "within 1 %" : e " %") }'
    done
done

echo '# stages hide what send and receive leave between them'
$step --batch 16 --layers 4 --schedule stages -o stages.csv
grep -E '^step,all,(hidden_pct|wire_pct)' one.csv stages.csv
echo '# two schedules are two predictions of one work; another batch is other work'
$EPTWIN compare one.csv stages.csv | sed -n '4,5p; /^step:/p'
$step --batch 32 --layers 4 -o more.csv
$EPTWIN compare one.csv more.csv
echo '# prefill in one batch and in two'
for schedule in sequential two-batch; do
    $step --phase prefill --batch 2048 --context 1024 --layers 2 --cached --schedule $schedule -o $schedule.csv
    grep -E '^(step,all,(time_us|wire_pct|hidden_pct)|dispatch,all,time_us|up,all,time_us),' $schedule.csv
done
echo '# training in one stream and in two; each layer with its own routing, the backward pass from the last on'
train='--phase train --batch 512 --context 512 --layers 2 --num-sms 20 --leave-sms 20 --routing zipf:0.6'
for schedule in sequential two-batch; do
    $step $train --schedule $schedule -o $schedule.csv
    grep -E '^step,all,(time_us|tflops_gpu|hidden_pct|weights_gb)|^(up|attention|dispatch|combine)[a-z_]*,all,(time_us|source),' \
        $schedule.csv
done
$step $train --schedule two-batch --explain | sed -n '1p; /^  TFLOP/,/^$/p; /^Under continuous/,$p'
echo "# the user's table knows passes"
printf 'op,gpu,dtype,shape,tokens,context,us\nup_wgrad,h800,fp8,7168,4096,16,5000\n' >own.csv
$step $train --table own.csv --format text | grep '^up'
$step $train --kernel v2 --schedule two-batch -o v2.csv && grep -E '^(step|dispatch_copy_backward),all,time_us,' v2.csv
echo '# layers have the routing of the trace, one after another; --layer: all that of one'
$EPTWIN trace generate skewed.ept --num-ranks 16 --num-tokens 64 --routing zipf:1.1 --layers 3 >/dev/null
for kernel in ll normal; do
    for layer in '' '--layer 0' '--layer 1' '--layer 2'; do
        $step --trace skewed.ept --batch 64 --layers 3 --kernel $kernel $layer -o skewed.csv
        echo "$kernel $layer: $(value step,all,time_us skewed.csv)"
    done
done
for n in 3 4; do $step --trace skewed.ept --batch 64 --layers $n --explain --format text | grep routing; done
echo '# drawn routing differs by layer, too'
for layer in '' '--layer 0' '--layer 1'; do
    $step --routing zipf:1.1 --batch 64 --layers 2 $layer --explain --format text | grep -E '^  step|routing'
done
echo '# redundant experts are replicas of the heaviest: a skewed step gets faster, as by the placement of that name'
for more in '' '--redundant 16' '--placement eplb:16'; do
    $step --routing zipf:1.1 --batch 64 --layers 2 $more --format text | sed -n 3p
done
$step --trace skewed.ept --batch 64 --layers 2 --redundant 16 | grep '^# placement'
echo '# low latency of a DeepEP before ll-nvlink goes by RDMA alone; the phase says which kernels run'
for more in '' '--disable-nvlink' '--deepep before-ll-nvlink' '--phase prefill --context 64' \
    '--phase prefill --context 64 --deepep before-ll-nvlink'; do
    $step --batch 64 --layers 2 $more -o version.csv && echo "$more: $(value step,all,time_us version.csv)"
done
echo '# a slow GPU is late by its clock'
$step --batch 16 --layers 2 --slow 3:1.3x --explain | grep 'wait most'
echo '# what is told of a reason, and by how much less ranks wait without it: told, predicted, percent'
told() { # REASON OPTION...: of a step with the options, and of the same step with equal GPUs and uniform routing
    reason=$1
    shift
    $step --batch 64 --layers 4 "$@" --explain -o with.csv >with.txt
    $step --batch 64 --layers 4 -o without.csv
    grep -o "[0-9]* %[a-z ]* because of $reason" with.txt | sed "s/ .*/, $(
        awk -v a="$(value step,all,waited_us with.csv)" -v b="$(value step,all,waited_us without.csv)" \
            'BEGIN { printf "%.0f", 100 * (1 - b / a) }')/"
}
told 'a GPU' --slow 3:1.2x
told 'a GPU' --clock "1.6$(printf '|1.74%.0s' $(seq 15))"
told 'more tokens' --routing hot-rank:0.2
echo '# equal GPUs: in two batches, too, it is tokens'
$step --phase prefill --batch 1024 --layers 2 --routing zipf:0.6 --schedule two-batch --draws 1 --explain | grep '^Ranks wait'
echo '# clocks that differ: a range'
$step --batch 16 --layers 2 --draws 3 --format text | sed -n 3p
echo '# two batches: small leads tip the order of kernels, so there are several draws'
$step --phase prefill --batch 512 --layers 2 --schedule two-batch --format text | sed -n 3p
$step --phase prefill --batch 512 --layers 2 --schedule two-batch --jitter 0 --spread 0 --format text | sed -n 3p
echo '# the clock of each GPU: the slow one is awaited'
$step --phase prefill --batch 1024 --layers 2 --clock "1.5$(printf '|1.8%.0s' $(seq 15))" --explain | grep -E 'wait most|GHz'
echo '# an own table counts first'
printf 'op,gpu,dtype,shape,tokens,context,us\nmla_decode,h800,fp8,128,16,4096,1000\n' >own.csv
$step --batch 16 --layers 2 --table own.csv --format text | grep '^attention'
echo '# so do the GEMMs of a record: the feed-forward as two of them, and the gate between'
gemm() { echo "gemm dtype=fp8 rows=16 k=$1 n=$2,all,time_us,$3,us"; }
{ printf '# kind: measure\n# gpu: NVIDIA H800\nphase,rank,metric,value,unit\n' && gemm 7168 36864 1000 && gemm 18432 7168 500; } >own.csv
$step --batch 16 --layers 2 --table own.csv --format text | grep '^dense'
echo '# other kernels that dispatch and combine: NCCL, by NVLink alone; rows of 2880 are padded where kernels want it'
node="--cluster source/models/clusters/h200.ini --num-ranks 8 --batch 16 --layers 2"
for kernel in ag-rs one-sided; do
    $EPTWIN step --net gpt-oss-120b $node --kernel $kernel --schedule two-batch -o other.csv
    grep -E '^# hidden|^(step|dispatch|combine),all,(time_us|source),' other.csv
done
echo '# a rank with fewer tokens than the others: NCCL gathers and scatters blocks of different sizes'
$EPTWIN trace generate even.csv --num-ranks 8 --num-tokens 16 --num-experts 128 --num-topk 4 --layers 2 >/dev/null
awk -F, '!/^[0-9]/ || $3 != 3 || $4 < 5' even.csv >uneven.csv
$EPTWIN step --net gpt-oss-120b $node --kernel ag-rs --trace uneven.csv -o other.csv
grep -E '^(step|dispatch|combine),all,(time_us|source),' other.csv
echo '# a timeline has every kernel'
$step --batch 16 --layers 2 --timeline step.json -o timed.csv && grep -c '"name":"dispatch"' step.json

# Timed work in place of a net, also on a host, as `eptwin replay --schedule` runs it: the rank with more rows is late.
timed='--num-tokens 64 --hidden 2048 --num-topk 4 --num-experts 16 --routing zipf:1.6 --work attention=1ms,experts=40us'
host='--cluster source/models/clusters/gh200-alps-host.ini --num-ranks 2'
$EPTWIN step $host $timed --layers 2 --explain
$EPTWIN step $host $timed --layers 2 | grep -E '^# (schedule|net|layers-sim)|^(step|experts),'
echo '# parts of attention: a schedule that runs it whole runs their sum'
parts='--num-tokens 64 --num-topk 4 --num-experts 16 --num-ranks 2 --work project=500us,core=400us,experts=40us'
for schedule in sequential stages; do
    $EPTWIN step --cluster source/models/clusters/h800-cx7.ini $parts --layers 2 --schedule $schedule |
        grep -E '^(attention|project|core),all,time_us,'
done
echo '# ops without a time pass none, also where batches overlap'
$EPTWIN step --cluster source/models/clusters/h800-cx7.ini --num-ranks 2 --num-tokens 64 --schedule two-batch \
    --work experts=40us | grep -E '^(step|attention|experts),all,time_us,'
echo '# one of each'
$step --batch 1 --layers 1 --format text --explain | sed -n '1p; /^Simulated/p'

echo '# another GPU has its own memory; a trace, its own experts'
for gpu in h100 h200; do
    $EPTWIN step --net gpt-oss-120b --cluster h200 --num-ranks 4 --layers 1 --batch 4 --gpu $gpu --format text |
        awk '$1 == "experts" { print $NF, $3 }'
done
$EPTWIN trace generate other.ept --num-ranks 4 --num-tokens 8 --num-experts 16 --num-topk 2
$EPTWIN step --net gpt-oss-120b --cluster h200 --trace other.ept --layers 1 --batch 4 --format text | head -1
