# Eight rows of 64 ranks with eight numbers of SMs: the first answer takes at most 10 s of CPU, and is the right one.
most=10
grep -q __asan_init "$EPTWIN" && most=120
rows() {
    echo num-ranks,kernel,cached,dtype,num-sms,phase,measured_gbs
    for sms in 10 12 14 16 18 20 22 24; do echo "$1,normal,true,fp8,$sms,dispatch,$2"; done
}
rows 64 9 >many.csv
(ulimit -t $most; $EPTWIN diagnose many.csv --cluster h100-cx7 --jobs 1 --first --output first.csv) |
    sed -nE -e 's/^1\. .*\((.*)\)$/named \1/p' -e '/^The first answer/p'
sed -n '1p;$p' first.csv | cut -d, -f1,2
echo '# without --first it is a line on standard error, and all rows follow'
rows 16 2.2 | sed 's/^16,\(.*\),dispatch/16,\1,dispatch/; s/num-sms/num-tokens,num-sms/; s/^\(16,normal,true,fp8\),/\1,1024,/' >some.csv
$EPTWIN diagnose some.csv --cluster h100-cx7 --most 1 >all.txt 2>line.txt
sed -E 's/rows in small: .*/rows in small: .../' line.txt
sed -nE 's/^([0-9]+ rows), off by .*/\1/p' all.txt
sed -nE 's/^1\. .*\((.*)\)$/named \1/p' all.txt
echo '# a table that is quick to predict has one answer'
head -2 some.csv | sed 's/,1024,/,64,/' | $EPTWIN diagnose - --cluster h100-cx7 --first --most 1 | grep -c -e '^1\. ' -e 'first answer'
