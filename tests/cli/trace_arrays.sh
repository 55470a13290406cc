# Arrays that are not what their shape suggests: counts of experts are read as counts, choices that repeat an expert are
# refused, and what cannot be read comes with the line of Python that converts it.
cat >make.py <<'P'
import struct
def npy(path, shape, values, fortran=False):
    head = "{'descr': '<i4', 'fortran_order': %s, 'shape': %s, }" % (fortran, tuple(shape))
    head += ' ' * (-(10 + len(head) + 1) % 64) + '\n'
    data = struct.pack('<%di' % len(values), *values)
    open(path, 'wb').write(b'\x93NUMPY\x01\x00' + struct.pack('<H', len(head)) + head.encode() + data)
steps, layers, experts = 2, 3, 128
counts = [(e * 37 + l) % 128 // (1 + e // 16) for s in range(steps) for l in range(layers) for e in range(experts)]
npy('counts.npy', (steps, layers, experts), counts)
npy('layers.npy', (layers, experts), counts[:layers * experts])
npy('few.npy', (steps, layers, 16), [i % 5 for i in range(steps * layers * 16)])
npy('minus.npy', (1, 1, 128), [0, 5, -1] + 125 * [3])
npy('much.npy', (1, 1, 128), [1 << 28] + 127 * [1])
npy('fortran.npy', (4, 2), range(8), fortran=True)
npy('twice.npy', (2, 4, 2), [0, 1, 2, 3, 0, 3, 0, 2, 0, 1, 2, 3, 1, 1, 0, 2])
npy('padded.npy', (2, 2, 2), [0, 1, -1, -1, 1, 0, 3, 2])
P
python3 make.py
trace() { $EPTWIN trace "$@"; echo "status $?"; }

echo '# counts: [steps, layers, experts] is told by its shape from 65 experts on'
trace info counts.npy | sed -n '1,/^$/p'
trace info counts.npy --num-ranks 32 | sed -n '4,/^$/p;/^load/,/per rank/p'
trace info counts:layers.npy | sed -n '2,5p'
trace info counts:few.npy --layers 1 | sed -n '2,7p'
trace check counts.npy
zstd -q counts.npy && trace check counts.npy.zst
trace info counts.npy --num-ranks 24
trace check counts:minus.npy
trace check much.npy

echo '# a placement of counts evens out the loads of ranks'
trace remap counts.npy --num-ranks 32 --placement eplb:32 --placement-output placed.json
python3 - <<'P'
import json, struct
steps, layers, experts, ranks = 2, 3, 128, 32
data = open('counts.npy', 'rb').read()[-4 * steps * layers * experts:]
counts = struct.unpack('<%di' % (steps * layers * experts), data)
place = json.load(open('placed.json'))['physical_to_logical_map']
for layer in range(layers):
    load = [sum(counts[(s * layers + layer) * experts + e] for s in range(steps)) for e in range(experts)]
    slots = place[layer]
    replicas = [slots.count(e) for e in range(experts)]
    before = [sum(load[r * 4:r * 4 + 4]) for r in range(ranks)]
    after = [sum(load[e] / replicas[e] for e in slots[r * 5:r * 5 + 5]) for r in range(ranks)]
    mean = sum(load) / ranks
    print('layer', layer, 'slots', len(slots), 'heaviest rank %.2f -> %.2f of the mean' % (max(before) / mean, max(after) / mean))
P

echo '# what needs the choices refuses counts'
trace convert counts.npy out.ept
trace slice counts.npy out.ept --layers 0
trace remap counts.npy out.ept --num-ranks 32
$EPTWIN simulate --cluster h800-cx7 --trace counts.npy; echo "status $?"
$EPTWIN sweep --cluster h800-cx7 --trace counts.npy --num-sms 8,16 --output s.csv | head -3
trace remap counts.npy
ls out.ept 2>&1

echo '# a token that names an expert twice'
trace info twice.npy
trace check few.npy
trace check vllm:twice.npy
$EPTWIN simulate --cluster h800-cx7 --trace twice.npy --layer 0; echo "status $?"
trace check padded.npy
trace info padded.npy --num-ranks 2

echo '# the other order of an array, in a compressed file, too'
trace info fortran.npy
zstd -q fortran.npy && trace info fortran.npy.zst

echo '# text behind a byte-order mark; what gzip has compressed'
trace generate text.csv --num-ranks 2 --num-tokens 2 --num-experts 4 --num-topk 2
trace convert text.csv text.jsonl
for text in text.csv text.jsonl; do printf '\357\273\277' | cat - $text >marked; trace diff marked $text; done
gzip -c text.csv >text.gz; trace check text.gz
