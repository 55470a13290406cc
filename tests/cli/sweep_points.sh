# A sweep: the same bytes however it is divided, interrupted or resumed; the table, fronts, and what is refused.
# Times change with every calibration and are checked against each other only.
sweep() { $EPTWIN sweep --cluster source/models/clusters/h800-cx7.ini "$@"; }
plan='--num-ranks 2:9:2 --num-tokens 4:65:x2 --dtype fp8,bf16 --hidden 1024 --num-experts 48 --num-topk 4,8 --seed 0:13'
words() { sed -E '/^ *[0-9]/s/.*/a row/; s/ +/ /g; s/-+/-/g' | uniq; }        # which rows depends on the calibration

echo '# 1,040 points: table'
sweep $plan --output all.csv --top 3 | words
grep -c ',dispatch,' all.csv; grep '^# points' all.csv; ls
sed -n '/^point/,$p' all.csv | head -2 | cut -d, -f1-8
python3 - <<'P'
import csv
rows = list(csv.DictReader(l for l in open('all.csv') if l[0] != '#'))
order = [int(r['point']) for r in rows]
print(order == sorted(order), len(rows), sorted({r['phase'] for r in rows}))
keys = ('num-ranks', 'num-tokens', 'num-topk', 'seed', 'phase')  # gains are of settings, within the same work
first = {tuple(r[k] for k in keys): float(r['slowest_us']) for r in rows if r['dtype'] == 'fp8'}
print(all(abs(float(r['speedup']) / (first[tuple(r[k] for k in keys)] / float(r['slowest_us'])) - 1) < 1e-3 for r in rows))
P

echo '# a point is what simulate says'
$EPTWIN simulate --cluster source/models/clusters/h800-cx7.ini --num-ranks 4 --num-tokens 16 --dtype bf16 --hidden 1024 \
    --num-experts 48 --num-topk 4 --seed 7 --output one.csv
python3 - <<'P'
import csv
def lines(path): return csv.DictReader(l for l in open(path) if l[0] != '#')
wanted = {'num-ranks': '4', 'num-tokens': '16', 'dtype': 'bf16', 'num-topk': '4', 'seed': '7'}
one = {(r['phase'], r['metric']): r['value'] for r in lines('one.csv') if r['rank'] == 'all'}
point = [r for r in lines('all.csv') if all(r[k] == v for k, v in wanted.items())]
metrics = ['time_us', 'time_us_median', 'logical_rdma_gbs', 'logical_nvl_gbs', 'physical_nic_gbs',
           'physical_nvl_gbs', 'bottleneck', 'bottleneck_busy_pct', 'efficiency_pct']
kernels, layer = point[:-1], point[-1]
print([r['phase'] for r in point], all(r[m] == one.get((r['phase'], m), '') for r in kernels for m in metrics),
      all(r['slowest_us'] == one[r['phase'], 'time_us_max'] for r in kernels),
      all(abs(sum(float(r[m]) for r in kernels) - float(layer[m])) < 1e-6 for m in ('time_us', 'slowest_us')))
P
rm one.csv
sweep --num-ranks 16 --num-tokens 64 --output one.csv >table                # bound by: as its longest phase is
$EPTWIN sweep show one.csv --best dispatch+combine.slowest_us >>table
python3 - <<'P'
import csv
rows = {r['phase']: r for r in csv.DictReader(l for l in open('one.csv') if l[0] != '#')}
said = ['%s, %.0f %% busy' % (rows[p]['bottleneck'], float(rows[p]['bottleneck_busy_pct'])) for p in ('dispatch', 'combine', 'layer')]
table = open('table').read()
print(said[0] != said[1] == said[2], table.count(said[1]), said[0] in table)
P
rm one.csv table

echo '# again: nothing is run; by other numbers of threads, the same bytes'
cp all.csv kept.csv; sweep $plan --output all.csv --top 1 >/dev/null; cmp all.csv kept.csv && echo same
sweep $plan --output threads.csv -j 3 >/dev/null; cmp all.csv threads.csv && echo same

echo '# killed, with a line cut: goes on, and what was there is not run again'
$EPTWIN sweep --cluster source/models/clusters/h800-cx7.ini $plan --output killed.csv -j 1 >/dev/null & pid=$! # no shell's
until grep -q '^20,.*,combine,' killed.csv.part 2>/dev/null; do sleep 0.01; done
kill -9 $pid; wait $pid 2>/dev/null
ls killed*
sed -i '/^7,/s/,dispatch,3,[0-9.]*/,dispatch,3,12345/' killed.csv.part      # would come out right if it were run again
printf '1039,8,64,8,bf16,12,disp' >>killed.csv.part
sed -i '/^9,.*,combine,/d' killed.csv.part                                 # a point that lacks a row is run again
sweep $plan --output killed.csv >/dev/null; ls killed*
diff all.csv killed.csv | grep -c '^>.*,12345,'; diff all.csv killed.csv | grep '^>' | grep -vc ',12345,'
diff all.csv killed.csv | grep -c '^<'

echo '# shards and merge'
for k in 1 2 3; do sweep $plan --shard $k/3 --output part$k.csv >/dev/null; done
$EPTWIN sweep merge part1.csv part3.csv --output merged.csv; echo "status $?"
$EPTWIN sweep merge part2.csv part1.csv part3.csv --output merged.csv >/dev/null; cmp all.csv merged.csv && echo same
(cat part2.csv; grep '^[0-9]' part2.csv) >twice.csv   # rows twice are rows once; rows that contradict each other are refused
$EPTWIN sweep merge twice.csv part1.csv part3.csv --output merged.csv >/dev/null; cmp all.csv merged.csv && echo same
awk -F, -v OFS=, '/^point/ { for (i = 1; i <= NF; i++) if ($i == "slowest_us") at = i } /^1,/ { $at = 7 } 1' part2.csv >other.csv
$EPTWIN sweep merge part2.csv other.csv --output never.csv; echo "status $?"
(cat part2.csv; grep '^[0-9]' other.csv) >twice.csv; $EPTWIN sweep show twice.csv; echo "status $?"

echo '# MPI, four processes'
mpirun -n 4 --oversubscribe --allow-run-as-root $EPTWIN sweep --cluster source/models/clusters/h800-cx7.ini $plan \
    --output mpi.csv --top 3 2>&1 | words | head -6
cmp all.csv mpi.csv && echo same; ls mpi*

echo '# ranks that are killed or never begin: others run their points; a share that somebody has is left alone'
rank() { OMPI_COMM_WORLD_RANK=$1 OMPI_COMM_WORLD_SIZE=4 exec $EPTWIN sweep --cluster source/models/clusters/h800-cx7.ini \
    $plan --output dead.csv -j 1 >/dev/null 2>&1; }
rank 3 & killed=$!
until [ -s dead.csv.4of4.part ] || ! kill -0 $killed 2>/dev/null; do sleep 0.01; done
kill -9 $killed; wait $killed 2>/dev/null
exec 9>>dead.csv.3of4.part; flock 9; (rank 1); echo "status $?"; ls dead*; exec 9>&-
(rank 0); echo "status $?"; cmp all.csv dead.csv && echo same; ls dead*

echo '# more values: only what is new is run'
sweep --hidden 1024 --num-experts 48 --num-ranks 2,4 --num-tokens 8,16 --output grow.csv >/dev/null
sed -i '0,/,dispatch,3,[0-9.]*/s//,dispatch,3,12345/' grow.csv
sweep --hidden 1024 --num-experts 48 --num-ranks 2,4 --num-tokens 8,16,32 --output grow.csv >/dev/null
grep -c ',dispatch,' grow.csv; grep -c ,12345, grow.csv

echo '# SMs against time, clusters and their keys, a baseline'
sweep --kernel normal --cached --num-ranks 4 --num-tokens 64 --hidden 1024 --num-experts 16 \
    --set nvlink.egress-rate=100GB/s,137GB/s --num-sms 4:17:4 --output sms.csv --baseline num-sms=8 \
    --best dispatch.logical_nvl_gbs --top 2 | words
awk -F, '$3 == 8 && /,dispatch,/ { print $(NF - 1) }' sms.csv
$EPTWIN sweep show sms.csv --best dispatch+combine.time_us_median --top 1 | words | head -4
$EPTWIN sweep show sms.csv --best dispatch.speedup --top 99 | awk '!NF { exit } $1 ~ /GB/ { print $3 }' | sort -rgc &&
    echo 'the most gained first'
for best in dispatch+combine.logical_nvl_gbs dispatch+dispatch.slowest_us dispatch.num-sms dispatch.bottleneck; do
    $EPTWIN sweep show sms.csv --best $best
done

echo '# the best is sought among settings, for each work; values of one name side by side'
sweep --hidden 1024 --num-experts 48 --num-ranks 16 --num-tokens 4,64 --dtype fp8,bf16 --disable-nvlink false,true \
    --output side.csv | words | head -5
rows() { sed -E 's/^ *(fp8|bf16|[0-9]).*/a row/; s/ +/ /g; s/-+/-/g' | uniq; }
for options in '--compare dtype' '--compare disable-nvlink --best combine.slowest_us' '--compare tokens --top 1'; do
    $EPTWIN sweep show side.csv $options | rows
done
$EPTWIN sweep show side.csv >best.txt; $EPTWIN sweep show side.csv --compare dtype >compared.txt
python3 - <<'P'
import csv
total = {}
for r in csv.DictReader(l for l in open('side.csv') if l[0] != '#'):
    if r['phase'] == 'layer': continue
    key = r['num-tokens'], r['dtype'], r['disable-nvlink']
    total[key] = total.get(key, 0) + float(r['slowest_us'])
near = lambda text, value: abs(float(text.strip(',')) / value - 1) < 1e-4
rows = [l.split() for l in open('best.txt') if l.strip()[:1].isdigit()]
print('best of each:', len(rows), [near(r[3], min(v for k, v in total.items() if k[0] == r[0])) for r in rows])
right = []
for line in open('compared.txt'):
    word = line.split()
    if not word or word[0] not in ('4', '64'): continue
    fp8, bf16 = (total[word[0], d, word[1]] for d in ('fp8', 'bf16'))
    said = 'the same' if abs(fp8 / bf16 - 1) < 0.005 else '%.2f times %s' % (
        max(fp8 / bf16, bf16 / fp8), 'faster' if fp8 > bf16 else 'slower')
    right.append(said in line and near(word[2], fp8) and near(word[3], bf16))
print('side by side:', right)
P
$EPTWIN sweep show side.csv --compare num-sms; echo "status $?"
sweep --num-ranks 2,4 --compare dtype --output none.csv; echo "status $?"; ls none.csv* 2>/dev/null

echo '# points that cannot be'
sweep --num-ranks 2 --hidden 1024 --num-experts 4 --num-topk 2,8 --num-tokens 4,8 --output topk.csv | words
grep -c 'topk: expected' topk.csv

echo '# refused'
sweep --num-ranks 2,4 --num-tokens 8 --output grow.csv; echo "status $?"
for bad in '--num-ranks 4,4' '--num-ranks 8:4' '--num-ranks 1:9:x1' '--num-ranks 2,many' '--dtype fp8,fp4' '--num-ranks ,' \
           '--set nic.rate' '--set rate=1,2' '--shard 4/3' '--top 0' '--num-ranks 2,4 --baseline num-ranks=2,num-ranks=4' '--output -' \
           '--seed 1:10000:1 --num-tokens 1:10000:1' \
           '--num-ranks 2,4 --baseline num-ranks=8' '--num-tokens 4 --best time' '--num-tokens 4 --best wait.time_us' \
           '--kernel normal --num-sms 3,5' '--num-tokens 4 --best dispatch.wait' '--set nic.speed=1,2' 'remove all.csv'; do
    sweep --num-experts 16 --num-topk 2 --hidden 1024 --output bad.csv $bad 2>&1 |
        sed -E 's|^.*/models/|eptwin: models/|; s|ini:[0-9]+|ini:N|'
    echo "status ${PIPESTATUS[0]}"
    rm -f bad.csv
done
for bad in 'show' 'show missing.csv' 'show part1.csv x' '--num-ranks 2'; do $EPTWIN sweep $bad; echo "status $?"; done

echo '# a ratio is a value, and a range still is one'
sweep --num-ranks 16 --num-tokens 8 --hidden 512 --num-experts 16 --num-topk 2 --set network.topology=leaf-spine \
    --set network.nodes-per-leaf=1 --set network.oversubscription=1:1,2:1 --output ratio.csv >/dev/null
awk -F, '$3 == "dispatch" { print $2 }' ratio.csv
sweep --num-ranks 2 --set network.spines=1:4 --num-tokens 8 --hidden 512 --num-experts 4 --num-topk 2 --output range.csv >/dev/null
awk -F, '$3 == "dispatch" { print $2 }' range.csv
sweep --num-ranks 16 --set network.oversubscription=2:3:0 2>&1 --output bad.csv; echo "status $?"
echo '# collectives have no layer: the longest phase ranks them'
$EPTWIN sweep --cluster h200 --kernel allreduce --num-ranks 2,4 --size 1MiB --output sums.csv |
    awk 'NR == 1 { print $1, $2 } NR > 2 { print $1 }'
echo '# table and page have one rule, also where the phase that takes longest does not have the longest sum'
$EPTWIN sweep --cluster h200 --kernel p2p --num-ranks 2 --size 1KiB,2KiB --output two.csv >/dev/null
awk -F, -v OFS=, '/^[01],/ { $7 = $3 == "put" ? 10 - 9 * $1 : $3 == "get" ? 9 : 1 } { print }' two.csv >drawn.csv
$EPTWIN sweep show drawn.csv --html two.html | awk 'NR == 1 { print $2 }' && grep -o 'Put: [^;]*' two.html
$EPTWIN sweep show drawn.csv --best get.slowest_us --html two.html | awk 'NR == 1 { print $2 }' && grep -o 'Get: [^;]*' two.html
