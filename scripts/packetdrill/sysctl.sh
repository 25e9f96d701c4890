#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The beginning of the suite's defaults.sh, in our copy of it: sysctl without a program of its own.
# Takes what defaults.sh uses: sysctl -q NAME=VALUE... What the kernel does not have is left out.

sysctl() {
    local setting name file
    for setting in "${@:2}"; do
        name=${setting%%=*}
        file=/proc/sys/${name//./\/}
        if [ -e "$file" ]; then echo "${setting#*=}" >"$file"; fi
    done
}
