#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes sure that the programs and headers a task needs are on this machine.
#
#     scripts/packages.sh build|test|demo|bench|lint|fuzz|kernel|packetdrill|slurm-test|recordings|paper
#                         |package|package-test|board-test|board-view
#
# Prints nothing if everything is there. Otherwise it installs the missing packages and nothing else, as root on a
# Debian system. In any other case it names them with the command, and fails. Post-installation scripts of packages
# start no service, now or at the next boot.

set -euo pipefail

# A package, and a program on the path or a file that shows that it is there. An equivalent, such as another nginx
# flavour, counts.
readonly build='
    gcc             cc
    libc6-dev       /usr/include/stdio.h
    binutils        nm
    make            make
    pkg-config      pkg-config
    clang           clang
    libbpf-dev      /usr/include/bpf/bpf_helpers.h
    libelf-dev      /usr/include/libelf.h
    zlib1g-dev      /usr/include/zlib.h
    linux-libc-dev  /usr/include/linux/bpf.h'
readonly fuzz='
    g++             c++'
readonly format='
    clang-format    clang-format
    shellcheck      shellcheck'
readonly run='
    iproute2        ip
    nftables        nft
    nginx-light     nginx
    curl            curl
    ethtool         ethtool
    procps          ps
    util-linux      unshare'
readonly measure='
    dbus-daemon     dbus-daemon
    systemd         systemd-analyze
    iperf3          iperf3'
readonly browse='
    chromium        chromium'
readonly compare='
    haproxy         haproxy
    valgrind        valgrind'
readonly machine='
    qemu-system-x86 qemu-system-x86_64
    busybox-static  /bin/busybox
    cpio            cpio
    kmod            depmod
    iw              iw
    hostapd         hostapd
    wpasupplicant   wpa_supplicant
    wireguard-tools wg'
readonly python='
    python3         python3'
readonly plots='
    python3         python3
    python3-matplotlib /usr/lib/python3/dist-packages/matplotlib/__init__.py'
readonly packetdrill='
    bison           bison
    flex            flex
    net-tools       ifconfig
    python3         python3'
readonly cluster='
    procps          pgrep
    munge           munged
    slurm-client    sbatch
    slurmctld       slurmctld
    slurmd          slurmd'

# libelf for musl is built from its sources, by its own build system.
readonly packaging='
    autoconf        autoreconf
    automake        automake
    autopoint       autopoint
    bison           bison
    flex            flex
    gawk            gawk
    git             git
    python3         python3
    python3-pip     pip3
    xz-utils        xz'
readonly packaging_test='
    iproute2        ip
    lintian         lintian
    mmdebstrap      mmdebstrap
    busybox-static  /bin/busybox
    qemu-user-static /usr/bin/qemu-aarch64-static
    rpm             rpm
    systemd-container systemd-nspawn
    util-linux      unshare'
readonly monitor='
    iproute2        ip
    curl            curl
    procps          sysctl
    python3         python3
    prometheus      prometheus'
readonly bundle='
    nodejs          node
    npm             npm'

# Packages whose post-installation enables a service, with the service.
readonly services='
    nginx-light     nginx.service
    prometheus      prometheus.service
    haproxy         haproxy.service
    hostapd         hostapd.service
    wpasupplicant   wpa_supplicant.service
    munge           munge.service
    slurmctld       slurmctld.service
    slurmd          slurmd.service'

usage() {
    echo "usage: $0 build|lint|demo|test|bench|fuzz|kernel|packetdrill|slurm-test|recordings|paper|package|package-test|board-test|board-view" >&2
    exit 2
}

case "${1-}" in
build) wanted="$build" ;;
fuzz) wanted="$build$fuzz" ;;
# clippy checks the programs of crates/fuzz too.
lint) wanted="$build$fuzz$python$format" ;;
demo) wanted="$build$run" ;;
test) wanted="$build$run$measure$browse" ;;
bench) wanted="$build$run$measure$compare" ;;
kernel) wanted="$build$run$measure$machine" ;;
packetdrill) wanted="$build$run$packetdrill" ;;
slurm-test) wanted="$build$cluster" ;;
recordings | paper) wanted="$build$run$compare$plots" ;;
package) wanted="$build$packaging" ;;
board-test) wanted="$build$monitor" ;;
board-view) wanted="$build$monitor$browse$bundle" ;;
package-test) wanted="$build$packaging$packaging_test" ;;
*) usage ;;
esac

# Tools of routers are in sbin, which is not on every user's path.
export PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"

present() {
    case "$1" in
    /*) [ -e "$1" ] ;;
    *) command -v "$1" >/dev/null 2>&1 ;;
    esac
}

missing=()
while read -r package probe; do
    [ -n "$package" ] || continue
    present "$probe" || missing+=("$package")
done <<<"$wanted"

[ ${#missing[@]} -gt 0 ] || exit 0

if ! command -v apt-get >/dev/null 2>&1; then
    echo "packages.sh: missing (Debian's package names): ${missing[*]}" >&2
    echo "packages.sh: no apt-get on this system: install their equivalents and run again" >&2
    exit 1
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "packages.sh: missing packages: ${missing[*]}" >&2
    echo "packages.sh: not root, so nothing was installed. Run this, then try again:" >&2
    echo "    sudo apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 1
fi

# Debian calls this program before a post-installation script may start a service; 101 forbids it.
readonly policy=/usr/sbin/policy-rc.d
saved=
restore_policy() {
    if [ -n "$saved" ]; then
        mv -f "$saved" "$policy"
    else
        rm -f "$policy"
    fi
}
forbid_service_starts() {
    if [ -e "$policy" ] || [ -L "$policy" ]; then
        local kept
        kept="$policy.holdfast.$$"
        mv "$policy" "$kept"
        saved="$kept"
    fi
    trap restore_policy EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
}

# Services that were not there before do not start at the next boot.
disable_new_services() {
    command -v systemctl >/dev/null 2>&1 || return 0
    local package service
    while read -r package service; do
        case " ${missing[*]} " in
        *" $package "*) systemctl disable "$service" >/dev/null 2>&1 || true ;;
        esac
    done <<<"$services"
}

echo "packages.sh: installing ${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
readonly apt=(apt-get -q -y -o DPkg::Lock::Timeout=300)
forbid_service_starts
# A failing third-party source is no reason to stop: the installation decides.
"${apt[@]}" update </dev/null >&2 || true
"${apt[@]}" install --no-install-recommends "${missing[@]}" </dev/null >&2
disable_new_services
