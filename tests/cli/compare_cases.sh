# A prediction and a measurement that differ in one option are of different cases, whatever the option; what it came to is
# what counts.  Two predictions are a comparison, unless there is something else to do.
base="--cluster h800-cx7 --num-ranks 4 --num-tokens 8 --hidden 512 --num-experts 16 --num-topk 2"
predict() { $EPTWIN simulate $base --output "$@"; }
differ() {
    predict other.csv "$@" && sed -i 's/^# kind: simulate/# kind: replay/' other.csv
    $EPTWIN compare base.csv other.csv 2>&1 | grep -o 'different cases (.*)' | sed 's/case-keys.*//'
    [ "${PIPESTATUS[0]}" = 2 ] || echo "not refused: $*"
}
echo '# low latency'
predict base.csv
differ --num-tokens 9
for kind in simulate measure; do
    for file in a b; do sed "/^# [a-z]*-keys/d; s/^# kind: .*/# kind: $kind/; s/num-tokens: 8/num-tokens: $file/" base.csv >$file.csv; done
    $EPTWIN compare a.csv b.csv 2>&1 | grep -oE 'different cases .*|^first: a.csv'
done
differ --dtype bf16
differ --mask-timeout 500us
differ --seed 1
differ --masked-places 1
differ --hook
differ --num-sms 64
differ --disable-nvlink
predict base.csv --mask-timeout 500us
differ --mask-timeout 500us --fail 1@dispatch
echo '# normal'
base="$base --kernel normal"
predict base.csv
differ --nvl-chunk 7
differ --cached
differ --weights
differ --num-sms 12
predict same.csv --nvl-chunk 6 --num-sms 24 --routing uniform && $EPTWIN compare base.csv same.csv | grep -c '^[a-z_]*: first '
echo '# a trace, whose weights lie in a file of their own'
base="--cluster h800-cx7 --num-ranks 8 --num-tokens 8 --hidden 512 --trace prefill_ep8.npy.zst"
predict base.csv
differ --layer 1
differ --trace-weights prefill_ep8.weights.npy.zst
predict several.csv --layers 0:2 --seed 3 && $EPTWIN compare base.csv several.csv 2>&1 | grep -o 'different work (.*)'
predict same.csv --seed 3 && $EPTWIN compare base.csv same.csv | grep -c '^[a-z_]*: first '

echo '# two predictions: how and where is a comparison, what is none'
base="--cluster h800-cx7 --num-ranks 16 --num-tokens 8 --hidden 512 --num-experts 32 --num-topk 2"
predict base.csv
second() {
    predict other.csv "$@"
    $EPTWIN compare base.csv other.csv 2>&1 | grep -oE 'different work .*|^They differ .*|^Their options .*'
}
second
second --dtype bf16
second --disable-nvlink --num-sms 64
second --backend ibrc
second --fault 'nic:n0.g0 rate=0.5'
second --set nic.rate=25GB/s
second --placement eplb:16
second --placement greedy
second --kernel normal
second --num-tokens 9
second --seed 1
second --routing zipf:1 --dtype bf16
second --placement eplb:16 --num-experts 48
predict other.csv --cluster h20-cx7
$EPTWIN compare base.csv other.csv | grep '^They'
$EPTWIN compare base.csv other.csv base.csv other.csv | grep -c 'error of mean'
predict other.csv --hook && $EPTWIN compare base.csv other.csv
echo '# names keep their "/", files lose their folders'
sed 's|^# cluster: .*|# cluster: 8x400G / rail|; /^# cluster-digest/d' base.csv >other.csv
$EPTWIN compare base.csv other.csv | grep '^They'
sed 's|^# kernel: .*|&\n# trace: a/b.ept|' base.csv >a.csv; sed 's|^# trace: a/|# trace: elsewhere/|' a.csv >b.csv
sed -i 's/^# work-keys:/& trace/' a.csv b.csv; $EPTWIN compare a.csv b.csv | grep '^Their options'
