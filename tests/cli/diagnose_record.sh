# The record of a replay is diagnosed as a table is: here one that a slower machine would write.
quarter='--set nic.rate=11.675GB/s'
case='--num-ranks 8 --ranks-per-node 4 --hidden 2048 --num-experts 16 --num-topk 4'
$EPTWIN simulate --cluster h100-cx7 $case --num-tokens 256 $quarter --output slow.csv
sed -e 's/^# kind: .*/# kind: replay/' -e 's/^# cluster: .*/# busy: yes\n# cpu-others-pct: 12.0/' slow.csv >measured.csv
$EPTWIN diagnose measured.csv --cluster h100-cx7 --most 1 | sed -n -e 's/, off by .*/ compared/p' -e '/^1\./p' -e '/^   c/p'
echo '# and by compare'
$EPTWIN simulate --cluster h100-cx7 $case --num-tokens 256 --output predicted.csv
$EPTWIN compare predicted.csv measured.csv | grep -E '^(Measured|The machine)' | sed 's/to [0-9.]* times/to N times/'
