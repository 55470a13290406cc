# Ranks joined by TCP have no parent that watches them: one that is killed in the middle of a run that would not
# end by itself still ends the others, which name it, and no file is written.
port=$((20000 + RANDOM % 12000))
umask 077
echo "a secret of this test" >secret
for n in 0 1 2; do
    $EPTWIN replay --rank $n --world-size 3 --root 127.0.0.1:$port --secret-file secret --num-experts 6 --num-topk 4 \
        --num-tokens 16 --hidden 512 --repeat 1000000 --output out$n.csv >log$n 2>&1 &
    eval "pid$n=\$!"
done
# They run when rank 0 has mapped the memory of all three.
until [ "$(grep -c eptwin-rank /proc/$pid0/maps 2>/dev/null)" = 3 ] || ! kill -0 $pid0; do :; done
{ kill -9 $pid1 && wait $pid1; } 2>/dev/null
echo "rank 1: exit $?"
for n in 0 2; do
    eval "wait \$pid$n" 2>/dev/null
    echo "rank $n: exit $?"
done
cat log0 log2 | grep -c 'rank 1'
ls
