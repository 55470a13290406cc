# Records for other programs: CollectiveX's JSON out and in, OpenMetrics of a replay, JSON from Python in one line.
"$EPTWIN" simulate --cluster h800-cx7 --kernel normal --num-ranks 8 --num-tokens 256 --format collectivex --output cx.json
grep -E 'record_type|tokens_per_rank|availability' cx.json | sed 's/"p50": [0-9.]*/"p50": N/'
"$EPTWIN" import cx.json --output - 2>/dev/null | sed 's/,[0-9.]*$/,N/'
# A call is all that it launches: read back, a prediction is right.
for kernel in normal v2 ll nccl-ht nccl-ll hybrid-ep pplx ag-rs; do
    "$EPTWIN" simulate --cluster h100-cx7 --kernel $kernel --num-ranks 16 --num-tokens 16 --format collectivex --output call.json
    "$EPTWIN" import call.json --output call.csv >out.txt
    "$EPTWIN" validate call.csv --cluster h100-cx7 2>&1 >/dev/null | grep -E "^all|predicted" |
        sed -E "s/ +/ /g; s/[-+]0[.]0/0.0/g; s/^/$kernel: /"
done
"$EPTWIN" simulate --cluster h800-cx7 --num-ranks 8 --launch loop --format collectivex | grep -c '"pair_period": {"availability": "derived"'
"$EPTWIN" import source/tests/golden/engines/torch211.json.gz --num-tokens 128 --num-ranks 8 --record cx2.json --format collectivex >out.txt
echo "exit $?" # one rank's profile does not tell the slowest of 8
"$EPTWIN" import source/tests/golden/engines/collectivex.json --case 1 --record cx2.json --format collectivex >out.txt
grep -c '"origin": "eptwin-import"' cx2.json
"$EPTWIN" import source/tests/golden/engines/collectivex.json --output - 2>/dev/null | cut -d, -f2-
sed 's/"status": "success"/"status": "invalid"/' source/tests/golden/engines/collectivex.json >invalid.json
"$EPTWIN" import invalid.json --output never.csv
echo "exit $?"
"$EPTWIN" simulate --cluster h800-cx7 --num-ranks 8 --format yaml
echo "exit $?"
"$EPTWIN" compare cx.json cx.json --format collectivex
echo "exit $?"

# Of a replay: what is told, not how long it took here.
"$EPTWIN" simulate --cluster h800-cx7 --num-ranks 2 --num-tokens 16 --hidden 512 --num-experts 8 --num-topk 2 --output predicted.csv
"$EPTWIN" replay --ranks 2 --num-tokens 16 --hidden 512 --num-experts 8 --num-topk 2 --repeat 2 --waits --metrics run.txt \
    --predicted predicted.csv --output replayed.json --format json
grep '^# TYPE' run.txt
grep -E '^eptwin_(time_seconds|wait_seconds|prediction_error_ratio)\{phase="combine"' run.txt | sed 's/ [^ ]*$/ N/'
tail -n 1 run.txt
"$EPTWIN" replay --ranks 2 --predicted predicted.csv
echo "exit $?"
"$EPTWIN" replay --ranks 2 --metrics run.txt --predicted cx.json
echo "exit $?"

# Where Python is there (else the same words).
if command -v python3 >/dev/null; then
    python3 -c 'import json; rows = json.load(open("replayed.json"))["rows"]; print(sorted({r["phase"] for r in rows}), \
        all(set(r) == {"phase", "rank", "metric", "value", "unit"} for r in rows))'
else
    echo "['combine', 'dispatch'] True"
fi
