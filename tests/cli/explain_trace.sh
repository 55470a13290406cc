# DeepSeek's training profile: of one rank's communication at least nine tenths are assigned.
files=source/tests/golden/engines
"$EPTWIN" explain-trace $files/train_ep64.json.gz --cluster h800-cx7 --num-tokens 4096 --output split.csv --page page.html
grep -E '^(communication|dispatch),all,|^combine_layer7,all,' split.csv
grep -c 'Where the time of communication kernels went' page.html

# A profile of one GPU that meets nobody, and one of two devices; what is not said is the user's to say.
"$EPTWIN" explain-trace $files/nsys.sqlite --cluster h100-cx7 --num-tokens 4096 | sed -n '/^Wire/,$p' # more tokens than ran
"$EPTWIN" explain-trace $files/nsys.sqlite --cluster h100-cx7 --num-tokens 64 --format json --output split.json | sed -n '1,6p'
grep -c '"split_wire_us"' split.json

# PyTorch on two GPUs: 12 all-to-alls by NCCL, of which rank 1 comes 0.4 ms late to each.
"$EPTWIN" explain-trace $files/torch_late.rank[01].json.gz --cluster h200 --num-ranks 2 |
    grep -v '^layer'

refused() { "$EPTWIN" "$@"; echo "exit $?"; }
refused explain-trace
refused explain-trace $files/nsys.sqlite
refused explain-trace $files/vllm.pt --cluster h100-cx7
refused explain-trace $files/torch211.json.gz $files/torch211.json.gz --cluster h200
refused explain-trace $files/nsys.sqlite --cluster h100-cx7 --format yaml
refused explain-trace $files/nsys.sqlite --cluster h100-cx7 --output no/such/folder/x.csv
cp $files/nsys.sqlite here.sqlite
refused explain-trace here.sqlite --cluster h100-cx7 --output here.sqlite
refused diagnose $files/train_ep64.json.gz --cluster h800-cx7
refused explain-trace 'rank*.json.gz' --cluster h100-cx7 # a pattern that fits no file

# How many ranks there are is the user's to say, whatever was recorded.
late="$files/torch_late.rank0.json.gz $files/torch_late.rank1.json.gz --cluster h200"
"$EPTWIN" explain-trace $late --num-ranks 4 | sed -n 1,2p
refused explain-trace $late --num-ranks 1
echo '# one call'
cat >one.json <<'END'
{"distributedInfo": {"rank": 0, "world_size": 8, "backend": "nccl"}, "traceEvents": [
{"ph": "X", "cat": "kernel", "name": "void deep_ep::internode_ll::dispatch<true, false, 7168>(...)", "pid": 0, "tid": 7,
 "ts": 100, "dur": 63, "args": {"device": 0, "stream": 7}}]}
END
"$EPTWIN" explain-trace one.json --cluster h800-cx7 --num-tokens 128 | head -1

# A serving profile with two families: a prediction of one is not held against the other.  Another library's kernel is
# predicted where --kernel says which it is.
calls() {
    python3 -c '
import json, sys
events, at = [], 100
for name in sys.argv[1:] * 5:
    name, us = name.split("@")
    events.append({"ph": "X", "cat": "kernel", "name": name, "ts": at, "dur": float(us), "pid": 0, "tid": 7,
                   "args": {"device": 0, "stream": 7, "grid": [16, 1, 1]}})
    at += float(us)
json.dump({"distributedInfo": {"rank": 0, "world_size": 8}, "traceEvents": events}, sys.stdout)' "$@"
}
calls 'deep_ep::intranode::dispatch<8, 768>@900' 'deep_ep::internode_ll::dispatch<true, 7168>@40' >two.json
"$EPTWIN" explain-trace two.json --cluster h100 --num-tokens 64 | sed -n '/^all/,$p'
"$EPTWIN" explain-trace two.json --cluster h100 --num-tokens 4096 --kernel normal | sed -n '/^layer [01]/p; /^all/,$p'
refused explain-trace two.json --cluster h100 --kernel v2
refused explain-trace $late --kernel alltoallv
calls nccl_ep_jit_ht_dispatch_1@60 nccl_ep_jit_ht_combine_1@40 >nccl.json
"$EPTWIN" explain-trace nccl.json --cluster h100 --num-tokens 64 | sed -n '/^all/,$p'
"$EPTWIN" explain-trace nccl.json --cluster h100 --num-tokens 64 --kernel nccl-ht | sed -n '/^dispatch/p; /^all/,$p'
echo '# so it is for import'
for more in '' '--kernel nccl-ht --num-tokens 64'; do "$EPTWIN" import nccl.json $more 2>/dev/null | sed -n 1,2p; done

# A profile of another GPU than the cluster's; what names the GPU cannot move the cursor.
"$EPTWIN" explain-trace $late --cluster h20-cx7 2>&1 | head -1
sed 's/"traceEvents"/"deviceProperties": [{"id": 0, "name": "NVIDIA \\u001b[31m H100"}], &/' one.json >device.json
"$EPTWIN" explain-trace device.json --cluster h800-cx7 --num-tokens 128 2>&1 | head -2

# A profile whose download broke off.
head -c 3000 $files/torch_late.rank0.json.gz >cut.json.gz
refused explain-trace cut.json.gz --cluster h200
: >empty.json
refused explain-trace empty.json --cluster h200
