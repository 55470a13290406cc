# A machine measured by the call (`call` in its cluster file): the call's time counts with the normal kernels that move
# rows, once each, and with nothing else.
file=source/models/clusters/gb200.ini
cp -r source/models/clusters/parts .
grep -v '^call = ' $file >kernels.ini
sed 's/^call = .*/call = 16 us/' $file >calls.ini
times() { $EPTWIN simulate --cluster "$1" --num-ranks 4 --num-tokens 64 --hidden 1024 --num-experts 32 $2 |
    awk -F, '$2 == "all" && $3 == "time_us" { print $1, $4 }'; }

for kernel in "--kernel normal" "--kernel ll"; do
    echo "# $kernel"
    times kernels.ini "$kernel" >kernels
    times calls.ini "$kernel" | paste -d' ' - kernels | awk '{ printf "%s %.3f us more\n", $1, $2 - $4 }'
done
