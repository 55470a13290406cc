# Ranks that mpirun started find each other by PMIx: rank 0 writes the one record.  A rank that fails fails the run.
launch() { mpirun --allow-run-as-root --oversubscribe "$@"; }
launch -n 4 $EPTWIN replay --num-ranks 4 --ranks-per-node 2 --fabric ofi --provider tcp --num-experts 16 \
    --num-tokens 16 --hidden 512 --repeat 2 --output out.csv
echo "exit $?"
ls
grep -E '^# (checks|bootstrap)' out.csv
grep -c ',time_us,' out.csv
rm out.csv
launch -n 2 $EPTWIN replay --num-ranks 4 --num-experts 16 --num-tokens 16 --hidden 512 --output out.csv 2>&1 |
    grep '^eptwin' | sort -u
ls
