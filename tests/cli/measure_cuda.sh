# GPUs are measured where a driver is; where none is, and for what cannot be, there is one line and no record.
# A folder without a driver stands in for machines that have one.
LD_LIBRARY_PATH=$PWD
export LD_LIBRARY_PATH
printf 'no library' >libcuda.so.1
for options in '' '--quick --ranks 4' '--only launch' '--only nothing' '--repeat 0' '--output no/folder/gpus.csv'; do
    "$EPTWIN" measure --fabric cuda --output gpus.csv $options
    echo "exit $?"
done
"$EPTWIN" measure --quick
echo "exit $?"
"$EPTWIN" measure --only launch --fabric verbs
echo "exit $?"
"$EPTWIN" replay --fabric cuda --trace x
echo "exit $?"
ls
