#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# rustc for scripts/fuzz.sh (RUSTC_WRAPPER): adds edge coverage to our crates and to their parsers. Where a target
# parses its bytes directly, the operands of comparisons are reported too. Where a byte is a decision, operands show
# nothing and would cost half of the time.

set -euo pipefail

edges=(-Cpasses=sancov-module)
for flag in level=4 inline-8bit-counters pc-table; do
    edges+=("-Cllvm-args=-sanitizer-coverage-$flag")
done
readonly edges

case " $* " in
*' --crate-name holdfast_core '* | *' --crate-name holdfast_fuzz '*) exec "$@" "${edges[@]}" ;;
*' --crate-name holdfast_'* | *' --crate-name etherparse '* | *' --crate-name netlink_packet_'*)
    exec "$@" "${edges[@]}" -Cllvm-args=-sanitizer-coverage-trace-compares
    ;;
# The vector code is of no use for datagrams of a few dozen bytes.
*' --crate-name chacha20 '* | *' --crate-name poly1305 '*)
    exec "$@" --cfg chacha20_force_soft --cfg poly1305_force_soft
    ;;
*) exec "$@" ;;
esac
