# Each mistake is one line that names what was expected and what was found, exit status 2, and no file.
try() { echo "\$ eptwin $*"; $EPTWIN "$@"; echo "exit $?"; }
try replay --ranks 3 --num-experts 8
try replay --ranks 2 --num-ranks 4
try replay --ranks -1
try replay --ranks 0
try measure --ranks 0
try replay --ranks 2 --cluster nosuch
for option in fault=qp:one slow=0:2x arrival=exp:5us launch=loop loops=nosuch; do try replay --ranks 2 --$option; done
try replay --ranks 2 --fabric pigeon
try replay --ranks 2 --signalling smoke
try replay --ranks 2 --hidden 100 --num-experts 8
try replay --ranks 2 --hidden 0
try replay --ranks 2 --num-sms 2 --num-experts 768 --num-topk 2 --num-tokens 8 --hidden 512
try replay --ranks 2 --repeat 0
try replay --ranks 2 --steps 0:2
try replay --ranks 2 --num-experts 8 --compute copy:100GB/s
try replay --ranks 2 --trace absent.npy
try replay --ranks 2 --output absent/out.csv
try replay --ranks 2 --output .
try replay --ranks 2 --format xml
try replay --ranks 2 --timeout 0
try replay --rank 0 --world-size 2
try replay --rank 2 --world-size 2 --root 127.0.0.1:1 --secret-file absent
try replay --rank 0 --world-size 2 --root 127.0.0.1:1 --secret-file absent
try replay --ranks 2 extra
for more in --gpu-memory '--sl 3' '--provider tcp' '--device mlx5_0' '--fabric ofi --port 1' '--timeline-spans 5'; do
    try replay --ranks 2 $more
done
for fabric in verbs ofi; do
    try replay --ranks 2 --num-experts 8 --num-tokens 8 --hidden 512 --fabric $fabric --device mlx5_99 --output out.csv
done
try measure --ranks 1
try measure --repeat 0
try measure --sample-ms 0
try measure --output absent/out.csv
ls
