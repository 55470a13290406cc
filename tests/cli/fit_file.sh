# From a record of measure to a cluster file; what fit refuses leaves nothing behind.
{
    printf '# kind: measure\n# cpus: 2\n# put-chain: 4\n# machine: a test machine\nphase,rank,metric,value,unit\n'
    printf '%s\n' step,all,time_us,0.02,us store_signal,all,latency_us,0.3,us poll,all,time_us,0.15,us \
        switch,all,time_us,1.5,us slice,all,time_us,4000,us \
        signal,all,cpu_us,0.1,us signal,all,stream_us,0.2,us signal,all,latency_us,5,us
    for rows in store,all,cpu_us put,all,cpu_us put,all,stream_us put_load_x2,all,cpu_us put_load_x2,all,chained_us \
        copy,all,cpu_us cast,all,cpu_us reduce,all,cpu_us sum,all,cpu_us scan,all,cpu_us; do
        printf '%s,%s,us\n' "${rows}_1000" 0.6 "${rows}_2000" 1.1 "${rows}_4000" 2.1
    done
} >measured.csv
"$EPTWIN" fit measured.csv --name here --output here.ini
echo "exit $?"
cat here.ini
rm here.ini
grep -v '^switch' measured.csv >lacks.csv
"$EPTWIN" fit lacks.csv --output here.ini
echo "exit $?"
sed 's/kind: measure/kind: replay/' measured.csv | "$EPTWIN" fit - --output here.ini
echo "exit $?"
sed 's/^step,all,time_us,0.02/step,all,time_us,0.04/' measured.csv >again.csv
sed -i '1a # busy: yes\n# cpu-others-pct: 7.1\n# cpu-mhz: 2000 to 2100' again.csv
sed -i '1a # busy: no\n# cpu-others-pct: 0.1\n# cpu-mhz: 2200 to 2300' measured.csv
sed 's/^# cpus: 2/# cpus: 3/' measured.csv >other.csv
"$EPTWIN" fit measured.csv again.csv again.csv | grep '^step'
"$EPTWIN" fit measured.csv other.csv --output here.ini
echo "exit $?"
# What no cluster file can hold: a time of 17 minutes; a link without time.
sed 's/^step,all,time_us,0.02/step,all,time_us,1e9/' measured.csv >long.csv
"$EPTWIN" fit long.csv --output here.ini
echo "exit $?"
sed 's/^put,all,stream_us_2000,1.1/put,all,stream_us_2000,0/' measured.csv | "$EPTWIN" fit - --output here.ini
echo "exit $?"
"$EPTWIN" fit missing.csv --output here.ini
echo "exit $?"
"$EPTWIN" fit
echo "exit $?"
"$EPTWIN" fit measured.csv --output no/folder/here.ini
echo "exit $?"
ls
