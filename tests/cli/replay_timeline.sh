# A timeline of a replay has the form of a simulated one: a process a rank, tracks of workers under the same names, waits
# with what they are for, arrows from signals to the waits that they end.  It is of one more iteration, and leaves the
# record as it is.
. source/tests/left.sh
# Many tokens and experts: with few, every signal may come before its wait on some machine.
small="--num-tokens 128 --hidden 512 --num-topk 4 --num-experts 64 --repeat 2 --warmup 1"
cat >look.py <<'P'
import json, re, sys
def read(path):
    file = json.load(open(path))
    named = {(e['name'], e['pid'], e['tid']): e['args']['name'] for e in file['traceEvents'] if e['ph'] == 'M'}
    return file, named
def tracks(path, rank):
    file, named = read(path)
    used = {(e['pid'], e['tid']) for e in file['traceEvents'] if e['ph'] == 'X'}
    return {n for (kind, p, t), n in named.items() if kind == 'thread_name' and p == rank and (p, t) in used}
file, named = read(sys.argv[1])
rest = sorted((e for e in file['traceEvents'] if e['ph'] != 'M'), key=lambda e: e['ts'])
spans = [e for e in rest if e['ph'] == 'X']
print('processes', sorted({n for (kind, *_), n in named.items() if kind == 'process_name'}))
print('kernels', [(e['pid'], e['name']) for e in sorted(spans, key=lambda e: (e['pid'], e['ts'])) if e['tid'] == 0])
print('spans', sorted({e['name'] for e in spans}))
print('from 0', rest[0]['ts'] == 0)
print('waits for ranks', any('rank' in e['args']['for'] for e in spans if e['name'] == 'wait'))
by_track = {}
for e in spans: by_track.setdefault((e['pid'], e['tid']), []).append((e['ts'], e['ts'] + e['dur']))
for t in by_track.values(): t.sort()
print('one thing at a time', all(b[0] >= a[1] - 1e-5 for t in by_track.values() for a, b in zip(t, t[1:])))
arrows = {}
for e in rest:
    if e['ph'] in 'sf': arrows.setdefault(e['id'], []).append(e)
def inside(e): return any(a - 1e-5 <= e['ts'] <= b + 1e-5 for a, b in by_track[e['pid'], e['tid']])
print('arrows', len(arrows) > 0, 'between ranks', all(a[0]['pid'] != a[1]['pid'] for a in arrows.values()),
      'in spans', all(inside(e) for a in arrows.values() for e in a))
kernel = {(e['pid'], e['name']): (e['ts'], e['ts'] + e['dur']) for e in spans if e['tid'] == 0}
print('in a kernel', all(any(b <= e['ts'] + 1e-5 and e['ts'] + e['dur'] <= t + 1e-5 for (p, _), (b, t) in kernel.items()
                             if p == e['pid']) for e in spans if e['name'] != 'wait'))
if len(sys.argv) > 2:
    forms = lambda path: {re.sub('[0-9]+', 'N', t) for t in tracks(path, 0)}
    print('tracks', sorted(forms(sys.argv[1])), 'as simulated', forms(sys.argv[1]) <= forms(sys.argv[2]))
P
$EPTWIN replay --ranks 2 $small --timeline t.json --output r.csv && grep -c time_us r.csv
$EPTWIN simulate --cluster source/models/clusters/h800-cx7.ini --num-ranks 2 --num-tokens 16 --hidden 512 --num-topk 4 \
    --num-experts 8 --timeline s.json --output s.csv
python3 look.py t.json s.json
echo '# puts to another node; normal kernels'
$EPTWIN replay --ranks 2 --ranks-per-node 1 $small --timeline t.json --output r.csv
python3 look.py t.json | grep spans
$EPTWIN replay --ranks 2 --kernel normal $small --waits --timeline t.json --output r.csv
python3 look.py t.json
echo '# the last 40 of both'
$EPTWIN replay --ranks 2 $small --timeline t.json --timeline-spans 40 --output r.csv 2>&1 | sed 's/[0-9]\{2,\}/N/g'
grep -c '"ph":"X"' t.json
echo '# refused'
$EPTWIN replay --ranks 2 $small --timeline t.json --timeline-spans 0; echo "exit $?"
$EPTWIN replay --ranks 2 $small --timeline -; echo "exit $?"
$EPTWIN replay --ranks 2 $small --timeline no/such/t.json; echo "exit $?"
$EPTWIN replay --ranks 2 --trace source/traces/samples/prefill_ep8.npy.zst --layers 0:2 --timeline t.json; echo "exit $?"
ls
left
