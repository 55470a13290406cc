# A rank that is killed in the middle of a run that would not end by itself ends the run: the rank is named, no
# process and no shared memory stays behind, no file is written.
. source/tests/left.sh
$EPTWIN replay --ranks 4 --num-experts 16 --num-tokens 32 --hidden 1024 --repeat 1000000 --output out.csv &
run=$!
ranks_await $run 4
kill -9 ${ranks[1]}
wait $run
echo "exit $?"
for child in ${ranks[@]}; do kill -0 $child 2>/dev/null && echo "process $child is still there"; done
left
ls
