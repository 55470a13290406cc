# lib.sh - sourced by guest scripts: RDMA devices over virtual Ethernet, pairs of perftest, faults on a link.
#
# All devices stand in one network namespace (soft-RoCE devices cannot be moved into others), so policy routing
# must force traffic over the wire instead of the local-table short cut.

# vm_devices_make N [MTU]: N Ethernet ends v0..v(N-1) with 10.0.0.(i+1)/24 and a soft-RoCE device r_i on each; a direct
# pair for N=2, else on the bridge br0 (bridge side of v_i: b_i).  MTU 4200 gives a RoCE MTU of 4096.
vm_devices_make() {
    local count=$1 mtu=${2:-4200} i j mac file
    modprobe veth; modprobe bridge; modprobe rdma_rxe; modprobe ib_uverbs; modprobe rdma_ucm
    modprobe crc32_generic 2>/dev/null
    for file in /proc/sys/net/ipv4/conf/all /proc/sys/net/ipv4/conf/default; do
        echo 1 >$file/accept_local; echo 0 >$file/rp_filter; echo 1 >$file/arp_ignore
    done
    for file in all default; do echo 1 >/proc/sys/net/ipv6/conf/$file/disable_ipv6; done
    if [ "$count" = 2 ]; then
        ip link add v0 mtu $mtu type veth peer name v1 mtu $mtu
    else
        ip link add br0 type bridge
        ip link set br0 mtu $mtu up
        for ((i = 0; i < count; i++)); do
            ip link add v$i mtu $mtu type veth peer name b$i mtu $mtu
            ip link set b$i master br0 up
        done
    fi
    ip rule add pref 200 lookup local
    for ((i = 0; i < count; i++)); do
        ip addr add 10.0.0.$((i + 1))/24 dev v$i noprefixroute
        ip link set v$i up txqueuelen 10000
        ip rule add pref 10 iif v$i lookup local
        ip rule add pref 20 from 10.0.0.$((i + 1)) to 10.0.0.0/24 lookup $((1000 + i))
        ip route add 10.0.0.0/24 dev v$i src 10.0.0.$((i + 1)) table $((1000 + i))
    done
    ip rule del pref 0
    # Permanent neighbours: else each connect of a QP waits half a second for ARP.  Its own for a device that is
    # shared by ranks.
    for ((i = 0; i < count; i++)); do
        read -r mac </sys/class/net/v$i/address
        for ((j = 0; j < count; j++)); do
            echo "neigh replace 10.0.0.$((i + 1)) lladdr $mac dev v$j nud permanent"
        done
    done | ip -batch -
    for ((i = 0; i < count; i++)); do rdma link add r$i type rxe netdev v$i || return 1; done
    sleep 1
}

# vm_softirqs_first: the kernel's threads that work for the devices come before processes, as a NIC's own processor does.
# Else, from when one of them has something to do, packets wait until the scheduler has given every rank its slice.
# Where ranks have CPUs of their own it is better without: what such a thread does, a rank does sooner in its own call.
vm_softirqs_first() {
    local file
    for file in $(grep -l '^ksoftirqd' /proc/[0-9]*/comm); do chrt -f -p 1 $(echo $file | cut -d/ -f3) || return 1; done
}

# vm_wakes_at_once: who has slept gets the CPU when it wakes, and a rank that works no more than 0.1 ms at a time where
# others want to: what eptwin asks Linux 6.12 for, and Linux 6.1 has no call for.  Else timed work of one rank ends up to
# 4 ms late, at the next tick of the clock, while the other works.
vm_wakes_at_once() {
    local folder=/sys/kernel/debug/sched
    mount -t debugfs debug /sys/kernel/debug && echo 0 >$folder/wakeup_granularity_ns &&
        echo 100000 >$folder/min_granularity_ns && echo 100000 >$folder/latency_ns
}

vm_devices_remove() {
    local link
    for link in $(rdma link show | awk '{sub(/\/.*/, "", $2); print $2}'); do rdma link delete $link; done
    ip rule flush; ip rule add pref 32766 lookup main; ip rule add pref 0 lookup local
    for link in $(ls /sys/class/net | grep '^v[0-9]'); do ip link delete $link 2>/dev/null; done
    ip link delete br0 2>/dev/null
    return 0
}

# vm_link_shape RATE|none: what every v_i (and b_i) sends is limited to RATE ("100mbit").  The queue holds all that ranks
# can have under way: where packets are dropped, soft-RoCE of Linux 6.1 resumes a message of several packets wrongly
# once a part of it was acknowledged ("remote invalid request").
#
# Packets of shaped links are steered (vm_link_steer): else the queue, emptied by all CPUs, puts packets out of order,
# which costs retransmissions that no real link has.  Unshaped links stay as they are, as it makes latencies half as long
# again.
vm_link_shape() {
    local link
    vm_link_steer $([ "$1" = none ] || echo on)
    echo 100000 >/proc/sys/net/core/netdev_max_backlog
    for link in $(ls /sys/class/net | grep '^[vb][0-9]'); do
        tc qdisc del dev $link root 2>/dev/null
        [ "$1" = none ] || tc qdisc add dev $link root tbf rate $1 burst 64kb limit 256mb || return 1
    done
    return 0
}

# vm_link_steer [on]: what comes in at v_i (and b_i) is worked on by CPU i modulo their number, as a NIC's receive queue
# has its interrupts on one; there eptwin binds rank i.  Without "on": by the CPU that sent it.
vm_link_steer() {
    local link cpu mask=0
    for link in $(ls /sys/class/net | grep '^[vb][0-9]'); do
        cpu=$((${link#?} % $(nproc)))
        [ -z "${1:-}" ] || mask=$(printf '%x' $((1 << cpu)))
        echo $mask >/sys/class/net/$link/queues/rx-0/rps_cpus
    done
}

# vm_pair TOOL ARGS...: a perftest tool as server on r1 and as client on r0; the client's output on standard output.
vm_pair() {
    local tool=$1 server try
    shift
    for try in 1 2 3; do
        $tool -d r1 "$@" >/tmp/pair.server 2>&1 &
        server=$!
        sleep 1.5
        if $tool -d r0 "$@" 127.0.0.1 >/tmp/pair.client 2>&1; then
            wait $server
            cat /tmp/pair.client
            return 0
        fi
        kill $server 2>/dev/null
        wait $server
    done
    tail -3 /tmp/pair.client /tmp/pair.server >&2
    return 1
}
