# Steps over values of options: from which batch on two batches pay, whether balancing does; as CSV; what cannot be.
step="$EPTWIN step --net deepseek-v3 --cluster source/models/clusters/h800-cx7.ini --num-ranks 16 --layers 2"
bad() { $step "$@" >out 2>err; echo "exit $?, $(wc -l <out) lines of output"; cat err; }

echo '# two batches'
$step --context 1024 --over batch=16,128,256 --over schedule=sequential,stages --format text
echo '# balancing'
$step --batch 64 --context 1024 --over routing=zipf:0.8,uniform --format text
echo '# CSV; a point that cannot be; the same for any number of threads'
$step --over batch=64:4097:x8 -j 1 >one.csv
$step --over batch=64:4097:x8 -j 3 >three.csv
cmp one.csv three.csv && cut -d, -f1-4,12 one.csv
bad --over batch
bad --over batches=1,2
bad --over batch=
bad --over batch=1,,2
bad --over batch=1:5000 --over context=1:5000
bad --over batch=1,2 --explain
