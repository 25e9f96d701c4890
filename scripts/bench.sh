#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the published measurements, and stores them with their conditions.
#
#     scripts/bench.sh PROGRAM [--short] [name...]      such as: target/release/holdfast link outages
#
# The measurements, each with options of its own (in its file):
#
#     link        how exact the link emulator is                        crates/holdfast/benches/
#     outages     stall and transfer time by outage, sender, remedy     docs/scenarios/outages.toml
#     cost        throughput either way, latency and connections a
#                 second that the gateway costs                         crates/holdfast/benches/
#     wake        what the scheme wake of the mobile side costs
#                 downloads and requests without an outage              crates/holdfast/benches/
#     uplink      what auto of the mobile side costs an upload over
#                 1 Gb/s: throughput, queue, processor                  crates/holdfast/benches/
#     packets     instructions a packet, scheme by scheme (valgrind);
#                 fails if they are 2% above the committed table        crates/core/benches/
#     speed       how much faster than real time the simulator is       crates/sim/benches/
#
# Without names all of them run, one after the other. With --short all but packets and speed are as
# short as they can be: that shows that they run, and their figures mean little. Results go to target/bench/<time>/. The exit
# status is not 0 if one failed or missed what it promises.

set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin:/usr/local/sbin:/usr/sbin:/sbin"

if [ $# -lt 1 ] || [ ! -x "$1" ]; then
    echo "usage: $0 PROGRAM [--short] [name...]" >&2
    exit 2
fi
program="$(readlink -f "$1")"
readonly program
shift
short=
if [ "${1:-}" = --short ]; then
    short=1
    shift
fi
readonly short
benches=("$@")
readonly all=(link cost wake uplink packets speed outages)
[ ${#benches[@]} -gt 0 ] || benches=("${all[@]}")
for bench in "${benches[@]}"; do
    if [[ " ${all[*]} " != *" $bench "* ]]; then
        echo "$0: there is no measurement $bench; there are: ${all[*]}" >&2
        exit 2
    fi
done

if [ "$(id -u)" -ne 0 ]; then
    echo 'bench.sh: not root: the measurements load BPF programs; run "sudo -E make bench"' >&2
    exit 1
fi

folder="${CARGO_TARGET_DIR:-target}/bench/$(date -u +%Y%m%dT%H%M%SZ)"
readonly folder
mkdir -p "$folder"

conditions() {
    echo "commit      $(git rev-parse --short HEAD 2>/dev/null || echo unknown)$(git diff --quiet HEAD 2>/dev/null || echo ', changed')"
    echo "kernel      $(uname -srm)"
    echo "processor   $(nproc) x $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
    echo "load        $(cut -d ' ' -f 1-3 /proc/loadavg)"
    echo "congestion  $(cat /proc/sys/net/ipv4/tcp_congestion_control)"
}
conditions | tee "$folder/conditions.txt"

# Built before the first measurement.
cargo bench --locked --package holdfast --package holdfast-core --package holdfast-sim \
    --bench link --bench cost --bench wake --bench uplink --bench packet_cost --bench speed --no-run

# Another load on the machine would be in every figure: it is watched for two seconds.
busy_and_all() { awk '/^cpu / { print $2 + $3 + $4 + $7 + $8, $2 + $3 + $4 + $5 + $6 + $7 + $8; exit }' /proc/stat; }
read -r busy_before all_before < <(busy_and_all)
sleep 2
read -r busy_after all_after < <(busy_and_all)
if [ $(((busy_after - busy_before) * 10)) -gt $((all_after - all_before)) ]; then
    echo 'bench.sh: this machine is busy with something else: the figures will show it' | tee -a "$folder/conditions.txt" >&2
fi

# The arguments after the name are those of its short form.
run() {
    local name="$1" kept
    shift
    [ -n "$short" ] || set --
    kept="$(readlink -f "$folder")"
    case "$name" in
    link) cargo bench --locked --quiet --package holdfast --bench link -- --json "$kept/link.json" "$@" ;;
    # Its first line is the result as JSON.
    packets) cargo bench --locked --quiet --package holdfast-core --bench packet_cost -- --compare ;;
    speed) cargo bench --locked --quiet --package holdfast-sim --bench speed ;;
    outages) "$program" lab run docs/scenarios/outages.toml --substrate live --jobs 6 --out "$kept/outages.jsonl" "$@" ;;
    *) cargo bench --locked --quiet --package holdfast --bench "$name" -- "$@" ;;
    esac
}

run_by_name() {
    case "$1" in
    link) run link --seconds 3 --runs 1 ;;
    cost) run cost --pairs 2 --each-ms 300 --requests 200 --connections 50 ;;
    wake) run wake --pairs 1 --senders cubic ;;
    uplink) run uplink --pairs 1 --each-ms 500 ;;
    outages) run outages --shard 1/300 ;;
    *) run "$1" ;;
    esac
}

status=0
for bench in "${benches[@]}"; do
    began=$SECONDS
    run_by_name "$bench" | tee "$folder/$bench.txt" || status=1
    echo "bench.sh: $bench took $((SECONDS - began)) s" | tee -a "$folder/conditions.txt"
done
echo "bench.sh: kept in $folder"
exit $status
