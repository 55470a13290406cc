# A sample trace through every format and back: the same bytes of the array and of its weights, each time.
samples=source/traces/samples
convert() { "$EPTWIN" trace convert "$@" || echo "exit $?"; }
convert $samples/prefill_ep8.npy.zst first.npy
convert $samples/prefill_ep8.npy.zst w.npy --trace-weights $samples/prefill_ep8.weights.npy.zst --weights-output weights.npy
for format in ept csv csv.zst jsonl jsonl.zst; do
    convert first.npy way.$format --trace-weights weights.npy
    convert way.$format back.npy --weights-output weights_back.npy
    cmp first.npy back.npy && cmp weights.npy weights_back.npy && echo "$format: the same bytes"
done
for format in npy npy.zst; do
    convert way.ept way.$format
    convert way.$format back.npy
    cmp first.npy back.npy && echo "$format: the same bytes"
done
convert first.npy - --to csv | sed -n '1,8p'
convert first.npy - --to csv | convert - - --to ept | "$EPTWIN" trace diff - first.npy

# One rank and one step is what vLLM and llama.cpp know.
"$EPTWIN" trace remap first.npy one.ept --num-ranks 1
convert one.ept vllm.npy --to vllm
convert one.ept llama.csv --to llama
head -3 llama.csv
"$EPTWIN" trace diff one.ept vllm:vllm.npy
"$EPTWIN" trace diff one.ept llama@8:llama.csv
convert vllm.npy out.ept
convert npy:vllm.npy out.ept --experts 63
convert way.ept out.npy --dtype i1
convert way.ept out.npy --dtype i4 2>&1
od -An -c -N 22 out.npy
convert way.ept out.xyz
convert way.ept no/such/folder/out.ept
convert way.ept
convert way.ept out.ept --level 50
ls
