# What tune recommends: lines that simulate takes, with the times that the table promises, within 3 % of the best of a
# sweep over all chunks.  Times change with every calibration and are checked against each other only.
case="--cluster source/models/clusters/h800-cx7.ini --kernel normal --cached --num-ranks 16 --num-tokens 512 --hidden 2048 --num-experts 64"
words() { sed -E 's/[0-9]+(\.[0-9]+)?/N/g; s/(the same|N times (faster|slower))/RATIO/; s/ +/ /g; s/-+/-/g; s/ recommended//'; }
# What dispatch or combine costs a layer: the sum over its kernels, or their span.
us() {
    awk -F, -v half=$1 '$2 == "all" && $3 == "time_us_max" && ($1 ~ /combine/) == (half == "combine") {
        sum += $4; if ($1 ~ /_span$/) span = $4 } END { print span ? span : sum }'
}

$EPTWIN tune $case --max-sms 16 -j 2 >tuned.txt
words <tuned.txt | uniq
$EPTWIN tune $case --max-sms 16 -j 1 | cmp - tuned.txt && echo same

echo '# the line to paste gives the times of the table'
$EPTWIN simulate $case $(sed -n 's/^ *eptwin  *//p' tuned.txt) >pasted.csv
for phase in dispatch combine; do
    awk -v p=$phase -v us=$(us $phase <pasted.csv) '$1 == p && $2 == "tuned" { print p, ($8 - us)^2 < 0.01 ? "as told" : us }' tuned.txt
done

echo '# within 3 % of the best of all chunks'
sms=$(awk '$1 == "dispatch" && $2 == "tuned" { print $3 }' tuned.txt)
[ "$sms" -le 16 ] && echo 'no more SMs than allowed'
$EPTWIN sweep $case --num-sms 16 --nvl-buffer 512 --rdma-buffer 128 --nvl-chunk 4:45:4 --rdma-chunk 4:33:4 \
    --best dispatch.slowest_us --top 1 --output dispatch.csv >dispatch.txt 2>said.txt
$EPTWIN sweep $case --num-sms 16 --combine-nvl-buffer 512 --combine-rdma-buffer 128 --combine-nvl-chunk 1:8 \
    --combine-rdma-chunk 8:33:4 --best combine.slowest_us --top 1 --output combine.csv >combine.txt 2>>said.txt
grep -v "^eptwin sweep: about" said.txt # said where a machine needs long
python3 - <<'P'
import csv
best = {}
for phase in ('dispatch', 'combine'):
    rows = csv.DictReader(l for l in open(phase + '.csv') if l[0] != '#')
    best[phase] = min(float(r['slowest_us']) for r in rows if r['phase'] == phase)
mine = {l.split(',')[0]: float(l.split(',')[3]) for l in open('pasted.csv') if ',all,time_us_max,' in l}
ratio = sum(mine[p] for p in best) / sum(best.values())
print('within 3 %' if ratio <= 1.03 else ratio)
P

echo '# a fixed number of SMs, one node'
$EPTWIN tune $case --num-sms 8 | awk '$2 == "tuned" { print $1, $3 }'
$EPTWIN tune --cluster source/models/clusters/h200.ini --kernel normal --cached --num-ranks 4 --num-tokens 256 --hidden 1024 \
    --num-experts 16 --max-sms 8 | grep -c 'Config('

v2="--cluster source/models/clusters/h200.ini --kernel v2 --num-ranks 4 --num-tokens 256 --hidden 1024 --num-experts 16"
echo '# the default of V2 is its own choice of SMs, with the times of simulate; up to as many are tried'
$EPTWIN simulate $v2 >own.csv
own="$(sed -n 's/^# num-sms: //p' own.csv)"; echo "$own SMs"
$EPTWIN tune $v2 >tuned.txt
for phase in dispatch combine; do
    awk -v p=$phase -v sms=$own -v us=$(us $phase <own.csv) \
        '$1 == p && $2 == "default" { print p, ($3 == sms && ($8 - us)^2 < 0.01 ? "as simulated" : $0 " " us) }' tuned.txt
done
grep -A 2 paste tuned.txt | words
awk '/together/ { table = 1 } table && NF >= 4 && $1 + 0 { most = $1 } END { print "at most", most }' tuned.txt
$EPTWIN tune $v2 --max-sms 16 | awk '/together/ { table = 1 } table && NF >= 4 && $1 + 0 { most = $1 } END { print "at most", most }'

echo '# refused'
for bad in '--kernel ll' '--kernel nccl-ht' '--kernel alltoallv' \
           '--max-sms 1' '--max-sms 0' '--slack -1' 'more' '--num-sms 7' '--num-topk 200'; do
    $EPTWIN tune $case $bad; echo "status $?"
done
$EPTWIN tune --kernel normal; echo "status $?"
