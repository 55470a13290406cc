# Inputs that have changed under one name: a sweep does not go on from results of others, shards of others are not
# merged, records of other routing are not compared.  What holds the same is the same, wherever it lies.
clusters=source/models/clusters
machine() { cat $clusters/h800.ini $clusters/parts/connectx7.ini; }
mkdir parts && machine >my.ini && cp $clusters/parts/*.ini parts/
make_trace() { $EPTWIN trace generate "$@" --num-ranks 4 --num-tokens 16 --num-experts 16 --num-topk 2; }
digests() { sed -E 's/[0-9a-f]{16}/DIGEST/g'; }
again() { # FILE ARGUMENTS: the sweep once more; whether it is refused, and the file as it was
    cp "$1" kept; file=$1; shift
    $EPTWIN sweep --hidden 512 "$@" --output $file 2>&1 >/dev/null | digests; echo "status ${PIPESTATUS[0]}"
    cmp "$file" kept
}
begin() { # FILE ARGUMENTS: a sweep, and the inputs that it notes
    file=$1; shift
    $EPTWIN sweep --hidden 512 "$@" --output $file >/dev/null; grep '^# input' $file | digests
}

echo '# the cluster file, a part that it includes'
base='--cluster my.ini --num-ranks 2,4 --num-tokens 8'
begin s.csv $base
sed -i 's/^\[nic\]/# a comment\n&/' my.ini && again s.csv $base
sed -i 's/^rate = .*/rate = 10 GB\/s/' my.ini && again s.csv $base
machine >my.ini && again s.csv $base
sed -i 's/^launch = .*/launch = 9 us/' parts/hopper.ini && again s.csv $base
cp $clusters/parts/hopper.ini parts/
again s.csv $base --set nic.rate=10GB/s
again s.csv $base --fault 'nic:n0.g0 rate=0.5'

echo '# the same cluster, said otherwise'
digest() { $EPTWIN simulate "$@" --num-ranks 2 --num-tokens 8 --hidden 512 | sed -n 's/^# cluster-digest: //p'; }
sed 's/^rate = .*/rate = 10 GB\/s  # slow/' my.ini >slow.ini
awk '/^\[nic\]/ { print; print "rate = 10GB/s"; next } !/^rate = /' my.ini >moved.ini
[ "$(digest --cluster slow.ini)" = "$(digest --cluster my.ini --set nic.rate=10GB/s)" ] && echo same
[ "$(digest --cluster slow.ini)" = "$(digest --cluster moved.ini)" ] && echo same
[ "$(digest --cluster slow.ini)" = "$(digest --cluster my.ini)" ] || echo other

echo '# of several clusters the one that has changed'
cp my.ini other.ini
begin c.csv --cluster my.ini,other.ini --num-ranks 4 --num-tokens 8
sed -i 's/^rate = .*/rate = 10 GB\/s/' other.ini && again c.csv --cluster my.ini,other.ini --num-ranks 4 --num-tokens 8

echo '# a trace, its weights, a placement, a matrix'
make_trace t.npy; make_trace seeded.npy --seed 1
make_trace w.npy --weights --weights-output weights.npy; make_trace w2.npy --weights --weights-output weights2.npy --seed 1
printf '%s\n' '0 1 2 3' '4 5 6 7' '8 9 10 11' '12 13 14 15' >placed.txt
printf '4 2\n0 1 4096\n2 3 8192\n' >matrix.txt
base='--cluster my.ini --trace t.npy --dtype fp8,bf16'
begin t.csv $base
zstd -q t.npy && mv t.npy.zst kept.zst && zstd -dq --rm kept.zst -o t2.npy && mv t2.npy t.npy && again t.csv $base
cp t.npy first.npy; cp seeded.npy t.npy && again t.csv $base
begin w.csv --cluster my.ini --trace w.npy --trace-weights weights.npy --dtype fp8,bf16 --kernel normal
cp weights2.npy weights.npy && again w.csv --cluster my.ini --trace w.npy --trace-weights weights.npy --dtype fp8,bf16 --kernel normal
begin p.csv --cluster my.ini --trace first.npy --placement file:placed.txt,greedy
printf '%s\n' '4 5 6 7' '0 1 2 3' '8 9 10 11' '12 13 14 15' >placed.txt
again p.csv --cluster my.ini --trace first.npy --placement file:placed.txt,greedy
begin m.csv --best alltoallv.time_us --cluster my.ini --kernel alltoallv --matrix matrix.txt --num-sms 4,8
sed -i s/8192/8193/ matrix.txt && again m.csv --cluster my.ini --kernel alltoallv --matrix matrix.txt --num-sms 4,8

$EPTWIN trace convert first.npy t.ept && begin e.csv --cluster my.ini --trace t.ept --dtype fp8,bf16
$EPTWIN trace convert first.npy t.ept --level 19 && again e.csv --cluster my.ini --trace t.ept --dtype fp8,bf16
$EPTWIN trace convert seeded.npy t.ept && again e.csv --cluster my.ini --trace t.ept --dtype fp8,bf16

echo '# one more trace: only that is run'
begin grow.csv --cluster my.ini --trace first.npy,seeded.npy
$EPTWIN sweep --hidden 512 --cluster my.ini --trace first.npy,seeded.npy,w.npy --output grow.csv >/dev/null; echo "status $?"
grep '^# input' grow.csv | digests

echo '# shards'
base='--hidden 512 --cluster my.ini --num-ranks 2,4 --num-tokens 8'
$EPTWIN sweep $base --shard 1/2 --output one.csv >/dev/null
sed -i 's/^rate = .*/rate = 11 GB\/s/' my.ini
$EPTWIN sweep $base --shard 2/2 --output two.csv >/dev/null
$EPTWIN sweep merge one.csv two.csv --output both.csv 2>&1 | digests; echo "status ${PIPESTATUS[0]}"; ls both.csv 2>&1
sed '/^# input/d' one.csv >old.csv; $EPTWIN sweep merge one.csv old.csv --output both.csv; echo "status $?"

echo '# records of one name'
predict() { output=$1; shift; $EPTWIN simulate --cluster my.ini --hidden 512 --ranks-per-node 4 --output $output "$@"; }
compare() { $EPTWIN compare "$@" 2>&1 | digests | grep -E 'different (cases|work)'; echo "status ${PIPESTATUS[0]}"; }
cp first.npy t.npy; predict a.csv --trace t.npy; grep digest a.csv | digests
cp seeded.npy t.npy; predict b.csv --trace t.npy; compare a.csv b.csv
$EPTWIN compare a.csv b.csv --force >/dev/null; echo "status $?"
$EPTWIN replay --ranks 4 --hidden 512 --trace t.npy --output replayed.csv --repeat 1 --warmup 0
compare a.csv replayed.csv
$EPTWIN compare b.csv replayed.csv >/dev/null; echo "status $?"
predict c.csv --kernel alltoallv --matrix matrix.txt; sed -i s/8193/8194/ matrix.txt
predict d.csv --kernel alltoallv --matrix matrix.txt; compare c.csv d.csv
predict w1.csv --kernel normal --trace w.npy --trace-weights weights.npy; cp first.npy t.npy
make_trace w3.npy --weights --weights-output weights.npy --seed 2
predict w2.csv --kernel normal --trace w.npy --trace-weights weights.npy; compare w1.csv w2.csv

echo '# the same under another name, compressed, on another cluster'
zstd -q first.npy -o other.npy.zst; predict e.csv --trace other.npy.zst; compare a.csv e.csv | tail -1
predict f.csv --trace t.npy --set nic.rate=20GB/s --fault 'nic:n0.g0 rate=0.5'; compare a.csv f.csv | tail -1
