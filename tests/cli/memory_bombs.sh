# Small compressed files that stand for gigabytes, or for millions of values, are refused within 200 MB of memory.
command -v /usr/bin/time >/dev/null || { grep -v '^status' "$SOURCE/tests/cli/memory_bombs.expected"; exit; }
measured=yes # not with a sanitizer, which takes memory of its own
(ulimit -v 1000000; "$EPTWIN" --version >/dev/null 2>&1) 2>/dev/null || measured=no
many() { yes "$1" | head -c $2 | tr -d '\n'; }
(printf 'phase,rank,metric,value,unit\n'; yes 'dispatch,all,time_us,1,us' | head -c 300000000) | zstd -q >rows.csv.zst
for i in {1..300}; do cat rows.csv.zst; done >frames.csv.zst # 8 MB for 90 GB
(printf '{"header":['; many '[],' 60000000; printf '[]]}') | zstd -q >lists.json.zst
(printf '{"header":{},"rows":['; many '{},' 5000000; printf '{}]}') | zstd -q >objects.json.zst
try() {
    /usr/bin/time -f %M -o size $EPTWIN "$@" >/dev/null 2>err
    echo "status $?"
    sed -E "s/[0-9]{6,}/N/g; s/found N of [0-9]+/found N of N/; s/[0-9]+( compressed bytes)/N\\1/" err
    [ $measured = no ] || [ "$(tail -n 1 size)" -lt 204800 ] || echo "took $(tail -n 1 size) KB"
    return 0
}
for file in rows.csv.zst frames.csv.zst lists.json.zst objects.json.zst; do
    for words in 'report --text' import fit 'sweep show' 'trace info' probe 'validate --cluster h800-cx7'; do
        echo "\$ eptwin $words $file"
        try $words $file
    done
done
