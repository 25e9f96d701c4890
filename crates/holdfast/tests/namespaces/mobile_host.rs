// SPDX-License-Identifier: Apache-2.0
//! `holdfast mobile` with a scheme for the MH's own flows: without a gateway, freezes and flaps; with an
//! M-TCP gateway, the marked ACK and compression.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use holdfast_link::OutageAt;
use holdfast_net::datapath::monotonic_ns;
use holdfast_net::netns::{ChildGuard, NetNs};
use holdfast_testbed::daemons::{make_key, request_output};
use holdfast_testbed::harness::{Flow, Harness};
use holdfast_testbed::link_process::{EmulatedLink, MH_IF};
use holdfast_testbed::topology::{GATEWAY_WIRED_IF, GATEWAY_WIRELESS, MH, TopologySettings};

use super::bulk::fast_link;
use super::compression::transfer;
use super::router::MASQUERADE;
use super::{
    HOLDFAST, PORT, assert_shorter_than, await_that, connection, emulated, fh, start_link,
    topology, wired,
};

pub(super) const MB: u64 = 1_000_000;
const SECOND_NS: u64 = 1_000_000_000;
/// The longest time until the daemon answers.
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

    /// A daemon that waits a minute for an announced outage.
    pub(super) fn start_patient(harness: &Harness, set: &str) -> Self {
        Self::start_patient_with_log(harness, set, log_file(harness))
    }

    /// The same with another log.
    pub(super) fn start_patient_with_log(harness: &Harness, set: &str, log: Stdio) -> Self {
        let config = harness.folder().join("mobile.toml");
        let text = format!("[mobile]\nfreeze_set = \"{set}\"\nfalse_alarm_ms = 60000\n");
        std::fs::write(&config, text).unwrap();
        let config = ["--config", config.to_str().unwrap()];
        let options = [config, ["--log-format", "json"]].concat();
        Self::start_with_log(
            (&harness.topology.mh, MH_IF),
            harness,
            "freeze",
            &options,
            log,
        )
    }

    pub(super) fn start_at(
        ns: &NetNs,
        interface: &str,
        harness: &Harness,
        scheme: &str,
        more: &[&str],
    ) -> Self {
        Self::start_with_log((ns, interface), harness, scheme, more, log_file(harness))
    }

    fn start_with_log(
        (ns, interface): (&NetNs, &str),
        harness: &Harness,
        scheme: &str,
        more: &[&str],
        log: Stdio,
    ) -> Self {
        let socket = harness.folder().join("mobile.sock");
        let mut command = ns.command(HOLDFAST);
        command
            .args(["mobile", "--iface", interface, "--scheme", scheme])
            .args(more)
            .arg("--control-socket")
            .arg(&socket)
            .stderr(log);
        let child = ns.spawn_guarded(command).unwrap();
        let mobile = Self { child, socket };
        await_that("the mobile's daemon answers", || mobile.status().is_some());
        mobile
    }

    /// Sends a request to the control socket, without another process. `None`: no answer, or the daemon
    /// did not receive the whole request in time.
    fn request(&self, request: &str) -> Option<serde_json::Value> {
        let mut stream = UnixStream::connect(&self.socket).ok()?;
        stream.set_read_timeout(Some(ANSWER_LIMIT)).unwrap();
        stream.write_all(format!("{request}\n").as_bytes()).ok()?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply).ok()?;
        serde_json::from_str(&reply).ok()
    }

    pub(super) fn status(&self) -> Option<serde_json::Value> {
        let status = self.request(r#"{"command":"status"}"#)?;
        (status["reply"] == "mobile").then_some(status)
    }

    pub(super) fn counter(&self, name: &str) -> u64 {
        let status = self.await_status();
        status["counters"][name].as_u64().unwrap_or_default()
    }

    /// The status of a daemon that may be late.
    pub(super) fn await_status(&self) -> serde_json::Value {
        let mut status = None;
        await_that("the daemon answers", || {
            status = self.status();
            status.is_some()
        });
        status.unwrap()
    }

    pub(super) fn signal(&self, arguments: &[&str]) {
        let mut command = std::process::Command::new(HOLDFAST);
        command.args(["mobile", "signal"]).args(arguments);
        command.arg("--socket").arg(&self.socket);
        let output = request_output(&mut command).unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }

    /// The same without another process, which may start slowly.
    pub(super) fn report(&self, event: &str, lead_ms: u64) {
        let request = format!(r#"{{"command":"signal","event":"{event}","lead_ms":{lead_ms}}}"#);
        await_that("the daemon takes the signal", || {
            self.request(&request)
                .is_some_and(|reply| reply["reply"] == "done")
        });
    }

    /// Warns of link down at `down_ns`, a time in the future.
    fn announce(&self, down_ns: u64) {
        let lead_ms = down_ns.saturating_sub(monotonic_ns()) / 1_000_000;
        assert!(lead_ms > 0, "it is too late for a warning");
        self.report("going-down-soon", lead_ms);
    }
}

fn log_file(harness: &Harness) -> Stdio {
    File::create(harness.folder().join("mobile.log"))
        .unwrap()
        .into()
}

/// A topology without a gateway.
pub(super) fn plain(link: EmulatedLink) -> Harness {
    topology(&emulated(link), None)
}

pub(super) fn download(harness: &Harness, bytes: u64) -> Flow {
    let (at_fh, at_mh) = connection(harness, fh(), PORT);
    let flow = Flow::start(at_fh, at_mh, bytes, 5);
    flow.wait_bytes(MB / 2).unwrap();
    flow
}

#[test]
fn a_warned_outage_freezes_the_flow_and_its_end_opens_it_at_once() {
    in_virtual_kernel!();
    let mut harness = plain(EmulatedLink::with_outage(2.0, 4.0));
    let mobile = Mobile::start_patient(&harness, "2000");
    let flow = download(&harness, 12 * MB);
    let start_ns = start_link(&mut harness);
    // The last ACKs have enough time to arrive; with the published warning they do not.
    mobile.announce(start_ns + SECOND_NS * 7 / 5);
    let received = flow.finish().unwrap();
    assert!(mobile.counter("host.frozen") > 0);
    assert!(mobile.counter("path.window_closed") > 0);
    assert_eq!(mobile.counter("path.window_not_closed"), 0);
    assert_eq!(mobile.counter("host.closed-now"), 0);
    // The back-off of a sender after a timeout would take seconds.
    let stall_ms = received.stall_ms(start_ns + 6 * SECOND_NS);
    assert_shorter_than(1000, "the stall", stall_ms);
}

#[test]
fn with_today_a_window_opens_in_steps_up_to_the_mhs_own() {
    in_virtual_kernel!();
    let mut harness = plain(EmulatedLink::with_outage(3.0, 3.0));
    // The carrier's report may be late; the outage is still no false alarm.
    let mobile = Mobile::start_patient(&harness, "today");
    let flow = download(&harness, 16 * MB);
    let start_ns = start_link(&mut harness);
    mobile.announce(start_ns + 3 * SECOND_NS);
    let received = flow.finish().unwrap();
    assert!(mobile.counter("path.window_closed") > 0);
    assert_eq!(mobile.counter("host.opened-in-steps"), 1);
    let stall_ms = received.stall_ms(start_ns + 6 * SECOND_NS);
    await_that("the window is the MH's own", || {
        mobile.counter("host.opening-now") == 0
    });
    assert_eq!(mobile.counter("host.closed-now"), 0);
    assert_eq!(mobile.counter("path.window_not_closed"), 0);
    assert_shorter_than(1000, "the stall", stall_ms);
}

#[test]
fn a_false_alarm_costs_less_than_a_second() {
    in_virtual_kernel!();
    let harness = plain(EmulatedLink::default());
    let mobile = Mobile::start(&harness, "freeze", &["--freeze-set", "2000"]);
    let flow = download(&harness, 6 * MB);
    let warned_ns = monotonic_ns();
    mobile.signal(&["going-down-soon", "--lead-ms", "200"]);
    let received = flow.finish().unwrap();
    assert_eq!(mobile.counter("host.false-alarms"), 1);
    assert!(mobile.counter("path.window_closed") > 0);
    assert_shorter_than(
        1_000,
        "the stall",
        received.longest_gap_ns(warned_ns) / 1_000_000,
    );
}

#[test]
fn fifty_flaps_a_minute_harm_no_byte() {
    in_virtual_kernel!();
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
    let mut harness = plain(link);
    let mobile = Mobile::start(&harness, "freeze", &["--freeze-set", "2000"]);
    let flow = download(&harness, 10 * MB);
    let start_ns = start_link(&mut harness);
    for flap in 0..12_u64 {
        let warn_ns = start_ns + 500_000_000 + flap * 1_200_000_000;
        await_that("it is time", || monotonic_ns() >= warn_ns);
        if flap % 2 == 0 {
            mobile.report("going-down-soon", 200);
        }
    }
    flow.finish().unwrap();
    assert!(mobile.counter("host.frozen") >= 3);
    await_that("nothing is closed", || {
        mobile.counter("host.closed-now") == 0
    });
}

#[test]
fn super_segments_leave_with_a_closed_window_and_a_correct_checksum() {
    in_virtual_kernel!();
    for forwarded in [false, true] {
        // With veth, local sockets leave checksums and segmentation to the device.
        let settings = TopologySettings {
            gateway_nft: if forwarded { MASQUERADE } else { "" }.into(),
            wired: Some(fast_link()),
            ..wired(1500)
        };
        let harness = topology(&settings, None);
        let (ns, interface) = if forwarded {
            // A vehicle's router: its uplink is the wired side here.
            (harness.topology.gateway(), GATEWAY_WIRED_IF)
        } else {
            (&harness.topology.mh, MH_IF)
        };
        let set = ["--freeze-set", "2000"];
        let mobile = Mobile::start_at(ns, interface, &harness, "freeze", &set);
        // Uplink data have the closed window, too.
        let (at_fh, at_mh) = connection(&harness, fh(), PORT);
        let [up_from, up_to] = [&at_mh, &at_fh].map(|end| end.try_clone().unwrap());
        let uplink = Flow::start(up_from, up_to, 8 * MB, 6);
        let downlink = Flow::start(at_fh, at_mh, 8 * MB, 7);
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
fn the_marked_ack_reports_link_up_to_an_m_tcp_gateway() {
    in_virtual_kernel!();
    let stall = |marked: bool| {
        let link = EmulatedLink {
            outages: vec![OutageAt {
                at_s: 0.5,
                for_s: 3.0,
            }],
            // The gateway gets no other report.
            carrier_follows: false,
            ..EmulatedLink::default()
        };
        let mut harness = super::harness(&emulated(link), "mtcp");
        let mobile = marked.then(|| Mobile::start(&harness, "mtcp", &[]));
        let flow = download(&harness, 6 * MB);
        let start_ns = start_link(&mut harness);
        let returns_ns = start_ns + 3_500_000_000;
        super::await_outage(&harness);
        if let Some(mobile) = &mobile {
            mobile.report("down", 0);
        }
        await_that("link up", || monotonic_ns() >= returns_ns);
        if let Some(mobile) = &mobile {
            mobile.report("up", 0);
        }
        let received = flow.finish().unwrap();
        if let Some(mobile) = &mobile {
            assert!(mobile.counter("host.acks-made") > 0);
        }
        received.stall_ms(returns_ns)
    };
    let (marked, plain) = (stall(true), stall(false));
    println!("first data after the outage: {marked} ms with the mark, {plain} ms without");
    // Without the mark the gateway's probes detect link up, later.
    assert_shorter_than(600, "with the mark", marked);
}

/// A text that can be compressed; each line is different.
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

/// An M-TCP gateway that compresses by `method`, and a mobile that decompresses.
pub(super) fn compressing(settings: &TopologySettings, method: &str) -> (Harness, Mobile) {
    let mut harness = super::harness(settings, "mtcp");
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
    (harness, mobile)
}

#[test]
fn compressed_segments_are_decompressed_before_the_mh_receives_them() {
    in_virtual_kernel!();
    let super_segments = TopologySettings {
        wired: Some(fast_link()),
        ..wired(1500)
    };
    for (settings, method) in [
        (emulated(EmulatedLink::default()), "deflate"),
        (emulated(EmulatedLink::default()), "zstd"),
        (super_segments, "zstd"),
    ] {
        let (mut harness, mobile) = compressing(&settings, method);
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
fn a_mobile_daemon_killed_while_it_decompresses_loses_no_byte() {
    in_virtual_kernel!();
    let settings = emulated(EmulatedLink::default());
    for method in ["deflate", "zstd"] {
        let (mut harness, mut mobile) = compressing(&settings, method);
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
