# Which DeepEP: by commit, date or name.  An older one has other chunks, QPs and transports where the case says none.
chunks() { sed -nE 's/^# (backend|disable-nvlink|(combine-)?(nvl|rdma)-chunk): /\1 /p' | tr '\n' ' '; echo; }
normal='simulate --cluster h800-cx7 --kernel normal --cached --num-ranks 32 --num-tokens 512'
for which in first a84a248 before-ibgda ibgda 2025-07-04 2025-07-10 forwarders dd758ca 2026-07-14; do
    $EPTWIN $normal --deepep $which --output $which.csv && echo "$which: $(chunks <$which.csv)"
done
echo '# what a version does by itself is said like any option, and given options win'
$EPTWIN $normal --deepep first --backend ibgda --nvl-chunk 12 --output given.csv && chunks <given.csv
for which in before-ll-nvlink ll-nvlink; do
    $EPTWIN simulate --cluster h800-cx7 --num-ranks 16 --deepep $which --output ll-$which.csv && chunks <ll-$which.csv
done
echo '# the same commit by date and name gives the same; the newest gives what no option gives'
time_of() { sed -n "s/^$1,all,time_us,\([0-9.]*\),.*/\1/p" $2; }
$EPTWIN $normal --output newest.csv
for phase in dispatch combine; do
    [ "$(time_of $phase first.csv)" = "$(time_of $phase a84a248.csv)" ] && echo "$phase: first is a84a248"
    [ "$(time_of $phase first.csv)" = "$(time_of $phase before-ibgda.csv)" ] && echo "$phase: first is before-ibgda"
    [ "$(time_of $phase newest.csv)" = "$(time_of $phase dd758ca.csv)" ] && echo "$phase: newest is dd758ca"
    awk -v old="$(time_of $phase first.csv)" -v new="$(time_of $phase newest.csv)" -v p=$phase \
        'BEGIN { print p ": the first takes " (old > 1.03 * new ? "longer" : "no longer, " old " against " new) }'
done
echo '# a log and a table of cases say it, too; different versions are different cases'
log=source/tests/cli/import/deepep_internode.log
$EPTWIN import $log --num-ranks 16 --deepep a84a248 --output measured.csv >import.txt
sed -n '1s/.*,\(deepep\),.*/column \1/p' measured.csv
grep -c ',a84a248,' measured.csv
printf 'kernel,num-ranks,cached,deepep,phase,measured_us\nnormal,16,true,a84a248,dispatch,100\nnormal,16,true,nosuch,dispatch,100\n' |
    $EPTWIN validate - --cluster h800-cx7 --output validated.csv | tail -0
cut -d, -f1-5 validated.csv
$EPTWIN compare first.csv newest.csv | grep -i 'deepep'
echo '# what a version did not have, or is none'
$EPTWIN simulate --cluster h800-cx7 --num-ranks 16 --logfmt --deepep 2025-08-06; echo "exit $?"
$EPTWIN simulate --cluster h800-cx7 --num-ranks 16 --zero-copy --deepep first; echo "exit $?"
$EPTWIN simulate --cluster h800-cx7 --num-ranks 16 --kernel v2 --deepep before-v2; echo "exit $?"
for which in nosuch 2025-02-24 2025-02-30 before-first 1234567 ''; do
    $EPTWIN simulate --cluster h800-cx7 --num-ranks 16 --deepep "$which" 2>&1 | sed 's/expected .*, found/expected ..., found/'
done
