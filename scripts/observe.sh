#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What the scheme `observe` records of a download through outages of 3 s and 1 s (docs/schemes/observe.md). The gateway
# detects them by the carrier of the link's device, or by silence alone. It has to run in the virtual kernel (`make
# paper ARGS=observe`), because it does not remove its network namespaces.
#
#     holdfast lab exec -- $PWD/scripts/observe.sh carrier|silence
#
# HOLDFAST names the program.

set -euo pipefail

program="${HOLDFAST:-$(dirname "$0")/../target/release/holdfast}"
case "${1:-}" in
carrier) carrier=(--carrier) ;;
silence) carrier=() ;;
*)
    echo "observe.sh: got '${1:-}', takes carrier or silence" >&2
    exit 2
    ;;
esac
folder="$(mktemp -d)"
trap 'kill $(jobs -p) 2>/dev/null || true; wait || true; rm -rf "$folder"' EXIT

# Waits until a command succeeds.
wait_for() {
    local tries
    for ((tries = 0; tries < 100; tries++)); do
        "$@" >/dev/null 2>&1 && return
        sleep 0.05
    done
    echo "observe.sh: no success in 5 s: $*" >&2
    exit 1
}

for name in fh gateway mh; do
    ip netns add "$name"
    ip -n "$name" link set lo up
done
ip -n fh link add wired type veth peer name wired netns gateway
ip -n fh address add 10.0.1.2/24 dev wired
ip -n gateway address add 10.0.1.1/24 dev wired
ip -n fh link set wired up
ip -n gateway link set wired up
ip netns exec gateway sysctl -q net.ipv4.ip_forward=1
"$program" link --fh-ns /run/netns/gateway --mh-ns /run/netns/mh --fh-address 10.0.2.1/24 --mh-address 10.0.2.2/24 \
    --rate 20 --delay 25 --queue 200 --outage 4.0+3.0 --outage 12.0+1.0 --start first-packet "${carrier[@]}" &
wait_for ip -n mh route get 10.0.2.1
ip -n fh route add default via 10.0.1.1
ip -n mh route add default via 10.0.2.1
socket="$folder/control"
ip netns exec gateway "$program" gateway --wireless link-fh --scheme observe \
    --control-socket "$socket" --state-file "$folder/state" &
wait_for test -S "$socket"
head -c 30000000 /dev/urandom >"$folder/file"
ip netns exec fh python3 -c 'import socket, sys
connection, _ = socket.create_server(("", 80)).accept()
connection.sendall(open(sys.argv[1], "rb").read())' "$folder/file" &
wait_for ip netns exec fh bash -c 'ss --listening --tcp --numeric | grep -q :80'
# The MH opens the connection.
ip netns exec mh bash -c 'cat </dev/tcp/10.0.1.2/80' >"$folder/received"
cmp "$folder/file" "$folder/received"
"$program" status --socket "$socket" --outages
