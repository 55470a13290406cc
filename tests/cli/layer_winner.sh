# Every program that names the faster of two kernels means a whole layer: all kernels of dispatch and combine, by their
# slowest ranks.  Here normal dispatch and combine alone are faster than low latency's, and not with layout and notify.
case="--cluster source/models/clusters/h100-cx7.ini --backend ibgda --num-ranks 16 --num-tokens 128 --num-experts 256 --num-topk-groups 2"
for kernel in ll normal; do $EPTWIN simulate $case --kernel $kernel --output $kernel.csv; done
us() { sed -n "s/^$2,all,time_us_max,\(.*\),us/\1/p" $1.csv; }
for phase in dispatch combine; do
    awk -v p=$phase -v a=$(us ll $phase) -v b=$(us normal $phase) 'BEGIN { print p " alone:", a < b ? "ll" : "normal" }'
done

echo '# which, sweep, compare and both records, in words and on a page'
$EPTWIN which $case --at-tokens none --output which.csv
awk -F, '$3 == "place" && $4 == 1 { print $1 }' which.csv
$EPTWIN sweep $case --kernel ll,normal --output sweep.csv --html sweep.html | awk '$1 == "ll" || $1 == "normal" { print $1; exit }'
$EPTWIN compare normal.csv ll.csv | grep 'The second is' | sed 's/[0-9.]* times/N times/; s/ take.*//'
said() { $EPTWIN simulate $case --kernel $1 --format text | sed -n 's/^Dispatch and combine take \(.*\) us together.*/\1/p'; }
for kernel in ll normal; do said $kernel; done |
    awk '{ us[NR] = $1 } END { print us[1] < us[2] ? "ll" : "normal" }'
$EPTWIN report --output page.html normal.csv ll.csv
grep -o 'The second is [0-9.]* times [a-z]*' page.html | sed 's/[0-9.]* times/N times/'

echo '# the same times everywhere'
layer() { awk -F, -v k=$1 '$2 == k && $3 == "layer" { printf "%.1f\n", $7 }' sweep.csv; }
for kernel in ll normal; do
    awk -F, -v name="deepep-$kernel over ibgda" -v swept=$(layer $kernel) -v said=$(said $kernel) '
        $1 == name && $3 == "layer_us" { us = sprintf("%.1f", $4); print us == swept && swept == said ? "as told" : us " " swept " " said }
    ' which.csv
done
