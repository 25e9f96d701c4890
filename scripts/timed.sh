#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs a test program so that it prints how long each test took.
#
#     scripts/timed.sh PROGRAM ARGUMENTS...
#
# The stable toolchain's test harness has the option too, and takes it with this variable alone.

exec env RUSTC_BOOTSTRAP=1 "$@" -Z unstable-options --report-time
