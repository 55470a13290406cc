# A step's record as a page: its time in a sentence, and the streams of a few ranks with what waits.
step="$EPTWIN step --net deepseek-v3 --cluster source/models/clusters/h800-cx7.ini --num-ranks 16 --layers 2 --phase prefill"
$step --batch 2048 --cached --routing zipf:0.5 --schedule two-batch -o two.csv
$EPTWIN report page.html two.csv; echo "status $?"
sed -n '/Which kernels overlap/,/<\/section>/p' page.html >streams.html
grep -o '<figcaption>rank [0-9]*' streams.html; grep -c '>comm</text>' streams.html
sed -n 's/.*class="verdict">\([^<]*\).*/\1/p' page.html | sed -E 's/[0-9.]+/N/g'
echo '# every kernel that the rows have is drawn; those that wait twice: waiting and running'
python3 - <<'P'
import csv, re
rows = [r for r in csv.DictReader(l for l in open('two.csv') if l[0] != '#') if r['metric'] == 'spans_us']
number = [(r['phase'], list(map(float, r['value'].split()))) for r in rows]
spans = [(name, *n[i:i + 4]) for name, n in number for i in range(0, len(n), 4)]
waiting = sum(met > begin for _, _, begin, met, _ in spans)
drawn = len(re.findall('<rect [^>]*><title>[a-z_]+: ', open('streams.html').read()))
print(len({r['rank'] for r in rows}), all(b <= met <= e for _, _, b, met, e in spans), min(s[2] for s in spans),
      drawn == len(spans) + waiting, waiting > 0, {s[1] for s in spans} == {0, 1})
by = {}  # kernels of one stream and rank do not overlap
for r in rows:
    n = list(map(float, r['value'].split()))
    for i in range(0, len(n), 4): by.setdefault((r['rank'], n[i]), []).append((n[i + 1], n[i + 3]))
print(all(a[1] <= b[0] * 1.001 + 1 for spans in by.values() for a, b in zip(sorted(spans), sorted(spans)[1:])))
P
echo '# rows that are none, or of no stream, draw nothing and break nothing'
sed 's/^\(dispatch,[0-9]*,spans_us,\).*/\17 1 2 3 0 nan 2 5,/; s/^\(up,[0-9]*,spans_us,\).*/\11 2,/' two.csv >odd.csv
$EPTWIN report odd.html odd.csv; echo "status $?"
sed -n '/Which kernels overlap/,/<\/section>/p' odd.html | grep -cE '<title>(up|dispatch): '
$step --batch 2048 --cached --schedule sequential -o one.csv && $EPTWIN report --text one.csv | head -1 | sed -E 's/[0-9.]+/N/g'
echo '# kernels of the other batch, in layers before, are drawn, too: nothing looks idle that is not; no two look alike'
$EPTWIN step --net deepseek-v3 --cluster source/models/clusters/h800-cx7.ini --num-ranks 16 --layers 4 --batch 64 \
    --schedule stages -o stages.csv && $EPTWIN report stages.html stages.csv
python3 - <<'P'
import csv, re
rows = [r for r in csv.DictReader(l for l in open('stages.csv') if l[0] != '#') if r['metric'] == 'spans_us']
n = [list(map(float, r['value'].split())) for r in rows if r['rank'] == rows[0]['rank']]
spans = sorted(x[i + 1:i + 4:2] for x in n for i in range(0, len(x), 4))
print(min(a for a, _ in spans) < 20, max(b[0] - a[1] for a, b in zip(spans, spans[1:])) < 20)
keys = re.findall('class="key (c[^"]*)"', open('stages.html').read())
print(len(keys) > 8, len(keys) == len(set(keys)))
P
