# A sweep's files: a full disk is a failed run (1) that goes on later; what stands in the place of its files and is none is
# refused (2) and stays as it is; what killed runs left beside them goes.
sweep() { timeout 200 $EPTWIN sweep --cluster source/models/clusters/h800-cx7.ini --hidden 1024 --num-experts 16 --num-topk 4 "$@"; }
said() { "$@" >/dev/null 2>err; echo "status $?"; cat err; }
points="--num-ranks 2 --num-tokens 4 --seed 0:40"
echo '# a disk that is full, first for the copy, then for rows'
full() { (ulimit -f $1; sweep $points --output full.csv -j 1 2>&1 >/dev/null; echo "status $?") | cat; }
full 0
ls
full 4
ls
said sweep $points --output full.csv; ls
sweep $points --output whole.csv >/dev/null; cmp full.csv whole.csv && echo same
rm full.csv whole.csv err

echo '# left by runs that were killed'
for name in s.csv.part.copy.A1b2C3 s.csv.part.copy.000000 s.csv.part.copy.mine.txt s.csv.party; do echo old >$name; done
said sweep $points --output s.csv; ls
rm s.csv* err

echo '# no files'
mkfifo pipe.csv; said sweep $points --output pipe.csv
mkdir folder.csv; said sweep $points --output folder.csv
echo precious >target
ln -s target link.csv.part; said sweep $points --output link.csv
ln -s target copy.csv.part.copy; said sweep $points --output copy.csv
mkfifo fifo.csv.part; said sweep $points --output fifo.csv
cat target; ls

echo '# points that cannot be, that have no such phase, and that are still to be run'
sweep --kernel ll,normal --num-ranks 2,3 --num-tokens 4 --num-experts 12 --output left.csv >/dev/null
for best in layer notify; do $EPTWIN sweep show left.csv --best $best.slowest_us | grep '^('; done
sed '/^1,/d' left.csv >cut.csv
$EPTWIN sweep show cut.csv | grep '^('

echo '# line ends of Windows, a time that is no number, and a number with a comma for thousands'
sed 's/$/\r/' left.csv >crlf.csv
$EPTWIN sweep show crlf.csv | diff - <($EPTWIN sweep show left.csv) && echo "shown as before"
sweep --kernel ll,normal --num-ranks 2,3 --num-tokens 4 --num-experts 12 --output crlf.csv >/dev/null
cmp crlf.csv left.csv && echo "kept"
awk -F, -v OFS=, '/^point/ { for (i = 1; i <= NF; i++) if ($i == "slowest_us") at = i } /^0,/ { $at = "nan" } 1' left.csv >nan.csv
$EPTWIN sweep show nan.csv --best layer.slowest_us | grep '^('
sed 's/^0,/nan,/' left.csv >nan.csv
$EPTWIN report nan.csv --output never.html; echo "exit $?"
sweep --num-ranks 2 --num-tokens 8,016 --output never.csv; echo "exit $?"

echo '# options of a run beside files of results'
for more in 'show left.csv --num-ranks 4' 'show left.csv --baseline num-ranks=4' 'show left.csv --output other.csv' 'show left.csv -j 2' \
            'merge left.csv --shard 1/2 --output other.csv' 'shwo left.csv --num-ranks 4'; do
    $EPTWIN sweep $more; echo "status $?"
done
