# Measured cases in, the same rows with predictions out.  Predictions are checked for being there, not for their
# value: that is tests/accuracy.
cluster=source/models/clusters/h800-cx7.ini
cat >cases.csv <<'CSV'
# two phases of one case, a case by bandwidth, one without a measurement, quoted and empty cells
kernel,num-ranks,num_tokens,hidden,num-experts,dtype,phase,measured_us,measured_gbs,label,traffic
ll,2,8,2048,16,fp8,dispatch,20,,"a, quoted",
ll,2,8,2048,16,fp8,combine,20.5,,"two ""words""",

ll,2,16,2048,,bf16,dispatch,,30,,
,2,16,2048,,,combine,,,none,64|64;100|28
CSV
masked() {      # numbers of the four results become words
    sed -E '1!s/,([0-9.]+),([0-9.]+),(-?[0-9.]*),([a-z_ ]+)$/,TIME,RATE,\3,BOTTLENECK/; s/,-?[0-9]+\.[0-9]+,BOTTLENECK/,ERROR,BOTTLENECK/'
}
echo '# rows to standard output'
$EPTWIN validate cases.csv --cluster $cluster -j2 2>summary | masked
echo "status ${PIPESTATUS[0]}"
cut -c1-25 summary

echo '# rows to a file, summary by a column and by an option'
$EPTWIN validate cases.csv --cluster $cluster --output rows.csv --by label --by dtype | cut -c1-25
masked <rows.csv | head -2

echo '# the same bytes whatever the number of workers, and again from what was written'
$EPTWIN validate cases.csv --cluster $cluster -j1 2>/dev/null | cmp - rows.csv && echo same
$EPTWIN validate rows.csv --cluster $cluster -j 3 2>/dev/null | cmp - rows.csv && echo same
$EPTWIN validate - --cluster $cluster <cases.csv 2>/dev/null | cmp - rows.csv && echo same

echo '# error_pct is the distance of what was measured'
awk -F, 'NR == 2 { printf "%s\n", ((100 * ($(NF - 3) / $8 - 1) - $(NF - 1))^2 < 0.0004 ? "right" : "wrong") }' rows.csv
grep ',bf16,' rows.csv | awk -F, '{ printf "%s\n", ((100 * ($(NF - 2) / $9 - 1) - $(NF - 1))^2 < 0.0004 ? "right" : "wrong") }'

echo '# a mean over draws'
printf 'kernel,num-ranks,num-tokens,num-experts,seed,seeds,phase\nll,2,8,16,,3,dispatch\nll,2,8,16,,,dispatch\n' >seeds.csv
printf 'll,2,8,16,1,,dispatch\nll,2,8,16,2,,dispatch\nll,2,8,16,1,0,dispatch\n' >>seeds.csv
$EPTWIN validate seeds.csv --cluster $cluster 2>problem | awk -F, '{ t[NR] = $(NF - 3) }
    END { d = t[2] - (t[3] + t[4] + t[5]) / 3; print d * d < 1e-5 && t[3] != t[4] ? "the mean" : "another" }'
head -1 problem

echo '# a cluster for each row, a trace beside the table'
mkdir -p folder
printf 'step,layer,rank,token,expert0,expert1\n0,0,0,0,0,2\n0,0,1,0,1,3\n' >folder/trace.csv
printf 'cluster,trace,hidden,phase,measured_us\nsource/models/clusters/h800-cx7.ini,trace.csv,2048,dispatch,10\n' >folder/cases.csv
$EPTWIN validate folder/cases.csv 2>/dev/null | masked

echo '# options given are the default of rows'
printf 'phase,hidden\ndispatch,2048\n' | $EPTWIN validate - --cluster $cluster --num-ranks 4 --num-tokens 8 2>/dev/null | masked

echo '# phases add up, with what the measurement holds beside them'
printf 'phase,outside_us\ndispatch,\ncombine,\ndispatch+combine,2.5\n' |
    $EPTWIN validate - --cluster $cluster --hidden 2048 --num-ranks 2 2>/dev/null |
    awk -F, 'NR > 1 { us[NR] = $(NF - 3); gbs[NR] = $(NF - 2) } END {
        printf "%s\n", ((us[4] - us[2] - us[3] - 2.5)^2 < 1e-5 ? "the sum" : "another time")
        printf "%s\n", ((gbs[4] * us[4] / (gbs[2] * us[2] + gbs[3] * us[3]) - 1)^2 < 1e-5 ? "the bytes of both" : "other bytes") }'
printf 'phase\ndispatch_recv\ndispatch_send+dispatch_recv\ndispatch_send+dispatch_recv+dispatch_sync\n' |
    $EPTWIN validate - --cluster $cluster --kernel pplx --hook --hidden 2048 --num-ranks 2 2>/dev/null |
    awk -F, 'NR > 1 { bytes[NR] = $(NF - 3) * $(NF - 2) } END {
        for (i = 3; i < 5; i++) print ((bytes[i] / bytes[2] - 1)^2 < 1e-5 ? "bytes count once" : "other bytes") }'

echo '# who posts to NICs'
printf '[cluster]\nname = mine\ninclude = source/models/clusters/h800-cx7.ini\n[nic]\npost = 1 us\n' >mine.ini
printf 'kernel,num-ranks,disable-nvlink,backend,cluster,phase\nll,2,,,,dispatch\nll,2,true,,,dispatch\nll,16,,,,dispatch
v2,16,,,,dispatch\nnormal,16,,ibrc,,dispatch\nll,16,,,mine.ini,dispatch\nnone,,,,,dispatch\n' |
    $EPTWIN validate - --cluster $cluster --hidden 2048 --num-tokens 8 --num-experts 64 2>/dev/null |
    awk -F, '{ print $1, $2, $3, $(NF - 4) }'
echo '# an option that a kernel does not take has no value there, however it is spelt'
printf 'kernel,num-ranks,size,phase,measured_us\nallreduce,2,1MiB,allreduce,20\n' >sum.csv
$EPTWIN validate sum.csv --cluster h200 --by num_topk --output sums.csv | awk '/^num/ { print $1, $2 }'
