# Loads on the GPU beside dispatch and combine: arithmetic slows nothing, copies slow combine most; what cannot be.
run="$EPTWIN simulate --cluster source/models/clusters/h100-cx7.ini --num-ranks 2 --num-tokens 4096 --num-experts 256"
normal="--kernel normal --cached --num-sms 24"
times() { grep -E '^(dispatch|combine),all,time_us,' | cut -d, -f1,4; }
bad() { $run "$@" >out 2>err; echo "exit $?, $(wc -l <out) lines of output"; cat err; }

for compute in 100us copy:1300GB/s copy:2600GB/s read:2600GB/s; do
    echo "# $compute"
    $run $normal --compute $compute | times
done
echo '# in the L2: on SMs that share no pair with the kernels, and on more'
for compute in 'read:3100GB/s:l2 --compute-sms 24:56' 'copy:3100GB/s:l2 --compute-sms 24:56' read:6000GB/s:l2 \
    copy:4200GB/s:l2; do
    # shellcheck disable=SC2086  # words
    $run $normal --compute $compute 2>note | times
    cat note
done
echo '# on few SMs; low latency; V2'
$run $normal --compute copy:500GB/s --compute-sms 24:32 | times
$run --kernel ll --num-tokens 128 --num-sms 64 --compute copy:1300GB/s | times
$run --kernel v2 --num-sms 24 --compute copy:2600GB/s | times
echo '# GEMMs by shape: memory, and a lower clock'
$run $normal --compute gemm:8192x8192x8192 | times
$run $normal --compute grouped:32x256x7168x4096 | times
$run $normal --compute grouped:32x256x7168x4096:fp8 | times
echo '# GEMMs in turn, and how much longer they take; on SMs of their own'
$run $normal --compute grouped:32x256x7168x4096+grouped:32x256x2048x7168 | grep -E '^(dispatch|combine),all,(time_us|compute_.*),'
$run $normal --compute gemm:8192x8192x8192 --compute-sms 24:124 | grep compute_slowdown
$run $normal --compute gemm:8192x8192x8192 --format text | grep 'as long as alone'
echo '# in one stream each kernel waits as it does alone: by its own bytes'
for launch in barrier stream; do
    $run $normal --compute copy:1900GB/s --launch $launch | times
done
echo '# the record says it'
$run $normal --compute copy:500GB/s --compute-sms 24:32 | grep '^#.*compute'
echo '# what it does to the load, on more SMs and on fewer; in words'
for sms in 24:124 24:32; do
    $run $normal --compute copy:500GB/s --compute-sms $sms | grep compute_slowdown
done
$run $normal --compute read:1900GB/s --compute-sms 24:56 --format text | grep 'as long as alone'
echo '# of several layers: a mean; in one stream no row twice'
$EPTWIN trace generate t.ept --num-ranks 2 --num-experts 16 --num-topk 4 --num-tokens 256 --layers 2
layers="$EPTWIN simulate --cluster source/models/clusters/h100-cx7.ini --kernel normal --cached --trace t.ept --layers all"
$layers --compute copy:1900GB/s --launch stream --output layers.csv
grep compute_slowdown layers.csv
grep -v '^#' layers.csv | cut -d, -f1-3 | sort | uniq -d
$layers --compute copy:1900GB/s --format text | grep 'as long as alone'
echo '# what is not known is said'
$run $normal --compute write:2800GB/s --compute-sms 24:124 2>&1 >write.csv
bad $normal --compute half
bad $normal --compute gemm:8192x8192
bad $normal --compute grouped:32x256x7168x0
bad $normal --compute gemm:8192x8192x8192+copy:500GB/s
bad $normal --compute copy:0GB/s
bad $normal --compute copy:l2
bad $normal --compute copy:0GB/s:l2
bad $normal --compute 100us:l2
bad $normal --compute read:500GB/s:l1
bad $normal --compute copy:500GB/s --compute-sms 0:133
bad $normal --compute-sms 24:32
bad $normal --compute copy:500GB/s --compute-sms 0:120
bad --kernel ll --num-tokens 128 --compute copy:500GB/s
bad --cluster source/models/clusters/b200.ini $normal --compute copy:500GB/s
echo '# kernels beside which no load can be'
for kernel in one-sided ag-rs; do
    bad --kernel $kernel --ranks-per-node 2 --num-tokens 64 --compute 100us
done
