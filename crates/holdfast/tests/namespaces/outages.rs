// SPDX-License-Identifier: Apache-2.0
//! Outages and counters of running daemons, in log, status and metrics.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use holdfast_testbed::daemons::report_link;
use holdfast_testbed::harness::Harness;
use holdfast_testbed::topology::MH;
use serde_json::Value;

use super::{HOLDFAST, PORT, SCHEMES, await_that, connection, fh, harness, wired};

/// What a daemon serves at this socket.
fn page(socket: &Path, path: &str) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    answer
}

/// Where a daemon serves its metrics and its live page.
pub(super) struct Pages {
    metrics: PathBuf,
    web: PathBuf,
}

impl Pages {
    pub(super) fn of(harness: &Harness) -> Self {
        let [metrics, web] = ["metrics.sock", "web.sock"].map(|name| harness.folder().join(name));
        Self { metrics, web }
    }

    /// The sections of its settings file.
    pub(super) fn settings(&self) -> String {
        let Self { metrics, web } = self;
        format!(
            "[metrics]\nlisten = \"{}\"\n[web]\nlisten = \"{}\"\n",
            metrics.display(),
            web.display()
        )
    }

    fn metrics(&self) -> String {
        page(&self.metrics, "/metrics")
    }

    /// Both show the scheme that was chosen.
    pub(super) fn assert_scheme(&self, scheme: &str) {
        let metrics = self.metrics();
        let mut lines = metrics.lines();
        let info = lines.find(|line| line.starts_with("holdfast_info{"));
        let label = format!(",scheme=\"{scheme}\",");
        assert!(info.is_some_and(|line| line.contains(&label)), "{info:?}");
        assert_eq!(self.status()["scheme"], scheme);
    }

    fn status(&self) -> Value {
        let answer = page(&self.web, "/status.json");
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        serde_json::from_str(body).unwrap()
    }

    /// A counter without a description has no metric. Some counters have this prefix.
    pub(super) fn assert_each_counter_has_a_metric(&self, prefix: &str) {
        let (status, metrics) = (self.status(), self.metrics());
        let counters = status["counters"].as_object().unwrap();
        assert!(
            counters.keys().any(|name| name.starts_with(prefix)),
            "{prefix}: {counters:?}"
        );
        for name in counters.keys() {
            let metric = format!("holdfast_{}", name.replace(['.', '-'], "_"));
            let found = sample(&metrics, &metric).or(sample(&metrics, &format!("{metric}_total")));
            assert!(found.is_some(), "the counter {name} has no description");
        }
    }
}

fn sample(metrics: &str, name: &str) -> Option<f64> {
    let mut lines = metrics.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    value.parse().ok()
}

/// The MH's packets to the FH get lost from now on ("add"), or arrive again ("del").
fn lose_answers(harness: &Harness, change: &str) {
    let mut command = harness.topology.mh.command("ip");
    let fh = fh().to_string();
    let status = command.args(["route", change, "blackhole", &fh]).status();
    assert!(
        status.unwrap().success(),
        "ip route {change} blackhole {fh}"
    );
}

#[test]
fn an_outage_is_in_log_status_and_metrics_with_every_scheme() {
    in_virtual_kernel!();
    for scheme in SCHEMES {
        let mut harness = harness(&wired(1500), scheme);
        harness.stop_gateway().unwrap();
        let pages = Pages::of(&harness);
        harness.set_gateway_settings(&pages.settings());
        harness.start_gateway().unwrap();
        pages.assert_scheme(scheme);
        let (mut at_fh, mut at_mh) = connection(&harness, fh(), PORT);
        at_fh.write_all(b"x").unwrap();
        at_mh.read_exact(&mut [0]).unwrap();
        // Its ACK of the FH's data comes before the outage, not after its delay.
        at_mh.write_all(b"x").unwrap();
        at_fh.read_exact(&mut [0]).unwrap();
        let socket = harness.folder().join("gateway.sock");
        let report = |event| report_link(&socket, MH.v4.into(), event).unwrap();
        let gateway = harness.gateway.as_ref().unwrap();
        let status = || gateway.status().unwrap();
        lose_answers(&harness, "add");
        // Before the report: `mtcp-plus` then closes the FH's window.
        at_fh.write_all(b"y").unwrap();
        report("down");
        await_that(&format!("{scheme}: data waits for link up"), || {
            status()["cache"]["bytes"].as_u64() > Some(0)
        });
        assert_eq!(status()["outages"]["count"], 0, "{scheme}: it lasts");
        lose_answers(&harness, "del");
        report("up");
        at_mh.read_exact(&mut [0]).unwrap();
        await_that(&format!("{scheme}: the outage is recorded"), || {
            status()["outages"]["count"] == 1
        });

        let mut command = Command::new(HOLDFAST);
        command
            .args(["status", "--outages", "--json", "--socket"])
            .arg(&socket);
        let listed: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
        let outage = &listed["outages"]["newest"][0];
        assert_eq!(outage["mobile"], MH.v4.to_string(), "{scheme}: {outage}");
        assert_eq!(
            (&outage["source"], &outage["flows"]),
            (&"command".into(), &1.into())
        );
        assert!(
            outage["cached_bytes"].as_u64() > Some(0),
            "{scheme}: {outage}"
        );

        let text = pages.metrics();
        assert_eq!(
            sample(&text, "holdfast_outage_seconds_count"),
            Some(1.0),
            "{scheme}"
        );
        pages.assert_each_counter_has_a_metric("data-path.");

        let log = fs::read_to_string(harness.folder().join("gateway.log")).unwrap();
        let lines: Vec<_> = log
            .lines()
            .filter(|line| line.contains("stall_saved_s="))
            .collect();
        assert_eq!(lines.len(), 1, "{scheme}: {log}");
        for field in [
            "mobile=10.",
            "length_s=",
            "source=\"command\"",
            "flows=1",
            "cached_bytes=",
        ] {
            assert!(
                lines[0].contains(field),
                "{scheme}: {field} is missing in {}",
                lines[0]
            );
        }
        harness.stop_gateway().unwrap();
        for socket in [pages.metrics, pages.web] {
            assert!(!socket.exists(), "{socket:?} goes with the daemon");
        }
    }
}
