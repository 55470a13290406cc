# Clusters and samples are found wherever eptwin runs: in the source tree, below an installation that was moved, by name
# or by path; what is not found is told with the places and the names.
elsewhere=$PWD
named() { sed "s|$elsewhere|HERE|g; s|, /[^ ]*/share/eptwin/clusters\$||"; }     # eptwin may be installed here, too

make -C source -s install DESTDIR="$PWD/root" >make.out 2>&1 || cat make.out
mv "$(dirname "$(find root -name bin)")" moved
installed=$PWD/moved/bin/eptwin
mkdir empty && cd empty || exit 1
$installed cluster list 2>&1 | named
echo "exit $?"
small="--num-ranks 8 --num-tokens 16 --num-experts 64 --num-topk 2 --hidden 512"
$installed simulate --cluster h800-cx7 $small --output a.csv && $installed simulate --cluster h800-cx7.ini $small --output b.csv
cmp a.csv b.csv && echo "the same by both names"
$installed trace check decode_ep64.ept 2>&1 | named
$installed trace check prefill_ep8 --trace-weights prefill_ep8.weights | named
$installed trace check vllm:nothing 2>&1 | named

echo "-- a file here goes before a shipped one"
printf '[gpu]\n' >h200
$installed simulate --cluster h200 $small 2>&1 | named
rm h200

echo "-- what is not there"
$installed simulate --cluster h900 $small 2>&1 | named
$installed simulate --cluster ./h200 $small 2>&1 | named

echo "-- a broken one does not hide the others"
mkdir -p models/clusters
printf '[gpus]\n' >models/clusters/broken.ini
cp -r "$SOURCE/models/clusters/h200.ini" "$SOURCE/models/clusters/parts" models/clusters/
$installed cluster list 2>&1 | named
echo "exit ${PIPESTATUS[0]}"

echo "-- bad input"
$installed cluster
echo "exit $?"
$installed cluster lists
echo "exit $?"
$installed cluster list all
echo "exit $?"
$installed cluster --help
$installed cluster list --help

echo '# uninstalled'
cd "$elsewhere" || exit 1
mkdir -p root/usr/local && cp -r moved/. root/usr/local && touch root/usr/local/bin/another
make -C source -s uninstall DESTDIR="$PWD/root" && find root -type f
