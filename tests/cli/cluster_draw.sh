# A machine as a picture: every name that a result has for a part is on it, and nothing else may be marked.
draw() { $EPTWIN cluster show "$@"; echo "exit $?"; }
draw gh200-alps 64 --svg alps.svg --mark leaf0-leaf7 --mark nic_tx
head -c 60 alps.svg; echo
grep -o '<title>GH200[^<]*\|class="link m" data-name="leaf[^"]*"' alps.svg
grep -c 'class="nic m"' alps.svg
draw h100-cx7 --svg - --mark bisection | grep -c '</svg>'
for cluster in $($EPTWIN cluster list | cut -d' ' -f1); do
    draw "$cluster" --svg all.svg --mark sm --mark send --mark receive --mark bisection --mark latency | grep -v 'exit 0'
done
echo "-- a record's busiest link is found"
$EPTWIN simulate --cluster gh200-alps --num-ranks 64 --kernel alltoallv --matrix uniform:65536 --output record.csv
link=$(awk -F, '$3 == "busiest_link" { print $4 }' record.csv)
draw gh200-alps 16 --svg found.svg --mark "$link"
grep -c 'class="link m"' found.svg
echo "-- what cannot be"
draw gh200-alps --svg no.svg --mark leaf0-leaf99
draw gh200-alps --mark leaf0
draw gh200-alps --svg nowhere/no.svg
draw gh200-alps 0 --svg no.svg
draw gh200-alps 4 5 --svg no.svg
draw --svg no.svg
draw gh200-alps --colour
cp source/models/clusters/gb200-nvl72.ini . && cp source/models/clusters/gb200.ini . && cp -r source/models/clusters/parts .
draw ./gb200-nvl72.ini --svg gb200-nvl72.ini
[ -e no.svg ] || echo "nothing is left behind"
