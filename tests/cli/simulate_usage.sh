# How busy parts are over time: shares from 0 to 100 whose sum is what the busy share of the whole phase says, in rows that
# change nothing else of the record.
cat >look.py <<'P'
import csv, sys
rows, most, sums, ends = {}, 0, 0, 0
for row in csv.reader(line for line in open(sys.argv[1]) if not line.startswith('#')):
    if row[1] == 'all': rows[row[0], row[2]] = row[3]
for (phase, metric), value in rows.items():
    if not metric.startswith('used_') or metric == 'used_interval_us': continue
    shares, interval = [float(v) for v in value.split()], float(rows[phase, 'used_interval_us'])
    assert shares and len(shares) <= 65 and min(shares) >= 0 and max(shares) <= 100, (phase, metric, shares)
    most = max(most, max(shares))
    if metric != 'used_nic_tx' or (phase, 'busy_nic_tx_pct') not in rows: continue
    busy = float(rows[phase, 'busy_nic_tx_pct']) * float(rows[phase, 'time_us'])
    if float(rows[phase, 'busy_nic_tx_pct']) < 30: continue
    sums += 1
    off = sum(shares) * interval / busy - 1
    if abs(off) > 0.1: print(phase, metric, 'off by', off)
print(sorted({m for _, m in rows if m.startswith('used_')}), 'highest', most, 'sums', sums)
P
for options in '--cluster h800-cx7' '--cluster h800-cx7 --kernel normal --num-tokens 1024' \
    '--cluster gh200-alps --ranks-per-node 4 --kernel alltoallv --matrix uniform:65536 --num-ranks 32' \
    '--cluster h800-cx7 --launch stream' '--cluster h800-cx7 --slow 3:4x --arrival exp:50us'; do
    echo "# $options"
    $EPTWIN simulate --num-ranks 16 $options --output without.csv
    $EPTWIN simulate --num-ranks 16 $options --usage --output with.csv
    grep -v ',used_' with.csv | cmp - without.csv && python3 look.py with.csv
done
echo '# the same twice, refused'
$EPTWIN simulate --cluster h800-cx7 --launch stream --num-ranks 16 --usage | grep used_ | cksum >1
$EPTWIN simulate --cluster h800-cx7 --launch stream --num-ranks 16 --usage | grep used_ | cksum | cmp - 1
$EPTWIN simulate --cluster h800-cx7 --trace source/traces/samples/prefill_ep8.npy.zst --layers 0:2 --usage; echo "exit $?"
# A figure for each part that is busy for 2 % of some interval.
busy=$(grep ',used_' with.csv | grep -v interval | cut -d, -f4 |
    awk '{ for (i = 1; i <= NF; i++) if ($i >= 2) { n++; break } } END { print n }')
$EPTWIN report page.html with.csv
drawn=$(grep -c 'aria-label="Line: busy share over time' page.html)
[ "$busy" -ge 5 ] && [ "$drawn" = "$busy" ] && echo "all drawn" || echo "$busy busy, $drawn drawn"
