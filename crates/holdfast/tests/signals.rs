// SPDX-License-Identifier: Apache-2.0
//! The signals between the two daemons, and how the mobile finds its gateway, in namespaces.

use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use holdfast_net::netns::{ChildGuard, NetNs, available_or_skip};
use holdfast_net::rtnl::Rtnl;
use holdfast_testbed::daemons::status_at;

/// The deadline of each step; a busy machine needs less.
const LIMIT: Duration = Duration::from_secs(60);

/// The gateway `w0` and the mobile `m0`, which lets in what belongs to its own connections.
struct World {
    gateway: NetNs,
    mobile: NetNs,
    folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let [gateway, mobile] = [(); 2].map(|()| NetNs::new().unwrap());
        let veth = || Rtnl::open()?.add_veth("w0", &gateway, "m0", &mobile);
        gateway.run(veth).unwrap().unwrap();
        // The gateway's other addresses are those of its wired side.
        let gateway_script = "ip address add 10.82.0.1/24 dev w0
            ip address add fd82::1/64 dev w0 nodad
            ip address add 10.81.0.1/32 dev lo
            ip address add fd81::1/128 dev lo nodad
            ip link set w0 up";
        let mobile_script = "ip address add 10.82.0.2/24 dev m0
            ip address add fd82::2/64 dev m0 nodad
            ip link set m0 up
            ip route add 10.81.0.0/24 via 10.82.0.1
            ip route add fd81::/64 via fd82::1
            nft 'table inet filter {
                chain input {
                    type filter hook input priority 0; policy drop;
                    ct state established,related accept
                    iif lo accept
                    meta l4proto ipv6-icmp accept
                }
            }'";
        for (ns, script) in [(&gateway, gateway_script), (&mobile, mobile_script)] {
            let status = ns.command("sh").args(["-e", "-c", script]).status();
            assert!(status.unwrap().success(), "{script}");
        }
        let folder = tempfile::tempdir().unwrap();
        let world = Self {
            gateway,
            mobile,
            folder,
        };
        let key = world.path("key");
        let mut keygen = std::process::Command::new(env!("CARGO_BIN_EXE_holdfast"));
        assert!(
            keygen
                .args(["mobile", "keygen", &key])
                .output()
                .unwrap()
                .status
                .success()
        );
        let settings = format!(
            "[gateway]\nwireless = \"w0\"\ncontrol_socket = \"{}\"\nstate_file = \"{}\"\n\
             [[mobile]]\nname = \"m\"\nkey_file = \"{key}\"\n\
             addresses = [\"10.82.0.2\", \"fd82::2\"]\n",
            world.path("gateway.sock"),
            world.path("state"),
        );
        fs::write(world.path("gateway.toml"), settings).unwrap();
        world
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// Signals that the gateway has believed.
    fn believed(&self) -> u64 {
        let status = status_at(Path::new(&self.path("gateway.sock"))).ok();
        let believed =
            status.and_then(|status| status.pointer("/counters/signals.believed")?.as_u64());
        believed.unwrap_or(0)
    }
}

fn start(ns: &NetNs, arguments: &[&str]) -> ChildGuard {
    let mut command = ns.command(env!("CARGO_BIN_EXE_holdfast"));
    command.args(arguments).stderr(Stdio::null());
    ns.spawn_guarded(command).unwrap()
}

#[test]
fn a_mobile_behind_a_firewall_is_believed_at_each_address_of_the_gateway() {
    if !available_or_skip("a_mobile_behind_a_firewall_is_believed_at_each_address_of_the_gateway") {
        return;
    }
    let world = World::new();
    let _gateway = start(
        &world.gateway,
        &["gateway", "--config", &world.path("gateway.toml")],
    );
    for address in ["10.82.0.1", "10.81.0.1", "[fd82::1]", "[fd81::1]"] {
        let before = world.believed();
        let mobile = start(
            &world.mobile,
            &[
                "mobile",
                "--interface",
                "m0",
                "--scheme",
                "none",
                "--gateway",
                address,
                "--key-file",
                &world.path("key"),
                "--control-socket",
                &world.path("mobile.sock"),
            ],
        );
        let start = Instant::now();
        while world.believed() == before {
            assert!(start.elapsed() < LIMIT, "{address}");
            std::thread::sleep(Duration::from_millis(20));
        }
        drop(mobile);
    }
}

/// The server of names does not answer, and the resolver waits for minutes.
#[test]
fn a_mobile_ends_without_its_resolver() {
    if !available_or_skip("a_mobile_ends_without_its_resolver") {
        return;
    }
    let world = World::new();
    let servers = world.path("resolv.conf");
    fs::write(
        &servers,
        "nameserver 127.0.0.1\noptions timeout:30 attempts:5\n",
    )
    .unwrap();
    let mobile = &world.mobile;
    let silent = mobile.run(|| UdpSocket::bind("127.0.0.1:53").unwrap());
    let silent = silent.unwrap();
    silent.set_read_timeout(Some(LIMIT)).unwrap();
    let script = format!(
        "mount --bind {servers} /etc/resolv.conf
        exec {} mobile --interface m0 --scheme none --gateway gateway.example \
            --key-file {} --control-socket {}",
        env!("CARGO_BIN_EXE_holdfast"),
        world.path("key"),
        world.path("mobile.sock"),
    );
    let mut command = mobile.command("unshare");
    command.args(["--mount", "sh", "-e", "-c", &script]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut daemon = mobile.spawn_guarded(command).unwrap();
    silent.recv(&mut [0; 512]).expect("a query");
    let (status, by_itself) = daemon.terminate(LIMIT).unwrap();
    assert!(by_itself && status.success(), "{status}");
}
