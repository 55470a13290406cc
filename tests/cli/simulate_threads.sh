# A case has the same bytes for any number of threads: kernels, networks, faults, backends and what is recorded; a step too.
same_of() {
    local jobs answer=same
    $EPTWIN "$@" --jobs 1 --output one.csv 2>note.txt || answer=failed
    for jobs in 2 3 7; do
        $EPTWIN "$@" --jobs $jobs --output more.csv 2>note.txt
        cmp -s one.csv more.csv || answer="other with $jobs threads"
    done
    shift 3
    echo "$answer: $*"
    cat note.txt
}
same() { same_of simulate --per-rank --cluster "$@"; }
step() { same_of step --draws 2 --net deepseek-v3 --cluster h800-cx7 --redundant 32 "$@"; }
ll='--num-tokens 32 --num-ranks' spine='--set network.topology=leaf-spine --set network.nodes-per-leaf=2'
same h800-cx7 $ll 32
same h800-cx7 $ll 32 --launch loop --usage --waits
same h800-cx7 $ll 32 --slow 3:2 --arrival uniform:20us
same h800-cx7 $ll 32 --fault 'nic:n1.g3 rate=0.5|rank:5 slow=2'
same h800-cx7 $ll 32 --backend uccl
same h800-cx7 $ll 32 --backend ibrc
same h800-cx7 --kernel normal --num-ranks 32 --num-tokens 128
same h800-cx7 --kernel v2 --num-ranks 32 --num-tokens 128
same h800-cx7 --kernel alltoallv --matrix lognormal:65536:0.6 --num-ranks 40 --disable-nvlink
same h800-cx7 --kernel alltoallv --matrix uniform:4096 --num-ranks 72 --ranks-per-node 1
same h800-cx7 --kernel allreduce --num-ranks 32
same h800-cx7 --kernel p2p --num-ranks 16
same h800-cx7 --kernel allgather --num-ranks 32
same h800-cx7 --kernel normal --num-ranks 16 --num-tokens 2048 --cached --launch loop
for fault in 'nic:n0.g1 down' 'qp: one' 'nics: all-on=0'; do
    same h800-cx7 $ll 32 --fault "$fault"
done
same h800-cx7 $ll 32 --backend ibrc --fault 'gdrcopy: off'
same h800-cx7 $ll 32 $spine
same h800-cx7 $ll 32 $spine --set network.routing=adaptive
same h800-cx7 $ll 32 $spine --fault 'link:leaf0-spine1 down'
same p5en $ll 32
ln -s source/models/clusters/* .
printf '[cluster]\nname = marked\ninclude = h800-cx7.ini|parts/dcqcn-nvidia.ini\n' >marked.ini
same marked.ini --kernel normal --num-ranks 32 --num-tokens 128
step --num-ranks 32 --batch 32 --layers 2 --schedule stages
step --num-ranks 32 --batch 64 --layers 2 --kernel v2 --launches --jitter 5
step --num-ranks 16 --batch 256 --layers 2 --schedule two-batch --phase prefill
step --num-ranks 16 --batch 256 --layers 1 --phase train
echo '# where one thread runs it, a note says why'
same h800-cx7 $ll 8
same h800-cx7 $ll 32 --backend libfabric
same h800-cx7 $ll 32 --set network.buffer=1MB
same h800-cx7 $ll 16 --timeline spans.json
step --num-ranks 8 --batch 256 --layers 1 --phase train --draws 1
