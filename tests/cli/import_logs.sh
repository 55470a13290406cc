# Every kind of log: the table that comes of it, and what is said of it.
logs=source/tests/cli/import
show() {        # the table by columns, long words cut: only what differs between readers
    $EPTWIN import "$@" 2>said | python3 -c '
import csv, sys
for row in csv.DictReader(sys.stdin):
    print("  ".join(f"{k}={v[:44]}" for k, v in row.items() if v and k not in ("log", "tool")))'
    echo "status ${PIPESTATUS[0]}"
    cat said
}
for log in deepep_intranode.log deepep_internode.log deepep_internode_mixed.log deepep_low_latency.log \
           deepep_low_latency_mixed.log deepep_v2.log nccl_alltoall_cut.log nccl_allreduce.log nccl.json perftest.log \
           perftest.json nvshmem_alltoall.log nvshmem_reduction_cut.log osu.log nvbandwidth.json mori.json mori_profile.log; do
    echo "# $log"
    show $logs/$log
done
for log in deepxtrace.log nvbandwidth.log; do
    echo "# $log: its matrix"
    show $logs/$log | sed -n '1,2p;/^status/,$p'
done

echo '# several logs at once, to a file; the summary then goes to standard output'
$EPTWIN import $logs/perftest.log $logs/osu.log --output both.csv 2>/dev/null | cut -d: -f1 | uniq -c | head -3
cut -d, -f3 both.csv | sort | uniq -c | sort -rn | sed 's/^ *//'

echo '# a row for each rank and line'
$EPTWIN import $logs/deepep_low_latency.log --per-rank 2>/dev/null | wc -l
