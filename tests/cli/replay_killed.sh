# A rank that is killed in the middle of a run that would not end by itself ends the run: the rank is named, no
# process and no shared memory stays behind, no file is written.
. source/tests/left.sh
$EPTWIN replay --ranks 4 --num-experts 16 --num-tokens 32 --hidden 1024 --repeat 1000000 --output out.csv &
run=$!
children=
while [ "$(echo $children | wc -w)" -lt 4 ] && kill -0 $run; do
    read -r children </proc/$run/task/$run/children
done
set -- $children
kill -9 $2
wait $run
echo "exit $?"
for child; do kill -0 $child 2>/dev/null && echo "process $child is still there"; done
left
ls
