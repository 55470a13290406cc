# Names of files are bytes, whatever the locale; words on the command line are in its encoding, in UTF-8 where it has none.
cp -r source/models/clusters/parts .
cp source/models/clusters/h200.ini größe.ini
cp source/traces/samples/prefill_ep8.npy.zst $'tr\xe9s.npy.zst'
cp source/traces/samples/prefill_ep8.weights.npy.zst $'w\xff.npy.zst'
program=$EPTWIN
for locale in C POSIX C.UTF-8 none; do
    EPTWIN="env LC_ALL=$locale $program"
    echo "-- $locale"
    $EPTWIN simulate --cluster größe.ini --num-tokens 4 --hidden 512 --trace $'tr\xe9s.npy.zst' \
        --trace-weights $'w\xff.npy.zst' --output ö.csv && grep -aE '^# trace' ö.csv
    $EPTWIN trace convert $'tr\xe9s.npy.zst' ü.ept --trace-weights $'w\xff.npy.zst@0,1,2' --model Größe &&
        $EPTWIN trace info ü.ept | grep model
    $EPTWIN trace remap ü.ept é.ept --placement $'file:w\xff' 2>&1 | grep -ac $'w\xff: cannot read: No such file'
    $EPTWIN compare ö.csv ö.csv --output $'c\xff.csv' >/dev/null && ls -b | grep "^c.*377"
    $EPTWIN report ß.html ö.csv && ls ß.html
    printf 'phase,measured_us,Straße\ndispatch,20,ä\n' >cases.csv
    $EPTWIN validate cases.csv --cluster größe.ini --num-ranks 2 --num-tokens 4 --hidden 512 --by Straße --output v.csv |
        grep -c Straße
done

# A byte-order mark is no part of a text.  Texts that another program than zstd has compressed are named as what they are.
EPTWIN=$program
mark() { printf '\357\273\277' | cat - "$1" >"marked_$1"; }
printf 'phase,measured_us\ndispatch,20\n' >cases.csv
cp source/models/step/nets/qwen3-235b.json net.json
cp source/models/clusters/h200.ini h200.ini
$EPTWIN simulate --cluster h200.ini --num-ranks 2 --num-tokens 4 --hidden 512 --output record.csv
$EPTWIN sweep --cluster h200.ini --num-ranks 2 --num-tokens 4,8 --hidden 512 --output sweep.csv >/dev/null
echo '[rank 0] Dispatch bandwidth: 40.00 GB/s, avg_t=180.00 us | Combine bandwidth: 42.00 GB/s, avg_t=340.00 us' >log.txt
for file in cases.csv net.json h200.ini record.csv sweep.csv log.txt; do mark $file; done
$EPTWIN cluster check marked_h200.ini
$EPTWIN validate marked_cases.csv --cluster marked_h200.ini --num-ranks 2 --num-tokens 4 --hidden 512 --output v.csv |
    awk '$1 == "all" { print $2, "case" }'
$EPTWIN step --net marked_net.json --cluster h200 --num-ranks 8 --batch 1 --layers 1 --format text | grep -c TPOT
$EPTWIN compare marked_record.csv record.csv | grep -c '^dispatch'
$EPTWIN sweep show marked_sweep.csv | tail -n 1 | cut -c1-10
$EPTWIN import marked_log.txt --output - 2>/dev/null | cut -d, -f1-6
gzip -c log.txt >log
$EPTWIN import log
xz -c log.txt | $EPTWIN import -
gzip -c record.csv >record.zst
$EPTWIN report --text record.zst
