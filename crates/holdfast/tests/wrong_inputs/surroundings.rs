// SPDX-License-Identifier: Apache-2.0
//! Wrong variables of the environment, and users without rights.

use super::{ROW, Row};

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    with_variable("HOLDFAST_LOG", "a=b=c", "gateway --config {d}/nope", 64, &["{d}/nope: cannot be read: No such file or directory (os error 2)", "name another with --config"]),
    with_variable("RUST_BACKTRACE", "1", "gateway --config {d}/nope", 64, &["{d}/nope: cannot be read: No such file or directory (os error 2)", "name another with --config"]),
    with_variable("COLUMNS", "1", "gateway --wirless w0", 64, &["unexpected argument '--wirless' found", "tip: a similar argument exists: '--wireless'", "see: holdfast gateway --help"]),
    with_variable("PATH", "/nonexistent", "demo", 1, &["nginx: not found in PATH", "install it, on Debian: apt install nginx-light curl"]),
    with_variable("PATH", "/nonexistent", "gateway --wireless w0 --check", 1, &["this machine does not forward packets that arrive on w0; sysctl -w net.ipv4.ip_forward=1 (and net.ipv6.conf.al"]),
    with_variable("TERM", "nothing", "top", 1, &["top: needs a terminal", "`holdfast status` prints once, wherever to"]),
    with_variable("XDG_RUNTIME_DIR", "/nonexistent", "mobile --interface w0 --scheme none --gateway 10.2.0.1 --key-file {d}/nope", 64, &["key `mobile.key_file`: {d}/nope cannot be read: No such file or directory (os error 2)", "make it with `holdfast mobile keygen {d}/nope`"]),
    with_variable("DBUS_SYSTEM_BUS_ADDRESS", "garbage", "mobile --config {d}/modem.toml --check", 1, &["address error: Invalid address. See https://dbus.freedesktop.org/doc/dbus-specification.html#addresses: it wou"]),
    with_variable("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent", "mobile --config {d}/modem.toml --check", 1, &["sources.modem: no system D-Bus: failed to connect to `unix:path=/nonexistent`: No such file or directory (os error 2): it would report nothing"]),
    without_rights("gateway --wireless w0 --check", 1, &["this machine does not forward packets that arrive on w0; sysctl -w net.ipv4.ip_forward=1 (and net.ipv6.conf.al", "the data path: open /dev/net/tun: Permission denied (os error 13); run as root, or with CAP_NET_ADMIN and CAP_"]),
    without_rights("gateway --config {d}/locked", 64, &["{d}/locked: cannot be read: Permission denied (os error 13)", "run as root, or for the user of the units: chgrp holdfast {d}/locked && chmod 640 {d}/locked"]),
    without_rights("mobile --interface w0 --check", 1, &["the data path: open /dev/net/tun: Permission denied (os error 13); run as root, or with CAP_NET_ADMIN and CAP_"]),
    without_rights("mobile --interface w0 --gateway 10.2.0.1 --key-file {d}/locked", 64, &["key `mobile.key_file`: {d}/locked cannot be read: Permission denied (os error 13)", "run as root, or for the user of the units: chgrp holdfast {d}/locked && chmod 640 {d}/locked"]),
    without_rights("status --socket {d}/sock", 1, &["{d}/sock: Permission denied (os error 13)", "run as root, or as a member of the socket's group"]),
    without_rights("mobile keygen {d}/new.key", 1, &["{d}/new.key: the key cannot be written", "name a file that is not there yet: Permission denied (os error 13)"]),
    without_rights("mobile keygen {d}/locked", 1, &["{d}/locked: the key cannot be written", "name a file that is not there yet: File exists (os error 17)"]),
    without_rights("mobile keygen /etc/new.key", 1, &["/etc/new.key: the key cannot be written", "name a file that is not there yet: Permission denied (os error 13)"]),
    without_rights("setup --role gateway --wireless w0 --yes --force --config {d}/locked", 1, &["{d}/locked: cannot be read", "run as root, or name another with --config: Permission denied (os error 13)"]),
    without_rights("generate man {d}/dir", 1, &["{d}/dir: cannot write there", "name a folder that is there and that this user can write to: Permission denied (os error 13)", "run as root"]),
    without_rights("link --rate 5", 1, &["--fh-if link-fh: open /dev/net/tun: Permission denied (os error 13)", "run as root"]),
    without_rights("link --fh-ns /proc/1/ns/net", 1, &["--fh-ns: /proc/1/ns/net cannot be opened", "takes a path as /run/netns/mh, or the number of a process: Permission denied (os error 13)", "run as root"]),
    without_rights("link --config {d}/locked", 64, &["{d}/locked: cannot be read: Permission denied (os error 13)", "name another with --config"]),
    without_rights("lab run {d}/scenario.toml --out {d}/new.jsonl", 1, &["--out: {d}/new.jsonl cannot be written: Permission denied (os error 13)"]),
    without_rights("lab list {d}/locked", 1, &["{d}/locked: cannot be read", "Permission denied (os error 13)", "run as root"]),
    with_variable("TMPDIR", "/nonexistent", "demo", 1, &["TMPDIR: /nonexistent is no folder", "make it, or set another"]),
    with_variable("TMPDIR", "/nonexistent", "lab run {d}/scenario.toml --substrate live", 1, &["TMPDIR: /nonexistent is no folder", "make it, or set another"]),
    without_rights("gateway --wireless w0 --control-socket {d}/c.sock --state-file {d}/s.state", 1, &["{d}/c.sock: cannot listen there", "name another path with --control-socket", "run as root"]),
    without_rights("mobile --interface w0 --scheme wake --control-socket {d}/m.sock", 1, &["interface w0", "Operation not permitted", "run as root"]),
    without_rights("mobile --interface w0 --scheme keep --control-socket {d}/m.sock", 1, &["interface w0: open /dev/net/tun: Permission denied", "run as root"]),
    without_rights("setup --role gateway --wireless w0 --yes --config {d}/new.toml", 1, &["{d}/new.toml: cannot be written", "run as root, or name another with --config"]),
    without_rights("setup --role gateway --wireless w0 --yes --force --config {d}/text", 1, &["{d}/text: cannot be written", "run as root, or name another with --config"]),
    without_rights("demo", 1, &["create a network namespace: Operation not permitted", "run as root"]),
    without_rights("lab run {d}/scenario.toml --substrate live", 1, &["create a network namespace: Operation not permitted", "run as root"]),
];

const fn with_variable(
    name: &'static str,
    value: &'static str,
    command: &'static str,
    status: i32,
    parts: &'static [&'static str],
) -> Row {
    Row {
        command,
        variable: Some((name, value)),
        status,
        parts,
        ..ROW
    }
}

const fn without_rights(command: &'static str, status: i32, parts: &'static [&'static str]) -> Row {
    Row {
        command,
        is_unprivileged: true,
        status,
        parts,
        ..ROW
    }
}
