# From records of GPUs to cluster files: the whole of one, the values of the others; what is bad is refused in one line.
measured=$SOURCE/tests/accuracy/measured
for name in h100 h200 h200-x2 h200-x4; do
    zstd -dc "$measured/$name.csv.zst" >$name.csv
    "$EPTWIN" fit $name.csv --name $name --include h200 --output $name.ini
    echo "exit $?"
    "$EPTWIN" simulate --cluster $name.ini --num-ranks 4 --num-tokens 1 >/dev/null
    echo "simulate: exit $?"
done
cat h200-x2.ini
for name in h100 h200 h200-x4; do grep -v '^#' $name.ini; done
"$EPTWIN" fit h100.csv | sed -n '/cluster/,/sms/p'
grep -v 'alone_ld_acquire_sys' h200-x2.csv | "$EPTWIN" fit - | grep -A5 'do not tell'
sed 's/^# sms: .*/# sms: many/' h100.csv >bad.csv
"$EPTWIN" fit bad.csv --output bad.ini
echo "exit $?"
sed 's/^\(alone_ld_acquire_sys at=own,all,time_ns\),.*/\1,-3,ns/' h100.csv | "$EPTWIN" fit - | grep -E 'poll'
sed 's/^\(alone_ld_acquire_sys at=own,all,time_ns_max\),.*/\1,999,ns/' h100.csv | "$EPTWIN" fit - --output -  | grep -E '^poll'
head -20 h100.csv | "$EPTWIN" fit - | grep -c lacks
"$EPTWIN" fit h100.csv h200.csv --output bad.ini
echo "exit $?"
printf '# kind: measure\nphase,rank,metric,value,unit\n' | "$EPTWIN" fit - --include h200
echo "exit $?"
ls
# Records are read compressed, too.  Sums have a record of their own.
"$EPTWIN" fit "$measured/h200-sums.csv.zst" 2>/dev/null | grep -B1 '^reduce'
# So have values in LogFMT, and bulk stores from buffers off a line.
"$EPTWIN" fit "$measured/h200-x2-shared.csv.zst" 2>/dev/null | grep -B1 '^sector'
head -c 5000 "$measured/h200.csv.zst" | "$EPTWIN" fit - --output bad.ini
echo "exit $?"
{ head -c 5000 "$measured/h200.csv.zst"; head -c 5000 "$measured/h200.csv.zst"; } |
    "$EPTWIN" fit - --output bad.ini 2>&1 | grep -c 'expected zstd data'
