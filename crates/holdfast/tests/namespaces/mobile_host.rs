// SPDX-License-Identifier: Apache-2.0
//! `holdfast mobile` with a scheme for the MH's own flows, without any gateway: freezing, what
//! is left of a freeze when the daemon is killed or hangs, flaps; and with an M-TCP gateway,
//! what the marked ACK gains and what is compressed.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use holdfast_lab::daemons::make_key;
use holdfast_lab::download::Received;
use holdfast_lab::harness::{Flow, Harness};
use holdfast_lab::link_process::{EmulatedLink, MH_IF};
use holdfast_lab::topology::{GATEWAY_WIRED_IF, GATEWAY_WIRELESS, MH, TopologySettings};
use holdfast_link::OutageAt;
use holdfast_net::datapath::monotonic_ns;
use holdfast_net::netns::{ChildGuard, NetNs};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};

use super::compression::transfer;
use super::mobile_wake_senders::children;
use super::router::MASQUERADE;
use super::{HOLDFAST, PORT, await_that, connection, emulated, fh, start_link, wired};

pub(super) const MB: u64 = 1_000_000;
const SECOND_NS: u64 = 1_000_000_000;
/// How long an answer of the daemon may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// The daemon at the MH.
pub(super) struct Mobile {
    pub(super) child: ChildGuard,
    socket: PathBuf,
}

impl Mobile {
    pub(super) fn start(harness: &Harness, scheme: &str, more: &[&str]) -> Self {
        Self::start_at(&harness.topology.mh, MH_IF, harness, scheme, more)
    }

    /// One that waits a minute for what was announced.
    fn start_patient(harness: &Harness, set: &str) -> Self {
        let config = harness.folder().join("mobile.toml");
        let text = format!("[mobile]\nfreeze_set = \"{set}\"\nfalse_alarm_ms = 60000\n");
        std::fs::write(&config, text).unwrap();
        let config = ["--config", config.to_str().unwrap()];
        let log = ["--log-format", "json"];
        Self::start(harness, "freeze", &[config, log].concat())
    }

    pub(super) fn start_at(
        ns: &NetNs,
        interface: &str,
        harness: &Harness,
        scheme: &str,
        more: &[&str],
    ) -> Self {
        let socket = harness.folder().join("mobile.sock");
        let mut command = ns.command(HOLDFAST);
        command
            .args(["mobile", "--iface", interface, "--scheme", scheme])
            .args(more)
            .arg("--control-socket")
            .arg(&socket)
            .stderr(File::create(harness.folder().join("mobile.log")).unwrap());
        let child = ns.spawn_guarded(command).unwrap();
        let mobile = Self { child, socket };
        await_that("the mobile's daemon answers", || mobile.status().is_some());
        mobile
    }

    /// Asks on the control socket, without a process of its own: a busy machine starts one late.
    /// None: the daemon does not answer, or has not had the whole request in its time.
    fn ask(&self, request: &str) -> Option<serde_json::Value> {
        let mut stream = UnixStream::connect(&self.socket).ok()?;
        stream.set_read_timeout(Some(ANSWER_LIMIT)).unwrap();
        stream.write_all(format!("{request}\n").as_bytes()).ok()?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply).ok()?;
        serde_json::from_str(&reply).ok()
    }

    pub(super) fn status(&self) -> Option<serde_json::Value> {
        let status = self.ask(r#"{"command":"status"}"#)?;
        (status["reply"] == "mobile").then_some(status)
    }

    pub(super) fn counter(&self, name: &str) -> u64 {
        let mut counted = 0;
        await_that("the daemon answers", || {
            let status = self.status();
            counted = status.as_ref().map_or(0, |status| {
                status["counters"][name].as_u64().unwrap_or_default()
            });
            status.is_some()
        });
        counted
    }

    /// As an operator does.
    pub(super) fn signal(&self, words: &[&str]) {
        let status = std::process::Command::new(HOLDFAST)
            .args(["mobile", "signal"])
            .args(words)
            .arg("--socket")
            .arg(&self.socket)
            .status();
        assert!(status.unwrap().success(), "{words:?}");
    }

    /// The same without a process, which may take long to start.
    fn tell(&self, event: &str, lead_ms: u64) {
        let request = format!(r#"{{"command":"signal","event":"{event}","lead_ms":{lead_ms}}}"#);
        await_that("the daemon has heard it", || {
            self.ask(&request)
                .is_some_and(|reply| reply["reply"] == "done")
        });
    }

    /// Tells that the link goes at this time, which must not be over.
    fn announce(&self, goes_ns: u64) {
        let lead_ms = goes_ns.saturating_sub(monotonic_ns()) / 1_000_000;
        assert!(lead_ms > 0, "it is too late for a warning");
        self.tell("going-down-soon", lead_ms);
    }
}

/// A topology without a gateway.
pub(super) fn plain(test: &str, link: EmulatedLink) -> Option<Harness> {
    Harness::new(test, &emulated(link), None).unwrap_or_else(|error| panic!("{test}: {error:#}"))
}

pub(super) fn download(harness: &Harness, bytes: u64) -> Flow {
    let (at_fh, at_mh) = connection(harness, fh(), PORT);
    let flow = Flow::start(at_fh, at_mh, bytes, 5);
    flow.wait_bytes(MB / 2).unwrap();
    flow
}

/// When the first byte arrived after nothing had for so long.
fn resumed_after_ns(received: &Received, at_ns: u64) -> u64 {
    received
        .first_from(at_ns)
        .map_or(u64::MAX, |first| first.at_ns - at_ns)
}

#[test]
fn a_warned_outage_freezes_the_flow_and_its_end_opens_it_at_once() {
    let test = "a_warned_outage_freezes_the_flow_and_its_end_opens_it_at_once";
    let Some(mut harness) = plain(test, EmulatedLink::with_outage(2.0, 4.0)) else {
        return;
    };
    let mobile = Mobile::start_patient(&harness, "2000");
    let flow = download(&harness, 12 * MB);
    let start_ns = start_link(&mut harness);
    // The last ACKs have the time to arrive: as published they have not.
    mobile.announce(start_ns + SECOND_NS * 7 / 5);
    let received = flow.finish().unwrap();
    assert!(mobile.counter("host.frozen") > 0);
    assert!(mobile.counter("path.window_closed") > 0);
    assert_eq!(mobile.counter("path.window_not_closed"), 0);
    assert_eq!(mobile.counter("host.closed-now"), 0);
    // A sender that had timed out would be in its back-off: seconds.
    let stall_ms = received.stall_ms(start_ns + 6 * SECOND_NS);
    assert!(stall_ms < 1000, "stalled for {stall_ms} ms");
}

#[test]
fn today_a_window_opens_in_steps_and_is_the_mhs_own_again() {
    let test = "today_a_window_opens_in_steps_and_is_the_mhs_own_again";
    let Some(mut harness) = plain(test, EmulatedLink::with_outage(3.0, 3.0)) else {
        return;
    };
    // However late the carrier's word comes, the outage is no false alarm.
    let mobile = Mobile::start_patient(&harness, "today");
    let flow = download(&harness, 16 * MB);
    let start_ns = start_link(&mut harness);
    mobile.announce(start_ns + 3 * SECOND_NS);
    let received = flow.finish().unwrap();
    assert!(mobile.counter("path.window_closed") > 0);
    assert_eq!(mobile.counter("host.opened-in-steps"), 1);
    let stall_ms = received.stall_ms(start_ns + 6 * SECOND_NS);
    assert!(stall_ms < 1000, "stalled for {stall_ms} ms");
    await_that("the window is its own", || {
        mobile.counter("host.opening-now") == 0
    });
    assert_eq!(mobile.counter("host.closed-now"), 0);
    assert_eq!(mobile.counter("path.window_not_closed"), 0);
}

/// Steps last for four round trips of 300 ms, if nothing comes, and longer otherwise.
const STEPS_NS: u64 = 4 * 300_000_000;

#[test]
fn a_daemon_killed_while_a_window_opens_in_steps_leaves_no_flow_limited() {
    let test = "a_daemon_killed_while_a_window_opens_in_steps_leaves_no_flow_limited";
    let killed_in_time = (0..5).any(|_| {
        // Nobody but the test speaks of the link, which never goes: it is the same at any load.
        let link = EmulatedLink {
            delay_ms: 150.0,
            queue_packets: 100,
            ..EmulatedLink::default()
        };
        let Some(harness) = plain(test, link) else {
            return true;
        };
        let mut mobile = Mobile::start_patient(&harness, "today");
        let flow = download(&harness, 16 * MB);
        // A warning that a round trip has outgrown closes nothing: then there is another one.
        let mut warnings = 0;
        await_that("the window is closed", || {
            if mobile.counter("host.not-covered") >= warnings {
                mobile.tell("going-down-soon", 2000);
                warnings += 1;
            }
            mobile.counter("path.window_closed") > 0
        });
        stands_still(&flow, SECOND_NS);
        mobile.tell("down", 0);
        let began_ns = monotonic_ns();
        mobile.tell("up", 0);
        assert_eq!(mobile.counter("host.opened-in-steps"), 1);
        mobile.child.kill().unwrap();
        let killed_ns = monotonic_ns();
        let received = flow.finish().unwrap();
        // The gap before the first that came after the kill is the freeze's.
        let resumed = resumed_after_ns(&received, killed_ns);
        let gap = received.longest_gap_ns(killed_ns.saturating_add(resumed).saturating_add(1));
        let [resumed, gap] = [resumed, gap].map(Duration::from_nanos);
        let limit = Duration::from_secs(2);
        assert!(resumed < limit && gap < limit, "{resumed:?}, {gap:?}");
        // On a very slow machine the steps may be over before the kill: then that proves nothing.
        killed_ns - began_ns < STEPS_NS
    });
    assert!(killed_in_time, "five times the steps were over too soon");
}

#[test]
fn a_daemon_for_which_an_outage_and_its_end_are_one_jump_of_the_clock_opens_what_it_has_closed() {
    let test = "a_daemon_for_which_an_outage_and_its_end_are_one_jump_of_the_clock_opens_what_it_has_closed";
    let Some(mut harness) = plain(test, EmulatedLink::with_outage(0.2, 3.0)) else {
        return;
    };
    let mut mobile = Mobile::start_patient(&harness, "2000");
    let flow = download(&harness, 12 * MB);
    // Without a time: at once.
    mobile.tell("going-down-soon", 0);
    await_that("the window is closed", || {
        mobile.counter("path.window_closed") > 0
    });
    // As a suspended machine's: what happens meanwhile it hears of all at once.
    mobile.child.signal(libc::SIGSTOP).unwrap();
    let start_ns = start_link(&mut harness);
    await_that("the link is back", || {
        monotonic_ns() >= start_ns + 4 * SECOND_NS
    });
    mobile.child.signal(libc::SIGCONT).unwrap();
    // The guard had opened it, into the outage: when the FH tries again is its back-off's.
    flow.finish().unwrap();
    await_that("nothing is closed", || {
        mobile.counter("host.closed-now") == 0
    });
}

/// Waits until nothing has come for so long.
fn stands_still(flow: &Flow, for_ns: u64) {
    let watch = flow.watch();
    let (mut bytes, mut since) = (watch.bytes(), monotonic_ns());
    await_that("the flow stands still", || {
        if watch.bytes() != bytes {
            (bytes, since) = (watch.bytes(), monotonic_ns());
        }
        monotonic_ns() - since > for_ns
    });
}

/// A flow that stands still because its window is closed, long enough for the FH's probes to
/// be seconds apart.
fn frozen(harness: &Harness, mobile: &Mobile) -> Flow {
    let flow = download(harness, 8 * MB);
    mobile.signal(&["going-down-soon"]);
    await_that("the window is closed", || {
        mobile.counter("path.window_closed") > 0
    });
    stands_still(&flow, 4 * SECOND_NS);
    flow
}

#[test]
fn a_daemon_killed_in_a_freeze_leaves_no_flow_frozen() {
    let test = "a_daemon_killed_in_a_freeze_leaves_no_flow_frozen";
    let Some(harness) = plain(test, EmulatedLink::default()) else {
        return;
    };
    let mut mobile = Mobile::start_patient(&harness, "2000");
    let flow = frozen(&harness, &mobile);
    let killed_ns = monotonic_ns();
    mobile.child.kill().unwrap();
    let received = flow.finish().unwrap();
    let resumed = Duration::from_nanos(resumed_after_ns(&received, killed_ns));
    assert!(resumed < Duration::from_secs(1), "{resumed:?}");
    let log = harness.folder().join("mobile.log");
    let log = std::fs::read_to_string(log).unwrap();
    let mut lines = log.lines();
    let line = lines.find(|line| line.contains("the daemon is gone"));
    let line = line.unwrap_or_else(|| panic!("the guard says nothing: {log}"));
    let said: serde_json::Value = serde_json::from_str(line).unwrap();
    assert!(said["windows"].as_u64().unwrap() > 0, "{line}");
}

#[test]
fn a_guard_that_dies_in_a_freeze_has_a_successor_who_opens_what_the_daemon_leaves_closed() {
    let test =
        "a_guard_that_dies_in_a_freeze_has_a_successor_who_opens_what_the_daemon_leaves_closed";
    let Some(harness) = plain(test, EmulatedLink::default()) else {
        return;
    };
    let mut mobile = Mobile::start_patient(&harness, "2000");
    let daemon = mobile.child.id();
    await_that("there is a guard", || children(daemon).len() == 1);
    let guard = children(daemon)[0];
    let flow = frozen(&harness, &mobile);
    let pid = Pid::from_raw(guard.try_into().unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    await_that(
        "another takes its place",
        || matches!(children(daemon)[..], [other] if other != guard),
    );
    assert!(mobile.counter("host.closed-now") > 0);
    let killed_ns = monotonic_ns();
    mobile.child.kill().unwrap();
    let received = flow.finish().unwrap();
    let resumed = Duration::from_nanos(resumed_after_ns(&received, killed_ns));
    assert!(resumed < Duration::from_secs(1), "{resumed:?}");
}

/// The lowest limit by which the process can open so many more descriptors.
fn descriptors_limit(pid: u32, spare: usize) -> u64 {
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let number = |entry: std::fs::DirEntry| entry.file_name().into_string().unwrap();
    let open: BTreeSet<u64> = open
        .map(|entry| number(entry.unwrap()).parse().unwrap())
        .collect();
    let mut free = (0_u64..).filter(|number| !open.contains(number));
    free.nth(spare).unwrap()
}

#[test]
fn what_is_closed_stays_so_without_a_guard_until_the_link_is_back_or_there_is_one_again() {
    let test =
        "what_is_closed_stays_so_without_a_guard_until_the_link_is_back_or_there_is_one_again";
    let Some(harness) = plain(test, EmulatedLink::default()) else {
        return;
    };
    let mobile = Mobile::start_patient(&harness, "2000");
    let daemon = mobile.child.id();
    await_that("there is a guard", || children(daemon).len() == 1);
    let flow = frozen(&harness, &mobile);
    let pid_of = |number: u32| Pid::from_raw(number.try_into().unwrap());
    // Enough for a caller of the control socket, and too few for a guard and its maps.
    let few = Rlimit {
        current: Some(descriptors_limit(daemon, 3)),
        ..getrlimit(Resource::Nofile)
    };
    let enough = prlimit(pid_of(daemon), Resource::Nofile, few).unwrap();
    kill_process(pid_of(children(daemon)[0]).unwrap(), Signal::KILL).unwrap();
    await_that("it is missed", || children(daemon).is_empty());
    // Longer than orders hold that nobody says again.
    stands_still(&flow, 2 * SECOND_NS);
    assert!(mobile.counter("host.closed-now") > 0);
    assert!(children(daemon).is_empty());
    prlimit(pid_of(daemon), Resource::Nofile, enough).unwrap();
    await_that("there is a guard again", || children(daemon).len() == 1);
    assert!(mobile.counter("host.closed-now") > 0);
    let told_ns = monotonic_ns();
    mobile.tell("up", 0);
    let received = flow.finish().unwrap();
    let resumed = Duration::from_nanos(resumed_after_ns(&received, told_ns));
    assert!(resumed < Duration::from_secs(1), "{resumed:?}");
    assert_eq!(mobile.counter("host.closed-now"), 0);
}

#[test]
fn a_daemon_that_hangs_in_a_freeze_leaves_no_flow_frozen() {
    let test = "a_daemon_that_hangs_in_a_freeze_leaves_no_flow_frozen";
    let Some(harness) = plain(test, EmulatedLink::default()) else {
        return;
    };
    let mut mobile = Mobile::start_patient(&harness, "2000");
    let flow = frozen(&harness, &mobile);
    let stopped_ns = monotonic_ns();
    mobile.child.signal(libc::SIGSTOP).unwrap();
    let received = flow.finish().unwrap();
    let resumed = Duration::from_nanos(resumed_after_ns(&received, stopped_ns));
    assert!(resumed < Duration::from_millis(1_500), "{resumed:?}");
    mobile.child.signal(libc::SIGCONT).unwrap();
    await_that("it goes on", || mobile.status().is_some());
    let (status, by_itself) = mobile.child.terminate(Duration::from_secs(10)).unwrap();
    assert!(status.success() && by_itself);
}

#[test]
fn a_false_alarm_costs_less_than_a_second() {
    let test = "a_false_alarm_costs_less_than_a_second";
    let Some(harness) = plain(test, EmulatedLink::default()) else {
        return;
    };
    let mobile = Mobile::start(&harness, "freeze", &["--freeze-set", "2000"]);
    let flow = download(&harness, 6 * MB);
    let warned_ns = monotonic_ns();
    mobile.signal(&["going-down-soon", "--lead-ms", "200"]);
    let received = flow.finish().unwrap();
    assert_eq!(mobile.counter("host.false-alarms"), 1);
    assert!(mobile.counter("path.window_closed") > 0);
    let gap = Duration::from_nanos(received.longest_gap_ns(warned_ns));
    assert!(gap < Duration::from_secs(1), "{gap:?}");
}

#[test]
fn flaps_fifty_times_a_minute_warned_or_not_harm_no_byte() {
    let test = "flaps_fifty_times_a_minute_warned_or_not_harm_no_byte";
    let outages = (0..12)
        .map(|flap| OutageAt {
            at_s: 0.7 + 1.2 * f64::from(flap),
            for_s: 0.4,
        })
        .collect();
    let link = EmulatedLink {
        outages,
        ..EmulatedLink::default()
    };
    let Some(mut harness) = plain(test, link) else {
        return;
    };
    let mobile = Mobile::start(&harness, "freeze", &["--freeze-set", "2000"]);
    let flow = download(&harness, 10 * MB);
    let start_ns = start_link(&mut harness);
    for flap in 0..12_u64 {
        let warn_ns = start_ns + 500_000_000 + flap * 1_200_000_000;
        await_that("it is time", || monotonic_ns() >= warn_ns);
        if flap % 2 == 0 {
            mobile.tell("going-down-soon", 200);
        }
    }
    flow.finish().unwrap();
    assert!(mobile.counter("host.frozen") >= 3);
    await_that("nothing is closed", || {
        mobile.counter("host.closed-now") == 0
    });
}

#[test]
fn super_segments_local_or_forwarded_and_masqueraded_go_out_closed_with_right_checksums() {
    let test =
        "super_segments_local_or_forwarded_and_masqueraded_go_out_closed_with_right_checksums";
    for forwarded in [false, true] {
        // Veth: local sockets leave checksums and segmentation to the device.
        let settings = TopologySettings {
            gateway_nft: if forwarded { MASQUERADE } else { "" }.into(),
            ..wired(1500)
        };
        let Some(harness) = Harness::new(test, &settings, None).unwrap() else {
            return;
        };
        let (ns, interface) = if forwarded {
            // A vehicle's router: its own uplink is what the router's wired side is here.
            (harness.topology.gateway(), GATEWAY_WIRED_IF)
        } else {
            (&harness.topology.mh, MH_IF)
        };
        let set = ["--freeze-set", "2000"];
        let mobile = Mobile::start_at(ns, interface, &harness, "freeze", &set);
        // Both ways at once: uplink data carries the closed window too.
        let (at_fh, at_mh) = connection(&harness, fh(), PORT);
        let [up_from, up_to] = [&at_mh, &at_fh].map(|end| end.try_clone().unwrap());
        let uplink = Flow::start(up_from, up_to, 300 * MB, 6);
        let downlink = Flow::start(at_fh, at_mh, 300 * MB, 7);
        uplink.wait_bytes(MB).unwrap();
        mobile.signal(&["going-down-soon"]);
        await_that("windows are closed", || {
            mobile.counter("path.window_closed") > 0
        });
        mobile.signal(&["up"]);
        uplink.finish().unwrap();
        downlink.finish().unwrap();
        assert_eq!(mobile.counter("path.window_not_closed"), 0);
        assert_eq!(mobile.counter("host.send-errors"), 0);
    }
}

#[test]
fn an_m_tcp_gateway_hears_of_the_links_return_by_the_marked_ack() {
    let test = "an_m_tcp_gateway_hears_of_the_links_return_by_the_marked_ack";
    let stall = |marked: bool| {
        let link = EmulatedLink {
            outages: vec![OutageAt {
                at_s: 0.5,
                for_s: 3.0,
            }],
            // The gateway is told by nobody else.
            carrier_follows: false,
            ..EmulatedLink::default()
        };
        let mut harness = super::harness(test, &emulated(link), "mtcp")?;
        let mobile = marked.then(|| Mobile::start(&harness, "mtcp", &[]));
        let flow = download(&harness, 6 * MB);
        let start_ns = start_link(&mut harness);
        let returns_ns = start_ns + 3_500_000_000;
        super::await_outage(&harness);
        if let Some(mobile) = &mobile {
            mobile.tell("down", 0);
        }
        await_that("the link is back", || monotonic_ns() >= returns_ns);
        if let Some(mobile) = &mobile {
            mobile.tell("up", 0);
        }
        let received = flow.finish().unwrap();
        if let Some(mobile) = &mobile {
            assert!(mobile.counter("host.acks-made") > 0);
        }
        Some(received.stall_ms(returns_ns))
    };
    let (Some(marked), Some(plain)) = (stall(true), stall(false)) else {
        return;
    };
    println!("first data after the outage: {marked} ms with the mark, {plain} ms without");
    // The gateway's own probes find the MH too, later.
    assert!(marked < 600, "{marked} ms, {plain} ms without");
}

/// A text that shrinks, and differs from line to line.
pub(super) fn text(bytes: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes + 100);
    for line in 0_u64.. {
        if text.len() >= bytes {
            break;
        }
        let value = line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44;
        writeln!(
            text,
            "{line:08} sensor {} reports {value} of what it measures, as it did before",
            line % 17
        )
        .unwrap();
    }
    text
}

/// An M-TCP gateway that compresses by `method`, and a mobile that restores.
pub(super) fn compressing(
    test: &str,
    settings: &TopologySettings,
    method: &str,
) -> Option<(Harness, Mobile)> {
    let mut harness = super::harness(test, settings, "mtcp")?;
    harness.stop_gateway().unwrap();
    let key = make_key(Path::new(HOLDFAST), harness.folder()).unwrap();
    let key = key.to_str().unwrap();
    harness.set_gateway_settings(&format!(
        "[mtcp]\ncompression = \"{method}\"\n[[mobile]]\nname = \"mh\"\nkey_file = '{key}'\n\
         addresses = [\"{}/24\", \"{}/64\", \"fe80::/64\"]",
        MH.v4, MH.v6
    ));
    harness.start_gateway().unwrap();
    let gateway = GATEWAY_WIRELESS.v4.to_string();
    let more = ["--gateway", &gateway, "--key-file", key];
    let mobile = Mobile::start(&harness, "mtcp", &more);
    await_that("the gateway knows what the mobile can", || {
        mobile
            .status()
            .is_some_and(|status| status["acknowledged"] == true)
    });
    Some((harness, mobile))
}

#[test]
fn compressed_segments_are_restored_before_the_mh_sees_them() {
    let test = "compressed_segments_are_restored_before_the_mh_sees_them";
    for (settings, method) in [
        (emulated(EmulatedLink::default()), "deflate"),
        (emulated(EmulatedLink::default()), "zstd"),
        (wired(1500), "zstd"),
    ] {
        let Some((mut harness, mobile)) = compressing(test, &settings, method) else {
            return;
        };
        let text = text(3_000_000);
        assert!(
            transfer(&mut harness, &text, |_, _| {}).0 == text,
            "{method}: other bytes"
        );
        let restored = mobile.counter("decompression.restored");
        assert!(restored > 500, "{method}: {restored}");
        let [wire, plain] = ["wire_bytes", "plain_bytes"]
            .map(|name| mobile.counter(&format!("decompression.{name}")));
        assert!(wire * 2 < plain, "{method}: {plain} bytes in {wire}");
    }
}

#[test]
fn a_mobile_daemon_killed_while_it_restores_loses_no_byte() {
    let test = "a_mobile_daemon_killed_while_it_restores_loses_no_byte";
    let settings = emulated(EmulatedLink::default());
    for method in ["deflate", "zstd"] {
        let Some((mut harness, mut mobile)) = compressing(test, &settings, method) else {
            return;
        };
        let text = text(3_000_000);
        let mut restored = 0;
        let (received, _) = transfer(&mut harness, &text, |_, bytes| {
            if bytes > 1_000_000 && restored == 0 {
                restored = mobile.counter("decompression.restored");
                mobile.child.kill().unwrap();
            }
        });
        assert!(restored > 0, "{method}");
        assert!(received == text, "{method}: {} bytes", received.len());
    }
}
