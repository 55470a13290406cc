# Placements of all layers go to serving engines and come back: the same experts on the same ranks.
trace="--num-ranks 4 --num-experts 8 --num-topk 2 --num-tokens 64 --steps 2 --layers 3 --routing zipf:1"
$EPTWIN trace generate t.ept $trace --seed 5 >out.txt 2>&1 || cat out.txt
$EPTWIN trace remap t.ept placed.ept --placement eplb:4 --placement-output locations.json
cat locations.json
$EPTWIN trace remap t.ept again.ept --placement file:locations.json && cmp placed.ept again.ept && echo same
$EPTWIN trace remap t.ept again.ept --placement eplb:4 --placement-output map.json --placement-format vllm-ascend
head -4 map.json
$EPTWIN trace remap t.ept again.ept --placement file:map.json && cmp placed.ept again.ept && echo same
$EPTWIN trace remap t.ept again.ept --placement eplb:4 --placement-output vllm.json --placement-format vllm
cat vllm.json
$EPTWIN trace remap t.ept again.ept --placement file:vllm.json && cmp placed.ept again.ept && echo same
echo '# redundant experts make other numbers of ranks possible'
for how in '' '--placement greedy' '--placement eplb:1' '--placement eplb:4'; do
    $EPTWIN trace remap t.ept six.ept --num-ranks 6 $how
    echo "exit $?"
done
$EPTWIN trace info six.ept | grep -E '^(ranks|experts)'
rm six.ept
$EPTWIN simulate --cluster h100-cx7 --trace t.ept --num-ranks 4 --hidden 1024 --layer 2 --placement file:map.json --format csv |
    grep -E '^# (num-experts|layer):'
$EPTWIN trace remap t.ept again.ept --placement eplb:4 --placement-output all.txt
echo "exit $?"
$EPTWIN trace remap t.ept again.ept --placement eplb:4 --placement-output all.json --placement-format yaml
echo "exit $?"
ls
