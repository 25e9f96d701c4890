// SPDX-License-Identifier: Apache-2.0
//! `holdfast link` as a guarded child between two namespaces.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail};
use holdfast_link::{LinkPlan, LinkSettings, OutageAt, OutageEffect, OutageSettings};
use holdfast_net::netns::{ChildGuard, NetNs};
use serde::Deserialize;
use serde_json::Value;

use crate::scratch::Scratch;
use holdfast_link::LinkFile;

/// The link's description, in its folder.
const DESCRIPTION_FILE: &str = "link.toml";
/// How long the link may take until its devices are there.
const READY_LIMIT: Duration = Duration::from_secs(30);
/// How long it may take to end and to report its counters.
const END_LIMIT: Duration = Duration::from_secs(30);

/// What the link does; both directions alike.
#[derive(Clone, Debug, PartialEq)]
pub struct EmulatedLink {
    /// Rate in Mb/s.
    pub rate_mbit_per_s: f64,
    /// Propagation delay of one direction in milliseconds.
    pub delay_ms: f64,
    /// Queue of each direction in packets.
    pub queue_packets: u32,
    /// Random loss, a probability.
    pub loss: f64,
    /// Outages of both directions, relative to the link's start.
    pub outages: Vec<OutageAt>,
    /// What they do to the packets in the queue and in flight.
    pub outage_effect: OutageEffect,
    /// Whether the devices' carrier follows the outages.
    pub carrier_follows: bool,
    /// Whether only the carrier of the MH's device follows.
    pub carrier_of_mh_alone: bool,
    /// MTU of both devices in octets.
    pub mtu: u32,
    /// Seed of all that is random.
    pub seed: u64,
    /// Replaces rate, delay, queue, loss and effect, for a link that needs more settings. It must
    /// have the same outages as `outages`.
    pub description: Option<Box<LinkFile>>,
    /// Files for the packets that pass the device toward the FH, and the one toward the
    /// MH, in pcapng.
    pub packet_traces: [Option<PathBuf>; 2],
    /// Interval of the samples of its queues and its state; none: no samples.
    pub sample_interval: Option<Duration>,
}

impl Default for EmulatedLink {
    /// The demo's link without outages: 20 Mb/s, 50 ms round trip, 200 packets.
    fn default() -> Self {
        Self {
            rate_mbit_per_s: 20.0,
            delay_ms: 25.0,
            queue_packets: 200,
            loss: 0.0,
            outages: Vec::new(),
            outage_effect: OutageEffect::Lose,
            carrier_follows: true,
            carrier_of_mh_alone: false,
            mtu: 1500,
            seed: 1,
            description: None,
            packet_traces: [None, None],
            sample_interval: None,
        }
    }
}

impl EmulatedLink {
    /// The default with one outage.
    pub fn with_outage(at_s: f64, for_s: f64) -> Self {
        Self {
            outages: vec![OutageAt { at_s, for_s }],
            ..Self::default()
        }
    }

    /// The plan of the downlink, for the link's models.
    pub fn plan(&self) -> anyhow::Result<LinkPlan> {
        let outages = OutageSettings::List {
            list: self.outages.clone(),
        };
        let settings = match &self.description {
            Some(description) => LinkSettings {
                outages,
                ..description.downlink.clone()
            },
            None => LinkSettings {
                rate_mbit_per_s: Some(self.rate_mbit_per_s),
                delay_ms: self.delay_ms,
                queue_packets_max: Some(self.queue_packets),
                loss: self.loss,
                outages,
                outage_effect: self.outage_effect,
                ..LinkSettings::default()
            },
        };
        Ok(settings.plan()?)
    }
}

impl EmulatedLink {
    /// Adds the flags for all settings. Returns the folder of the file that they name, if any.
    fn describe(&self, command: &mut Command) -> anyhow::Result<Option<Scratch>> {
        let mtu = self.mtu.to_string();
        command.args(["--mtu", &mtu, "--seed", &self.seed.to_string()]);
        if self.carrier_follows {
            let devices = if self.carrier_of_mh_alone {
                "mh"
            } else {
                "both"
            };
            command.arg(format!("--carrier={devices}"));
        }
        for (flag, path) in ["--pcap-fh", "--pcap-mh"].iter().zip(&self.packet_traces) {
            if let Some(path) = path {
                command.arg(flag).arg(path);
            }
        }
        if let Some(interval) = self.sample_interval {
            let ms = interval.as_secs_f64() * 1e3;
            command.args(["--sample-interval", &ms.to_string()]);
        }
        if let Some(description) = &self.description {
            let folder = Scratch::new("holdfast-link-")?;
            let file = folder.path().join(DESCRIPTION_FILE);
            fs::write(&file, toml::to_string(description)?)?;
            command.arg("--config").arg(file);
            return Ok(Some(folder));
        }
        command.args(["--rate", &self.rate_mbit_per_s.to_string()]);
        command.args(["--delay", &self.delay_ms.to_string()]);
        command.args(["--queue", &self.queue_packets.to_string()]);
        command.args(["--loss", &self.loss.to_string()]);
        for outage in &self.outages {
            command.args(["--outage", &format!("{}+{}", outage.at_s, outage.for_s)]);
        }
        let effect = match self.outage_effect {
            OutageEffect::Lose => "lose",
            OutageEffect::Keep => "keep",
            OutageEffect::LoseArriving => "lose-arriving",
        };
        command.args(["--outage-effect", effect]);
        Ok(None)
    }
}

/// What the link reports in its log, as far as we read it.
#[derive(Debug, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum LogLine {
    Ready {},
    Start {},
    OutageBegin {},
    OutageEnd {},
    Sample(LinkSample),
    #[serde(other)]
    Other,
}

/// Limit of samples; later ones are left out.
const SAMPLES_MAX: usize = 1_000_000;

/// What is in a link at one point in time; downlink and uplink.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct LinkSample {
    /// When, CLOCK_MONOTONIC.
    pub t_ns: u64,
    /// Packets that wait, besides the one being sent.
    pub queue_packets: [u32; 2],
    /// Whether the direction delivers.
    pub up: [bool; 2],
}

/// What a link reports at its end.
#[derive(Clone, Debug, Default)]
pub struct LinkEnd {
    /// The counters of both directions, as it reports them.
    pub counters: Value,
    /// Its samples, if they were asked for.
    pub samples: Vec<LinkSample>,
}

/// What the reader of the log has seen.
#[derive(Debug)]
struct Seen {
    up: AtomicBool,
    samples: Mutex<Vec<LinkSample>>,
    /// The last line, with the counters, once the link has ended.
    end: Mutex<Option<Value>>,
}

/// A running link. Dropped, it is killed and its devices are gone.
#[derive(Debug)]
pub struct LinkProcess {
    child: ChildGuard,
    start: Option<ChildStdin>,
    started: Receiver<()>,
    seen: Arc<Seen>,
    ended: Receiver<()>,
    _description: Option<Scratch>,
}

/// The device on the gateway's side.
pub const GATEWAY_IF: &str = "wl-gw";
/// The device on the MH's side.
pub const MH_IF: &str = "wl-mh";

impl LinkProcess {
    /// Starts the link between gateway and MH and waits for its devices.
    /// Its clock starts with [`LinkProcess::start_clock`]. `holdfast` is our
    /// own binary.
    pub fn spawn(
        holdfast: &Path,
        gateway: &NetNs,
        mh: &NetNs,
        link: &EmulatedLink,
    ) -> anyhow::Result<Self> {
        Self::spawn_between(holdfast, (gateway, GATEWAY_IF), (mh, MH_IF), link)
    }

    /// The same between any two namespaces, with devices of these names; the first is
    /// toward the FH.
    pub fn spawn_between(
        holdfast: &Path,
        (fh, fh_if): (&NetNs, &str),
        (mh, mh_if): (&NetNs, &str),
        link: &EmulatedLink,
    ) -> anyhow::Result<Self> {
        let ns_path =
            |ns: &NetNs| format!("/proc/{}/fd/{}", std::process::id(), ns.as_fd().as_raw_fd());
        let mut command = fh.command(holdfast);
        command.arg("link");
        command.args(["--fh-ns", &ns_path(fh), "--mh-ns", &ns_path(mh)]);
        command.args([
            "--fh-if", fh_if, "--mh-if", mh_if, "--log", "-", "--start", "line",
        ]);
        let description = link.describe(&mut command)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = ChildGuard::spawn(command)?;
        let output = child
            .child()
            .stdout
            .take()
            .context("the link has no output")?;
        let start = child.child().stdin.take();
        let seen = Arc::new(Seen {
            up: AtomicBool::new(true),
            samples: Mutex::default(),
            end: Mutex::new(None),
        });
        let (ready, is_ready) = mpsc::sync_channel(1);
        let (start_sender, started) = mpsc::sync_channel(1);
        let (end_sender, ended) = mpsc::sync_channel(1);
        let reader_seen = Arc::clone(&seen);
        thread::spawn(move || {
            follow(output, &reader_seen, &ready, &start_sender);
            // An error: the receiver has ended.
            let _ = end_sender.send(());
        });
        if is_ready.recv_timeout(READY_LIMIT).is_err() {
            let status = child.try_wait()?;
            bail!("holdfast link: its devices are not there (exit status {status:?})");
        }
        Ok(Self {
            child,
            start,
            started,
            seen,
            ended,
            _description: description,
        })
    }

    /// Starts the clock of the outages at `at_ns` of CLOCK_MONOTONIC and waits
    /// until the link reports its start.
    pub fn start_clock(&mut self, at_ns: u64) -> anyhow::Result<()> {
        let mut input = self
            .start
            .take()
            .context("holdfast link: started already")?;
        writeln!(input, "start {at_ns}").context("holdfast link: cannot be started")?;
        let received = self.started.recv_timeout(READY_LIMIT);
        received.context("holdfast link: did not start its clock")
    }

    /// Whether the link delivers anything at this moment.
    pub fn is_up(&self) -> bool {
        self.seen.up.load(Ordering::Relaxed)
    }

    /// Ends the link and returns what it reports.
    pub fn end(mut self) -> anyhow::Result<LinkEnd> {
        self.child.terminate(END_LIMIT)?;
        // Without an answer there are no counters either, which is the error below.
        let _ = self.ended.recv_timeout(END_LIMIT);
        let end = self
            .seen
            .end
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let samples = &self.seen.samples;
        Ok(LinkEnd {
            counters: end.context("holdfast link: ended without its counters")?,
            samples: std::mem::take(&mut samples.lock().unwrap_or_else(PoisonError::into_inner)),
        })
    }
}

/// Reads the log to its end.
fn follow(output: ChildStdout, seen: &Seen, ready: &SyncSender<()>, started: &SyncSender<()>) {
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        match serde_json::from_str(&line) {
            // A full channel has the message already.
            Ok(LogLine::Ready {}) => {
                let _ = ready.try_send(());
            }
            Ok(LogLine::Start {}) => {
                let _ = started.try_send(());
            }
            Ok(LogLine::OutageBegin {}) => seen.up.store(false, Ordering::Relaxed),
            Ok(LogLine::OutageEnd {}) => seen.up.store(true, Ordering::Relaxed),
            Ok(LogLine::Sample(sample)) => {
                let mut samples = seen.samples.lock().unwrap_or_else(PoisonError::into_inner);
                if samples.len() < SAMPLES_MAX {
                    samples.push(sample);
                }
            }
            Ok(LogLine::Other) => {
                let value: Option<Value> = serde_json::from_str(&line).ok();
                if value.as_ref().is_some_and(|value| value["event"] == "end") {
                    *seen.end.lock().unwrap_or_else(PoisonError::into_inner) = value;
                }
            }
            Err(_) => {}
        }
    }
}
