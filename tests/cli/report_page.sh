# The report: text for a terminal, a page that needs nothing else, and what is refused.
header='phase,rank,metric,value,unit'
printf '# kind: simulate\n# kernel: ll\n# num-ranks: 2\n%s\n' "$header" >p.csv
printf 'dispatch,%s,time_us,%s,us\n' all 160 0 150 1 170 >>p.csv
printf 'dispatch,all,%s\n' bottleneck,nic_tx, bottleneck_busy_pct,93,% busy_nic_tx_pct,93,% bound_send_us,144,us >>p.csv
sed -e s/simulate/replay/ -e s/,160,/,200,/ -e s/,170,/,250,/ -e /bound/d -e /nic_tx/d -e /bottleneck/d p.csv >m.csv
"$EPTWIN" report --text p.csv m.csv
echo "exit $?"
"$EPTWIN" report page.html m.csv p.csv
echo "exit $?"
grep -c '<svg' page.html
grep -cE 'https?:|<script|url\(' page.html
"$EPTWIN" report page.html missing.csv
echo "exit $?"
"$EPTWIN" report p.csv m.csv
echo "exit $?"
"$EPTWIN" report page.html
echo "exit $?"
"$EPTWIN" report --output no/folder/page.html p.csv
echo "exit $?"
"$EPTWIN" report - p.csv | cmp - <("$EPTWIN" report --output - p.csv) && echo same
ls
sed 's/kind: .*/kind: bogus/' p.csv >bogus.csv
$EPTWIN report page.html bogus.csv; echo "exit $?"

echo '# two predictions of the same work; names keep their "/"'
sed -e 's/,160,/,200,/' -e 's/^# kernel.*/&\n# cluster: 8x400G \/ rail\n# case-keys: kernel num-ranks\n# work-keys: num-ranks/' p.csv >a.csv
sed -e 's/,200,/,100,/' -e 's/nic_tx/sm/' -e 's/rail/fat tree/' a.csv >b.csv
"$EPTWIN" report --text a.csv b.csv
"$EPTWIN" report --text a.csv b.csv a.csv | cmp - <("$EPTWIN" report --text a.csv b.csv) && echo 'named twice, shown once'
echo '# a phase that the second alone has keeps its name'
cp b.csv more.csv && sed -n 's/^dispatch,all,time_us/dispatch_sync,all,time_us/p' b.csv >>more.csv
"$EPTWIN" report --text a.csv more.csv | grep -E '^ *[a-z_]* +(first|second) +█'
for layer in 1 2; do sed -n "s/^dispatch,all,time_us/dispatch_sync_layer$layer,all,time_us/p" b.csv; done >>more.csv
"$EPTWIN" report --text more.csv | grep -E '^ *[a-z_0-9]* +simulate +█'
"$EPTWIN" report page.html a.csv b.csv && grep -oE '<h1>.*</h1>|class="verdict">[^<]*|<b>They.*' page.html

echo '# one prediction: the page says once what bounds it'
$EPTWIN simulate --cluster h800-cx7 --num-ranks 16 --output one.csv
$EPTWIN report one.csv --output one.html
grep -c 'Dispatch is bound by the NIC of .* busy ([0-9.]*[^0-9.]*MB at [0-9.]*[^0-9.]*GB/s), combine by the NIC of .*GB/s)' one.html
grep -q 'bottleneck is' one.html || echo once
sed 's/^# kind: simulate/# kind: replay/' one.csv >measured.csv
$EPTWIN report one.csv measured.csv --output one.html
grep -c 'Dispatch is bound by the NIC of .* busy ([0-9.]*[^0-9.]*MB at [0-9.]*[^0-9.]*GB/s), combine by the NIC of .*GB/s)' one.html
grep -q 'bottleneck is' one.html || echo once

echo '# bandwidths are what kernels moved: rates of parts are none'
$EPTWIN simulate --cluster h100-cx7 --num-ranks 16 --num-tokens 16 --output moved.csv >/dev/null
$EPTWIN report moved.html moved.csv && sed 's/<[^>]*>/ /g' moved.html | tr -s ' \n' ' ' | grep -o 'Bandwidths phase.*Where the' |
    grep -oE '(logical|physical|bottleneck|busiest)[a-z ]*' | sort | uniq -c
