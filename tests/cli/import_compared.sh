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
$EPTWIN validate measured.csv $cluster 2>&1 | grep "num-ranks: expected" | cut -d: -f3- | uniq -c | sed 's/^ *//'
$EPTWIN import $logs/deepep_internode_mixed.log --num-ranks 32 2>/dev/null | cut -d, -f7 | sort | uniq -c | sed 's/^ *//'

sed -i 's/,4096,7168,/,64,1024,/; s/,256,4,/,64,4,/' measured.csv
$EPTWIN validate measured.csv $cluster --num-ranks 32 --num-experts 64 --output rows.csv | grep -c predicted
echo "status ${PIPESTATUS[0]}"
python3 -c '
import csv
rows = list(csv.DictReader(open("rows.csv")))
print(len(rows), {row["num-ranks"] for row in rows}, all(float(row["predicted_us"]) > 0 for row in rows))'
printf 'phase,num-ranks,hidden\ndispatch,?,\ndispatch,8,?\n' >unknown.csv
$EPTWIN validate unknown.csv $cluster --num-ranks 16 --num-tokens 8 --hidden 7168 --output - 2>/dev/null | cut -d, -f1-3
$EPTWIN validate unknown.csv $cluster --num-tokens 8 2>&1 >/dev/null | grep expected

echo '# an option that is given wins over what the log suggests, be it the default of simulate'
$EPTWIN import $logs/deepep_low_latency.log --num-ranks 8 --output measured.csv | grep -E '^--|^case'
cut -d, -f6-7 measured.csv | sort -u
$EPTWIN import $logs/deepep_low_latency.log --num-ranks 8 --num-tokens 64 --record measured.csv --case 1 >/dev/null
grep -E '^# num-(ranks|tokens):' measured.csv
$EPTWIN import $logs/deepep_internode.log --hidden 7168 --num-topk 6 --kernel ll --output measured.csv | grep '^--'
cut -d, -f7,10-11 measured.csv | sort -u

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
echo '# no warning of a column that import itself wrote'
$EPTWIN import source/tests/cli/import/deepep_low_latency.log --output ll.csv >/dev/null
$EPTWIN validate ll.csv --cluster h200 2>warned.txt >/dev/null
head -n 1 ll.csv | grep -o ',rank,' && sed -n '/warning/p' warned.txt
