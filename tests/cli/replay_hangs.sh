# A rank that is stopped in the middle of a run holds up all others: each kernel's run ends after --timeout and names it,
# however the others wait for each other.
for kernel in ll normal v2; do
    $EPTWIN replay --ranks 4 --ranks-per-node 2 --kernel $kernel --num-experts 16 --num-tokens 32 --hidden 1024 --num-sms 2 \
        --repeat 1000000 --timeout 2 --output out.csv 2>log &
    run=$!
    children=
    while [ "$(echo $children | wc -w)" -lt 4 ] && kill -0 $run; do
        read -r children </proc/$run/task/$run/children
    done
    set -- $children
    # It runs when it has mapped the memory of the others.
    until [ "$(grep -c eptwin-rank /proc/$3/maps)" -ge 4 ] || ! kill -0 $run; do :; done
    sleep 0.3
    kill -STOP $3
    wait $run
    echo "exit $?"
    grep -o 'eptwin: rank 2 holds up the run: it does not answer' log || cat log
    for child; do kill -0 $child 2>/dev/null && echo "process $child is still there"; done
done
ls
