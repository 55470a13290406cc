# Send and receive as kernels of their own: how long data are on the wire between them, which compute has to hide.
run() { $EPTWIN simulate --cluster h100-cx7 --num-ranks 16 --num-experts 64 "$@"; }
echo '# in words: by phase, the slowest rank first'
run --hook --format text | grep -A1 '^wire' | sed -E 's/[0-9.]+ us/N us/g; s/rank [0-9]+/rank N/g'
run --hook --format text | grep -A1 '^wire' | grep -oE 'rank [0-9]+ [0-9.]+' | awk '
    { if (NR > 1 && NR != 5 && $3 > last) print "not the slowest first"; last = $3; n++ } END { print n " ranks" }'
echo '# in the record: every rank, where ranks are asked for'
run --hook --output all.csv >/dev/null; run --hook --per-rank --output ranks.csv >/dev/null
grep -c ',all,wire_us' all.csv; grep -c '^[a-z_]*,[0-9]*,wire_us' all.csv; grep -c '^[a-z_]*_send,[0-9]*,wire_us,' ranks.csv
awk -F, '$3 == "wire_us" && $2 != "all" { if ($4 > most[$1]) most[$1] = $4 }
         $3 == "wire_us_max" { of[$1] = $4 } END { for (p in of) print p, (most[p] == of[p] ? "the largest" : most[p]) }' ranks.csv | sort
echo '# one kernel takes as long as both and the wire between them, but for launches and overlap'
run --output one.csv >/dev/null
for phase in dispatch combine; do
    awk -F, -v p=$phase '$3 == "time_us_max" { t[$1] = $4 } $3 == "wire_us_max" { wire = $1 == p "_send" ? $4 : wire }
        END { sum = t[p "_send"] + wire + t[p "_recv"]; print p, (sum > 0.9 * t[p] && sum < 1.35 * t[p] ? "as long" : sum " of " t[p]) }' \
        all.csv one.csv
done
echo '# a slow NIC: its rank waits longest'
run --hook --fault 'nic:n1.g2 rate=0.25' --format text | grep -o 'slowest first: rank 10 '
echo '# nothing is above 100 %, no NIC is faster than its rate; kernels that wait for their data leave nothing on the wire'
awk -F, '/_pct,/ && $4 > 100 || $3 == "physical_nic_gbs" && $4 > 46.7 || $3 == "physical_nvl_gbs" && $4 > 326' ranks.csv
echo "$(grep -c wire one.csv) $(run --hook --launch loop | grep -c wire)"
