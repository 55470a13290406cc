# All-to-allv, all-gather and point-to-point, predicted and replayed: phases, metrics, numbers that follow from arithmetic,
# and what is refused.  Times that follow from a cluster file that describes no machine are exact.
port="--cluster source/tests/peers/port.ini"
h800="--cluster source/models/clusters/h800-cx7.ini"
rows() { grep -v '^#' | cut -d, -f1-3,5; }
of() { grep -E ",all,($1),"; }

echo '# three ranks, a list: 100 KB and 50 KB into rank 2 at 50 GB/s'
printf '3 3\n0 2 100000\n1 2 50000\n2 0 1000\n' >small.txt
$EPTWIN simulate $port --kernel alltoallv --matrix small.txt >small.csv
sed -n -e '/^# \(kernel\|matrix.*\|num-ranks\|in-flight\|messages\|algorithm\):/p' small.csv
of bound_receive_us <small.csv | grep alltoallv
echo '# uniform, drawn; compressed; from a routing'
$EPTWIN simulate $port --kernel alltoallv --matrix uniform:64KiB --num-ranks 64 | of bound_receive_us | grep alltoallv
zstd -q small.txt && $EPTWIN simulate $port --kernel alltoallv --matrix small.txt.zst >zst.csv
sed -e 's/small.txt.zst/small.txt/' zst.csv | diff - small.csv && echo same
$EPTWIN simulate $h800 --kernel alltoallv --num-ranks 16 --num-tokens 8 --hidden 1024 | sed -n -e '/^# matrix/p'
echo '# phases'
$EPTWIN simulate $h800 --kernel p2p --num-ranks 16 --size 8KiB --messages 4 | rows | of 'time_us|message_us'
echo '# what crosses links in a get: the bytes and, between nodes, their headers'
for where in '--num-ranks 2' '--num-ranks 2 --ranks-per-node 1'; do
    $EPTWIN simulate $h800 --kernel p2p $where --size 8KiB | of 'logical_.*|physical_.*' |
        awk -F, '/^get/ && $4 > 0 { print $1, $3; $3 ~ /^log/ ? few = $4 : over = $4 / few } END { print over < 1.1 }'
done
$EPTWIN simulate $h800 --kernel allgather --num-ranks 16 --compute 50us | rows | of time_us
$EPTWIN simulate $h800 --kernel allgather --algorithm ring --num-ranks 8 | grep '^# \(algorithm\|size\|in-flight\|messages\)'
echo '# replayed'
replay="--ranks 4 --ranks-per-node 2 --repeat 2 --warmup 1"
$EPTWIN replay $replay --kernel alltoallv --matrix lognormal:9000:1 --hidden 100 >live.csv
grep -E '^# (checks|num-ranks|matrix)' live.csv
rows <live.csv | of 'time_us|logical.*'
for kernel in p2p 'p2p --compute 10us' 'allreduce --compute 10us' \
    'allgather --algorithm ring --compute 10us --compute-sms 0:1' 'allgather --size 100KB --disable-nvlink'; do
    $EPTWIN replay $replay --kernel $kernel >live.csv && grep '^# checks' live.csv && rows <live.csv | of 'time_us|message_us'
done
echo '# a put by a call of the host: 16 MiB at 396 GB/s, copy engine 2.3, call 5.75, steps 0.2 us; NCCL: its CPU time, its bytes'
h20="--cluster source/models/clusters/h20-cx7.ini --num-ranks 2"
leader="--cluster source/models/clusters/h20-cx7.ini --num-ranks 16 --kernel allgather --algorithm leader"
$EPTWIN simulate $h20 --kernel p2p --issue copy --size 16MiB | grep put,all | of 'time_us|message_us'
for size in 16KiB 64MiB; do $EPTWIN simulate $h20 --kernel p2p --issue nccl --size $size | grep put,all | of time_us; done
$EPTWIN simulate $h20 --ranks-per-node 1 --kernel p2p --issue host --size 16KiB | grep put,all | of time_us
for issue in host copy nccl; do
    $EPTWIN replay --ranks 2 --ranks-per-node 2 --repeat 2 --kernel p2p --issue $issue --size 100KB >live.csv
    grep '^# checks' live.csv && rows <live.csv | of 'time_us'
done

echo '# an all-gather by streams: words, copies and calls; 64 MiB take 169.5 us a step more, their bytes at 396 GB/s 169.5'
for size in 4KiB 64MiB; do
    $EPTWIN simulate ${h20% --num-ranks 2} --num-ranks 8 --kernel allgather --algorithm ring --issue copy --size $size |
        grep allgather,all | of time_us
done
$EPTWIN replay --ranks 4 --ranks-per-node 4 --repeat 2 --kernel allgather --algorithm ring --issue copy --size 100KB >live.csv
grep '^# checks' live.csv
echo '# by a leader a node: its NIC port gets the blocks of 8 ranks, 24.5 GB/s of payload'
for size in 4MiB 8MiB; do
    $EPTWIN simulate $leader --size $size | awk -F, '/^allgather,all,bound_receive_us/ { print int($4) }'
done
$EPTWIN replay --ranks 4 --ranks-per-node 2 --repeat 2 --kernel allgather --algorithm leader --size 100KB >live.csv
grep '^# \(checks\|algorithm\|issue\)' live.csv

echo '# the sum of 8 ranks on 2 nodes: each of 4 NICs has a quarter of 64 MiB to send, at 24 GB/s; replayed'
$EPTWIN simulate --cluster source/models/clusters/gh200-alps.ini --num-ranks 8 --kernel allreduce \
    --size 64MiB | awk -F, '/^allreduce,all,bound_send_us/ { print int($4) }'
echo '# trees: flags go with the bytes, or a release behind them, which takes a tenth longer at least; replayed'
for protocol in ll simple; do
    $EPTWIN simulate --cluster source/models/clusters/gh200-alps.ini --num-ranks 8 --kernel allreduce \
        --algorithm tree --size 4KiB --protocol $protocol
done | awk -F, '/^allreduce,all,time_us,/ { time[++n] = $4 } END { print (time[2] > 1.1 * time[1] ? "yes" : "no") }'
for more in '' --disable-nvlink '--size 100KB'; do
    $EPTWIN replay --ranks 4 --ranks-per-node 2 --repeat 2 --kernel allreduce --size 300KB $more >live.csv
    grep '^# checks' live.csv && rows <live.csv | of time_us
done

for kernel in 'reducescatter --size 100KB' 'reducescatter --size 3KB --protocol ll128 --disable-nvlink' \
    'allreduce --algorithm ring --protocol simple --size 300KB'; do
    $EPTWIN replay --ranks 4 --ranks-per-node 2 --repeat 2 --kernel $kernel >live.csv
    grep '^# \(checks\|protocol\)' live.csv && rows <live.csv | of 'time_us|logical.*'
done
echo '# dispatch and combine by an all-gather and a reduce-scatter: as these alone; 16 tokens of 512 + 16 + 64 and of 1024 B'
h200="--cluster source/models/clusters/h200.ini --num-ranks 2"
$EPTWIN simulate $h200 --kernel ag-rs --num-tokens 16 --hidden 512 | awk -F, '/^(dispatch|combine),all,time_us,/ { print $4 }' >together
{ $EPTWIN simulate $h200 --kernel allgather --algorithm ring --size 9472
  $EPTWIN simulate $h200 --kernel reducescatter --size 16KiB; } |
    awk -F, '/^(allgather|reducescatter),all,time_us,/ { print $4 }' | diff - together && echo same
echo '# the same of a routing that has as many tokens: all go everywhere'
for routing in '--tokens-per-rank 16|16' '--traffic 16|0;0|16 --num-tokens 16' '--routing zipf:1.5 --num-tokens 16'; do
    $EPTWIN simulate $h200 --kernel ag-rs --hidden 512 $routing | awk -F, '/^(dispatch|combine),all,time_us,/ { print $4 }' |
        diff - together && echo same
done
$EPTWIN replay --ranks 4 --ranks-per-node 2 --repeat 2 --kernel ag-rs --num-tokens 16 --hidden 512 >live.csv
grep '^# checks' live.csv && rows <live.csv | of time_us
echo '# ranks with different numbers of tokens: broadcasts of a group are one kernel or, before 2.29.2, a list; reductions a list'
uneven='--tokens-per-rank 16|3|0|40 --hidden 512'
for nccl in 2.29 2.28; do
    $EPTWIN simulate --cluster source/models/clusters/h100-cx7.ini --ranks-per-node 2 --kernel ag-rs $uneven --nccl $nccl |
        rows | of 'time_us|logical.*'
    $EPTWIN replay --ranks 4 --ranks-per-node 2 --repeat 2 --kernel ag-rs $uneven --nccl $nccl | grep '^# checks'
done
for kernel in 'allgather --algorithm ring' reducescatter; do
    $EPTWIN replay --ranks 4 --ranks-per-node 2 --repeat 2 --kernel $kernel --size '16KiB|3|0|40000' | grep '^# checks'
    $EPTWIN simulate --cluster source/models/clusters/h200.ini --kernel $kernel --size '1MiB|1MiB|1MiB|1MiB' >uneven.csv
    $EPTWIN simulate --cluster source/models/clusters/h200.ini --kernel $kernel --num-ranks 4 --size 1MiB |
        diff <(grep -v '^#' uneven.csv) <(grep -v '^#' /dev/stdin) && echo same
    $EPTWIN simulate --cluster source/models/clusters/h200.ini --kernel $kernel --size '1MiB|0' --format text | head -n 1
done
echo "# between nodes NCCL's thread of the host posts for its kernels, whatever posts for others: the file's [nic] changes nothing"
nodes="--cluster source/models/clusters/h100-cx7.ini --num-ranks 16 --size 4KiB --set nic.doorbell=50us"
for kernel in 'allgather --algorithm ring' reducescatter allreduce allgather; do
    for more in '' '--backend nccl'; do
        $EPTWIN simulate $nodes --kernel $kernel $more | awk -F, '$2 == "all" && $3 == "time_us" && $1 != "sync" { print $4 }'
    done | awk -v kernel="$kernel" '{ t[NR] = $1 } END { print kernel ":", t[1] == t[2] ? "same" : "other" }'
done
echo "# NCCL's sends and receives: of one size with a rank's own part, of a list, with arithmetic; on a live link"
sends="--kernel alltoallv --issue nccl"
for matrix in uniform:4096 uniform:4194304; do
    $EPTWIN simulate $h200 $sends --matrix $matrix --output sends.csv && rows <sends.csv | of 'time_us|logical.*'
done
$EPTWIN simulate --cluster source/models/clusters/h200.ini $sends --matrix small.txt --compute 2us | rows | of time_us
$EPTWIN replay --ranks 4 --repeat 2 $sends --matrix uniform:70000 >live.csv
grep '^# checks' live.csv && rows <live.csv | of time_us
echo '# two GPUs, rings: 24 channels, and one of them'
for sms in 24 1; do
    $EPTWIN simulate --cluster source/models/clusters/h200.ini --num-ranks 2 --kernel allgather --algorithm ring \
        --size 8MiB --protocol simple --num-sms $sms | awk -F, '/^allgather,all,time_us,/ { printf "%.0f us\n", $4 }'
done

echo '# refused'
simulate() { $EPTWIN simulate $port --kernel "$@"; echo "status $?"; }
printf '3 3\n0 2 1\n1 3 1\n2 0 1\n' >rank.txt;    simulate alltoallv --matrix rank.txt
printf '3 3\n0 2 1\n1 x 1\n' >word.txt;            simulate alltoallv --matrix word.txt
printf '3 3\n0 2 1\n' >short.txt;                  simulate alltoallv --matrix short.txt
simulate alltoallv --matrix small.txt --num-ranks 4
simulate alltoallv --matrix no/such/file
simulate alltoallv --matrix uniform:x
simulate alltoallv --matrix uniform:1 --size 1KB
simulate ll --matrix small.txt
simulate allgather --matrix small.txt
simulate allgather --size 0B
simulate allgather --compute 2s
simulate allgather --compute 1us --compute-sms 100:200
simulate allgather --compute-sms 0:1
simulate allreduce --size 0B
simulate p2p --issue host --compute 1us
simulate p2p --num-ranks 3
simulate p2p --in-flight 0
simulate p2p --issue copy
simulate allgather --issue copy --algorithm ring
simulate allgather --issue nccl
simulate allgather --issue kernel --algorithm leader
$EPTWIN simulate $leader --size 1GiB; echo "status $?"
$EPTWIN simulate ${h20% --num-ranks 2} --kernel allgather --issue copy; echo "status $?"
simulate ll --issue copy
$EPTWIN simulate $h20 --kernel p2p --issue nccl --messages 7; echo "status $?"
$EPTWIN simulate $h20 --ranks-per-node 1 --kernel p2p --issue copy; echo "status $?"
$EPTWIN simulate $h20 --disable-nvlink --kernel p2p --issue copy; echo "status $?"
$EPTWIN simulate $h20 --disable-nvlink --kernel allgather --algorithm ring --issue copy; echo "status $?"
$EPTWIN replay --ranks 3 --kernel alltoallv --matrix rank.txt; echo "status $?"
$EPTWIN replay --ranks 2 --kernel alltoallv --matrix small.txt; echo "status $?"
# A size without a unit is bytes.
$EPTWIN simulate --cluster h800-cx7 --kernel p2p --num-ranks 2 --size 4096 --output plain.csv
$EPTWIN simulate --cluster h800-cx7 --kernel p2p --num-ranks 2 --size 4096 --format text | head -n 1
$EPTWIN simulate --cluster h800-cx7 --kernel p2p --num-ranks 2 --size 4KiB --output unit.csv
grep -c '_us,' plain.csv && cmp <(grep -v '^#' plain.csv) <(grep -v '^#' unit.csv) && echo "4096 is 4KiB"
simulate alltoallv --matrix uniform:1 --protocol ll
simulate alltoallv --matrix uniform:1 --issue nccl
simulate alltoallv --matrix uniform:1 --issue host
$EPTWIN simulate $h200 $sends --matrix uniform:1 --disable-nvlink; echo "status $?"
printf '2 2\n0 1 1\n0 1 2\n' >twice.txt
$EPTWIN simulate $h200 $sends --matrix twice.txt; echo "status $?"
simulate allgather --protocol ll
simulate allgather --algorithm tree
simulate allreduce --algorithm leader
simulate ll --protocol ll
simulate ag-rs --size 3
simulate reducescatter --size '3|4' --num-ranks 3
simulate reducescatter --size '3|x'
simulate reducescatter --size '0|0'
simulate allgather --size '3|4'
simulate allreduce --size '3|4'
simulate ag-rs --tokens-per-rank '3|3' --num-experts 7
simulate ag-rs --num-tokens 1048576 --num-ranks 64
echo '# ag-rs: what of its tokens the case does not say, its trace does'
$EPTWIN trace generate --num-ranks 4 --num-tokens 96 --num-topk 4 --num-experts 32 --output agrs.ept
$EPTWIN simulate --cluster source/models/clusters/h200.ini --kernel ag-rs --trace agrs.ept --format text | head -1
$EPTWIN simulate --cluster source/models/clusters/h200.ini --kernel ag-rs --tokens-per-rank '128|96|7' --format text | sed -n '1p;6,7p' |
    cut -c1-56 | sed -E "s/ +[0-9.]{4,} +/ N /g"

echo '# a record says the SMs that NCCL takes, so the same number brings the same times'
ag_rs() { $EPTWIN simulate --cluster h100-cx7 --kernel ag-rs --num-ranks 16 --num-tokens 256 "$@" --output -; }
ag_rs >chosen.csv
sms=$(sed -n 's/^# num-sms: //p' chosen.csv)
ag_rs --num-sms "$sms" | grep ,time_us_max, | cmp - <(grep ,time_us_max, chosen.csv) && echo "by $sms SMs"
