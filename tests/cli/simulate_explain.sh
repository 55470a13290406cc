# --explain sees a fault: the line that it belongs to grows, the rank that it hits is named, and the lines still add up.
# Times change with every calibration and are checked against each other only.
explain() { $EPTWIN simulate --cluster source/models/clusters/h100-cx7.ini --num-ranks 16 --num-tokens 64 --explain "$@"; }
# of FILE PHASE WORDS: the microseconds of that line in that phase.
of() { awk -v phase="$2:" -v words="$3" '$1 == phase { on = 1; next } /^[a-z]/ { on = 0 }
        on && index($0, words) { for (i = NF; i > 0; i--) if ($i == "us") { print $(i - 1); exit } }' "$1"; }
# The lines from "where" to the sum.
adds() { awk '/breakdown of/ { sum = 0; on = 1; next } /the slowest rank  / { d = sum - $4; if (d < -0.1 || d > 0.1) bad = 1; on = 0 }
        on { for (i = 1; i <= NF; i++) if ($i == "us") sum += $(i - 1) } END { print (bad || !sum ? "do not add up" : "add up") }' "$1"; }
than() { awk -v a="$1" -v b="$2" -v f="$3" 'BEGIN { print (a == "" || b == "" ? "no such line" : b > f * a ? "more" : "not more") }'; }
explain >sound
explain --fault 'nic:n1.g3 rate=0.25' >nic
explain --fault 'rank:5 slow=8' >slow
explain --fault 'nic:n0.nic0 rate=0.25' >first
for file in sound nic slow first; do echo "$file: $(adds $file)"; done
for phase in dispatch combine; do
    echo "$phase, a slow NIC: its rate $(than "$(of nic $phase 'the slowest rank  ')" "$(of nic $phase 'its rate:')" 0.5)," \
        "in a sound machine $(than 1 "$(of sound $phase 'its rate:')" 1)," \
        "a message's way $(than "$(of sound $phase 'latency of one message  ')" "$(of nic $phase 'latency of one message  ')" 1.01)"
    echo "$phase, a slow GPU: work of its SMs $(than "$(of sound $phase 'busiest SM')" "$(of slow $phase 'busiest SM')" 4)," \
        "its memory $(than "$(of sound $phase 'memory')" "$(of slow $phase 'memory')" 4)," \
        "NICs $(than "$(of sound $phase 'NIC of rank')" "$(of slow $phase 'NIC of rank')" 1.01)"
done
grep -o 'starting with NIC of rank 11, [a-z]*' nic
grep -c '^  rank 5 takes longest' slow
cmp -s nic first || echo 'which NIC it is makes a difference'
