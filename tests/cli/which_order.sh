# What which says: the order is that of the times that simulate gives, and turns where it says so.  Times change with every
# calibration and are checked against each other only.
case="--cluster source/models/clusters/h100-cx7.ini --num-ranks 16 --hidden 2048 --num-experts 64"
words() { sed -E 's/[0-9]+(\.[0-9]+)? %/N %/g; s/[0-9]+\.[0-9]+/N/g; s/  +/  /g; s/-+/-/g'; }

$EPTWIN which $case --num-tokens 64 -j 2 >which.txt
$EPTWIN which $case --num-tokens 64 -j 1 | cmp - which.txt && echo same
head -1 which.txt
sed -n '/^Refused/,/^$/p' which.txt
tail -5 which.txt
awk '/^ *[0-9]+  [a-z0-9]+-[a-z0-9-]+ / { print $2 }' which.txt | sort | uniq -c
$EPTWIN which $case --num-tokens 64 --at-tokens none --output which.csv
$EPTWIN which $case --num-tokens 64 --at-tokens none --output which.json --format json
$EPTWIN which $case --num-tokens 64 --at-tokens 8,64,512 --output turns.csv
cat >look.py <<'P'
import csv, json, subprocess, sys
def rows(path):
    return list(csv.DictReader(l for l in open(path) if l[0] != '#'))
def table(path):
    t = {}
    for r in rows(path):
        t.setdefault(r['phase'], {})[r['metric']] = r['value']
    return t
t = table('which.csv')
good = [b for b in t if 'problem' not in t[b]]
print('placed', [int(t[b]['place']) for b in good] == list(range(1, len(good) + 1)))
us = [float(t[b]['layer_us']) for b in good]
print('sorted', us == sorted(us))
print('sums', all(abs(float(t[b]['dispatch_us']) + float(t[b]['combine_us']) - float(t[b]['layer_us'])) < 1e-6 for b in good))
j = json.load(open('which.json'))
print('json as csv', [(r['phase'], r['metric']) for r in j['rows']] == [(r['phase'], r['metric']) for r in rows('which.csv')])
def simulated(kernel, backend, phases):
    out = subprocess.run([sys.argv[1], 'simulate'] + sys.argv[2:] + ['--kernel', kernel, '--backend', backend, '--num-tokens', '64',
                          '--num-topk-groups', '2'], capture_output=True, text=True, check=True).stdout
    return sum(float(l.split(',')[3]) for l in out.splitlines() for p in phases if l.startswith(p + ',all,time_us_max,'))
for kernel, name, backend, phases in (
        ('ll', 'deepep-ll', 'ibgda', ['dispatch', 'combine']), ('uccl', 'uccl-ll', 'uccl', ['dispatch', 'combine']),
        ('normal', 'deepep-normal', 'gdaki', ['layout', 'notify', 'dispatch', 'cached_notify_combine', 'combine']),
        ('v2', 'deepep-v2', 'gdaki', ['dispatch_span', 'combine_span']),
        ('ag-rs', 'nccl-ag-rs', 'nccl', ['dispatch', 'combine'])):
    said = float(t[f'{name} over {backend}']['layer_us'])
    found = simulated('ll' if kernel == 'uccl' else kernel, backend, phases)
    print(name, 'as simulated' if abs(said - found) < 1e-3 else (said, found))
w = table('turns.csv')
print('points', sorted({m for b in w for m in w[b] if m.startswith('layer_us_')}))
b = good[0]
print('own point', w[b]['layer_us_tokens_64'] == w[b]['layer_us'] == t[b]['layer_us'])
P
python3 look.py $EPTWIN $case

echo '# where it turns: the first on both sides'
turn=$(grep -m 1 '^The order changes' which.txt); echo "$turn" | sed -E 's/[0-9]+ and [0-9]+/N and N/'
set -- $(echo "$turn" | sed -E 's/.*between ([0-9]+) and ([0-9]+) tokens: from (.*) to (.*)\./\1 \2/')
for tokens in $1 $2; do
    first=$($EPTWIN which $case --num-tokens $tokens --at-tokens none | awk '$1 == 1 { print $2, $3, $4 }')
    case $turn in *"$first"*) echo 'as told' ;; *) echo "$tokens: $first" ;; esac
done
[ $((4 * $1)) -ge $((3 * $2)) ] || [ $(($2 - $1)) = 1 ] && echo 'near each other'

echo '# one node, a part of them, ranks, V2 before its time'
node="--cluster source/models/clusters/h200.ini --num-ranks 4 --num-tokens 32 --hidden 1024 --num-experts 16"
$EPTWIN which $node --at-tokens none --by dispatch | words | grep -v '^ *[0-9-]'
$EPTWIN which $case --num-tokens 8 --at-tokens none --kernel v2 --backend gdaki | words | grep -E 'run|over'
$EPTWIN which $case --num-tokens 8 --at-tokens none --at-ranks 8,32 | grep -cE '^ +(8|16|32)  '
$EPTWIN which $case --num-tokens 8 --at-tokens none --deepep before-v2 --kernel v2; echo "status $?"
$EPTWIN which --cluster source/models/clusters/p5en.ini --num-ranks 16 --num-tokens 8 --kernel ll --at-tokens none --hook | words |
    grep -vE '^ ?[0-9-]'
$EPTWIN which --cluster source/models/clusters/gh200-alps.ini --num-ranks 8 --kernel normal; echo "status $?"
$EPTWIN which --cluster source/models/clusters/h200.ini --tokens-per-rank '3|4' --kernel ag-rs | words | grep -E 'run|nccl'
for ranks in 8 16; do
    $EPTWIN which --cluster source/models/clusters/mi300x-cx7.ini --num-ranks $ranks --num-tokens 8 --at-tokens none | words |
        sed -E '/^Times|^before|^Off by|^[*]:|^Sure/d; s/^([0-9]+  )?([a-z0-9]+-[a-z0-9-]+( over [a-z-]+)?)  .*/\2/' | sort
done

echo '# a trace has no more tokens than it has'
$EPTWIN which --cluster source/models/clusters/h100-cx7.ini --trace source/traces/samples/decode_ep64.ept --num-ranks 16 \
    --kernel ll --backend gdaki --output trace.csv
grep -E '^# (trace|num)' trace.csv | sed 's/digest: .*/digest/; s/: .*\//: /'
grep -o 'layer_us_tokens_[0-9]*' trace.csv

echo '# refused'
for bad in '--kernel allgather' '--backend ibrc' '--by time' '--at-tokens 0' '--at-tokens 5:1' '--at-ranks x' '--format json' \
    '--format text --output x' '--jobs -1' 'more' '--at-ranks 16 --traffic 1|1;1|1' '--at-tokens 8 --tokens-per-rank 1|2' \
    '--trace -' '--num-topk 200' '--matrix uniform:64' '--set nic.rat=1' '--output no/such/x.csv' '--at-ranks 7'; do
    $EPTWIN which $case --num-tokens 8 --at-tokens none $bad; echo "status $?"
done
$EPTWIN which --num-ranks 8; echo "status $?"
$EPTWIN simulate --cluster h100-cx7 --kernel one-sided --num-ranks 8 --num-tokens 8 --disable-nvlink; echo "status $?"
ls x 2>&1
echo '# sure, if both errors are known and the second is slower by more than both together (the table rounds to 1 %)'
for case in '2 16' '8 64' '8 256' '8 1024'; do
    tokens=${case#* }
    $EPTWIN which --cluster source/models/clusters/h200.ini --num-ranks ${case% *} --num-tokens $tokens --at-tokens 4096 |
        awk -v tokens=$tokens '
        $1 == 1 && $6 == "-" { first = $7 }
        $1 == 2 && $7 == "%" { gap = $6; second = $8 }
        $1 == tokens { said = $NF }
        END { edge = first == "-" || second == "-" ? -100 : gap - 100 * ((1 + first / 100) * (1 + second / 100) - 1)
              print tokens, (edge < 2 && edge > -2 || said == (edge > 0 ? "yes" : "no") ? "as errors say" : said " at " edge) }'
done
