# A replay of each kernel family on forked ranks: header, phases and metrics, checks passed, nothing left
# behind.  Values are times of this machine, and what else it did meanwhile; both are left out.
. source/tests/left.sh
small="--num-tokens 16 --hidden 512 --num-topk 4 --repeat 2 --warmup 1"
watched='busy\|cpu-[a-z]*-pct\|cpu-mhz\|run-queue\|disturbed\|iterations-repeated'
shape() {
    sed -e '/^# \(version\|machine\|cpus\|num-sms\):/d' -e "s/^# \($watched\): .*/# \1: VALUE/" \
        -e 's/^\([a-z_0-9]*,[a-z0-9]*,[a-z_0-9]*\),[0-9.e+-]*,/\1,VALUE,/'
}
$EPTWIN replay --ranks 2 --num-experts 8 $small | shape
$EPTWIN replay --ranks 4 --ranks-per-node 2 --num-experts 8 $small --hook --dtype bf16 | shape | grep -E 'checks|,all,time_us,|fabric'
$EPTWIN replay --ranks 4 --num-experts 8 $small --disable-nvlink --format json --output out.json && grep -c '"time_us"' out.json
$EPTWIN replay --kernel normal --num-ranks 4 --num-experts 8 $small --no-check --no-bind | shape | grep -E 'bound|checks|,all,time_us,'
$EPTWIN replay --kernel normal --ranks 4 --num-experts 8 $small --disable-nvlink | grep '^# checks' # over PCIe: no network
$EPTWIN replay --kernel normal --ranks 4 --num-experts 8 $small --disable-nvlink --fabric ofi; echo "status $?"
ls
left
