# A machine from a few options, keys explained, and settings that change nothing: said, and true.
$EPTWIN cluster new --nodes 16 --gpu h100 --nic 8x400G --topology rail --oversubscription 2:1 --output rail.ini
cat rail.ini
$EPTWIN cluster check rail.ini
$EPTWIN cluster show rail.ini 2 | grep -E '^network|leaf0 |spine0'
for options in '--gpu h200 --nodes 8 --nic 4x2x200G --fabric roce --topology leaf-spine --name mine' \
               '--gpu b200 --nic 8x800G --nodes 4 --topology fat-tree --nodes-per-leaf 1' '--gpu gb200 --gpus 72' '--gpu h200 --gpus 1'; do
    $EPTWIN cluster new $options | grep -vE '^#|^$'
done

echo '# every GPU that it offers makes a file that runs'
for gpu in $($EPTWIN cluster new --gpu x 2>&1 | sed 's/.*one of//; s/, found.*//; s/,//g'); do
    options="--gpu $gpu --nodes 2 --nic 8x400G --topology leaf-spine --nodes-per-leaf 1"
    $EPTWIN cluster new $options --output $gpu.new.ini &&
        $EPTWIN simulate --cluster $gpu.new.ini --num-ranks 16 --num-tokens 4 --hidden 512 --num-experts 32 \
            --num-topk 2 >/dev/null || echo "$gpu fails"
done

echo '# refused'
for bad in '' '--gpu x' '--gpu h10' '--gpu p5en' '--gpu h100 --nic 8x400' '--gpu h100 --nic 0x400G' \
           '--gpu h100 --nic 8x1x1x400G' '--gpu h100 --nic 8x50G' \
           '--gpu h100 --nic 8x400G --topology ring' '--gpu h100 --nic 8x400G --oversubscription 2:1' '--gpu h100 --nodes 2' \
           '--gpu h100 --nic 8x400G --oversubscription 1:2 --topology rail' '--gpu h100 --fabric roce' '--gpu h100 --nodes 0' \
           '--gpu h100 --nic 8x400G --fabric efa' '--gpu h100 --gpus 0' '--gpu h100 --nic 8x400G --nodes 65536' \
           '--gpu h100 --nic 8x400G --topology rail --nodes-per-leaf 0' 'word'; do
    $EPTWIN cluster new $bad --output bad.ini
    echo "status $?"
done
[ ! -e bad.ini ] && echo 'nothing written'

echo '# keys'
$EPTWIN cluster keys | sed -n '6,11p'
$EPTWIN cluster keys | grep -c '^  \[.*: '
$EPTWIN cluster keys rate
$EPTWIN cluster keys node | head -6
$EPTWIN cluster keys nic.rat; echo "status $?"
$EPTWIN cluster keys nick; echo "status $?"
$EPTWIN cluster keys nic rate; echo "status $?"
said=$($EPTWIN cluster keys all | grep -c '^  (*[a-z0-9-]*)*: ')
[ "$said" = "$($EPTWIN cluster keys --man | grep -c '^\.TP')" ] && echo 'the page has all keys'
$EPTWIN cluster keys all | grep -E '.{101}|  *$'

echo '# settings that change nothing: noted, and the times agree'
run() { $EPTWIN simulate --cluster h100-cx7 --num-tokens 32 --hidden 1024 --num-experts 64 "$@" --output -; }
times() { grep -E '^[a-z_]*,all,time_us'; }
idle() {
    run "${@:3}" >plain.csv
    run "${@:3}" --set "$1=$2" >set.csv
    grep '^# notes' set.csv
    cmp <(times <plain.csv) <(times <set.csv) && echo "$1: the same times"
}
spine='--set network.topology=leaf-spine'
idle network.oversubscription 2:1 --num-ranks 16
idle network.oversubscription 2:1 --num-ranks 16 $spine
idle network.uplink-rate 1GB/s --num-ranks 16 $spine
idle network.routing adaptive --num-ranks 16
idle nic.post 9us --num-ranks 16 --backend ibrc
idle nic.rate 1GB/s --num-ranks 8
idle nic.line-rate 100Gbit/s --num-ranks 8 --kernel v2
idle network.latency 9us --num-ranks 8 --kernel normal
run --num-ranks 8 --disable-nvlink --set nic.rate=1GB/s | grep -c '^# notes'
run --num-ranks 16 $spine --set network.nodes-per-leaf=1 --set network.oversubscription=2:1 | grep '^# notes'
run --num-ranks 16 $spine --set network.nodes-per-leaf=1 --set network.hop=450ns | grep -c '^# notes'
run --num-ranks 16 --cluster p5en --backend gdaki | grep '^# notes'
run --num-ranks 16 --cluster p5en --backend libfabric --format json | grep notes
$EPTWIN simulate --cluster p5en --num-ranks 16 --num-tokens 4 --backend gdaki --format text | grep Note
printf '[cluster]\ninclude = h100-cx7\n[network]\ntopology = leaf-spine\nnodes = 4\noversubscription = 2:1\n' >one.ini
$EPTWIN cluster check one.ini rail.ini
