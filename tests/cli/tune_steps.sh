# What tune recommends for whole steps: the best of a sweep over the same values, a line that step takes, a time kept.
steps="--net deepseek-v3 --cluster source/models/clusters/h800-cx7.ini --num-ranks 16 --layers 2 --context 1024"
best() { grep -v '^#' "$1" | sort -t, -k"$2" -g -r | head -1 | cut -d, -f"$2"; } # of column $2
bad() { $EPTWIN tune "$@" >out 2>err; echo "exit $?, $(wc -l <out) lines of output"; cat err; }

echo '# decode: batch and schedule, within 60 ms'
$EPTWIN tune $steps --batch 32,128,256 --limit 60ms -j 2 >tuned.txt; cat tuned.txt
$EPTWIN tune $steps --batch 32,128,256 --limit 60ms -j 1 | cmp - tuned.txt && echo same
echo '# prefill: schedule and SMs; as good as the best of all combinations, but for the slack'
prefill="$steps --phase prefill --batch 1024 --cached"
$EPTWIN tune $prefill --max-sms 16 >tuned.txt; sed -n '/tuned/p; /paste/,$p' tuned.txt
$EPTWIN sweep $prefill --schedule sequential,shared,two-batch --num-sms 4:17:4 --output all.csv >/dev/null
awk -v best="$(best all.csv 9)" '$1 == "tuned" { print ($5 >= 0.99 * best && $5 <= 1.001 * best ? "as good" : $0 " " best) }' tuned.txt
$EPTWIN step $prefill $(sed -n 's/^  --/--/p' tuned.txt) -o pasted.csv
ms=$(awk '$1 == "tuned" { print $4 }' tuned.txt)
awk -v ms="$ms" -F, '$1 == "step" && $3 == "time_us" { e = $4 / 1e3 - ms; print (e * e < 1e-4 ? "as told" : $4) }' pasted.csv
echo '# training: its schedules, with normal kernels'
$EPTWIN tune $steps --phase train --batch 256 --max-sms 8 | sed -n '/tuned/p; /paste/,$p'
echo '# backend and redundant experts'
$EPTWIN tune $steps --batch 16 --schedule sequential --backend ibrc,ibgda --redundant 0,32 | sed -n '/tuned/p; /paste/,$p'
echo '# timed work: only schedules of equal ops'
$EPTWIN tune --cluster source/models/clusters/h800-cx7.ini --num-ranks 2 --num-tokens 64 --num-experts 8 --num-topk 2 --hidden 1024 \
    --layers 2 --work attention=1ms,shared=20us | sed -n '/tuned/p; /stages/p; /paste/,$p'
echo '# a value that cannot be says why'
$EPTWIN tune --net qwen3-235b --cluster source/models/clusters/h800-cx7.ini --num-ranks 16 --layers 2 --batch 16 | grep shared

echo '# refused'
bad $steps --limit soon
bad $steps --limit 1ms
bad $steps --context 1024,2048 2>&1
bad $steps --routing uniform,zipf:1
bad $steps --batch 4000,8000
bad $steps --schedule stages
bad --cluster source/models/clusters/h800-cx7.ini --kernel normal --num-ranks 8,16
bad --cluster source/models/clusters/h800-cx7.ini --kernel normal --batch 16
bad --cluster source/models/clusters/h800-cx7.ini --kernel normal --limit 1ms
