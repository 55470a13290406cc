# Generated traces: reproducible, as skewed as asked; placements recover what skew costs.
sample=source/traces/samples/decode_ep64.ept
run() { "$EPTWIN" trace "$@" || echo "exit $?"; }
spread() { run info "$@" | grep -E '^(load|pairs|tokens) '; }
run generate a.ept --num-ranks 16 --num-tokens 500 --routing imbalance:2 --steps 2 --correlation 0.5 --seed 4 --weights
run generate b.csv --num-ranks 16 --num-tokens 500 --routing imbalance:2 --steps 2 --correlation 0.5 --seed 4 --weights
run diff a.ept b.csv
run info a.ept | sed -n '1,12p'
spread a.ept
echo "captured, not balanced"
spread $sample
echo "greedy"
run remap $sample greedy.ept --placement greedy
spread greedy.ept
echo "64 redundant slots, from the first step alone"
run remap $sample eplb.ept --placement eplb:64 --placement-steps 0
spread eplb.ept
echo "on 16 ranks, one layer, placement written and read"
run slice $sample layer.ept --layers 2
run remap layer.ept made.ept --num-ranks 16 --placement eplb:16:8 --placement-output placement.txt
run remap layer.ept read.ept --num-ranks 16 --placement file:placement.txt
run diff made.ept read.ept
head -3 placement.txt
run remap $sample bad.ept --placement eplb:5
run remap $sample bad.ept --placement worst
run remap $sample bad.ept --num-ranks 48
run remap $sample bad.ept --placement greedy --placement-output p.txt
run generate bad.ept --num-ranks 0
run generate bad.ept --num-experts 100
run generate bad.ept --routing zipf
run generate bad.ept --num-tokens 200000000
run generate bad.ept --num-tokens 0
run generate bad.ept --steps 1000000 --layers 20000
run generate bad.ept --steps 100000 --layers 2000 --num-ranks 1024 --num-experts 1024 2>&1 |
    sed -E 's/the [0-9.,]+[^kMGTP]*[kMGTP]B free/the SIZE free/'
run generate bad.ept --frobnicate
echo "the output may be an option, and - is standard output"
small="--num-ranks 2 --num-tokens 1 --num-experts 4 --num-topk 2"
run generate $small a.csv && run generate $small --output=b.csv && cmp a.csv b.csv
run generate $small -o - --to csv | cmp - a.csv
run remap a.csv -o c.csv --num-ranks 1 && run merge a.csv b.csv --output d.csv && run slice d.csv --steps 1 -o - --to csv | cmp - a.csv
run convert a.csv
run convert a.csv b.csv -o c.csv
run generate -o -
run chakra a.csv -
run remap a.csv e.csv --placement-output p.txt
run remap a.csv --placement greedy --placement-output - --num-ranks 2
echo "a placement is not left behind where the trace cannot be written, nor the trace without it"
run remap a.csv no/such.csv --placement greedy --placement-output p.txt
run remap a.csv e.csv --placement greedy --placement-output no/such.txt
ls

echo '# options that the output would ignore'
for bad in 'convert b.csv out.ept --pad' 'convert b.csv out.csv --dtype u1' 'convert b.csv out.ept --weights-output w.npy' \
           'convert b.csv out.npy --level 3' \
           'remap source/traces/samples/decode_ep64.ept out.npy --weights-output w.npy' 'generate out.ept --num-groups 4' \
           'remap b.csv out.ept --placement-steps 0' 'remap b.csv out.ept --placement greedy --placement-format vllm'; do
    run $bad
done
ls out.* w.npy 2>/dev/null; true
