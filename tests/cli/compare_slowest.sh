# A layer costs its slowest rank: of several steps and layers the mean over them of each one's, in the record, the table
# and compare; means over ranks stand beside it.  Times change with every calibration and are checked against each other.
case="--cluster h800-cx7 --num-ranks 64 --trace source/traces/samples/decode_ep64.ept"
for name in asis eplb; do
    $EPTWIN simulate $case --steps all --layers all $([ $name = eplb ] && echo --placement eplb:64) --output $name.csv
    for step in 0 1; do for layer in 0 1 2; do
        $EPTWIN simulate $case --step $step --layer $layer $([ $name = eplb ] && echo --placement eplb:64) \
            --output $name-$step-$layer.csv
    done; done
done
$EPTWIN simulate $case --steps all --layers all --format text >table.txt
$EPTWIN compare asis.csv eplb.csv --force >words.txt
$EPTWIN compare asis.csv eplb.csv --force --output rows.csv >/dev/null
python3 - <<'P'
import csv, re
def rows(path): return {(r['phase'], r['metric']): r['value'] for r in csv.DictReader(l for l in open(path) if l[0] != '#')
                        if r['rank'] == 'all'}
near = lambda a, b, by=1e-9: abs(a - b) <= by * abs(b)
words, table, ratio = open('words.txt').read(), open('table.txt').read(), {}
for phase in ('dispatch', 'combine'):
    slowest = {}
    for name in ('asis', 'eplb'):
        several = rows(name + '.csv')
        one = [float(rows(f'{name}-{s}-{l}.csv')[phase, 'time_us_max']) for s in (0, 1) for l in (0, 1, 2)]
        slowest[name] = float(several[phase, 'slowest_us'])
        print(phase, name, near(slowest[name], sum(one) / 6), near(float(several[phase, 'slowest_us_max']), max(one)),
              near(float(several[phase, 'layers_us']), sum(one) / 2),
              near(float(several[phase + '_layer1', 'slowest_us']), (one[1] + one[4]) / 2))
    ratio[phase] = slowest['asis'] / slowest['eplb']
    said = re.search(r'^%s: .*\(slowest rank\): the second is ([0-9.]+) times faster' % phase, words, re.M)
    shown = re.search(r'^%s +slowest rank +\S+ us +\S+ us +([0-9.]+) times faster' % phase, words, re.M)
    print(phase, 'said', near(float(said[1]), ratio[phase], 0.01), 'shown', near(float(shown[1]), ratio[phase], 0.01))
    first = float(re.search(r'^%s +([0-9.]+)' % phase, table, re.M)[1])
    print(phase, 'first number of the table', near(first, slowest['asis'], 0.001))
means = [float(rows(n + '.csv')['dispatch', 'time_us']) for n in ('asis', 'eplb')]
print('dispatch gains where ranks wait, not in the mean:', ratio['dispatch'] > 3 > 1.5 > means[0] / means[1])
first = [r for r in csv.DictReader(l for l in open('rows.csv') if l[0] != '#') if r['phase'] == 'dispatch'][0]
print('first row:', first['metric'])
shares = [int(s) for s in re.findall(r'(\d+) % (?:of |busy)', words + table)]
print('no share above 100 %:', len(shares) > 8 and max(shares) <= 100)
P

echo '# the first sentence'
sed -E '/^The second/!d; s/[0-9]+(\.[0-9]+)?/N/g' words.txt
sed -E '/^Dispatch/!d; s/[0-9]+(\.[0-9]+)?/N/g' table.txt
echo '# a measurement that has only the mean is held against the mean, and the words say so'
printf '# kind: import\nphase,rank,metric,value,unit\ndispatch,all,time_us,200,us\n' >mean.csv
$EPTWIN compare asis.csv mean.csv | grep -oE '\((slowest rank|mean over ranks).*\)' | sort | uniq -c
