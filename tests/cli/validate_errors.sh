# What is wrong with a table is told with its line; bad rows do not stop the others.
cluster=source/models/clusters/h800-cx7.ini
run() {
    $EPTWIN validate "$@" >out 2>err
    echo "exit $?"
    grep -E '^(eptwin|[a-z]+\.csv:)|could not' err
}
good='ll,2,8,2048,16,dispatch,20,'
head='kernel,num-ranks,num-tokens,hidden,num-experts,phase,measured_us,metric'

echo '# bad rows among good ones'
{ echo "$head"
  echo "$good"
  echo 'll,2,0,2048,16,dispatch,20,'
  echo 'll,2,8,2048,16,dispatch,20'
  echo 'll,2,8,2048,16,dispatch,fast,'
  echo 'll,2,8,2048,16,dispatch,-3,'
  echo 'll,2,8,2048,16,dispatch,nan,'
  echo 'll,2,8,2048,16,,20,'
  echo 'll,2,8,2048,16,notify,20,'
  echo 'll,2,8,2048,16,dispatch,20,speed_gbs'
  echo 'll,2,8,2048,17,dispatch,20,'
  echo 'fast,2,8,2048,16,dispatch,20,'
  echo '"ll",2,8,"20
48",16,dispatch,20,'
  echo "$good"; } >cases.csv
run cases.csv --cluster $cluster
awk -F, '{ print NF, $(NF - 3) == "" ? "none" : NR == 1 ? $(NF - 3) : "predicted" }' out

echo '# shares of waiting'
printf 'phase,metric,measured_pct,measured_us\ndispatch,awaited_max_pct,10,\ndispatch,,10,\ndispatch,time_us_max,10,
dispatch,awaited_max_pct,10,20\ndispatch,awaited_max_pct,-1,\ndispatch+combine,awaited_max_pct,10,\n' >cases.csv
run cases.csv --cluster $cluster --hidden 2048 --num-ranks 2 --num-tokens 8

echo '# sums of phases'
printf 'phase,outside_us\ndispatch+\ndispatch+,\ndispatch+notify,\ndispatch+dispatch,\ndispatch,-1\ndispatch,much\n' >cases.csv
run cases.csv --cluster $cluster --hidden 2048 --num-ranks 2

echo '# a row whose trace or traffic cannot be had'
printf 'phase,trace,traffic,num-ranks\ndispatch,none.npy,,\ndispatch,,1|2|3;4,\ndispatch,,,16\n' >cases.csv
run cases.csv --cluster $cluster --hidden 2048 --num-tokens 4

echo '# a simulation that ends its process costs its own rows'
printf 'num-ranks,num-tokens,phase\n2,8,dispatch\n128,16384,dispatch\n128,16384,combine\n2,9,combine\n' >cases.csv
(ulimit -c 0; ulimit -t 3; run cases.csv --cluster $cluster --num-experts 256 -j1) 2>&1 | sed '/^eptwin validate: about/d'

echo '# tables that are none'
run none.csv --cluster $cluster
: >empty.csv;                          run empty.csv --cluster $cluster
echo 'num-ranks,measured_us' >no.csv;  run no.csv --cluster $cluster
echo 'num-ranks,phase' >no.csv;        run no.csv --cluster $cluster
printf 'phase\n"dispatch' >no.csv;     run no.csv --cluster $cluster
printf 'phase\n\ndis"patch\n' >no.csv; run no.csv --cluster $cluster

echo '# arguments'
echo "$head" >cases.csv; echo "$good" >>cases.csv
run
run cases.csv cases.csv --cluster $cluster
run cases.csv
run cases.csv --cluster ./none
run cases.csv --cluster $cluster --by color
run cases.csv --cluster $cluster -j -1
run cases.csv --cluster $cluster --num-ranks two
run cases.csv --cluster $cluster --output no/where.csv
ls

echo '# columns that say the same, or nearly'
printf 'phase,tokens,num-tokens\ndispatch,8,16\n' >cases.csv
run cases.csv --cluster $cluster
printf 'phase,num-rnaks,set\ndispatch,4,x\n' >cases.csv
run cases.csv --cluster $cluster --num-ranks 2 --num-tokens 4 --hidden 512
printf 'phase,measured_us,measured_gbs\ndispatch,4,5\n' >cases.csv
run cases.csv --cluster $cluster --num-ranks 2 --num-tokens 4 --hidden 512
echo '# no row could be predicted: no table'
printf 'num-ranks,kernel,phase,measured_us\n8,ll,dispatch,0\n8,ll,dispatch,0x20\n8,ll,dispatch,1e-300\n' >zero.csv
$EPTWIN validate zero.csv --cluster h200 --output zero.out; echo "status $?"

echo '# a record is no table'
$EPTWIN simulate --cluster $cluster --num-ranks 2 --num-tokens 8 --hidden 512 --num-experts 8 --num-topk 2 --output predicted.csv
run predicted.csv
$EPTWIN diagnose predicted.csv --cluster $cluster; echo "exit $?"
