# Predictions of each kernel family: header, phases, metrics and units.  Values change with every calibration and are left
# out; that they are numbers, and the same in each format and in every run, is checked.
cluster="--cluster source/models/clusters/h800-cx7.ini"
samples=source/traces/samples
small='--num-tokens 16 --hidden 1024'
rows() { grep -v '^#' | cut -d, -f1-3,5; }
phases() { rows | grep ',time_us,'; }

echo '# low latency, in full'
$EPTWIN simulate $cluster --num-ranks 16 --num-experts 64 $small --seed 7 >ll.csv
sed -e '/^# version:/d' -e 's/^# events: [1-9][0-9]*$/# events: some/' \
    -e 's/^# cluster-digest: [0-9a-f]\{16\}$/# cluster-digest: some/' ll.csv | grep '^#'
rows <ll.csv
grep -v '^#' ll.csv | grep -c ',bottleneck,[a-z_ ]*,$'
awk -F, '!/^#/ && NR > 1 && $4 !~ /^[0-9.e+-]+$/ && $3 !~ /^(bottleneck(_part)?|bound_tightest|busiest_.*)$/' ll.csv | tail -n +2
awk -F, '$3 == "time_us" && !($4 > 1 && $4 < 10000)' ll.csv

echo '# the same bytes again, to a file, and another seed'
$EPTWIN simulate $cluster --num-ranks 16 --num-experts 64 $small --seed 7 --output again.csv; cmp ll.csv again.csv && echo same
$EPTWIN simulate $cluster --num-ranks 16 --num-experts 64 $small --seed 7 --output - | cmp - ll.csv && echo same
$EPTWIN simulate $cluster --num-ranks 16 --num-experts 64 $small --seed 8 | cmp -s - ll.csv || echo other

echo '# by rank, with the hook'
$EPTWIN simulate $cluster --num-ranks 2 --num-experts 8 $small --hook --dtype bf16 --per-rank >hook.csv
phases <hook.csv
for phase in $(phases <hook.csv | cut -d, -f1 | uniq); do      # the mean of the ranks is what is told of all
    awk -F, -v p="$phase" '$1 == p && $3 == "time_us" { if ($2 == "all") all = $4; else { sum += $4; n++ } }
                           END { d = all - sum / n; print p, n, d * d < 1e-6 ? "mean" : "not the mean" }' hook.csv
done

echo '# JSON says the same'
$EPTWIN simulate $cluster --num-ranks 16 --num-experts 64 $small --seed 7 --format json --output ll.json
python3 - <<'P'
import csv, json
record = json.load(open('ll.json'))
rows = list(csv.reader(line for line in open('ll.csv') if not line.startswith('#')))
told = [[row.get(key) for key in rows[0]] for row in record['rows']]
same = [a[:3] == [b[0], str(b[1]), b[2]] and (a[3] == b[3] or float(a[3]) == float(b[3])) for a, b in zip(rows[1:], told)]
print(len(same) == len(rows) - 1 == len(told) and all(same))
P

echo '# normal, on one node and on two'
$EPTWIN simulate $cluster --kernel normal --num-ranks 4 --num-experts 16 $small | phases
$EPTWIN simulate $cluster --kernel normal --num-ranks 16 --num-experts 64 $small --cached | phases
$EPTWIN simulate $cluster --num-ranks 16 --num-experts 64 $small --disable-nvlink | grep -c physical_nvl_gbs,0,

echo '# a captured trace: one layer, and all of them, by any number of threads'
trace="--trace $samples/decode_ep64.ept --num-ranks 16 --num-tokens 8 --hidden 1024"
$EPTWIN simulate $cluster $trace --step 1 --layer 2 | phases
$EPTWIN simulate $cluster $trace --steps all --layers 0:2 --jobs 1 >one.csv
$EPTWIN simulate $cluster $trace --steps all --layers 0:2 --jobs 3 >three.csv
cmp one.csv three.csv && echo same
grep -E '^# (steps|layers|trace|num-experts|num-ranks):' one.csv
rows <one.csv

echo '# a host: all ranks are one node, cores are what is busy'
host="--cluster source/tests/fuzz/seeds/cluster/host.ini --num-ranks 4 --num-experts 16"
$EPTWIN simulate $host $small | grep -E '^# ranks-per-node|,(bottleneck|bound_tightest),'
$EPTWIN simulate $host $small --kernel normal --num-sms 8 | phases
$EPTWIN simulate $host $small --ranks-per-node 2 | awk -F, '$3 == "physical_nic_gbs" && $4 > 0' | wc -l

echo '# clusters by name, without the ending too'
(cd source && $EPTWIN simulate --cluster h200 --num-ranks 2 --num-experts 8 $small) | sed -n 's/^# cluster: //p; s/^# ranks-per-node: //p'
ls
