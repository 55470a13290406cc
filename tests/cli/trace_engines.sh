# Routing as engines keep it (tests/golden/engines says who wrote each file): the same choices, whatever the form.
files=source/tests/golden/engines
text() { "$EPTWIN" trace convert "$@" - --to csv; echo "exit $?"; }
text $files/vllm.pt | tee vllm.csv
for file in $files/plain.npz vllm:$files/packed.npz $files/replay.pt $files/replay_static.pt routed@4:$files/sglang.jsonl; do
    text $file | cmp - vllm.csv && echo "$(basename $file): the same choices"
done
text $files/routed.jsonl | grep -c '^0,'
text $files/verl.pt >verl.csv
grep -c '^0,' verl.csv
text $files/verl_u8.pt | cmp - verl.csv && echo 'uint8: the same choices'

# A rank a file of SGLang's recorder; its places that no token uses are not top-k.
text $files/per_token_0.pt
"$EPTWIN" trace merge $files/per_token_0.pt $files/per_token_1.pt group.ept --by ranks --experts 16
"$EPTWIN" trace info group.ept | sed -n '2,8p'
"$EPTWIN" trace info $files/stat.pt --num-ranks 4 | sed -n '2,12p'
text $files/stat.pt

# Refused in one line.
text $files/legacy.pt
text $files/sglang.jsonl
head -c 3000 $files/per_token_0.pt >cut.pt
text cut.pt
sed 's/"shape": \[6, 3, 4\]/"shape": [6, 3, 5]/' $files/routed.jsonl >shape.jsonl
text shape.jsonl
sed 's/int16/int12/' $files/routed.jsonl >dtype.jsonl
text dtype.jsonl
printf '{"routed_experts": {"data": "A*==", "shape": [1, 1, 1]}}\n' >base64.jsonl
text base64.jsonl
