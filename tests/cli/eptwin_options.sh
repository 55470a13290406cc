# What every command shares: one form of help and errors, names that were nearly right, -j4, help that ends with 0.
for command in probe simulate sweep tune measure fit replay import compare validate diagnose report 'trace slice'; do
    $EPTWIN $command --help >help.txt || echo "$command: status $?"
    head -1 help.txt
    awk -v command="$command" 'length($0) > 118 { print command ": wide: " $0 }' help.txt
    grep -c -- '-h, --help  *Explain the command' help.txt
done
echo '# nearly right'
for words in 'simulate --num-rnaks 4' 'simulate --tokens 3' 'compare --max-eror 3' 'trace inf' 'cluster shw' 'repot' 'fit --frobnicate' \
             'trace slice --step 2'; do
    $EPTWIN $words; echo "status $?"
done
echo '# values'
for words in 'sweep --top x' 'simulate --cluster' 'sweep --top 99999999999' 'compare --max-error=much a b' 'tune -j2 more' 'measure more' \
             'simulate --hook=7'; do
    $EPTWIN $words; echo "status $?"
done
echo '# help that cannot be written'
$EPTWIN simulate --help >/dev/full; echo "status $?"
