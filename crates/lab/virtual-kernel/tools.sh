#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks that the tools of the virtual kernel's build are there; root installs what is missing.
#
#     tools.sh [TARBALL]         without a tarball apt has to get the sources

set -euo pipefail

# A program, and the Debian package that has it.
tools=(gcc:gcc ld:binutils make:make flex:flex bison:bison bc:bc patch:patch tar:tar xz:xz-utils)
[ $# -gt 0 ] || tools+=(apt-get:apt dpkg-deb:dpkg)

missing=
for tool in "${tools[@]}"; do
    command -v "${tool%%:*}" >/dev/null || missing+=" ${tool#*:}"
done
[ -n "$missing" ] || exit 0

if [[ "$missing " == *" apt "* || "$missing " == *" dpkg "* ]] || ! command -v apt-get >/dev/null; then
    echo "the virtual kernel's build lacks (Debian's package names)$missing; without apt," \
        "install their equivalents and give the kernel's sources with --source" >&2
    exit 1
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "the virtual kernel's build lacks$missing; not root, so nothing was installed;" \
        "run: sudo apt-get install --no-install-recommends$missing" >&2
    exit 1
fi
echo "== installing$missing"
export DEBIAN_FRONTEND=noninteractive
options=(-q -y -o DPkg::Lock::Timeout=300)
# A third-party source that fails is no reason to stop: the installation decides.
apt-get "${options[@]}" update || true
# shellcheck disable=SC2086 # one word for each package
apt-get "${options[@]}" install --no-install-recommends $missing
