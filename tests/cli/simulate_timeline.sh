# A timeline is JSON with a process a rank, tracks of ports and workers, waits with what they are for, arrows from
# puts to where they arrive, counters, and the critical path.  It changes no number.
cluster="--cluster source/models/clusters/h800-cx7.ini"
small='--num-tokens 4 --hidden 1024 --num-experts 32'
cat >look.py <<'P'
import bisect, json, sys
file = json.load(open(sys.argv[1]))
named, spans, arrows, counters = {}, [], {}, {}
for event in file['traceEvents']:
    if event['ph'] == 'M':
        named[event['name'], event['pid'], event['tid']] = event['args']['name']
    elif event['ph'] == 'X':
        spans.append(event)
    elif event['ph'] == 'C':
        counters.setdefault((event['pid'], event['name']), []).append(event['args']['value'])
    else:
        arrows.setdefault(event['id'], []).append(event)
print('processes', sorted({n for (kind, *_), n in named.items() if kind == 'process_name'}))
path = sorted((s for s in spans if named['process_name', s['pid'], 0] == 'critical path'), key=lambda s: s['ts'])
spans = [s for s in spans if named['process_name', s['pid'], 0] != 'critical path']
tracks = {named['thread_name', s['pid'], s['tid']] for s in spans}
print('ports', sorted(t for t in tracks if not t.startswith('worker')))
print('workers', any(t == 'worker 0' for t in tracks))
print('spans', sorted({s['name'] for s in spans}))
by_track = {}
for s in spans:
    by_track.setdefault((s['pid'], s['tid']), []).append((s['ts'], s['ts'] + s['dur']))
for t in by_track.values(): t.sort()
print('one thing at a time', all(b[0] >= a[1] - 1e-5 for t in by_track.values() for a, b in zip(t, t[1:])))
def inside(e):
    t = by_track.get((e['pid'], e['tid']), [])
    i = bisect.bisect_right(t, (e['ts'] + 2e-6, 1e99)) - 1
    return i >= 0 and t[i][0] - 2e-6 <= e['ts'] <= t[i][1] + 2e-6
lost = file['otherData']['spans_lost'] != '0'
print('arrows', sorted({a[0]['name'] for a in arrows.values()}), 'both ends',
      all([e['ph'] for e in a] == ['s', 'f'] for a in arrows.values()), 'in spans',
      lost or all(inside(e) for a in arrows.values() for e in a))
print('counters', sorted({name for _, name in counters}), all(v[-1] == 0 and min(v) >= 0 for v in counters.values()))
print('waits for ranks', any('rank' in s['args']['for'] for s in spans if s['name'] == 'wait'))
print('path', any(' to rank ' in s['name'] for s in path),
      all(b['ts'] > a['ts'] + a['dur'] - 1e-5 for a, b in zip(path, path[1:])))
print('lost', lost)
P
$EPTWIN simulate $cluster --num-ranks 2 --ranks-per-node 1 $small >without.csv
$EPTWIN simulate $cluster --num-ranks 2 --ranks-per-node 1 $small --timeline t.json | cmp - without.csv && echo 'the same record'
python3 -m json.tool t.json >/dev/null && python3 look.py t.json
echo '# NVLink alone, normal kernels'
$EPTWIN simulate $cluster --num-ranks 2 $small --kernel normal --timeline t.json --output /dev/null; python3 look.py t.json
echo '# compressed, as the name says'
for packed in t.json.gz t.json.zst; do
    $EPTWIN simulate $cluster --num-ranks 2 $small --kernel normal --timeline $packed --output /dev/null
done
gzip -dc t.json.gz | cmp - t.json && zstd -dqc t.json.zst | cmp - t.json && echo same
od -An -tx1 -N8 t.json.gz
$EPTWIN simulate --help | grep timeline | tr -s ' '
ls
echo '# names'
run() { $EPTWIN simulate $cluster --num-ranks 2 $small "$@"; echo "exit $?"; }
mkdir names && cd names && ln -s ../source source
echo mine >t.json.part; ln -s real.json t.json
run --timeline t.json --output r.csv
cat t.json.part; [ -L t.json ] && python3 ../look.py real.json | grep lost
run --timeline - --output r.csv | sed '1,/^\],"otherData"/d'
run --timeline -
run --timeline - --output -
run --timeline source --output r.csv
run --timeline no/such/t.json --output r.csv
rm r.csv t.json
for file in t.json t.json.gz; do (ulimit -f 8; run --timeline $file --output r.csv); done
run --timeline t.json --output no/such/r.csv
ls
