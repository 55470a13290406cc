# pplx from the command line: predicted in a node and between nodes, replayed with real bytes, refused, its sheet and
# what posts for it.
$EPTWIN simulate --cluster h100-cx7 --kernel pplx --backend fabric-lib --num-ranks 16 --num-tokens 128 --format text |
    sed -n '1,9p'
echo '-- its kernels apart'
$EPTWIN simulate --cluster h100 --kernel pplx --num-tokens 128 --hook | awk -F, '$2 == "all" && $3 == "time_us" { print $1 }'
echo '-- more rows than fit at first go later'
$EPTWIN simulate --cluster p5en --kernel pplx --backend fabric-lib-efa --num-ranks 16 --num-tokens 2048 |
    awk -F, '$2 == "all" && $3 == "time_us" { print $1, $4 }'
echo '-- by the NIC alone'
$EPTWIN simulate --cluster h100-cx7 --kernel pplx --backend fabric-lib --num-ranks 8 --num-tokens 128 --disable-nvlink |
    awk -F, '$2 == "all" && $3 == "physical_nvl_gbs" { print $1, $3, $4 }'
echo '-- replayed'
for more in "--ranks-per-node 2 --num-tokens 300" "--ranks-per-node 4 --num-tokens 300 --hook" "--ranks-per-node 1 --num-tokens 8"; do
    $EPTWIN replay --ranks 4 --kernel pplx --hidden 512 --num-experts 16 --num-topk 4 --num-sms 12 $more \
        --output out.csv 2>log || cat log
    grep -E '^# checks' out.csv
done
echo '-- refused'
try() { $EPTWIN simulate --cluster h100-cx7 --num-tokens 64 --kernel pplx "$@"; echo "exit $?"; }
try --zero-copy
try --num-experts 520
try --num-ranks 264 --num-experts 264
$EPTWIN kernel show PPLX_SUM
$EPTWIN cluster backends | grep fabric-lib
$EPTWIN which --cluster h100-cx7 --num-ranks 16 --num-tokens 128 --kernel pplx 2>&1 | sed "s,^.*clusters/,,"
