# Output that cannot be written is a failed run (1), whatever the command; an input that cannot be read is bad input (2).
small="--num-ranks 2 --num-tokens 8 --hidden 512 --num-experts 8 --num-topk 2"
$EPTWIN simulate --cluster h800-cx7 $small --output p.csv
sed 's/kind: simulate/kind: replay/' p.csv >m.csv
cp source/traces/samples/prefill_ep8.npy.zst t.npy.zst
printf 'num-ranks,num-tokens,phase,measured_us\n2,8,dispatch,20\n' >c.csv
$EPTWIN measure --ranks 2 --repeat 1 --sample-ms 1 --output here.csv
said() { "$@" >/dev/null 2>err; echo "$? $(head -n 1 err | sed 's/eptwin: rank [0-9] gave up/eptwin replay/')"; }
for out in /dev/full nowhere/x; do
    echo "# to $out"
    said $EPTWIN simulate --cluster h800-cx7 $small --output $out
    said $EPTWIN simulate --cluster h800-cx7 $small --output p2.csv --timeline $out
    said $EPTWIN validate c.csv --cluster h800-cx7 $small --output $out
    said $EPTWIN compare p.csv m.csv --output $out
    said $EPTWIN report --output $out p.csv
    said $EPTWIN import source/tests/cli/import/osu.log --output $out
    said $EPTWIN probe --output $out
    said $EPTWIN fit here.csv --output $out
    said $EPTWIN trace convert t.npy.zst $out --to ept
    said $EPTWIN cluster show h800-cx7 --svg $out
    said $EPTWIN sweep --cluster h800-cx7 $small --seed 1,2 --output nowhere/x
    said $EPTWIN replay $small --repeat 1 --warmup 0 --no-check --output $out
done
echo '# standard output'
for words in "simulate --cluster h800-cx7 $small" 'compare p.csv m.csv' 'cluster list' 'trace info t.npy.zst' 'report --text p.csv'; do
    $EPTWIN $words >/dev/full 2>err; echo "$? $(cat err)"
done
echo '# inputs'
for words in 'validate no.csv --cluster h800-cx7' 'compare p.csv no' 'simulate --cluster h800-cx7 --trace no' 'import no' \
             'report --text no' 'fit no' 'trace info no' 'probe no' 'diagnose no --cluster h800-cx7' 'sweep show no'; do
    said $EPTWIN $words
done
ls
echo '# two outputs of one command are two files'
for words in 'simulate --cluster h200 --num-ranks 2 --timeline one' 'step --work experts=1us --cluster h200 --num-ranks 2 --timeline one' \
    'replay --ranks 2 --timeline one' 'replay --ranks 2 --metrics one' 'trace generate --weights --weights-output one --to npy' \
    "explain-trace source/tests/golden/engines/nsys.sqlite --cluster h200 --page one"; do
    $EPTWIN $words --output one; echo "status $?"
done
$EPTWIN step --work experts=1us --cluster h200 --num-ranks 2 --timeline -; echo "status $?"
$EPTWIN step --work experts=1us --cluster h200 --num-ranks 2 --explain --output -; echo "status $?"
ls one
