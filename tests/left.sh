# left.sh - for tests of replays: their time, their ranks, and what they leave.

# By the clock that nobody sets.
now_ms() {
    local seconds
    read -r seconds _ </proc/uptime
    echo $((${seconds/./} * 10))
}

# ranks_await RUN COUNT: sets `ranks` to the process ids of COUNT ranks, once RUN has forked so many.
ranks_await() {
    ranks=()
    while [ ${#ranks[@]} -lt "$2" ] && kill -0 "$1"; do
        read -r -a ranks </proc/$1/task/$1/children
    done
}

# `left` tells what a run left behind: processes that work in the folder of the test
# (which is its own), and descriptors and mappings of ranks' memory that any of them, the test's shell too, still holds.
left() {
    local process link processes=0 descriptors=0 mappings=0
    for process in /proc/[0-9]*; do
        link=$(readlink "$process/cwd" 2>/dev/null) && [ "$link" = "$PWD" ] || continue
        # A process that ended since, as readlink did, has no command line.
        # The shell and its parent belong to the test.
        case ${process#/proc/} in
            $$ | $PPID | $BASHPID) ;;
            *) [ -z "$(tr '\0' ' ' <"$process/cmdline" 2>/dev/null)" ] || processes=$((processes + 1)) ;;
        esac
        descriptors=$((descriptors + $(ls -l "$process/fd" 2>/dev/null | grep -c 'memfd:eptwin-rank')))
        mappings=$((mappings + $(grep -c 'memfd:eptwin-rank' "$process/maps" 2>/dev/null || true)))
    done
    echo "left: $processes processes, $descriptors descriptors, $mappings mappings"
}

# names_unused: names of ranks' memory in /dev/shm that no process maps; other replays on this machine map theirs.
names_unused() {
    local name
    for name in $(ls /dev/shm | grep '^eptwin-' | sort); do
        grep -qsF "/dev/shm/$name" /proc/[0-9]*/maps || echo "$name"
    done
}
