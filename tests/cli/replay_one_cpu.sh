# A machine of one CPU: the kernels' defaults hold there too.
for kernel in normal ll v2; do
    taskset -c "$(taskset -cp $$ | sed 's/.*[ ,-]//')" $EPTWIN replay --ranks 2 --num-experts 8 --num-tokens 8 --hidden 512 \
        --kernel $kernel --warmup 0 --repeat 1 --output out.csv
    echo "exit $?"
    grep -E '^# (num-sms|cpus|checks)' out.csv
done
