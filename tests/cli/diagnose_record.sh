# The record of a replay is diagnosed as a table is: here one that a slower machine would write.
quarter='--set nic.rate=11.675GB/s'
case='--num-ranks 8 --ranks-per-node 4 --hidden 2048 --num-experts 16 --num-topk 4'
$EPTWIN simulate --cluster h100-cx7 $case --num-tokens 256 $quarter --output slow.csv
sed -e 's/^# kind: .*/# kind: replay/' -e 's/^# cluster: .*/# busy: yes\n# cpu-others-pct: 12.0/' slow.csv >measured.csv
$EPTWIN diagnose measured.csv --cluster h100-cx7 --most 1 | sed -n -e 's/, off by .*/ compared/p' -e '/^1\./p' -e '/^   c/p'
echo '# and by compare'
$EPTWIN simulate --cluster h100-cx7 $case --num-tokens 256 --output predicted.csv
$EPTWIN compare predicted.csv measured.csv | grep -E '^(Measured|The machine)' | sed 's/to [0-9.]* times/to N times/'
echo '# of a machine of which the prediction is wrong, beside what it measured when it was sound'
other='--set nvlink.egress-rate=80GB/s --set nvlink.ingress-rate=80GB/s --set nic.fetch=9us --set gpu.launch=20us'
replayed() { sed -e 's/^# kind: .*/# kind: replay/' -e 's/^# cluster: .*/# busy: no/' "$1"; }
$EPTWIN simulate --cluster h100-cx7 $case --num-tokens 256 $other --output - | replayed - >good.csv
$EPTWIN simulate --cluster h100-cx7 $case --num-tokens 256 $other $quarter --output - | replayed - >bad.csv
$EPTWIN diagnose bad.csv --cluster h100-cx7 --baseline good.csv --most 1 |
    sed -n -e 's/, off by .*/ compared/p' -e '/^Expected/p' -e '/^1\./p'
$EPTWIN diagnose good.csv --cluster h100-cx7 --baseline good.csv | tail -1
$EPTWIN diagnose bad.csv --cluster h100-cx7 --baseline no.csv; echo "exit $?"
$EPTWIN simulate --cluster h100-cx7 --num-ranks 4 --output - | replayed - >four.csv
$EPTWIN diagnose bad.csv --cluster h100-cx7 --baseline four.csv; echo "exit $?"
echo '# all causes as a table'
$EPTWIN diagnose bad.csv --cluster h100-cx7 --baseline good.csv --output causes.csv | grep -c '^1\. '
sed -n 1p causes.csv; sed -n '2s/,.*//p; $s/,.*//p' causes.csv
awk -F, 'NR > 1 { sum += $(NF - 4) } END { printf "probabilities add up to %.4f\n", sum }' causes.csv
$EPTWIN diagnose bad.csv --cluster h100-cx7 --output - | head -1
$EPTWIN diagnose bad.csv --cluster h100-cx7 --output bad.csv; echo "exit $?"
$EPTWIN diagnose bad.csv --cluster h100-cx7 --output no/such.csv; echo "exit $?"
echo '# ranks that took turns on too few CPUs: only the last one says something, unless they waited for a network'
turns='s/^# kind: .*/&\n# cpus: 2\n# bootstrap: fork/'
sed -e "$turns" -e 's/^# kind: .*/&\n# network-carrier: none/' bad.csv >turns.csv
sed "$turns" bad.csv >network.csv
for record in turns.csv network.csv; do
    $EPTWIN diagnose $record --cluster h100-cx7 | sed -n 's/, off by .*/ compared/p'
done
echo '# who waited for whom makes the cause surer, whichever rank it is'
planted() {
    $EPTWIN simulate --cluster h100-cx7 $case --num-tokens 256 --waits "$@" --output - | replayed - |
        sed -e '/^# fault/d' -e 's/^# routing: .*/# routing: uniform/' >waits.csv
    grep -v waits_us waits.csv >times.csv
    for record in times waits; do
        $EPTWIN diagnose $record.csv --cluster h100-cx7 --output - | sed -n 2p >$record.first
    done
    cut -d, -f1 waits.first
    awk -F, '{ p[NR] = $(NF - 4) } END { print (p[2] > p[1] && p[2] > 0.95 ? "surer" : p[1] " " p[2]) }' times.first waits.first
}
planted --fault 'nic:n1.g2 rate=0.5'
planted --routing zipf:1.2
$EPTWIN diagnose waits.csv --cluster h100-cx7 | grep -o '^[0-9]* [a-z ]*, off by'
