#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The end of the suite's defaults.sh, in our copy of it: packetdrill has made tun0, and the script has
# not begun. Attaches the gateway to tun0, if HOLDFAST_SCHEME names its scheme.

# Fails if it ends, or does not answer within 30 s.
attach_gateway() {
    "$HOLDFAST_PROGRAM" gateway --wireless tun0 --scheme "$HOLDFAST_SCHEME" \
        >/run/gateway.log 2>&1 </dev/null &
    local gateway=$! socket=/run/holdfast/gateway.sock tries
    for ((tries = 0; tries < 600; tries++)); do
        # The answer comes from the thread that handles packets.
        if [ -S $socket ] && "$HOLDFAST_PROGRAM" status >/dev/null 2>&1; then return 0; fi
        kill -0 "$gateway" 2>/dev/null || return 1
        sleep 0.05
    done
    return 1
}

if [ -n "${HOLDFAST_SCHEME:-}" ] && ! attach_gateway; then
    echo 'the gateway did not start' >&2
    exit 1
fi
exit 0
