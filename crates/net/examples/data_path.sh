#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The figures of docs/data-path.md: a masquerading, stateful router between FH and MH; bulk TCP through it,
# plain and by way of a program, in turns; then kill -9, restart, SIGSTOP and SIGCONT under load.
#
#   data_path.sh throughput|faults PAIRS PROGRAM [ARGUMENT]...
#
# PROGRAM gets the wireless interface's name for the word IF among its arguments, and must take packets within 5 s.
# Root; iproute2, nftables, iperf3, python3 for sums. Everything lives in namespaces that are removed at every exit.
set -euo pipefail
what=$1 pairs=$2; shift 2
out=$(mktemp -d) t=hfdp$$ program=
cleanup() {
	for n in fh gw mh; do
		ip netns pids $t$n 2>/dev/null | xargs -r kill -9 2>/dev/null || true
		ip netns del $t$n 2>/dev/null || true
	done
	rm -rf "$out"
}
trap cleanup EXIT
trap 'exit 130' INT TERM HUP
for n in fh gw mh; do ip netns add $t$n; ip -n $t$n link set lo up; done
ip link add f0 netns ${t}fh type veth peer name g0 netns ${t}gw
ip link add m0 netns ${t}mh type veth peer name g1 netns ${t}gw
for x in "fh f0 10.1.0.2" "gw g0 10.1.0.1" "gw g1 10.2.0.1" "mh m0 10.2.0.2"; do
	read -r n device address <<<"$x"
	ip -n $t$n addr add $address/24 dev $device; ip -n $t$n link set $device up
done
ip -n ${t}mh route add default via 10.2.0.1
gw() { ip netns exec ${t}gw "$@"; }
gw sysctl -qw net.ipv4.ip_forward=1
gw nft -f - <<'RULES'
table ip nat { chain post { type nat hook postrouting priority 100; oifname "g0" masquerade; }; }
table ip guard { chain transit { type filter hook forward priority 0; ct state invalid drop; }; }
RULES
ip netns exec ${t}fh iperf3 -s -D >/dev/null
until ip -n ${t}fh -o link >/dev/null && ip netns exec ${t}fh ss -ltn | grep -q :5201; do sleep 0.05; done

# One transfer; $1 is -R (downlink) or nothing (uplink). Prints Gb/s.
bulk() {
	timeout 30 ip netns exec ${t}mh iperf3 -c 10.1.0.2 -t 2 -J ${1:-} |
		python3 -c 'import json,sys; print("%.2f" % (json.load(sys.stdin)["end"]["sum_received"]["bits_per_second"]/1e9))'
}
start() {
	ip netns exec ${t}gw "${@/#IF/g1}" >"$out/log" 2>&1 & program=$!
	for _ in $(seq 100); do
		gw ip -o link 2>/dev/null | grep -q hfu && return
		sleep 0.05
	done
	cat "$out/log"; return 1
}
stop() { kill -"$1" $program; wait $program 2>/dev/null || true; }

if [ "$what" = throughput ]; then
	for _ in $(seq "$pairs"); do
		for direction in -R ""; do
			plain=$(bulk $direction); start "$@"; through=$(bulk $direction); stop TERM
			echo "${direction:-uplink} $plain $through"
		done
	done | sed 's/^-R/downlink/' | tee "$out/pairs"
	python3 - "$out/pairs" <<-'SUM'
	import statistics, sys
	rows = [line.split() for line in open(sys.argv[1])]
	for direction in ("downlink", "uplink"):
	    plain, through, ratio = zip(*((float(p), float(t), float(t) / float(p)) for w, p, t in rows if w == direction))
	    print(f"{direction}: plain {statistics.median(plain):.1f}, through {statistics.median(through):.1f} Gb/s,"
	          f" ratio {statistics.median(ratio):.2f} (median of {len(ratio)})")
	SUM
	exit
fi
for direction in -R ""; do
	timeout 30 ip netns exec ${t}mh iperf3 -c 10.1.0.2 -t 8 -i 0.1 -J $direction >"$out/json" & transfer=$!
	start "$@"; sleep 1.5; stop 9
	sleep 1; start "$@"; sleep 1.5
	kill -STOP $program; sleep 1; kill -CONT $program; sleep 1
	wait $transfer || echo "the transfer BROKE"
	stop TERM
	python3 - "$out/json" "${direction:-uplink}" <<-'SUM'
	import json, sys
	d = json.load(open(sys.argv[1]))
	rates = [i["sum"]["bits_per_second"] / 1e9 for i in d["intervals"]]
	gaps, run = [], 0
	for at, rate in enumerate(rates + [1]):
	    run = run + 1 if rate < 0.05 else 0 if not (run and gaps.append((round((at - run) * 0.1, 1), round(run * 0.1, 1)))) else 0
	print(sys.argv[2].replace("-R", "downlink"), "Gb/s by 0.1 s:", *(f"{r:.1f}" for r in rates))
	print("  standing still (from s, for s):", gaps, "error:", d.get("error"))
	SUM
done
