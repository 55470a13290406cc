# What compare refuses: one line each, exit 2, nothing written.
header='phase,rank,metric,value,unit'
printf '# kind: simulate\n# layer: 3\n# case-keys: layer\n%s\ndispatch,all,time_us,160,us\n' "$header" >a.csv
printf '# kind: replay\n# layer: 4\n# case-keys: layer\n%s\ndispatch,all,time_us,160,us\n' "$header" >b.csv
printf '# kind: replay\n# layer: 3\n%s\ncombine,all,time_us,160,us\n' "$header" >c.csv
printf '# kind: replay\n%s\ndispatch,all,time_us,fast,us\n' "$header" >word.csv
printf '# kind: replay\n%s\ndispatch,all,time_us\n' "$header" >short.csv
printf '{"header": {}, "rows": [{"phase": 1}]}' >bad.json
try() {
    "$EPTWIN" compare "$@"
    echo "exit $?"
}
try
try a.csv
try a.csv missing.csv
try a.csv b.csv --output out.csv
try a.csv b.csv --force --output out.csv | tail -4
rm out.csv
try a.csv c.csv --output out.csv
try a.csv word.csv --output out.csv
try a.csv short.csv
try a.csv bad.json
(cat a.csv; echo 'dispatch,all,time_us,170,us') >contra.csv
try a.csv contra.csv
rm contra.csv
try a.csv a.csv --format xml
try a.csv a.csv --max-error -1
try a.csv a.csv --output no/such/folder/out.csv
try a.csv a.csv --outptu x
ls
echo '# its own input'
cp a.csv before.csv; ln -s a.csv link.csv
try a.csv b.csv --force --output a.csv
try a.csv b.csv --force --output link.csv
cmp a.csv before.csv && echo untouched
"$EPTWIN" report --output a.csv a.csv; echo "exit $?"
"$EPTWIN" fit a.csv --output a.csv; echo "exit $?"
cmp a.csv before.csv && echo untouched
