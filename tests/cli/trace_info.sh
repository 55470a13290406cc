# What info, check and diff say of the samples and of small files.
samples=source/traces/samples
"$EPTWIN" trace info $samples/prefill_ep8.npy.zst --trace-weights $samples/prefill_ep8.weights.npy.zst
echo "exit $?"
"$EPTWIN" trace info $samples/decode_ep64.ept --steps 1 --layers 1:3 --ranks-per-node 4 | sed -n '1,20p'
"$EPTWIN" trace check $samples/decode_ep64.ept
echo "exit $?"
cat >twice.csv <<'END'
# experts: 4
# model: by hand
step,layer,rank,token,expert0,expert1,weight0,weight1
0,0,0,0,1,1,0.5,0.5
0,0,0,1,3,-1,0.75,0.25
0,0,1,0,2,0,-1,1
END
"$EPTWIN" trace check twice.csv
echo "exit $?"
"$EPTWIN" trace info twice.csv --ranks-per-node 1
sed 's/3,-1/3,2/' twice.csv | "$EPTWIN" trace diff twice.csv -
echo "exit $?"
"$EPTWIN" trace diff twice.csv twice.csv
echo "exit $?"
"$EPTWIN" trace diff twice.csv $samples/decode_ep64.ept
echo "exit $?"
echo '# one of each'
"$EPTWIN" trace generate one.ept --num-ranks 1 --num-tokens 1 --num-topk 1 --num-experts 1
"$EPTWIN" trace check one.ept
"$EPTWIN" trace info one.ept
"$EPTWIN" trace info twice.csv --steps 1
"$EPTWIN" trace info twice.csv --ranks-per-node 0
"$EPTWIN" trace info twice.csv --experts 3
"$EPTWIN" trace info twice.csv --experts -3
"$EPTWIN" trace info missing.npy
"$EPTWIN" trace info
"$EPTWIN" trace inof twice.csv
echo "exit $?"
for kernel in ll normal; do
    "$EPTWIN" simulate --cluster source/models/clusters/h200.ini --kernel $kernel --trace twice.csv; echo "exit $?"
done
