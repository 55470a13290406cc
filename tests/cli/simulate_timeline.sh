# A timeline is JSON that names a rank for each process and the ports and workers for its tracks, and changes no number.
cluster="--cluster source/models/clusters/h800-cx7.ini"
small='--num-tokens 4 --hidden 1024 --num-experts 32'
cat >look.py <<'P'
import json, sys
file = json.load(open(sys.argv[1]))
named, spans = {}, []
for event in file['traceEvents']:
    if event['ph'] == 'M':
        named[event['name'], event['pid'], event['tid']] = event['args']['name']
    else:
        spans.append(event)
print('processes', sorted({n for (kind, *_), n in named.items() if kind == 'process_name'}))
tracks = {named['thread_name', s['pid'], s['tid']] for s in spans}
print('ports', sorted(t for t in tracks if not t.startswith('worker')))
print('workers', any(t == 'worker 0' for t in tracks))
print('spans', sorted({s['name'] for s in spans}))
by_track = {}
for s in spans:
    by_track.setdefault((s['pid'], s['tid']), []).append((s['ts'], s['ts'] + s['dur']))
print('one thing at a time', all(b[0] >= a[1] - 1e-5 for t in by_track.values() for a, b in zip(sorted(t), sorted(t)[1:])))
print('lost', file['otherData']['spans_lost'] != '0')
P
$EPTWIN simulate $cluster --num-ranks 2 --ranks-per-node 1 $small >without.csv
$EPTWIN simulate $cluster --num-ranks 2 --ranks-per-node 1 $small --timeline t.json | cmp - without.csv && echo 'the same record'
python3 -m json.tool t.json >/dev/null && python3 look.py t.json
echo '# NVLink alone, normal kernels'
$EPTWIN simulate $cluster --num-ranks 2 $small --kernel normal --timeline t.json --output /dev/null; python3 look.py t.json
echo '# the last 10'
$EPTWIN simulate $cluster --num-ranks 2 $small --timeline t.json --timeline-spans 10 --output /dev/null
grep -c '"ph":"X"' t.json; python3 look.py t.json | grep lost
$EPTWIN simulate --help | grep timeline | tr -s ' '
ls
echo '# names'
run() { $EPTWIN simulate $cluster --num-ranks 2 $small "$@"; echo "exit $?"; }
mkdir names && cd names && ln -s ../source source
echo mine >t.json.part; ln -s real.json t.json
run --timeline t.json --output r.csv
cat t.json.part; [ -L t.json ] && python3 ../look.py real.json | grep lost
run --timeline - --output r.csv | sed '1,/^\]}$/d'
run --timeline -
run --timeline - --output -
run --timeline source --output r.csv
run --timeline no/such/t.json --output r.csv
rm r.csv t.json
(ulimit -f 8; run --timeline t.json --output r.csv)
run --timeline t.json --output no/such/r.csv
ls
