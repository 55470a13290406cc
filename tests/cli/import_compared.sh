# What import writes is what validate and compare read.
logs=source/tests/cli/import
cluster="--cluster source/models/clusters/h800-cx7.ini"

echo '# a table: kernels are predicted, figures of other tools are kept'
$EPTWIN import $logs/deepep_internode.log $logs/osu.log --output measured.csv >/dev/null
sed -i 's/,4096,7168,/,64,1024,/; s/,256,4,/,64,4,/' measured.csv     # a smaller case is as good here
$EPTWIN validate measured.csv $cluster --output rows.csv -j2 | grep metric
echo "status ${PIPESTATUS[0]}"
python3 - <<'P'
import csv
for row in csv.DictReader(open('rows.csv')):
    print(row['line'], row['phase'], row['set'] or row['test'][:20], 'predicted' if row['predicted_us'] else 'kept')
P

echo '# ranks that the log does not tell: refused until they are given'
$EPTWIN import $logs/deepep_internode_mixed.log --output measured.csv >/dev/null
$EPTWIN validate measured.csv $cluster 2>&1 | grep -c "num-ranks: expected a whole number from 1 to 65535, found '?'"
$EPTWIN import $logs/deepep_internode_mixed.log --num-ranks 32 2>/dev/null | cut -d, -f7 | sort | uniq -c | sed 's/^ *//'

echo '# the record of a case, against a prediction of the same'
$EPTWIN import $logs/deepep_low_latency.log --record measured.csv
echo "status $?"
$EPTWIN import $logs/deepep_low_latency.log --record measured.csv --case 1 >/dev/null && grep -vE '^# [a-z0-9-]+: ' measured.csv
grep -E '^# (kind|log|tool|kernel|num-ranks|num-tokens|masked-places):' measured.csv
$EPTWIN simulate $cluster --num-ranks 4 --masked-places 10 --output predicted.csv
$EPTWIN compare predicted.csv measured.csv | grep -E '^(dispatch|combine)' | awk '{ print $1, $2 }' | sort -u
$EPTWIN import $logs/deepep_internode_mixed.log --record measured.csv --case 2
echo "status $?"
$EPTWIN import $logs/osu.log --record measured.csv
echo "status $?"
