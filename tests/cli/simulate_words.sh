# What people get: a table on a terminal or when asked for, the chain of --explain, what-if words of two predictions.
# Times change with every calibration: numbers are checked against each other, not for their value.
cluster="--cluster source/models/clusters/h800-cx7.ini"
case="--num-ranks 16 --num-experts 64 --num-tokens 16 --hidden 1024"
numbers() { sed -E 's/[0-9]+(\.[0-9]+)?( %)?/N/g; s/ +/ /g; s/-+/-/g; s/^((dispatch|combine) N (N|-)( [*])? N N N N N) .*/\1 BOUND/'; }

echo '# a terminal gets a table, a pipe the record, a file the record too'
$EPTWIN simulate $cluster $case >piped.csv
script -qec "$EPTWIN simulate $cluster $case" /dev/null | tr -d '\r' >terminal.txt
numbers <terminal.txt
$EPTWIN simulate $cluster $case --format text | cmp - terminal.txt && echo same
script -qec "$EPTWIN simulate $cluster $case --output file.csv" /dev/null | tr -d '\r' | cmp - terminal.txt && echo same
cmp file.csv piped.csv && echo same
script -qec "$EPTWIN simulate $cluster $case --format csv" /dev/null | tr -d '\r' | cmp - piped.csv && echo same
$EPTWIN simulate $cluster $case --output file.csv | wc -c

echo '# the table says what the record says'
python3 - <<'P'
import csv, re
record = {(r['phase'], r['metric']): r['value'] for r in csv.DictReader(l for l in open('piped.csv') if l[0] != '#')}
for line in open('terminal.txt'):
    word = re.split('  +', line.strip())
    if word and word[0] in ('dispatch', 'combine'):
        columns = ['time_us_max', 'time_us_median', 'logical_rdma_gbs', 'logical_nvl_gbs', 'physical_nic_gbs',
                   'physical_nvl_gbs']
        print(word[0], all(abs(float(w) - float(record[word[0], c])) <= 0.0051 * max(1, float(w)) for w, c in
                           zip(word[1:2] + word[3:], columns)))
P

echo '# the sum of --explain is the time of the slowest rank'
$EPTWIN simulate $cluster $case --explain --output file.csv >words.txt
cmp file.csv piped.csv && echo same
grep -c ',3,time_us,' file.csv
python3 - <<'P'
import re
total, inside = 0, False
for line in open('words.txt'):
    if line.startswith('  breakdown'): inside, total = True, 0
    found = re.match(r'    (.*?) +(-?[0-9.]+) us', line)
    if inside and found and found[1] == 'the slowest rank':
        print('adds up' if abs(total - float(found[2])) < 0.03 else (total, found[2]))
        inside = False
    elif inside and found: total += float(found[2])
P
$EPTWIN simulate $cluster $case --explain --per-rank --output ranks.csv >/dev/null && grep -c ',3,time_us,' ranks.csv
$EPTWIN simulate --cluster source/tests/fuzz/seeds/cluster/host.ini $case --num-ranks 2 --explain | grep -c '^    core [01] '

echo '# two predictions: what a change would give'
$EPTWIN simulate $cluster $case --output one.csv
$EPTWIN simulate $cluster --set nic.rate=12GB/s $case --output two.csv
cp -r source/models/clusters/parts .
cp source/models/clusters/h800-cx7.ini slow.ini
printf '[nic]\nrate = 12 GB/s\n' >>slow.ini
$EPTWIN simulate --cluster slow.ini $case | diff two.csv - | grep '^[<>]'
$EPTWIN compare one.csv two.csv | grep -oE 'times slower|error|the second is' | sort -u
$EPTWIN compare one.csv one.csv | grep -o 'the same' | sort -u

echo '# settings without effect are said: V2 stores by bulk copies, at a rate of their own'
$EPTWIN simulate --cluster source/models/clusters/h200.ini --kernel v2 --num-ranks 2 --num-tokens 64 \
    --set=nvlink.{egress,egress,bulk,bulk}-rate=10GB/s | grep '^# notes'

echo '# refused'
for set in nic.rate nic.read=10us nic.=1 rate=1 nic.speed=1 nic.rate=fast; do
    $EPTWIN simulate $cluster --set $set; echo "status $?"; done 2>&1 |
    sed 's|^.*/\(models\)|\1|; s|ini:[0-9]*:|ini:LINE:|'
$EPTWIN simulate $cluster $case --explain --output -; echo "status $?"
$EPTWIN simulate $cluster $case --format xml; echo "status $?"
for more in '--per-rank --format text' '--usage --explain' '--waits --format text --output words.txt' '--explain --format json'; do
    $EPTWIN simulate $cluster $case $more; echo "status $?"
done
script -qec "$EPTWIN simulate $cluster $case --per-rank" /dev/null | tr -d '\r'
$EPTWIN simulate $cluster --trace source/traces/samples/decode_ep64.ept --layers all --explain; echo "status $?"
$EPTWIN simulate $cluster --trace source/traces/samples/decode_ep64.ept --num-ranks 8 --layers 0:2 --format text |
    tail -n +5 | cut -d' ' -f1 | head -4

echo '# one token, an SM that is not full, and the bandwidth of a span: its kernels'"'"' bytes by its time'
$EPTWIN simulate $cluster --num-ranks 16 --kernel normal --num-tokens 1 --format text >one.txt
head -1 one.txt | grep -o ', 1 token of'; grep -c 'busiest: SM of rank' one.txt; grep -c 'busiest: busiest' one.txt
for case in "one-sided --cluster source/models/clusters/gb200-nvl72.ini" "mori --cluster source/models/clusters/mi300x-cx7.ini"; do
    $EPTWIN simulate --kernel $case --num-ranks 16 --num-tokens 128 --output spans.csv
    for phase in dispatch combine; do
        awk -F, -v p=$phase '$2 == "all" && $3 == "time_us" { us[$1] = $4 } $2 == "all" && $3 == "logical_nvl_gbs" { gbs[$1] = $4 }
            END { ratio = us[p] * gbs[p] / us[p "_span"] / gbs[p "_span"]; print p, (ratio > 0.999 && ratio < 1.001 ? "as told" : ratio) }
        ' spans.csv
    done
done
echo '# one of each'
$EPTWIN simulate --cluster h200 --num-ranks 1 --num-experts 1 --num-topk 1 --num-tokens 1 --format text | head -1
