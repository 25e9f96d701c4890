#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs `make test` again and again, every second time beside other work: two busy loops for each
# processor, and a program that writes to the disk. A test that depends on the machine fails here.
#
#     scripts/steady.sh [RUNS]        10 unless given
#
# Prints one line for each run. The output of run N is in target/steady/N.log.

set -euo pipefail
cd "$(dirname "$0")/.."

readonly runs="${1:-10}"
readonly folder="${CARGO_TARGET_DIR:-target}/steady"
mkdir -p "$folder"

load=()
end_load() {
    [ ${#load[@]} -eq 0 ] || kill "${load[@]}" 2>/dev/null || true
    [ ${#load[@]} -eq 0 ] || wait "${load[@]}" 2>/dev/null || true
    load=()
    rm -f "$folder/disk"
}
trap end_load EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

begin_load() {
    local i
    for ((i = 0; i < 2 * $(nproc); i++)); do
        (while :; do :; done) &
        load+=($!)
    done
    (while :; do dd if=/dev/zero of="$folder/disk" bs=1M count=512 conv=fsync 2>/dev/null; done) &
    load+=($!)
}

status=0
for ((run = 1; run <= runs; run++)); do
    beside=nothing
    if ((run % 2 == 0)); then
        beside='other work'
        begin_load
    fi
    began=$SECONDS
    verdict=passed
    make test >"$folder/$run.log" 2>&1 || { verdict=FAILED status=1; }
    end_load
    printf '%2d  %-6s  beside %-10s  %4d s  %s\n' "$run" "$verdict" "$beside" $((SECONDS - began)) \
        "$(tail -n 1 "$folder/$run.log")"
done
exit $status
