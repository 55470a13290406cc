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
