# No part is busy for more than all of the time that it has, and no bound is longer than the time: also where data go on
# after the kernel that sent them (--hook), and where kernels follow one another (--launch stream).
for c in 'gh200-alps --ranks-per-node 4' h800-cx7; do
    for k in '' --hook '--hook --dtype bf16' '--kernel normal --num-tokens 256' '--kernel v2' '--kernel allgather' \
        '--kernel alltoallv --matrix uniform:65536' --disable-nvlink; do
        case $k in *allgather) tokens= ;; *) tokens='--num-tokens 64' ;; esac
        for l in barrier stream; do
            $EPTWIN simulate --cluster $c --num-ranks 16 $tokens $k --launch $l --slow 3:2x |
                awk -F, -v run="$c $k $l" '
                    $3 == "time_us_max" { most[$1] = $4 }
                    $3 ~ /^bound_.*_us$/ { bound[$1, $3] = $4; phase[$1, $3] = $1 }
                    $3 ~ /busy.*_pct$|^efficiency_pct$/ { shares++; if ($4 > 100.000001) print run ": " $0 }
                    END {
                        for (b in bound) if (bound[b] > most[phase[b]] * 1.000001) print run ": " b, bound[b]
                        print "shares", shares
                    }'
        done
    done
done | awk '
    $1 != "shares"
    $1 == "shares" { runs++; all += $2 }
    END { print runs " runs" (all > 400 ? ", hundreds of shares" : "") }'
