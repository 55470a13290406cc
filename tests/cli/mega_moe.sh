# MegaMoE from the command line: predicted, refused, replayed with real bytes, and its lines in the sheets.
run() { echo "-- $*"; "$EPTWIN" "$@"; echo "status $?"; }

case="--kernel mega-moe --num-ranks 4 --hidden 512 --intermediate 256 --num-experts 16 --num-topk 4"
run simulate --cluster gb200-nvl72 --kernel mega-moe --num-ranks 8 --num-tokens 64 --num-experts 384 --num-topk 6 \
    --intermediate 3072 --routing strided --format text | head -n 11
for refused in '--dtype bf16' '--hidden 128' '--intermediate 100' '--num-sms 7' '--num-ranks 8 --ranks-per-node 4' \
               '--disable-nvlink' '--cached' '--kernel ll --intermediate 256' '--deepgemm 2026-05'; do
    # shellcheck disable=SC2086
    run simulate --cluster gb200 $case $refused
done
# shellcheck disable=SC2086
run simulate --cluster h20 $case --output /dev/null
# shellcheck disable=SC2086
"$EPTWIN" replay $case --num-tokens 20 --num-sms 4 --repeat 3 --warmup 1 --data random --no-bind >replayed.csv
echo "replay: status $?"
grep -E 'checks|^mega_moe[a-z_]*,all,time_us,' replayed.csv | sed 's/,time_us,.*/,time_us/'
# shellcheck disable=SC2086
"$EPTWIN" replay $case --deepgemm 2026-04 --num-tokens 20 --num-sms 4 --no-bind | grep checks
run kernel show MEGA_MULTIPLY
run which --cluster gb200 --num-ranks 4 --num-tokens 8 --num-experts 16 --kernel mega-moe 2>&1 | sed "s,^.*clusters/,,"
