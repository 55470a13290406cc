# Damaged, mixed and foreign logs: one-line errors or counted lines, never a guess.
logs=source/tests/cli/import
table() { $EPTWIN import "$@" 2>/dev/null | sed 's/^[^,]*,//'; }

echo '# colours, carriage returns, and what launchers put before lines change nothing'
table $logs/deepep_low_latency.log >plain
sed 's/^/\x1b[1;32m/; s/$/\x1b[0m\r/' $logs/deepep_low_latency.log >colours.log
table colours.log | cmp - plain && echo same
awk '{ printf "[1,%d]<stdout>:%s\n", NR % 4, $0 }' $logs/deepep_low_latency.log >tagged.log
table tagged.log | cmp - plain && echo same
awk '{ printf "2025-09-15T16:28:53.686Z stdout F %s\n", $0 }' $logs/osu.log >pod.log
table pod.log | cut -d, -f2- >a; table $logs/osu.log | cut -d, -f2- | cmp - a && echo same

echo '# mixed with other output: counted, the first lines shown'
awk '{ print } NR % 3 == 0 { printf "INFO worker %d: 12 34.5 tokens\n", NR }' $logs/perftest.log >mixed.log
table mixed.log | cut -d, -f2- >a; table $logs/perftest.log | cut -d, -f2- | cmp - a && echo same
$EPTWIN import mixed.log -o rows.csv | sed -n '/unknown/,$p'

echo '# other units are no match'
sed 's|GB/s (RDMA)|Gb/s (RDMA)|; s|MB/s|Gbit/s|' $logs/deepep_internode.log $logs/osu.log >units.log
$EPTWIN import units.log -o rows.csv | grep -v '^case'
sed 's/\[MB.sec\]/[MFlops]/g' $logs/perftest.log >units.log
$EPTWIN import units.log -o rows.csv | grep 'left out'

echo '# two consoles in one: of which phase a tuning line is cannot be told'
sed -n 'p;/tuning/p' $logs/deepep_intranode.log >twice.log
$EPTWIN import twice.log -o rows.csv | grep -E 'rows|left out'

echo '# fewer tokens than the defaults show in the bytes counted'
sed 's/193.4[58]/19/; s/20[0-9.]* GB/101.85 GB/; s/21[0-9.]* GB/106.9 GB/' $logs/deepep_low_latency.log >fewer.log
$EPTWIN import fewer.log -o rows.csv | grep 'note: low latency: combine'

echo '# times that were not taken, and a table cut within its first line'
sed 's/=36.88 us/=1000000.00 us/' $logs/deepep_low_latency.log >zero.log
$EPTWIN import zero.log -o rows.csv | grep 'left out'
for bytes in 200 330 400 2000; do head -c $bytes $logs/perftest.log >cut.log; $EPTWIN import cut.log -o rows.csv 2>&1 | head -3; done

echo '# JSON: cut, of something else, keys without quotes, several documents'
head -c 300 $logs/nccl.json >cut.json; $EPTWIN import cut.json; echo "status $?"
echo '{"a": 1}' >other.json; $EPTWIN import other.json; echo "status $?"
sed 's/"n_iterations"/sl: 3,\n&/' $logs/perftest.json >qos.json
cat qos.json $logs/perftest.json >two.json
$EPTWIN import two.json 2>/dev/null | wc -l

echo '# nothing in it'
: >empty.log; $EPTWIN import empty.log; echo "status $?"
head -c 100000 /dev/zero >zeros.log; $EPTWIN import zeros.log 2>&1 | cut -c1-150; echo "status ${PIPESTATUS[0]}"
$EPTWIN import missing.log; echo "status $?"
$EPTWIN import; echo "status $?"
$EPTWIN import $logs/osu.log --output rows.csv --record r.csv; echo "status $?"
$EPTWIN import $logs/osu.log --num-ranks many; echo "status $?"

echo '# options of a record without one'
for more in '--format json' '--case 2'; do $EPTWIN import source/tests/fuzz/seeds/import/* $more; echo "status $?"; done
