# A case has the same bytes for any number of threads: kernels, networks, faults, backends and what is recorded.
same() {
    local jobs answer=same
    $EPTWIN simulate --cluster "$@" --per-rank --jobs 1 --output one.csv 2>note.txt || answer=failed
    for jobs in 2 3 7; do
        $EPTWIN simulate --cluster "$@" --per-rank --jobs $jobs --output more.csv 2>note.txt
        cmp -s one.csv more.csv || answer="other with $jobs threads"
    done
    echo "$answer: $*"
    cat note.txt
}
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
same h800-cx7 $ll 32 $spine
same h800-cx7 $ll 32 $spine --set network.routing=adaptive
same p5en $ll 32
ln -s source/models/clusters/* .
printf '[cluster]\nname = marked\ninclude = h800-cx7.ini|parts/dcqcn-nvidia.ini\n' >marked.ini
same marked.ini --kernel normal --num-ranks 32 --num-tokens 128
echo '# where one thread runs it, a note says why'
same h800-cx7 $ll 8
same h800-cx7 $ll 32 --backend libfabric
same h800-cx7 $ll 32 --set network.buffer=1MB
same h800-cx7 $ll 16 --timeline spans.json
