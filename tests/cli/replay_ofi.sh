# Replays over libfabric's tcp and shm, with each way of signalling: everything that arrives is right.  Then the
# mistakes: a provider that is not there, one without what is asked of it.
. source/tests/left.sh
names() { ls /dev/shm | grep '^eptwin-' | sort; }
before=$(names)
rows() { grep -E '^# (checks|bootstrap|fabric|provider|network-carrier|signalling)|,all,time_us,' "$1" | sed 's/time_us,.*/time_us/'; }
for provider in tcp shm; do
    for signalling in write atomic imm; do
        $EPTWIN replay --ranks 3 --ranks-per-node 1 --num-experts 12 --num-tokens 24 --hidden 1024 --repeat 2 \
            --fabric ofi --provider $provider --signalling $signalling --output out.csv
        echo "exit $?"
        rows out.csv
    done
done
rm out.csv
$EPTWIN replay --ranks 2 --ranks-per-node 1 --num-experts 8 --num-tokens 8 --hidden 512 --fabric ofi \
    --provider warp --output out.csv 2>&1 | sed 's/found .*/found .../'
$EPTWIN replay --ranks 2 --ranks-per-node 1 --num-experts 8 --num-tokens 8 --hidden 512 --fabric ofi \
    --provider tcp --device nowhere --output out.csv 2>&1 | sed 's/found .*/found .../'
ls
# Names that earlier runs left are not ours, and those of other runs go once their ranks have connected.
for try in 1 2 3 4 5; do
    new=$(names | grep -cvxF "$before" || true)
    [ "$new" -gt 0 ] || break
    sleep 1
done
echo "$new names left"
left
