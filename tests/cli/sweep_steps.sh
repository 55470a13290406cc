# Sweeps of whole steps: from which batch on two batches pay, whether balancing does; the file, the page; what cannot be.
steps="--net deepseek-v3 --cluster source/models/clusters/h800-cx7.ini --num-ranks 16 --layers 2 --context 1024"
bad() { $EPTWIN sweep "$@" --output bad.csv >out 2>err; echo "exit $?, $(wc -l <out) lines of output"; cat err; rm -f bad.csv*; }

echo '# from which batch on do two batches pay?'
$EPTWIN sweep $steps --batch 16,256,384 --schedule sequential,stages --compare schedule --output pays.csv --html pays.html
grep -c '<svg' pays.html
echo '# does balancing pay?'
$EPTWIN sweep $steps --routing zipf:0.8 --batch 16,64 --placement identity,eplb:32 --compare placement --output balance.csv
echo '# what the table calls the same is not better'
$EPTWIN sweep --net qwen3-235b ${steps#* * } --context 4096 --routing zipf:0.8 --batch 16,32 --redundant 0,16 --compare redundant \
    --output same.csv
echo '# tokens a second by batch; a step is what eptwin step says'
$EPTWIN sweep $steps --batch 16,256 --schedule sequential,stages --best step.tokens_per_s_gpu --output more.csv
$EPTWIN step $steps --batch 16 --schedule stages -o one.csv
awk -F, -v us="$(grep '^step,all,time_us,' one.csv | cut -d, -f4)" '$2 == 16 && $3 == "stages" { print ($6 == us ? "same" : $6) }' more.csv

echo '# the file; a point that cannot be; the same for any number of threads'
$EPTWIN sweep $steps --batch 64:4097:x8 -j 1 --output serial.csv | tail -1
$EPTWIN sweep $steps --batch 64:4097:x8 -j 3 --output threads.csv >/dev/null
cmp serial.csv threads.csv && grep -v version serial.csv | cut -d, -f1-6,15-
echo '# draws: a range; two nets; timed work in place of a net'
$EPTWIN sweep $steps --batch 16,32 --spread 2 --jitter 1 --draws 3 --output draws.csv >/dev/null
awk -F, '/,step,/ { print $2, ($6 < $5 && $5 < $7 ? "within its draws" : $0) }' draws.csv
$EPTWIN sweep --net deepseek-v3,qwen3-235b --cluster source/models/clusters/h200.ini --num-ranks 8 --layers 2 --batch 16 \
    --output nets.csv | cut -c1-30
$EPTWIN sweep --work attention=1ms,experts=20us --num-experts 16 --num-topk 4 --cluster source/models/clusters/h800-cx7.ini \
    --num-ranks 8 --num-tokens 64,128 --output work.csv | cut -c1-30

echo '# refused'
bad --cluster source/models/clusters/h800-cx7.ini --batch 1,2
bad $steps --batch 1,0
bad $steps --batch 1,none
bad $steps --batch 1,,2
bad $steps --batches 1,2
bad $steps --batch 1:5000 --context 1:9000 --redundant 0:32
bad $steps --batch 1,2 --compare schedule
bad $steps --batch 1,2 --best dispatch.slowest_us
bad $steps --num-topk 4,8
bad $steps --schedule both,none
bad --net nothing,neither --cluster source/models/clusters/h800-cx7.ini
bad --work '' --cluster source/models/clusters/h800-cx7.ini --num-ranks 8
bad --work attention=1ms,attention=1ms --cluster source/models/clusters/h800-cx7.ini --num-ranks 8,16
bad --work attention=1ms,experts=20us --schedule stages,both --cluster source/models/clusters/h800-cx7.ini --num-ranks 8
bad --work attention=1ms --net deepseek-v3 --cluster source/models/clusters/h800-cx7.ini --num-ranks 8,16
cp pays.csv other.csv && sed -i 's/^# net: .*/# net: kimi-k2/' other.csv
$EPTWIN sweep $steps --batch 16,256,384 --schedule sequential,stages --output other.csv; echo "status $?"
sed -i 's/tokens_per_s_gpu/tokens/' pays.csv && $EPTWIN sweep show pays.csv; echo "status $?"
