# What every command shares: one form of help and errors, names that were nearly right, -j4, help that ends with 0.
for command in probe simulate sweep tune measure fit replay import compare validate diagnose report 'trace slice'; do
    $EPTWIN $command --help >help.txt || echo "$command: status $?"
    head -1 help.txt
    awk -v command="$command" 'length($0) > 118 { print command ": wide: " $0 }' help.txt
    grep -c -- '-h, --help  *Explain the command' help.txt
done
echo '# nearly right'
for words in 'simulate --num-rnaks 4' 'simulate --tokens 3' 'compare --max-eror 3' 'trace inf' 'cluster shw' 'repot' 'fit --frobnicate' \
             'trace slice --step 2'; do
    $EPTWIN $words; echo "status $?"
done
echo '# values'
for words in 'sweep --top x' 'simulate --cluster' 'sweep --top 99999999999' 'compare --max-error=much a b' 'tune -j2 more' 'measure more' \
             'simulate --hook=7' 'trace generate x.ept --num-ranks 010' 'sweep -j 0x2' 'which --jobs 0' 'tune --slack nan' \
             'diagnose --most 0 x.csv' 'compare --max-error 1e400 a b' 'step --batch 032 --net deepseek-v3 --num-ranks 8' \
             'simulate --num-ranks 2 --cluster h200 --set gpu.sms=0132' \
             'step --clock 0x1 --net deepseek-v3 --num-ranks 8 --cluster h200' \
             'which --num-ranks 8 --cluster h200 --at-tokens 010' 'which --num-ranks 8 --cluster h200 --at-ranks 8,016' \
             'sweep --num-ranks 2 --cluster h200 --num-tokens 08:16:4' 'sweep --num-ranks 2 --cluster h200 --shard 01/2' \
             'simulate --kernel allgather --num-ranks 8 --cluster h200 --size 064' \
             'simulate --num-ranks 2 --cluster h200 --tokens-per-rank 8|08' 'cluster new --gpu h200 --nic 08x400G' \
             'simulate --num-ranks 2 --cluster h200 --routing zipf:0x1' 'simulate --num-ranks 2 --cluster h200 --seed 07' \
             'simulate --num-ranks 2 --cluster h200 --output=' 'diagnose --list x.csv' \
             'which --num-ranks 8 --cluster h200 --mask-timeout 3' 'which --num-ranks 8 --cluster h200 --fail 1'; do
    $EPTWIN $words; echo "status $?"
done
echo '# help that cannot be written'
$EPTWIN simulate --help >/dev/full; echo "status $?"
