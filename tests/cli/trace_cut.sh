# Slices and merges are inverse; wrong shapes are refused and leave nothing.
sample=source/traces/samples/decode_ep64.ept
run() { "$EPTWIN" trace "$@" || echo "exit $?"; }
run slice $sample first.ept --steps 0
run slice $sample second.ept --steps 1:
run merge first.ept second.ept both.ept
run diff $sample both.ept
run slice $sample a.npy --layers 0
run slice $sample b.npy --layers 1,2
run merge a.npy b.npy layers.ept --by layers
run diff $sample layers.ept
run slice $sample low.csv --ranks :32 --tokens 0:16
run slice $sample high.csv --ranks 32: --tokens 0:16
run merge low.csv high.csv ranks.ept --by ranks
run slice $sample few.ept --tokens 0:16
run diff few.ept ranks.ept
run check few.ept
run slice $sample bad.ept --ranks 0:3
run slice $sample bad.ept --steps 2
run slice $sample bad.ept --ranks 0,0
run slice $sample bad.ept --tokens 0:4,3
run slice $sample bad.ept --steps 1:1
run slice $sample bad.ept --layers x
run merge first.ept few.ept low.csv bad.ept
run merge first.ept bad.ept --by nodes
run slice first.ept ./first.ept --tokens :2 # an output over its own input
run merge few.ept first.ept --output few.ept
head -c 100000 $sample >cut.ept
run slice cut.ept bad.ept
ls
