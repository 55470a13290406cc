# Whom ranks wait for: the same numbers beside it, a list a rank and phase, in both worlds, drawn as maps.
small='--num-ranks 4 --num-tokens 4 --hidden 1024 --num-experts 16'
cluster="--cluster source/models/clusters/h800-cx7.ini --ranks-per-node 2"
$EPTWIN simulate $cluster $small --per-rank >plain.csv
$EPTWIN simulate $cluster $small --waits --output p.csv; echo "status $?"
grep -v waits_us p.csv | cmp - plain.csv && echo 'the same numbers'
awk -F, '$3 == "waits_us" { print $1, $2, split($4, list, " ") }' p.csv
echo '# a slow rank keeps all others waiting'
$EPTWIN simulate $cluster $small --waits --slow 2:50x |
    awk -F, '$1 == "dispatch" && $3 == "waits_us" && $2 != 2 { split($4, l, " "); print $2, (l[3] > l[1] && l[3] > l[2] && l[3] > l[4]) }'
echo '# a rank waits for its own rows and its own grid barrier, and that is no wait for a rank'
awk -F, '$1 == "dispatch" && $3 == "waits_us" { split($4, l, " "); print $2, l[$2 + 1] }' p.csv
echo '# a replay has them, too'
$EPTWIN replay --ranks 4 --ranks-per-node 2 --num-tokens 4 --hidden 1024 --num-experts 16 --repeat 2 --waits --output m.csv
echo "status $?"
awk -F, '$3 == "waits_us" { n = split($4, list, " "); for (i in list) sum += list[i]; print $1, $2, n } END { print sum > 0 }' m.csv
$EPTWIN report page.html p.csv m.csv; echo "status $?"
grep -c 'class="heat"' page.html
$EPTWIN simulate $cluster $small --waits --format json --output p.json && $EPTWIN report again.html p.json m.csv
diff <(grep -c 'class="heat"' page.html) <(grep -c 'class="heat"' again.html) && echo 'as JSON, too'
echo '# what is refused'
$EPTWIN simulate $cluster --trace source/traces/samples/prefill_ep8.npy.zst --layers all --waits; echo "status $?"
