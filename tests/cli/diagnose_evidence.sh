# What rows say rules causes out: what a bandwidth counts, which memory, who posts, which library and version.
causes() { $EPTWIN diagnose - --cluster ${cluster:-h100-cx7} --output - 2>/dev/null | cut -d, -f1 | sort; }
has() { for c; do printf '%s %s\n' $c $(grep -c "^$c$" list); done; }
echo '# a row that says which bytes it counts is not counted wrongly'
head=num-ranks,kernel,num-tokens,cached,dtype,num-sms
case=16,normal,256,true,fp8,16
echo "$head,phase,measured_gbs
$case,dispatch,11" | causes >list && has local-tokens
echo "$head,counted,phase,measured_gbs
$case,local tokens included,dispatch,11" | causes >list && has local-tokens
echo '# bytes in the host'"'"'s memory have no GPU on their way'
p2p=kernel,size,messages,num-ranks,ranks-per-node
stream=p2p,1MiB,100,2,1
for memory in cuda host; do
    echo "$p2p,memory,phase,measured_gbs
$stream,$memory,put_stream,22" | causes >list
    echo "$memory:" $(has no-peer-path across-sockets pcie-ordering half-rate)
done
echo '# a plain ib_write_bw is of such bytes; --use_cuda says otherwise before its title'
title='                    RDMA_Write BW Test'
table=' #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 1048576    5000             180.1              180.0              0.02'
printf '%s\n%s\n' "$title" "$table" >host.log
printf 'initializing CUDA\nPicking device No. 0\ncuMemAlloc() of a 131072 bytes GPU buffer\n%s\n%s\n' "$title" "$table" >gpu.log
for log in host gpu; do
    $EPTWIN import $log.log --kernel p2p --output $log.csv >/dev/null
    causes <$log.csv >list
    echo $log: $(has no-peer-path across-sockets half-rate cpu-proxy)
done
echo '# a backend or a library that is said is not another one'
ll=num-ranks,kernel,num-tokens
echo "$ll,phase,measured_us
16,ll,128,dispatch,300" >slow.csv
causes <slow.csv >list && has cpu-proxy
echo "$ll,backend,phase,measured_us
16,ll,128,ibgda,dispatch,300" | causes >list && has cpu-proxy
echo "$ll,library,phase,measured_us
16,ll,128,perftest,dispatch,300" | causes >list && has cpu-proxy no-gdrcopy
for library in 'DeepEP V1 on NVSHMEM' 'NCCL 2.28'; do
    echo "$ll,library,phase,measured_us
16,ll,128,$library,dispatch,300" | $EPTWIN diagnose - --cluster h100-cx7 --output - 2>/dev/null | sed -n 's/^cpu-proxy,\([^,"]*\),.*/\1/p'
done
echo '# low latency of the first DeepEP went by the NIC alone: said so, nothing is wrong'
sound=source/tests/accuracy/threads/sound/h800_ll_first.csv
sed 's/,ebfe47e,/,,/' $sound | $EPTWIN diagnose - --cluster h800-cx7 --most 1 | sed -nE 's/^1\. .*\((.*)\)$/\1/p'
$EPTWIN diagnose $sound --cluster h800-cx7 | tail -1
sed -e 's/,deepep,/,version,library,/' -e 's/,ebfe47e,/,ebfe47e,DeepEP,/' $sound | $EPTWIN diagnose - --cluster h800-cx7 | tail -1
echo '# milliseconds in dispatch, and combine faster than expected: ranks were late'
echo "$ll,phase,measured_us
16,ll,128,dispatch,5200
16,ll,128,combine,80
32,ll,128,dispatch,3900
32,ll,128,combine,120" >late.csv
$EPTWIN diagnose late.csv --cluster h100-cx7 --most 1 2>/dev/null | sed -n '/^1\./,/probability/p' | sed 's/;.*//'
echo '# 1.77 times are missing: a cause that gives more than that and 15 % is not first, one that gives 2.50 is none'
echo "$p2p,phase,measured_gbs
$stream,put_stream,26" >missing.csv
$EPTWIN diagnose missing.csv --cluster h100-cx7 | sed -nE 's/.* ([0-9.]+ times as slow)/\1/p'
$EPTWIN diagnose missing.csv --cluster h100-cx7 --output - | grep -v -e ^cause -e ^sound -e ^none | awk -F, '
    NR == 1 { print "first", (1 / $(NF - 1) > 1.77 * 1.15 ? "too much" : "fits") }
    1 / $(NF - 1) > 2.5 { print $1, "gives", 1 / $(NF - 1) }'
$EPTWIN diagnose missing.csv --cluster h100-cx7 --output - | grep -c pcie-ordering
echo '# bad input'
echo "$ll,deepep,phase,measured_us
16,ll,128,nosuch,dispatch,300" | $EPTWIN diagnose - --cluster h100-cx7 2>&1 | sed 's/expected .*, found/expected ..., found/'
$EPTWIN diagnose slow.csv --cluster h100-cx7 --deepep nosuch 2>&1 | sed 's/expected .*, found/expected ..., found/'
echo '# a row without a measured time is no evidence, and not in the table'
printf 'num-ranks,kernel,cached,phase,measured_us\n8,normal,true,dispatch,497\n8,normal,true,dispatch,\n' |
    $EPTWIN diagnose - --cluster h200
echo '# measured on another GPU than the cluster has'
printf 'num-ranks,kernel,device,phase,measured_us\n8,ll,NVIDIA H200,dispatch,31\n8,ll,mlx5_0,dispatch,31\n' >device.csv
for cluster in h200 h20-cx7; do $EPTWIN diagnose device.csv --cluster $cluster 2>&1 >/dev/null | grep warning; done
