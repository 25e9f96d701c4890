#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Tests OpenWrt's files (packaging/openwrt/) as root in a root folder with busybox's shell and tools alone, in
# a network of its own: the init script starts both daemons by UCI's settings, the daemons take these, and
# hotplug's events reach the mobile's daemon. procd, rc.common and uci are those of packaging/openwrt/tests.
#
#     scripts/openwrt_test.sh PROGRAM     a static holdfast

set -euo pipefail
program="$(realpath "$1")"
cd "$(dirname "$0")/../packaging/openwrt"
export PATH="$PATH:/usr/sbin:/sbin"

# A network and mounts of its own: nothing on this machine changes, and everything ends with this process.
if [ "${2-}" != inside ]; then
    root="$(mktemp -d)"
    trap 'rm -rf --one-file-system "$root"' EXIT
    unshare --net --mount --pid --fork --kill-child "../../scripts/$(basename "$0")" "$program" inside "$root"
    exit
fi
root="$3"

mkdir -p "$root"/{bin,dev,proc,sys,tmp,var,run/holdfast,etc/{config,init.d,hotplug.d/iface,holdfast},usr/{bin,lib/holdfast}}
cp /bin/busybox "$root/bin/"
chroot "$root" /bin/busybox --install -s /bin
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount --rbind /dev "$root/dev"
in_root() { chroot "$root" /bin/env -i PATH=/bin:/usr/bin "$@"; }

# The paths of the recipe's `Package/holdfast/install`.
install -m 755 "$program" "$root/usr/bin/holdfast"
install -m 755 ../../dist/networkmanager/90-holdfast "$root/usr/lib/holdfast/link-event"
install -m 755 files/uci-to-toml "$root/usr/lib/holdfast/"
install -m 600 files/holdfast.config "$root/etc/config/holdfast"
install -m 600 files/holdfast-mobile.config "$root/etc/config/holdfast-mobile"
install -m 755 files/holdfast.init "$root/etc/init.d/holdfast"
install -m 644 files/holdfast.hotplug "$root/etc/hotplug.d/iface/90-holdfast"
install -m 755 tests/rc.common "$root/etc/rc.common"
install -m 755 tests/uci "$root/bin/uci"

ip link set lo up
ip link add br-lan type veth peer name lan0
ip link add wwan0 type veth peer name modem0
for interface in br-lan lan0 wwan0 modem0; do ip link set "$interface" up; done
echo 1 >"$root/proc/sys/net/ipv4/ip_forward"
echo 1 >"$root/proc/sys/net/ipv6/conf/all/forwarding"
ip address add 10.9.0.1/24 dev br-lan
ip address add 10.8.0.2/24 dev wwan0

fail() {
    echo "openwrt_test.sh: $1" >&2
    exit 1
}
# printed EXPECTED FILE
printed() { diff "$1" "$2" >&2 || fail "the output of the init script is not that of $1"; }

# Disabled daemons are not started.
in_root /etc/init.d/holdfast start >"$root/tmp/started"
printed tests/started-disabled.txt "$root/tmp/started"

sed -i "s/option enabled '0'/option enabled '1'/" "$root"/etc/config/*
in_root /etc/init.d/holdfast start >"$root/tmp/started"
printed tests/started.txt "$root/tmp/started"

# The commands that procd would execute.
for daemon in gateway mobile; do
    settings="/var/etc/holdfast-$daemon.toml"
    [ "$(stat -c %a "$root$settings")" = 600 ] || fail "$settings can be read by others"
    in_root holdfast "$daemon" --config "$settings" --check >"$root/tmp/check" 2>&1 || {
        cat "$root/tmp/check" >&2
        fail "$daemon: --check does not take $settings"
    }
done

# A mistake is one line in the log, with the remedy. A running daemon continues with its settings. A daemon that does
# not run is not started.
settings="$root/var/etc/holdfast-gateway.toml"
cp "$settings" "$root/tmp/before.toml"
cp "$root/etc/config/holdfast" "$root/tmp/right.uci"
# Starts both daemons with this line in the gateway's file; the problem is in the log.
start_with() {
    cp "$root/tmp/right.uci" "$root/etc/config/holdfast"
    echo "$1" >>"$root/etc/config/holdfast"
    in_root /etc/init.d/holdfast start >"$root/tmp/started" 2>"$root/tmp/errors" || true
    [ "$(wc -l <"$root/tmp/errors")" -eq 1 ] || fail "not one line in the log: $1"
    grep -q -F "$2" "$root/tmp/errors" || {
        cat "$root/tmp/errors" >&2
        fail "not in the log: $2"
    }
}
# mistake LINE PROBLEM
mistake() {
    cp "$root/tmp/before.toml" "$settings"
    start_with "$1" "gateway: the previous settings stay in force: $2"
    printed tests/started.txt "$root/tmp/started"
    cmp "$root/tmp/before.toml" "$settings" || fail 'a mistake has changed the settings of a running daemon'
    in_root /etc/init.d/holdfast stop >"$root/tmp/stopped"
    [ -z "$(ls "$root/var/etc")" ] || fail 'settings are left after a stop'
    start_with "$1" "gateway: not started: $2"
    ! grep -q '^instance gateway' "$root/tmp/started" || fail 'wrong settings were started'
    grep -q '^instance mobile' "$root/tmp/started" || fail 'the other daemon was not started'
    [ "$(ls "$root/var/etc")" = holdfast-mobile.toml ] || fail 'a mistake leaves a file'
}
mistake "option scheme 'autto'" '/etc/config/holdfast: key `gateway.scheme`: got "autto"'
mistake "option wirless 'lan0'" '/etc/config/holdfast: key `gateway.wirless`'
mistake "option 'wire less' x" 'uci-to-toml: /etc/config/holdfast:'
# The test's replacement of uci refuses this line, and uci-to-toml accepts it.
mistake "# option 'a comment'" '/etc/config/holdfast: uci cannot read it; run: uci show holdfast'

# Events of netifd reach the mobile's daemon, but not those of other interfaces.
in_root holdfast mobile --config /var/etc/holdfast-mobile.toml >"$root/tmp/mobile.log" 2>&1 &
link_is() {
    in_root holdfast status --json --socket /run/holdfast/mobile.sock 2>/dev/null |
        grep -q -F "\"link\": \"$1\""
}
until_link_is() {
    local deadline=$((SECONDS + 30))
    until link_is "$1"; do
        [ $SECONDS -lt $deadline ] || {
            cat "$root/tmp/mobile.log" >&2
            fail "the mobile's link is not $1"
        }
        sleep 0.1
    done
}
# As netifd's hotplug calls the scripts: it sources them, with these variables set.
hotplug() { in_root ACTION="$1" INTERFACE=wan DEVICE="$2" sh -c '. /etc/hotplug.d/iface/90-holdfast'; }
until_link_is up
hotplug ifdown br-lan
link_is up || fail "another interface's event was the mobile's"
hotplug ifdown wwan0
until_link_is down
hotplug ifup wwan0
until_link_is up
