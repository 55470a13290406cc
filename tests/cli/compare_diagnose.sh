# compare --diagnose: what could explain a measurement that differs from its prediction, of the cluster that the prediction
# names.
small='--num-ranks 16 --num-tokens 32 --hidden 2048'
$EPTWIN simulate --cluster h800-cx7 $small --output predicted.csv
$EPTWIN simulate --cluster h800-cx7 $small --fault 'nics: all-on=0' --per-rank |
    sed -e 's/^# kind: simulate/# kind: replay/' -e '/^# \(cluster\|fault\): /d' \
        -e '/,\(b[uo][a-z]*_\|efficiency\|bottleneck\)/d' >measured.csv
$EPTWIN compare predicted.csv measured.csv --diagnose | sed -n '/^1\. /p; /^predicted:/p'
$EPTWIN compare measured.csv predicted.csv --diagnose | grep -c '^[123]\. '
$EPTWIN compare predicted.csv predicted.csv --diagnose | tail -1
echo '# a cluster of one'"'"'s own'
sed 's/^name = .*/name = Mine/' source/models/clusters/h800-cx7.ini >mine.ini
sed 's/^# cluster: .*/# cluster: Mine/' predicted.csv >own.csv
$EPTWIN compare own.csv measured.csv --diagnose; echo "exit $?"
$EPTWIN compare own.csv measured.csv --diagnose --cluster no.ini 2>&1 | cut -d, -f1
cp -r source/models/clusters/parts . && $EPTWIN compare own.csv measured.csv --diagnose --cluster mine.ini | sed -n '/^1\. /p'
