#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Tests the packages in target/package/ (scripts/package.sh) as root: their files, the program for arm64
# (QEMU), and the .deb in clean Debian systems that boot systemd (systemd-nspawn): install, start, status,
# upgrade in mid-transfer, remove, purge. The suite `rpm` is the same with the .rpm: dnf on a Debian whose
# RPM database is empty.
#
#     scripts/package_test.sh [SUITE...]     bookworm, trixie and rpm unless given
#
# The systems are made once by mmdebstrap and kept in this user's cache folder, beside the virtual kernel.
# Where Debian's packages cannot be fetched, and for a processor without packages, a line with `SKIPPED`
# has the reason. With HOLDFAST_NO_SKIP=1 that is a failure. FH, gateway and MH are network namespaces; all
# that is made is removed at the end. The last line is `N passed, N failed, N skipped`.
#
# HOLDFAST_PACKAGE_QUICK=1   packages of scripts/package.sh with the same variable: they may be larger

set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin" LC_ALL=C.UTF-8

[ "$(id -u)" -eq 0 ] || {
    echo 'package_test.sh: not root: no system can be booted' >&2
    exit 1
}
suites=("$@")
[ $# -gt 0 ] || suites=(bookworm trixie rpm)
scripts/packages.sh package-test
target="$(realpath -m "${CARGO_TARGET_DIR:-target}")"
bytes_max=15000000
# Packages of a tag are never quick.
[ "${HOLDFAST_PACKAGE_QUICK:-0}" != 1 ] || git describe --tags --exact-match --match 'v*' >/dev/null 2>&1 || bytes_max=25000000
readonly target packages="$target/package" bytes_max
readonly roots="${XDG_CACHE_HOME:-$HOME/.cache}/holdfast/package-roots"
readonly fh="hfp-fh-$$" gateway="hfp-gw-$$" mh="hfp-mh-$$" group="/holdfast-package-test-$$"

passed=0 failed=0 skipped=0
# skip NAME REASON
skip() {
    skipped=$((skipped + 1))
    [ -z "${HOLDFAST_NO_SKIP:-}" ] || failed=$((failed + 1))
    echo "SKIPPED $1: $2"
}
# check NAME COMMAND...
check() {
    local output status
    # Within a condition -e would have no effect.
    set +e
    output="$(set -e && "${@:2}" 2>&1)"
    status=$?
    set -e
    if [ $status -eq 0 ]; then
        passed=$((passed + 1))
        echo "ok      $1"
    else
        failed=$((failed + 1))
        printf 'FAILED  %s\n%s\n' "$1" "$output"
    fi
}
# Waits for a condition, a minute at most.
until_true() {
    local deadline=$((SECONDS + 60))
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $deadline ] || {
            echo "not in 60 s: $*"
            return 1
        }
        sleep 0.1
    done
}

work="$(mktemp -d)"
machine=
cgroups="$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)"
leave() {
    trap - EXIT
    stop_machine || true
    delete_network
    [ ! -d "$cgroups$group" ] || find "$cgroups$group" -depth -type d -exec rmdir {} + || true
    rm -rf --one-file-system "$work"
}

# --- files -----------------------------------------------------------------------------------

small_and_static() {
    local file
    for file in "$packages"/*; do
        [ "$(stat -c %s "$file")" -le $bytes_max ] || echo "$file: above $bytes_max bytes"
    done
    for file in "$work"/*/usr/bin/holdfast; do
        ! readelf -l "$file" | grep -q INTERP || echo "$file: not static"
        ! readelf -S "$file" | grep -q -E '\.(symtab|debug_info)' || echo "$file: not stripped"
    done
}
finds_nothing() {
    local found
    found="$("$@")"
    echo "$found"
    [ -z "$found" ]
}
same_files() {
    # rpm also lists folders.
    diff <(rpm -qplv "$packages"/holdfast-*.x86_64.rpm | awk '!/^d/ { print $9 }' | sort) \
        <(dpkg-deb --fsys-tarfile "$packages"/holdfast_*_amd64.deb | tar -t | sed 's/^\.//; /\/$/d' |
            grep -v -E 'lintian|changelog.Debian|vendor-completions' | sort) | sed -n '/^[<>]/p' || true
}
settings_are_private() {
    local settings
    for settings in holdfast mobile; do
        rpm -qplv "$packages"/holdfast-*.x86_64.rpm | grep "^-rw------- .* /etc/holdfast/$settings.toml$"
        dpkg-deb --fsys-tarfile "$packages"/holdfast_*_amd64.deb | tar -tv |
            grep "^-rw------- root/root .* ./etc/holdfast/$settings.toml$"
        dpkg-deb -I "$packages"/holdfast_*_amd64.deb conffiles | grep -x "/etc/holdfast/$settings.toml"
    done
}
pages_are_clean() {
    local page
    for page in "$work"/x86_64/usr/share/man/man*/*; do
        MANWIDTH=80 man --warnings -l "$page" 2>&1 >/dev/null | sed "s|^|$page: |"
    done
}

# If a package's script fails, dpkg leaves the package half-configured. Mounts replace systemd's programs here.
failed_restart_is_a_message() {
    local output expected program
    mkdir -p "$work/no-systemd"
    printf '#!/bin/sh\n[ "$1" != try-restart ]\n' >"$work/no-systemd/systemctl"
    for program in systemd-sysusers systemd-tmpfiles; do
        printf '#!/bin/sh\n' >"$work/no-systemd/$program"
    done
    chmod +x "$work"/no-systemd/*
    output="$(PATH="$work/no-systemd:$PATH" unshare --mount sh -e -c '
        mount -t tmpfs tmpfs /run
        mkdir -p /run/systemd/system
        exec packaging/scripts/postinstall configure 0.1.0' 2>&1)"
    expected="$(for unit in holdfast-gateway.service holdfast-mobile.service; do
        echo "holdfast: $unit did not start again; see: journalctl -u $unit"
    done)"
    diff <(echo "$expected") - <<<"$output"
}

# --- OpenWrt -----------------------------------------------------------------------------------

readonly openwrt=packaging/openwrt
# Runs with each awk of Debian; OpenWrt has that of busybox.
uci_becomes_toml() {
    local daemon awk
    for awk in mawk gawk busybox; do
        mkdir -p "$work/$awk"
        ln -sf "$(command -v "$awk")" "$work/$awk/awk"
        for daemon in gateway mobile; do
            PATH="$work/$awk:$PATH" $openwrt/files/uci-to-toml $daemon $openwrt/tests/$daemon.uci |
                diff $openwrt/tests/$daemon.toml -
        done
    done
}
# Each line of wrong.txt has two lines of a file, and the error with the number of its line.
wrong_uci_is_one_line() {
    local first second error output
    while IFS='|' read -r first second error; do
        [[ "$first" != '#'* ]] || continue
        printf '%b\n%b\n' "$first" "$second" >"$work/wrong"
        output="$($openwrt/files/uci-to-toml gateway "$work/wrong" 2>&1 >/dev/null || echo "status $?")"
        diff <(printf 'uci-to-toml: %s:%s\nstatus 64\n' "$work/wrong" "$error") - <<<"$output"
    done <$openwrt/tests/wrong.txt
}

# --- arm64 -----------------------------------------------------------------------------------

arm64() { qemu-aarch64-static "$work/aarch64/usr/bin/holdfast" "$@"; }
# The emulator has no BPF: the check reports that, and the rest of the check runs.
arm64_checks_the_router() {
    local report status=0
    report="$(ip netns exec "$gateway" qemu-aarch64-static "$work/aarch64/usr/bin/holdfast" gateway \
        --wireless wireless0 --check 2>&1)" || status=$?
    echo "$report"
    [ $status -eq 1 ]
    grep -q '^note    only IPv4 is forwarded from wireless0;' <<<"$report"
    grep -q '^ok      no nft flowtable has wireless0 among its devices$' <<<"$report"
    grep -q '^PROBLEM the data path: .*Function not implemented' <<<"$report"
    grep -q -x 'holdfast: 1 problem(s) found' <<<"$report"
}
# Both processors send the same packets at the same times.
x86_64() { "$work/x86_64/usr/bin/holdfast" "$@"; }
digests() { "$@" lab run docs/scenarios/real-train.toml --out - | grep -o '"digest":"[^"]*"'; }
arm64_sends_the_same_packets() {
    digests x86_64 >"$work/digests.x86_64"
    digests arm64 >"$work/digests.aarch64"
    [ -s "$work/digests.x86_64" ]
    diff "$work/digests.x86_64" "$work/digests.aarch64"
}

# --- systems -----------------------------------------------------------------------------------

made_root() {
    local tar="$roots/$1.tar" new="$roots/$1.$$.tar" from=("--include=systemd-sysv" "$1")
    [ "$1" != rpm ] || from=("--include=systemd-sysv,dnf,rpm" bookworm)
    if [ ! -e "$tar" ]; then
        mkdir -p "$roots"
        mmdebstrap --quiet --variant=apt "${from[@]}" "$new" || {
            rm -f "$new"
            return 1
        }
        mv "$new" "$tar"
    fi
    mkdir "$work/$1"
    tar -C "$work/$1" -xf "$tar"
}

# FH - gateway - MH; the gateway's namespace is the system's.
made_network() {
    local namespace
    for namespace in "$fh" "$gateway" "$mh"; do
        ip netns add "$namespace"
        ip -n "$namespace" link set lo up
    done
    ip -n "$gateway" link add wired0 type veth peer name eth0 netns "$fh"
    ip -n "$gateway" link add wireless0 type veth peer name eth0 netns "$mh"
    ip -n "$gateway" address add 10.1.0.1/24 dev wired0
    ip -n "$gateway" address add 10.2.0.1/24 dev wireless0
    ip -n "$fh" address add 10.1.0.2/24 dev eth0
    ip -n "$mh" address add 10.2.0.2/24 dev eth0
    for link in "$gateway wired0" "$gateway wireless0" "$fh eth0" "$mh eth0"; do
        ip -n "${link% *}" link set "${link#* }" up
    done
    ip -n "$fh" route add default via 10.1.0.1
    ip -n "$mh" route add default via 10.2.0.1
    ip netns exec "$gateway" sysctl -q -w net.ipv4.ip_forward=1
}
delete_network() {
    local namespace
    for namespace in "$fh" "$gateway" "$mh"; do
        ip netns pids "$namespace" 2>/dev/null | xargs -r kill -KILL || true
        ip netns delete "$namespace" 2>/dev/null || true
    done
}

# systemd needs a control group of its own (version 2), nspawn a folder in /run.
readonly boot='
    mkdir -p "$1$2" && echo $$ >"$1$2/cgroup.procs"
    umount -R -l /sys/fs/cgroup
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
    mkdir -p /run/systemd && mount -t tmpfs tmpfs /run/systemd
    exec systemd-nspawn --quiet --keep-unit --register=no --boot --directory="$3" \
        --network-namespace-path="$4" --capability=all --system-call-filter="bpf perf_event_open" \
        --link-journal=no --console=read-only'
started_machine() {
    unshare --mount bash -c "$boot" boot "$cgroups" "$group" "$work/$1" "/run/netns/$gateway" \
        </dev/null >"$work/$1.console" 2>&1 &
    machine=$!
    until_true inside systemctl is-active multi-user.target
    # As udev creates it.
    in_shell 'mkdir -p /dev/net && rm -f /dev/net/tun && mknod -m 666 /dev/net/tun c 10 200'
}
stop_machine() {
    [ -n "$machine" ] || return 0
    kill "$machine" 2>/dev/null || true
    wait "$machine" 2>/dev/null || true
    machine=
}
inside() {
    local init
    init="$(pgrep -P "$machine")"
    nsenter --target "$init" --mount --uts --ipc --net --pid --cgroup --root \
        env -i -C / PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive "$@"
}
in_shell() { inside sh -e -c "$1"; }
# The package manager: dnf for the .rpm, apt-get for the .deb.
manager() {
    case "$kind" in
    deb) inside apt-get -q -y "$@" ;;
    rpm) inside dnf -q -y "$@" ;;
    esac
}
# Without systemd's programs the package creates its user by useradd. Afterwards the system is as before.
without_sysusers() {
    local bin="$work/$1/usr/bin" program status=0
    for program in systemd-sysusers systemd-tmpfiles; do
        mv "$bin/$program" "$bin/$program.away"
    done
    chroot "$work/$1" sh -e -c '
        dpkg -i /root/holdfast.deb
        grep "^holdfast:.*:/:/usr/sbin/nologin$" /etc/passwd
        [ "$(stat -c "%a %U %G" /etc/holdfast/mobile.toml)" = "640 root holdfast" ]
        dpkg --purge holdfast
        userdel holdfast' || status=$?
    for program in systemd-sysusers systemd-tmpfiles; do
        mv "$bin/$program.away" "$bin/$program"
    done
    return $status
}
installed_version() {
    case "$kind" in
    deb) inside dpkg-query -W -f '${Version}\n' holdfast ;;
    rpm) inside rpm -q holdfast ;;
    esac
}

# --- a life in a system ---------------------------------------------------------------------

# The mobile serves the traffic that this machine forwards through wired0.
readonly -A sockets=([gateway]=/run/holdfast/gateway.sock [mobile]=/run/holdfast/mobile.sock)
# status DAEMON
status() { inside holdfast status --json --socket "${sockets[$1]}"; }
number() { sed -n "s/^ *\"$1\": \([0-9]*\),*$/\1/p" | head -n 1; }
tracks_both_flows() { [ "$(status gateway | number tracked)" -ge 2 ]; }
# The mobile gets copies of both directions while the link is up. It adopts flows that began before it.
gets_copies() { [ "$(status mobile | number "tcp-path.copied_$1")" -gt 0 ]; }
adopts_both_flows() { [ "$(status mobile | number flows_adopted)" -ge 2 ]; }
main_pid() { inside systemctl show -P MainPID "holdfast-$1"; }
not_started_yet() {
    local daemon
    for daemon in gateway mobile; do
        [ "$(inside systemctl is-enabled "holdfast-$daemon")" = disabled ]
        [ "$(inside systemctl is-active "holdfast-$daemon")" = inactive ]
    done
}
# started DAEMON SETTINGS
started() {
    inside holdfast "$1" --config "$2" --check
    inside systemctl enable --now "holdfast-$1" || {
        inside journalctl --no-pager -u "holdfast-$1" -n 20
        return 1
    }
    until_true status "$1"
}
started_daemons() {
    in_shell 'sed -i "s/^wireless = .*/wireless = \"wireless0\"/" /etc/holdfast/holdfast.toml'
    in_shell 'printf "[mobile]\ninterface = \"wired0\"\n" >/etc/holdfast/mobile.toml'
    started gateway /etc/holdfast/holdfast.toml
    started mobile /etc/holdfast/mobile.toml
    status mobile | grep -F '"scheme": "auto"'
}

# The threads of a daemon have no capability; a process that it started has some.
# shellcheck disable=SC2016
without_capabilities() {
    local daemon
    for daemon in gateway mobile; do
        inside sh -e -c '
            grep CapPrm /proc/"$1"/task/*/status
            [ "$(cat /proc/"$1"/task/*/status | sed -n "s/^CapPrm:\t//p" | sort -u)" = 0000000000000000 ]
            broker="$(grep -l "^PPid:.$1$" /proc/[0-9]*/status | xargs grep -l "^CapPrm:.*[1-9a-f]")"
            grep "^CapPrm" "$broker"' sh "$(main_pid $daemon)"
    done
}

# end_of HOST DIRECTION FILE: one end of a transfer. At its end it prints the number of bytes and the hash.
end_of() {
    local namespace="$fh"
    [ "$1" = fh ] || namespace="$mh"
    ip netns exec "$namespace" scripts/package_transfer.py "$@" >"$work/$1.$2" 2>&1 &
}
# A download and an upload: the senders send until a file exists.
started_transfers() {
    local direction
    end_of fh download "$work/enough"
    end_of fh upload "$work/upload.progress"
    for direction in download upload; do
        until_true ip netns exec "$mh" scripts/package_transfer.py probe $direction
    done
    end_of mh download "$work/download.progress"
    end_of mh upload "$work/enough"
    until_true tracks_both_flows
    until_true gets_copies downlink
    until_true gets_copies uplink
}
more_bytes_than() { [ "$(stat -c %s "$work/$1.progress")" -gt "$2" ]; }
upgraded() {
    local daemon direction after
    local -A before
    for daemon in gateway mobile; do
        before[$daemon]="$(main_pid $daemon)"
    done
    manager install "/root/next.$kind"
    for daemon in gateway mobile; do
        after="$(main_pid $daemon)"
        [ "${before[$daemon]}" != "$after" ]
        [ "$after" != 0 ]
        until_true status $daemon
    done
    for direction in download upload; do
        until_true more_bytes_than $direction "$(stat -c %s "$work/$direction.progress")"
    done
    # The new daemons have adopted the flows that began before them.
    until_true tracks_both_flows
    until_true adopts_both_flows
    inside grep -q -x 'wireless = "wireless0"' /etc/holdfast/holdfast.toml
    installed_version | grep -F '+next'
}
intact() {
    local direction
    touch "$work/enough"
    for direction in download upload; do
        until_true test -s "$work/fh.$direction" -a -s "$work/mh.$direction"
        cat "$work/fh.$direction" "$work/mh.$direction"
        cmp "$work/fh.$direction" "$work/mh.$direction"
    done
}
# NetworkManager calls the hook; here the test does.
hooked() {
    until_true mobile_link up
    local hook=/usr/lib/NetworkManager/dispatcher.d/90-holdfast
    inside $hook wireless0 down
    mobile_link up
    inside $hook wired0 down
    mobile_link down
    inside $hook wired0 up
    mobile_link up
    inside systemctl stop holdfast-mobile
}
mobile_link() { status mobile | grep -F "\"link\": \"$1\""; }
# rpm renames changed settings.
removed() {
    manager remove holdfast
    local kept=/etc/holdfast/holdfast.toml
    [ "$kind" = deb ] || kept+=.rpmsave
    inside test -e $kept -a ! -e /usr/bin/holdfast
    inside grep -q -x 'wireless = "wireless0"' $kept
    ! inside systemctl is-active holdfast-gateway holdfast-mobile || return 1
    ! ip -n "$gateway" -o link | grep -E '^[0-9]+: hf' || return 1
}
# The files of a system, except those of its kernel and of its package manager.
files_of() {
    inside find / -xdev -path /proc -prune -o -path /sys -prune -o -path /tmp -prune -o -path /root -prune \
        -o -path /var/log -prune -o -path /var/cache -prune -o -path /var/lib/dpkg -prune \
        -o -path /var/lib/systemd -prune -o -path /var/lib/apt -prune -o -path /etc/passwd- -prune \
        -o -path /var/lib/dnf -prune -o -path /var/lib/rpm -prune -o -name __pycache__ -prune \
        -o -path /etc/shadow- -prune -o -path /etc/group- -prune -o -path /etc/gshadow- -prune \
        -o -path /etc/.pwd.lock -prune -o -print | sort
    inside find /run -name '*holdfast*'
}
# rpm leaves only changed settings.
settings_alone_are_left() {
    local left
    files_of >"$work/files.after"
    left="$(diff "$work/files.before" "$work/files.after" | sed -n '/^[<>]/p' |
        grep -v -E '^> /etc/holdfast(/[a-z]+\.toml\.rpmsave)?$' || true)"
    echo "$left"
    [ -z "$left" ]
}
purged() {
    inside apt-get -q -y purge holdfast
    files_of >"$work/files.after"
    diff "$work/files.before" "$work/files.after"
}

life_in() {
    local suite="$1" kind=deb
    [ "$suite" != rpm ] || kind=rpm
    echo "--- $suite"
    made_root "$suite" || {
        skip "$suite" 'no system could be made: Debian'"'"'s packages cannot be fetched here'
        return 0
    }
    case "$kind" in
    deb) cp "$packages"/holdfast_*_amd64.deb "$work/$suite/root/holdfast.deb" ;;
    rpm) cp "$packages"/holdfast-*.x86_64.rpm "$work/$suite/root/holdfast.rpm" ;;
    esac
    cp "$work/next.$kind" "$work/$suite/root/"
    rm -f "$work"/enough "$work"/*.progress "$work"/{fh,mh}.{download,upload}
    [ ! -e "$work/$suite/usr/sbin/useradd" ] || [ "$kind" = rpm ] ||
        check "$suite: install without systemd-sysusers" without_sysusers "$suite"
    made_network
    started_machine "$suite" || {
        tail -n 40 "$work/$suite.console"
        failed=$((failed + 1))
        stop_machine
        delete_network
        return 0
    }
    inside systemd-tmpfiles --create
    # The package `filesystem` has these folders on systems with RPM.
    [ "$kind" = deb ] || inside mkdir -p /usr/share/fish/vendor_completions.d /usr/share/zsh/site-functions
    files_of >"$work/files.before"
    check "$suite: install" manager install "/root/holdfast.$kind"
    # tmpfiles.d gives the daemons' group read access to the settings.
    [ "$kind" = deb ] || check "$suite: the files" inside rpm -V --noconfig holdfast
    check "$suite: no unit is enabled or started" not_started_yet
    check "$suite: gateway and mobile: --check, start, status" started_daemons
    check "$suite: the daemons have dropped their capabilities" without_capabilities
    check "$suite: a download and an upload through both daemons" started_transfers
    check "$suite: upgrade in mid-transfer" upgraded
    check "$suite: the bytes of both transfers" intact
    check "$suite: NetworkManager's hook" hooked
    check "$suite: remove" removed
    case "$kind" in
    deb) check "$suite: purge leaves nothing" purged ;;
    rpm) check "$suite: nothing but settings is left" settings_alone_are_left ;;
    esac
    stop_machine
    delete_network
}

trap leave EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

for tarball in "$packages"/*.tar.xz; do
    processor="${tarball##*-}"
    mkdir "$work/${processor%.tar.xz}"
    tar -C "$work/${processor%.tar.xz}" --strip-components=1 -xf "$tarball"
done
dpkg-deb -R "$packages"/holdfast_*_amd64.deb "$work/next"
sed -i 's/^Version: .*/&+next/' "$work/next/DEBIAN/control"
dpkg-deb -Zgzip -z1 --root-owner-group -b "$work/next" "$work/next.deb" >/dev/null
cp -r packaging "$work/x86_64/"
next_version="$(rpm -qp --qf '%{VERSION}' "$packages"/holdfast-*.x86_64.rpm)+next"
(cd "$work/x86_64" && VERSION="$next_version" ARCH=amd64 PYTHONPATH="$target/packaging-tools" \
    "$target/packaging-tools/bin/nfpm" package -f packaging/nfpm.yaml -p rpm -t "$work/next.rpm" >/dev/null)

check 'checksums' bash -c "cd '$packages' && sha256sum --strict --check SHA256SUMS"
check 'small, static and stripped' finds_nothing small_and_static
check 'lintian' lintian --allow-root --fail-on error "$packages"/*.deb
check '.deb and .rpm have the same files' finds_nothing same_files
check 'settings are conffiles for root alone' settings_are_private
check 'manual pages' finds_nothing pages_are_clean
check 'the SBOM is JSON' python3 -m json.tool "$packages"/*.cdx.json
check 'a daemon that does not start again fails no upgrade' failed_restart_is_a_message
check 'OpenWrt: UCI to TOML' uci_becomes_toml
check 'OpenWrt: mistakes' wrong_uci_is_one_line
check 'OpenWrt: init script, both daemons, hotplug' scripts/openwrt_test.sh "$work/x86_64/usr/bin/holdfast"
if [ -d "$work/aarch64" ]; then
    check 'arm64: --version' arm64 --version
    made_network
    check 'arm64: gateway --check' arm64_checks_the_router
    delete_network
    check 'arm64: the packets of the model' arm64_sends_the_same_packets
else
    skip 'arm64' 'no package was built for it'
fi
for suite in "${suites[@]}"; do
    life_in "$suite"
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
