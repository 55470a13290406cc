# Ranks that fail in a replay: the others mask them, and what they receive and sum passes the checks without them.  The
# timeout is far longer than any rank of a busy machine is late.
. source/tests/left.sh
small="--num-tokens 16 --hidden 512 --num-topk 4 --num-experts 8"
told() { grep -E '^# (mask-timeout|fail|ranks-masked|checks):'; }

echo '# failures at each call, in the first iteration, and two iterations without the dead'
$EPTWIN replay --ranks 4 $small --warmup 1 --repeat 2 --mask-timeout 2000ms --fail '1@dispatch|3@combine|0@clean' --output out.csv
echo "exit $?"
told <out.csv
grep -v '^#' out.csv | awk -F, '$3 == "time_us" { print $1, $2, ($4 < 2000000 ? "no timeout" : "timeout") }'

echo '# the time that is lost: two nodes, sending and receiving apart'
$EPTWIN replay --ranks 4 --ranks-per-node 2 $small --hook --warmup 0 --repeat 1 --mask-timeout 2000ms --fail 2@combine --output out.csv
echo "exit $?"
told <out.csv
awk -F, '$2 == "all" && $3 == "time_us" { print $1, ($4 < 2000000 ? "no timeout" : "timeout") }' out.csv

run() { $EPTWIN replay --ranks 4 $small "$@" >out; echo "exit $?, $(wc -l <out) lines of output"; }
echo '# refused'
run --fail 1@dispatch
run --fail 4@dispatch --mask-timeout 1ms
run --mask-timeout 1ms --kernel normal
run --mask-timeout 5000ms --timeout 5
left
