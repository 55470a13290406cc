# Ranks over libfabric that are killed while they set up look killed: the parent names the rank and the signal, and no name
# in /dev/shm and no file of a library stays behind, also where all ranks are killed at once, and where the parent is ended.
. source/tests/left.sh
ulimit -c 0
export ASAN_OPTIONS=handle_segv=0${ASAN_OPTIONS:+:$ASAN_OPTIONS} # a rank that is killed by SEGV is to look so
names() { ls /dev/shm | grep '^eptwin-' | sort; }
before=$(names)
unused=$(names_unused)
# run PROVIDER: starts 2 ranks and waits for both processes; run, ranks.
run() {
    env --default-signal=INT $EPTWIN replay --ranks 2 --ranks-per-node 1 --num-experts 8 --num-tokens 8 --hidden 512 \
        --repeat 1000000 --fabric ofi --provider $1 --output out.csv 2>log &
    run=$!
    ranks_await $run 2
}
# Waits until the ranks have made a name, or for 5 s: a name that is there for a moment can be missed on a busy machine.
named() {
    local end=$((SECONDS + 5))
    while [ "$(names)" = "$before" ] && [ $SECONDS -lt $end ] && kill -0 $run; do :; done
}
for signal in TERM INT SEGV ABRT; do
    for moment in 0.05 0.2 0.35; do
        run tcp
        sleep $moment
        kill -$signal ${ranks[1]}
        wait $run
        echo "exit $?"
        cat log
    done
done
run shm
named
kill -KILL ${ranks[@]}
wait $run
echo "exit $?"
sed 's/rank [01]/rank N/' log
run shm
named
kill -TERM $run
wait $run
echo "exit $?"
cat log
ls
names_unused | grep -cvxF "$unused" || true
left
