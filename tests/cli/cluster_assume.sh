# Values of other hardware: a file that assumes them says so, and what is given anywhere else wins.
cp -r source/models/clusters/parts .
cat >gpu.ini <<'X'
[cluster]
name = a GPU
assume = parts/hopper.ini
[gpu]
sms = 64
hbm-rate = 2 TB/s
poll = 200 ns
[nvlink]
gpus = 4
egress-rate = 100 GB/s
ingress-rate = 100 GB/s
X
cat >mine.ini <<'X'
[cluster]
name = mine
assume = parts/connectx7.ini
include = gpu.ini|rest.ini
[nic]
rate = 20 GB/s
[network]
latency = 1 us
X
printf '[gpu]\nstep = 90 ns\n' >rest.ini
echo "-- own keys, then what is included anywhere, then what is assumed"
$EPTWIN cluster show mine.ini | sed -n '/^not measured/,$p'
echo "-- within a node no time of NICs counts; a setting is no assumption"
note() { $EPTWIN simulate --cluster mine.ini --num-ranks "$1" --num-tokens 8 --format text "${@:2}" | grep ^Note; }
note 4
note 8
note 4 --set nvlink.latency=1us
$EPTWIN cluster check mine.ini
echo "-- a value that is assumed is the other's"
us() { $EPTWIN simulate --cluster "$1" --num-ranks 4 --num-tokens 8 --format csv | grep ',time_us_max,'; }
us mine.ini >assumed
sed 's/^assume = parts.hopper/include = parts\/hopper/' gpu.ini >other.ini
sed 's/gpu.ini/other.ini/' mine.ini >included.ini
sed -i 's/|rest.ini//' included.ini; printf '[gpu]\nstep = 90 ns\n' >>included.ini
us included.ini | diff assumed - && echo "the same times"
$EPTWIN cluster show included.ini | grep -c hopper
echo "-- what cannot be"
bad() { $EPTWIN cluster check bad.ini; echo "exit $?"; }
sed 's/^assume.*/assume = nowhere.ini/' mine.ini >bad.ini; bad
sed 's/^assume.*/assume = bad.ini/' mine.ini >bad.ini; bad
sed 's/^assume.*/assume = parts\/connectx7.ini|/' mine.ini >bad.ini; bad
echo "-- files that ship"
$EPTWIN cluster show mi300x-cx7 | grep -E '^  \[nvlink\]'
$EPTWIN cluster show mi355x-pollara | grep 'as cdna3'
for c in h100-cx7 h200 gh200-alps; do $EPTWIN cluster show $c | grep '^not measured' || echo "$c: all its own"; done
