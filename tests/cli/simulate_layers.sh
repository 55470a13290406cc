# Of several layers: each layer's bandwidths, bounds and bottleneck are those of its own prediction, and of all their means.
trace="--cluster h100-cx7 --trace source/traces/samples/prefill_ep8.npy.zst --num-experts 64 --num-tokens 64 --format csv"
$EPTWIN simulate $trace --layers 0:2 | grep -v '^#' >all.csv
kept='logical|physical|busy|bound|efficiency|bottleneck'
for layer in 0 1; do
    $EPTWIN simulate $trace --layer $layer | grep -E "^(dispatch|combine),all,($kept)" | sort >one.csv
    sed -n "s/_layer$layer,/,/p" all.csv | grep -E ",all,($kept)" | sort | cmp - one.csv &&
        echo "layer $layer: the same $(wc -l <one.csv) rows"
done
awk -F, '$3 == "bound_receive_us" { v[$1] = $4 }
         END { d = v["dispatch"] - (v["dispatch_layer0"] + v["dispatch_layer1"]) / 2
               print "mean of the layers:", (d < 1e-9 && d > -1e-9 ? "yes" : d) }' all.csv
