# Logs as people post them: numbers stressed, signs of twice the width, quoted; streams of other tools as rows to predict.
cat > posted.log <<'END'
[tuning] Best dispatch (FP8): SMs 24, NVL chunk 8, RDMA chunk 8: _**29.92 GB/s**_ (RDMA), 60.35 GB/s (NVL)
[tuning] Best combine: SMs 24, NVL chunk 1, RDMA chunk 16: **_13.59 GB/s_** (RDMA), 27.41 GB/s (NVL）
END
$EPTWIN import posted.log --num-ranks 32 --output posted.csv
cut -d, -f2,5,6,10- posted.csv
cat > write.log <<'END'
************************************
                    RDMA_Write BW Test
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      5000             185.37              184.94              0.352743
END
$EPTWIN import write.log --output write.csv
$EPTWIN diagnose write.csv --cluster h100-cx7-bond
echo "exit $?"
$EPTWIN import write.log --kernel p2p --output write.csv
$EPTWIN diagnose write.csv --cluster h100-cx7-bond >diagnosis.txt
echo "exit $?"
$EPTWIN import write.log --kernel ll --output - | tail -1
