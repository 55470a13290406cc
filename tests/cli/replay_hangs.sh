# A rank that is stopped in the middle of a run holds up all others: each kernel's run ends after --timeout and names it,
# however the others wait for each other, or only know how many messages are missing.  Ranks of mpirun likewise.
# Nobody waits for the stopped rank to answer or to leave.
. source/tests/left.sh
options() {
    case $1 in
    alltoallv) echo --matrix uniform:65536 ;;
    allgather) echo --size 64KiB ;;
    *) echo --num-experts 16 --num-tokens 32 --hidden 1024 ;;
    esac
}
for kernel in ll normal v2 alltoallv allgather; do
    $EPTWIN replay --ranks 4 --ranks-per-node 2 --kernel $kernel $(options $kernel) \
        --num-sms 2 --repeat 1000000 --timeout 2 --output out.csv 2>log &
    run=$!
    ranks_await $run 4
    # It runs when it has mapped the memory of the others.
    until [ "$(grep -c eptwin-rank /proc/${ranks[2]}/maps)" -ge 4 ] || ! kill -0 $run; do :; done
    sleep 0.3
    begin_ms=$(now_ms)
    kill -STOP ${ranks[2]}
    wait $run
    echo "exit $?"
    took_ms=$(($(now_ms) - begin_ms))
    [ $took_ms -le 3400 ] || echo "ended after $took_ms ms"
    grep -o 'eptwin: rank 2 holds up the run: stopped by a signal' log || cat log
    for child in ${ranks[@]}; do kill -0 $child 2>/dev/null && echo "process $child is still there"; done
done
for try in 1 2; do
    mpirun --allow-run-as-root --oversubscribe -n 4 $EPTWIN replay --ranks-per-node 2 --kernel alltoallv \
        --matrix uniform:65536 --repeat 1000000 --timeout 2 --output out.csv >log 2>&1 &
    run=$!
    stopped=
    while kill -0 $run && [ -z "$stopped" ]; do
        for child in $(cat /proc/$run/task/*/children 2>/dev/null); do
            tr '\0' '\n' <"/proc/$child/environ" 2>/dev/null | grep -qx PMIX_RANK=2 && stopped=$child
        done
    done
    until [ "$(grep -c eptwin-rank /proc/$stopped/maps)" -ge 4 ] || ! kill -0 $run; do :; done
    sleep 0.3
    kill -STOP $stopped
    wait $run
    echo "mpirun: exit $?"
    grep -o 'rank 2 holds up the run: it does not answer' log | sort -u
done
ls
