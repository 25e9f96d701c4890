// SPDX-License-Identifier: Apache-2.0
//! `--check` of both daemons on machines that have something wrong, and a gateway at a bridge.
#![allow(missing_docs, reason = "a test")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Output;
use std::time::{Duration, Instant};

use holdfast_net::netns::{ChildGuard, NetNs, available_or_skip};
use holdfast_testbed::daemons::request_output;
use serde_json::Value;

const HOLDFAST: &str = env!("CARGO_BIN_EXE_holdfast");
const LIMIT: Duration = Duration::from_secs(60);
/// The finding of a data path that was attached for a moment.
const ATTACHES: &str = "the data path attaches to wlan0";
const KEY: &str = "hf1:0000000a:1111111111111111111111111111111111111111111111111111111111111111";

/// FH, the gateway's machine and the MH, in a namespace each.
struct Machines {
    fh: NetNs,
    gateway: NetNs,
    mh: NetNs,
    folder: tempfile::TempDir,
}

/// The three of them, with veth pairs: eth0 leads to the FH, wlan0 to the MH; `lan0` has no host behind
/// it and the smallest Ethernet address, which a bridge takes over.
const WIRES: &str = "
    ip link add eth0 type veth peer name eth0 netns $FH
    ip link add wlan0 type veth peer name wlan0 netns $MH
    ip link add lan0 address 00:00:5e:00:53:01 type veth peer name lan1
    for device in eth0 wlan0 lan0 lan1; do ip link set $device up; done";

/// The gateway's machine routes between the FH and the MH.
const ROUTED: &str = "
    ip address add 10.1.0.1/24 dev eth0
    sysctl -q -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1";

/// A bridge of all ports toward mobiles.
const BRIDGE: &str = "
    ip link add br0 type bridge && ip link set lan0 master br0 && ip link set wlan0 master br0
    ip link set br0 up";

fn shell(ns: &NetNs, script: &str) {
    let mut command = ns.command("sh");
    let status = command.args(["-e", "-c", script]).status().unwrap();
    assert!(status.success(), "{script}");
}

impl Machines {
    /// None, and a loud line, where that cannot be. `router` completes the gateway's machine.
    fn new(test: &str, router: &str, fh: &str) -> Option<Self> {
        if !available_or_skip(test) {
            return None;
        }
        let [fh_ns, gateway, mh] = [(); 3].map(|()| NetNs::new().unwrap());
        let folder = tempfile::tempdir().unwrap();
        let mut pids = Vec::new();
        for ns in [&fh_ns, &mh] {
            // `ip` names a namespace by a process in it.
            let mut sleep = ns.command("sleep");
            sleep.arg("600");
            pids.push(ns.spawn_guarded(sleep).unwrap());
        }
        let names = format!("FH={} MH={}\n", pids[0].id(), pids[1].id());
        shell(&gateway, &format!("{names}{WIRES}{router}"));
        shell(&fh_ns, &format!("ip link set eth0 up; {fh}"));
        shell(
            &mh,
            "ip link set wlan0 up; ip address add 10.2.0.2/24 dev wlan0
            ip route add default via 10.2.0.1",
        );
        Some(Self {
            fh: fh_ns,
            gateway,
            mh,
            folder,
        })
    }

    /// One whose machine routes, with its wireless side at this device.
    fn routed(test: &str, device: &str, more: &str) -> Option<Self> {
        let router = format!("{ROUTED}\n{more}\nip address add 10.2.0.1/24 dev {device}");
        let fh = "ip address add 10.1.0.2/24 dev eth0; ip route add default via 10.1.0.1";
        Self::new(test, &router, fh)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn settings(&self, text: &str) -> PathBuf {
        let path = self.path("hf.toml");
        fs::write(&path, text).unwrap();
        path
    }

    /// The findings, a line each, and whether there is no problem.
    fn check(&self, command: &[&str]) -> (String, bool) {
        let ns = if command[0] == "mobile" {
            &self.mh
        } else {
            &self.gateway
        };
        let output = holdfast(ns, &[command, &["--check"]].concat());
        let shown = String::from_utf8(output.stdout).unwrap();
        for line in shown.lines() {
            let known = ["ok  ", "note", "PROBLEM"]
                .iter()
                .any(|word| line.starts_with(word));
            assert!(known && line.is_ascii(), "{line}");
            assert!(
                line.starts_with("ok") || line.contains("; "),
                "no remedy: {line}"
            );
        }
        (shown, output.status.success())
    }

    fn check_file(&self, text: &str) -> (String, bool) {
        let path = self.settings(text);
        self.check(&["gateway", "--config", path.to_str().unwrap()])
    }

    /// A gateway, ready.
    fn gateway_at(&self, device: &str, more: &[&str]) -> Daemon {
        let socket = self.path("gateway.sock");
        let mut command = self.gateway.command(HOLDFAST);
        command.args(["gateway", "--wireless", device, "--control-socket"]);
        command
            .arg(&socket)
            .arg("--state-file")
            .arg(self.path("gateway.state"))
            .args(more);
        command.stderr(fs::File::create(self.path("log")).unwrap());
        let gateway = Daemon {
            child: self.gateway.spawn_guarded(command).unwrap(),
            socket,
        };
        await_that("the gateway answers", || gateway.status().is_some());
        gateway
    }

    /// A megabyte from the FH to the MH.
    fn download(&self) {
        let (at, length) = (SocketAddr::from(([0, 0, 0, 0], 700)), 1 << 20);
        let listener = self.fh.run(|| TcpListener::bind(at).unwrap()).unwrap();
        let fh = self.fh.run(own_address).unwrap();
        let stream = self
            .mh
            .run(|| TcpStream::connect_timeout(&fh, LIMIT).unwrap());
        let (mut at_mh, (mut at_fh, _)) = (stream.unwrap(), listener.accept().unwrap());
        let sends = std::thread::spawn(move || at_fh.write_all(&vec![7; length]).unwrap());
        let mut received = vec![0; length];
        at_mh.read_exact(&mut received).unwrap();
        assert!(received.iter().all(|octet| *octet == 7));
        sends.join().unwrap();
    }
}

/// The address of `eth0` in the calling thread's namespace.
fn own_address() -> SocketAddr {
    let mut command = std::process::Command::new("ip");
    let addresses = command
        .args(["-j", "-4", "address", "show", "eth0"])
        .output();
    let addresses: Value = serde_json::from_slice(&addresses.unwrap().stdout).unwrap();
    let address = addresses[0]["addr_info"][0]["local"].as_str().unwrap();
    SocketAddr::new(address.parse().unwrap(), 700)
}

fn await_that(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < deadline, "{what}: not within {LIMIT:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn holdfast(ns: &NetNs, arguments: &[&str]) -> Output {
    ns.command(HOLDFAST).args(arguments).output().unwrap()
}

/// A running daemon.
struct Daemon {
    child: ChildGuard,
    socket: PathBuf,
}

impl Daemon {
    fn status(&self) -> Option<Value> {
        let mut command = std::process::Command::new(HOLDFAST);
        command.args(["status", "--json", "--socket"]);
        let output = request_output(command.arg(&self.socket));
        serde_json::from_slice(&output.unwrap().stdout).ok()
    }

    /// Segments that it has taken, downlink and uplink.
    fn taken(&self) -> (u64, u64) {
        let status = self.status().unwrap();
        let counter = |name: &str| {
            let counters = status["counters"].as_object().unwrap();
            let mut named = counters.iter().filter(|(key, _)| key.ends_with(name));
            named
                .next()
                .and_then(|(_, value)| value.as_u64())
                .unwrap_or_default()
        };
        (counter("taken_downlink"), counter("taken_uplink"))
    }
}

#[test]
fn at_the_port_of_a_bridge_the_gateway_sees_what_is_routed_and_what_is_switched() {
    let test = "at_the_port_of_a_bridge_the_gateway_sees_what_is_routed_and_what_is_switched";
    let switched = "ip link add br0 type bridge && ip link set eth0 master br0
        ip link set lan0 master br0 && ip link set wlan0 master br0 && ip link set br0 up";
    let fh = "ip address add 10.2.0.9/24 dev eth0";
    for (is_routed, device, sees) in [
        (true, "wlan0", true),
        (true, "br0", true),
        (false, "wlan0", true),
        // What a bridge switches never passes the bridge's own device.
        (false, "br0", false),
    ] {
        let machines = if is_routed {
            Machines::routed(test, "br0", BRIDGE)
        } else {
            Machines::new(test, &format!("\n{switched}"), fh)
        };
        let Some(machines) = machines else { return };
        let mut gateway = machines.gateway_at(device, &["--scheme", "hold"]);
        let (mut before, mut taken) = (gateway.taken(), (0, 0));
        // Of one download.
        let mut takes_both = || {
            machines.download();
            let now = gateway.taken();
            taken = (now.0 - before.0, now.1 - before.1);
            before = now;
            taken.0 > 10 && taken.1 > 10
        };
        let case = format!("routed: {is_routed}, at {device}");
        if sees {
            // While the worker is late, or does not know the bridge yet, segments pass it.
            await_that(&case, takes_both);
        } else {
            takes_both();
            assert!(taken.0.max(taken.1) <= 10, "{case}: {taken:?}");
        }
        println!("{case}: {taken:?} down and up");
        assert!(gateway.child.terminate(LIMIT).unwrap().1);
    }
}

#[test]
fn a_port_is_good_and_a_bridge_is_noted_with_its_ports() {
    let test = "a_port_is_good_and_a_bridge_is_noted_with_its_ports";
    let Some(machines) = Machines::routed(test, "br0", BRIDGE) else {
        return;
    };
    let (shown, good) = machines.check(&["gateway", "--wireless", "wlan0"]);
    assert!(
        good && shown.contains("ok      wlan0 is a port of br0"),
        "{shown}"
    );
    let (shown, good) = machines.check(&["gateway", "--wireless", "br0"]);
    assert!(good && shown.contains("note    br0 is a bridge"), "{shown}");
    assert!(
        shown.contains("--wireless PORT") && shown.contains("wlan0"),
        "{shown}"
    );
}

#[test]
fn an_interface_that_is_down_is_a_problem_and_a_mobile_waits_for_one_that_is_missing() {
    let test = "an_interface_that_is_down_is_a_problem_and_a_mobile_waits_for_one_that_is_missing";
    let Some(machines) = Machines::routed(test, "wlan0", "ip link add down0 type ifb") else {
        return;
    };
    let (shown, good) = machines.check(&["gateway", "--wireless", "down0"]);
    assert!(!good && shown.contains("PROBLEM down0 is down"), "{shown}");
    shell(&machines.mh, "ip link add down0 type ifb");
    let (shown, good) = machines.check(&["mobile", "--interface", "down0"]);
    assert!(!good && shown.contains("PROBLEM down0 is down"), "{shown}");
    let (shown, _) = machines.check(&["mobile", "--interface", "nowhere0"]);
    assert!(
        shown.contains("nowhere0") && shown.contains("waits"),
        "{shown}"
    );
}

#[test]
fn an_alternative_name_of_an_interface_is_refused_and_the_own_one_is_shown() {
    let test = "an_alternative_name_of_an_interface_is_refused_and_the_own_one_is_shown";
    let Some(machines) = Machines::routed(test, "wlan0", "") else {
        return;
    };
    let commands = [
        (&machines.gateway, ["gateway", "--wireless", "radio0"]),
        (&machines.mh, ["mobile", "--interface", "radio0"]),
    ];
    for (ns, command) in commands {
        shell(ns, "ip link property add dev wlan0 altname radio0");
        let (shown, good) = machines.check(&command);
        assert!(
            !good && shown.contains("PROBLEM radio0 is an alternative name of wlan0"),
            "{shown}"
        );
        // It ends before it attaches anything.
        let output = holdfast(ns, &command);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success());
        assert!(
            error.contains("alternative name of wlan0; write wlan0"),
            "{error}"
        );
    }
}

#[test]
fn a_firewall_that_drops_the_signals_is_found_whatever_its_rules() {
    let test = "a_firewall_that_drops_the_signals_is_found_whatever_its_rules";
    let file = |device: &str| {
        format!(
            "[gateway]\nwireless = \"{device}\"\n[[mobile]]\nname = \"a\"\nkey = \"{KEY}\"\n\
             addresses = [\"10.2.0.2\"]\n"
        )
    };
    for (device, more) in [("wlan0", ""), ("br0", BRIDGE)] {
        let Some(machines) = Machines::routed(test, device, more) else {
            return;
        };
        // At a bridge the gateway is at its port.
        let file = file("wlan0");
        let (shown, good) = machines.check_file(&file);
        assert!(
            good && shown.contains("a signal from 10.2.0.2 that arrives on wlan0 reaches"),
            "{shown}"
        );
        for rules in [
            "table inet f { chain i { type filter hook input priority 0; policy drop;
                ct state established,related accept; iifname lo accept; }; }",
            "table ip f { chain one { ip saddr 10.2.0.0/24 udp dport { 53, 4848 } reject; };
                chain i { type filter hook input priority 0; jump one; }; }",
            "table inet f { chain p { type filter hook prerouting priority raw;
                fib daddr type local meta l4proto udp th dport 4000-5000 drop; }; }",
        ] {
            shell(&machines.gateway, &format!("nft '{rules}'"));
            let (shown, good) = machines.check_file(&file);
            assert!(
                !good && shown.contains("is dropped before UDP port 4848"),
                "{rules}: {shown}"
            );
            assert!(shown.contains("udp dport 4848 accept"), "{shown}");
            shell(&machines.gateway, "nft flush ruleset");
        }
        // The route to the mobile leaves by another interface.
        shell(
            &machines.gateway,
            "sysctl -q -w net.ipv4.conf.all.rp_filter=1
            ip route add 10.2.0.2/32 dev eth0",
        );
        let (shown, good) = machines.check_file(&file);
        assert!(!good && shown.contains("rp_filter"), "{shown}");
    }
}

#[test]
fn a_check_leaves_nothing_and_disturbs_no_running_gateway() {
    let test = "a_check_leaves_nothing_and_disturbs_no_running_gateway";
    let Some(machines) = Machines::routed(test, "wlan0", "") else {
        return;
    };
    let devices = || {
        let read = || {
            fs::read_dir("/proc/thread-self/net/dev_snmp6")
                .unwrap()
                .count()
        };
        machines.gateway.run(read).unwrap()
    };
    let before = devices();
    let (shown, good) = machines.check(&["gateway", "--wireless", "wlan0"]);
    assert!(good && shown.contains(ATTACHES), "{shown}");
    assert_eq!(devices(), before);
    let mut gateway = machines.gateway_at("wlan0", &[]);
    let (shown, good) = machines.check(&["gateway", "--wireless", "wlan0"]);
    assert!(good && shown.contains("a gateway runs on wlan0"), "{shown}");
    assert!(!shown.contains("TCX program"), "{shown}");
    assert!(!shown.contains(ATTACHES), "{shown}");
    machines.download();
    assert!(gateway.child.terminate(LIMIT).unwrap().1);
}

#[test]
fn a_mobile_learns_whether_its_gateway_answers() {
    let test = "a_mobile_learns_whether_its_gateway_answers";
    let Some(machines) = Machines::routed(test, "wlan0", "") else {
        return;
    };
    let key = machines.path("key");
    fs::write(&key, KEY).unwrap();
    let arguments = [
        "mobile",
        "--interface",
        "wlan0",
        "--gateway",
        "10.2.0.1",
        "--key-file",
    ];
    let check = || machines.check(&[&arguments[..], &[key.to_str().unwrap()]].concat());
    let (shown, good) = check();
    assert!(
        !good && shown.contains("10.2.0.1:4848 does not answer"),
        "{shown}"
    );
    let remedy = "on the gateway: holdfast gateway --config /etc/holdfast/holdfast.toml --check";
    assert!(shown.contains(remedy), "{shown}");
    let file = machines.settings(&format!(
        "[[mobile]]\nname = \"a\"\nkey = \"{KEY}\"\naddresses = [\"10.2.0.2\"]\n"
    ));
    let mut gateway = machines.gateway_at("wlan0", &["--config", file.to_str().unwrap()]);
    let (shown, good) = check();
    assert!(
        good && shown.contains("the gateway 10.2.0.1:4848 answers signals"),
        "{shown}"
    );
    assert!(shown.contains(ATTACHES), "{shown}");
    let believed = gateway.status().unwrap()["counters"]["signals.believed"].clone();
    assert_eq!(believed, 0, "the check changes nothing there");
    // Beside the daemon it neither attaches nor signals.
    let mut mobile = machines.mh.command(HOLDFAST);
    mobile.args(arguments).arg(&key).arg("--control-socket");
    mobile.arg(machines.path("mobile.sock"));
    mobile.stderr(fs::File::create(machines.path("mobile.log")).unwrap());
    let mut mobile = Daemon {
        child: machines.mh.spawn_guarded(mobile).unwrap(),
        socket: machines.path("mobile.sock"),
    };
    await_that("the mobile answers", || mobile.status().is_some());
    let (shown, good) = check();
    assert!(good && shown.contains("a mobile runs on wlan0"), "{shown}");
    for absent in [ATTACHES, "answers signals", "TCX program"] {
        assert!(!shown.contains(absent), "{absent}: {shown}");
    }
    for daemon in [&mut mobile, &mut gateway] {
        assert!(daemon.child.terminate(LIMIT).unwrap().1);
    }
}

/// The set-up of docs/schemes/handoff.md: `lo` has the address that the mobile keeps.
#[test]
fn an_interface_that_no_scheme_can_serve_is_a_problem_only_with_a_scheme() {
    let test = "an_interface_that_no_scheme_can_serve_is_a_problem_only_with_a_scheme";
    let Some(machines) = Machines::routed(test, "wlan0", "") else {
        return;
    };
    let key = machines.path("key");
    fs::write(&key, KEY).unwrap();
    let file = machines.settings(&format!(
        "[[mobile]]\nname = \"a\"\nkey = \"{KEY}\"\naddresses = [\"10.2.0.2\"]\n"
    ));
    let mut gateway = machines.gateway_at("wlan0", &["--config", file.to_str().unwrap()]);
    let check = |scheme: &str| {
        let file = machines.settings(&format!(
            "[mobile]\ninterface = \"lo\"\nscheme = \"{scheme}\"\nkey_file = \"{}\"\n\
             cells = [\"wlan0 10.2.0.1\", \"wlan0 10.2.0.1\"]\n",
            key.display()
        ));
        machines.check(&["mobile", "--config", file.to_str().unwrap()])
    };
    let (shown, good) = check("none");
    assert!(
        good && shown.contains("ok      the gateway 10.2.0.1:4848 answers signals"),
        "{shown}"
    );
    let (shown, good) = check("auto");
    assert!(
        !good && shown.contains("PROBLEM interface lo: link type 772"),
        "{shown}"
    );
    assert!(gateway.child.terminate(LIMIT).unwrap().1);
}
