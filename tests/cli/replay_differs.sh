# Ranks that were started with other options, however long, find out before anything runs, in replay and in measure.
umask 077
echo "the secret of this run" >secret
pair() { # COMMAND COMMON OPTION0 OPTION1
    local port=$((20000 + RANDOM % 12000)) rank
    for rank in 0 1; do
        $EPTWIN $1 --rank $rank --world-size 2 --root 127.0.0.1:$port --secret-file secret --timeout 20 $2 \
            $(((rank == 0)) && echo "$3" || echo "$4") --output out.csv >log$rank 2>&1 &
        eval "pid$rank=\$!"
    done
    for rank in 0 1; do
        eval "wait \$pid$rank"
        echo "rank $rank: exit $?"
        sed -E 's/SHA-256 [0-9a-f]+/SHA-256 .../g' log$rank
    done
}
# matrix LAST: two ranks, 2000 experts; few enough tokens go to each.
matrix() { printf '1%.0s|' $(seq 1999); printf "$1;"; printf '1|%.0s' $(seq 1999); printf 1; }
small="--num-topk 1 --num-tokens 2001 --hidden 512 --num-experts 2000 --num-sms 8"
pair replay "$small --repeat 1" "--traffic $(matrix 1)" "--traffic $(matrix 2)"
pair replay "$small --repeat 1 --traffic $(matrix 1)" "--warmup 1" "--warmup 2"
pair measure "--sample-ms 1" "--repeat 1" "--repeat 2"
pair measure "--sample-ms 1 --repeat 1" "--timeout 20" "--timeout 21"
ls
