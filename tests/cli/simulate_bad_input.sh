# Whatever is wrong with the input is told in one line that names file and field, ends with 2 and leaves nothing.
cp -r source/models/clusters/parts .
cat source/models/clusters/h800.ini source/models/clusters/parts/connectx7.ini >h800.ini
cluster=h800.ini
samples=source/traces/samples
small='--num-tokens 8 --hidden 1024'
run() {
    $EPTWIN simulate "$@" >out 2>err
    echo "exit $?, $(wc -l <out) lines of output"
    cat err
}

echo '# options'
run
run --cluster ./none.ini
run --cluster $cluster left-over
run --cluster $cluster --num-token 8
run --cluster $cluster --num-tokens 0
run --cluster $cluster --num-tokens -8
run --cluster $cluster --hidden 7168.5
run --cluster $cluster --num-ranks 70000
run --cluster $cluster --num-experts 0
run --cluster $cluster --kernel fast
run --cluster $cluster --dtype fp32
run --cluster $cluster --format xml $small
run --cluster $cluster --routing heavy $small
run --cluster $cluster --num-ranks 8 --num-experts 20 $small
run --cluster $cluster --num-topk 20 --num-experts 16 $small
run --cluster $cluster --hidden 100 --num-tokens 8
run --cluster $cluster --num-sms 500 $small
run --cluster $cluster --traffic '1|2;x|4' $small
run --cluster $cluster --ue8m0 $small
run --cluster $cluster --trace-weights $samples/prefill_ep8.weights.npy.zst $small
run --cluster $cluster --num-topk-groups 3 $small
run --cluster $cluster --logfmt --zero-copy $small
run --cluster $cluster $small --logfmt --dtype bf16 --hidden 640
run --cluster $cluster --logfmt --kernel normal $small
run --cluster $cluster --logfmt --kernel v2 $small
run --cluster $cluster --layers 0:2 $small
run --cluster $cluster --placement greedy:3 $small
run --cluster source/models/clusters/h200.ini --num-ranks 16 --num-experts 16 $small
run --cluster $cluster --num-ranks 2 --num-sms 1 --num-experts 512 $small
run --cluster $cluster --num-ranks 2 --num-sms 2 --num-experts 768 $small
run --cluster $cluster --num-ranks 2 --num-experts 8 --num-topk 2 --num-tokens 8 --hidden 131072
run --cluster $cluster --placement eplbfoo:64 $small
run --cluster $cluster --placement 'eplb>:0' $small

echo '# clusters'
cp -r source/models/clusters/parts .
sed 's/^sms = /pole = /' $cluster >c.ini;               run --cluster c.ini $small
sed 's/^sms = .*/&\npoll = 220 nS/' $cluster >c.ini;      run --cluster c.ini $small
sed 's/^sms = .*/sms = 0/' $cluster >c.ini;             run --cluster c.ini $small
sed 's/^mtu = .*/mtu = 0 B/' $cluster >c.ini;           run --cluster c.ini $small
sed 's/^hbm-rate = .*/hbm-rate = -1 GB\/s/' $cluster >c.ini;  run --cluster c.ini $small
sed '/^\[network\]/,$d' $cluster >c.ini;                run --cluster c.ini $small
sed '/^include/d' $cluster >c.ini;                      run --cluster c.ini $small
run --cluster source $small

echo '# traces'
trace() { run --cluster $cluster --hidden 1024 --trace "$@"; }
trace none.npy
zstd -qdc $samples/prefill_ep8.npy.zst >whole.npy
head -c 50000 whole.npy >cut.npy;                       trace cut.npy
head -c 20000 $samples/prefill_ep8.npy.zst >cut.npy.zst; trace cut.npy.zst
head -c 10000 $samples/decode_ep64.ept >cut.ept;        trace cut.ept
: >empty.npy;                                           trace empty.npy
sed '1s/|u1/|b1/' whole.npy >bool.npy;                  trace bool.npy
sed "1s/(1, 3, 8, 512, 8)/(1, 3, 8, 2048)  /" whole.npy >shape.npy; trace shape.npy
sed "1s/(1, 3, 8, 512, 8)/(3, 8, 4096)     /" whole.npy >flat.npy; trace flat.npy
trace whole.npy --num-experts 60
trace whole.npy --num-experts 32
trace whole.npy --num-ranks 16
trace whole.npy --num-topk 4
trace whole.npy --step 1
trace whole.npy --layer 3
trace whole.npy --layers 2:4
trace whole.npy --steps 1:0
trace whole.npy --layers x
trace whole.npy --routing uniform
printf 'step,layer,rank,token,expert0,expert1\n0,0,0,0,1,2\n0,0,0,1,1,900\n' >id.csv;  trace id.csv --num-experts 8
printf 'step,layer,rank,token,expert0,expert1\n0,0,0,0,1,two\n' >word.csv;             trace word.csv

echo '# outputs'
run --cluster $cluster $small --output no/such/folder.csv
run --cluster $cluster $small --output source
run --cluster $cluster $small --output /dev/full
run --cluster $cluster $small --timeline source
run --cluster $cluster $small --timeline no/such/folder.json
run --cluster $cluster $small --timeline t.json --output no/such/folder.csv
trace whole.npy --timeline t.json --layers all
ls

echo '# a refused case gets one line, and none about defaults'
run --cluster $cluster --kernel normal --num-ranks 3

echo '# what a kernel would ignore is refused, unless it is the default'
for ignored in '--hook --kernel normal' '--cached --kernel ll' '--worst-tokens --kernel allgather' '--nvl-chunk 8 --kernel v2' \
               '--overlap --kernel mori' '--messages 3 --kernel ll' '--flush cold --kernel pplx' '--zero-copy --kernel p2p'; do
    run --cluster $cluster $ignored
done
run --cluster $cluster --kernel normal $small --messages 100 --flush warm
