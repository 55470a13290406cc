# Profiles: DeepSeek's training trace, one of PyTorch 2.11, an export of Nsight Systems (tests/golden/engines).
files=source/tests/golden/engines
"$EPTWIN" import $files/train_ep64.json.gz --num-tokens 4096 --output train.csv
cut -d, -f2-5,8,10-12,14- train.csv
"$EPTWIN" import $files/torch211.json.gz --output - 2>/dev/null | cut -d, -f2-
"$EPTWIN" import $files/nsys.sqlite --per-rank --output - 2>/dev/null | cut -d, -f2- | sed -n '1,2p;8p'
"$EPTWIN" import $files/train_ep64.json.gz --num-tokens 4096 --hidden 7168 --record record.csv --case 2 >/dev/null ||
    "$EPTWIN" import $files/torch211.json.gz --num-tokens 128 --num-ranks 8 --record record.csv >/dev/null
grep -E '^[a-z0-9_]+,(0|all),time_us,' record.csv

# An event that a file has twice, as joined files do, counts once.
gzip -dc $files/torch211.json.gz | python3 -c '
import json, sys
profile = json.load(sys.stdin)
profile["traceEvents"] += [e for e in profile["traceEvents"] if e.get("cat") == "kernel"]
json.dump(profile, sys.stdout)' >joined.json
rows() { "$EPTWIN" import "$1" --output - 2>/dev/null | cut -d, -f2-; }
rows joined.json | diff - <(rows $files/torch211.json.gz) && echo "once"

# Refused in one line.
bad() { "$EPTWIN" import "$1" --output never.csv; echo "exit $?"; }
gzip -dc $files/torch211.json.gz >whole.json
head -c 50000 whole.json >cut.json
bad cut.json
sed 's/"ts": 4586147346518.270/"ts": "now"/' whole.json >text.json
bad text.json
echo '{"schemaVersion": 1, "traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, "dur": 1}]}' >host.json
bad host.json
sed 's/deep_ep/other/; s/internode_ll/x/' whole.json >silent.json
bad silent.json
echo '{"schemaVersion": 1, "traceEvents": 7}' >events.json
bad events.json
echo '{"schemaVersion": 1, "traceName": "x"}' >none.json
bad none.json
head -c 5000 $files/nsys.sqlite >cut.sqlite
bad cut.sqlite
head -c 20000 $files/torch211.json.gz >cut.json.gz
bad cut.json.gz
ls
