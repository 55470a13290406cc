# Two records of one case: the table, by rank, for machines, in either order, and a limit for the error.
cat >predicted.csv <<END
# kind: simulate
# kernel: ll
# num-tokens: 128
# trace: /one/place/layer.npy
phase,rank,metric,value,unit
dispatch,all,time_us,160,us
dispatch,0,time_us,150,us
dispatch,1,time_us,170,us
dispatch,all,logical_rdma_gbs,47.5,GB/s
dispatch,all,bottleneck,nic_tx,
dispatch,all,bottleneck_busy_pct,93.2,%
dispatch,all,bound_send_us,144,us
dispatch,all,bound_latency_us,9,us
combine,all,time_us,330,us
combine,all,bottleneck,steps and latencies,
combine,all,bottleneck_busy_pct,31,%
notify,all,time_us,6.5,us
END
cat >measured.csv <<END
# kind: replay
# kernel: ll
# num-tokens: 128
# trace: elsewhere/layer.npy
phase,rank,metric,value,unit
dispatch,all,time_us,200,us
dispatch,0,time_us,150,us
dispatch,1,time_us,250,us
dispatch,all,logical_rdma_gbs,38,GB/s
combine,all,time_us,300,us
END
"$EPTWIN" compare predicted.csv measured.csv
echo "exit $?"
"$EPTWIN" compare measured.csv predicted.csv --by-rank | sed -n 4,12p
"$EPTWIN" compare predicted.csv measured.csv --output - | grep -v '^# version'
"$EPTWIN" compare predicted.csv measured.csv --output table.json --format json >/dev/null
grep -c error_pct table.json
"$EPTWIN" compare predicted.csv - <measured.csv | tail -1
sed 's/time_us,200/time_us,158/' measured.csv >other.csv
"$EPTWIN" compare predicted.csv measured.csv predicted.csv other.csv --max-error 15 | tail -6
echo "exit ${PIPESTATUS[0]}"
"$EPTWIN" compare predicted.csv measured.csv predicted.csv predicted.csv | sed -n "/^error of/,/^all/p" # two predictions have no error
"$EPTWIN" compare predicted.csv measured.csv --max-error 20.5 >/dev/null
echo "exit $?"
for more in '--format json' '--cluster h200'; do "$EPTWIN" compare predicted.csv measured.csv $more; echo "exit $?"; done
