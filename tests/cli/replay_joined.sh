# Ranks that were started one by one join by TCP and replay; whoever has another secret, number of ranks or trace does not,
# and both ends say why.  Ports are left out of the messages.
port=$((20000 + RANDOM % 12000))
umask 077
echo "the secret of this run" >secret
echo "another one, as long" >other
rank() {    # NUMBER SECRET RANKS OPTION...
    number=$1 secret=$2 world=$3
    shift 3
    $EPTWIN replay --rank "$number" --world-size "$world" --root 127.0.0.1:$port --secret-file "$secret" \
        --ranks-per-node 1 --fabric ofi --provider tcp --num-tokens 16 --hidden 512 --repeat 1 \
        --output "out$number.csv" "$@" >"rank$number" 2>&1
    echo "exit $?" >>"rank$number"
}
tell() {
    wait
    for number; do sed -E "s/^/rank $number: /; s/(127.0.0.1):[0-9]+/\1:PORT/g; s/[0-9a-f]{64}/DIGEST/g" "rank$number"; done
    port=$((port + 1))
}
echo 'three ranks, one run'
for number in 0 1 2; do rank $number secret 3 --num-experts 12 & done
tell 0 1 2
ls out*.csv
grep -E '^# (checks|bootstrap|num_ranks|ranks)' out0.csv
rm out*.csv
echo 'another secret'
rank 0 secret 2 --num-experts 8 --timeout 3 & rank 1 other 2 --num-experts 8 --timeout 3 & tell 0 1
echo 'another number of ranks'
rank 0 secret 2 --num-experts 8 & rank 1 secret 3 --num-experts 12 & tell 0 1
echo 'another trace'
samples=source/traces/samples
rank 0 secret 2 --trace $samples/prefill_ep8.npy.zst & rank 1 secret 2 --trace $samples/decode_ep64.ept & tell 0 1
echo 'nobody there'
rank 1 secret 2 --num-experts 8 --timeout 1 & tell 1
ls out*.csv 2>/dev/null
