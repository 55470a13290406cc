# A step's layers on streams, live: rows of each op and phase, checks of both batches passed; a prediction has the
# rows too.  Values are times of this machine, and left out.
. source/tests/left.sh
case="--num-ranks 2 --num-tokens 16 --hidden 512 --num-topk 4 --num-experts 8"
work="--work attention=200us,shared=100us,experts=2us"
rows() {
    grep -E '^(# (schedule|work|layers-simulated|iterations-counted|checks):|[a-z])' "$1" |
        sed 's/\(_us[a-z_]*\),[0-9.e+-]*,/\1,VALUE,/'
}
$EPTWIN replay $case --schedule sequential $work --schedule-layers 2 --repeat 3 --warmup 1 --output one.csv && rows one.csv
for more in 'two-batch' 'two-batch --kernel normal' 'shared' 'sequential --kernel v2' 'shared --ranks-per-node 1 --fabric shm' \
    'two-batch --num-ranks 4 --ranks-per-node 2'; do
    $EPTWIN replay $case --schedule $more $work --repeat 2 --warmup 1 --output more.csv
    echo "exit $?: $more"
    rows more.csv | grep -E 'checks|^(step,all,time_us,|shared|[a-z_]*,all,waiting_us)'
done
$EPTWIN replay $case --schedule stages --work project=100us,core=100us,experts=2us --repeat 2 --warmup 1 --output more.csv &&
    rows more.csv | grep -E 'checks|^(project|core|[a-z_]*recv,all,waiting_us)'

# The work takes as long as it was told to, and rows of experts count: no rank has none here.
awk -F, '$1 == "attention" && $3 == "time_us" { print "attention: " ($4 >= 200 ? "no" : "") " less than asked for" }' one.csv
awk -F, '$1 == "experts" && $3 == "time_us" { print "experts: " ($4 >= 2 * 64 ? "no" : "") " less than for 64 rows" }' one.csv

echo '# it is compared with a prediction of that step alone'
for more in '--layers 2' '--layers 3'; do
    $EPTWIN step $case --cluster h200 $work --ranks-per-node 2 $more --output two.csv
    $EPTWIN compare two.csv one.csv 2>&1 | sed -nE 's/^(A step) takes .*/\1/p; s/.*(layers-simulated[^)]*).*/\1/p'
done
$EPTWIN simulate $case --cluster h200 --ranks-per-node 2 --output lone.csv && $EPTWIN compare lone.csv one.csv >text 2>&1; echo "exit $?"

bad() { $EPTWIN replay $case --output left.csv "$@" 2>&1; echo "exit $?"; }
bad --schedule sequential
bad $work
bad --schedule both $work
bad --schedule sequential --work experts=2
bad --schedule sequential --work head=2us,head=3us
bad --schedule sequential --work dense=2us
bad --schedule stages --kernel normal --work project=1us,core=1us
bad --schedule stages $work
bad --schedule two-batch --hook $work
bad --schedule sequential $work --waits
bad --schedule sequential $work --schedule-layers -1
bad --schedule-layers 3
bad --schedule sequential $work --kernel p2p
ls
left
