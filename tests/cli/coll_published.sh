# Published all-to-allv on 50 GB/s ports: within 2 % of what the busiest receiver needs and a latency of 1 us.  The lists'
# author gives 168.018 and 1445.929 us, and 82.575 and 334.234 us for uniform ones of 64 KB.
peers=source/tests/peers
against() { # NAME BOUND OPTIONS...
    $EPTWIN simulate --cluster $peers/port.ini --kernel alltoallv --output record.csv "${@:3}" || return
    awk -F, -v name="$1" -v bound="$2" '/^alltoallv,all,time_us_max/ { us = $4 }
        /^alltoallv,all,bound_receive_us/ { own = $4 }
        END { printf "%s: receive bound %.3f us, %s\n", name, own,
              (us >= bound - 0.001 && us <= 1.02 * bound + 1 ? "within 2 % and a latency" : us) }' record.csv
}
for n in 64 256; do $peers/rows $peers/moe-$n.rows.zst >moe-$n.txt; done
against moe-64 168.018 --matrix moe-64.txt
against moe-256 1445.929 --matrix moe-256.txt
against uniform-64 82.575 --matrix uniform:65536 --num-ranks 64
against uniform-256 334.234 --matrix uniform:65536 --num-ranks 256
