#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs a test program so that it prints how long each test took.
#
#     scripts/timed.sh PROGRAM ARGUMENTS...
#
# HOLDFAST_TEST_WITHOUT   the name of a test program that is left out here, because it runs elsewhere
#
# The stable toolchain's test harness has the option too, but accepts it only with this variable.

case "${1##*/}" in
"${HOLDFAST_TEST_WITHOUT:-}"-*)
    echo "    (beside the others)"
    exit 0
    ;;
esac
exec env RUSTC_BOOTSTRAP=1 "$@" -Z unstable-options --report-time
