# A public thread's numbers and the cause that it ended with; what cannot be diagnosed is refused.
threads=source/tests/accuracy/threads
$EPTWIN diagnose $threads/h200_no_gdrcopy.csv --cluster h100-cx7 --most 1 | sed -n '/^1\./,/change:/p' | grep -v explains
$EPTWIN diagnose
echo "exit $?"
$EPTWIN diagnose $threads/h20_one_nic.csv
echo "exit $?"
printf 'phase,num-ranks\ndispatch,8\n' | $EPTWIN diagnose - --cluster h100-cx7
echo "exit $?"
printf 'phase,num-ranks,measured_us\nnosuch,8,100\n' | $EPTWIN diagnose - --cluster h200
echo "exit $?"
$EPTWIN diagnose --list | grep -c '^[a-z]'
