// SPDX-License-Identifier: Apache-2.0
//! `holdfast link`: the link models in real time between two TUN devices.
//!
//! One device is in the FH's network namespace and one in the MH's. A packet that is routed into one
//! leaves the other as the model of that direction decides. The devices carry raw IP without
//! offloads: the models see packets as the wire does. Everything ends with the process: the devices
//! are removed with their descriptors.

mod config;
mod emulator;
mod endpoint;
mod event_log;
mod trace;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use holdfast_link::OutageEffect;

use crate::settings::{SettingsError, interface_name};
use config::LinkConfig;
use emulator::Emulator;

/// A side of the link, with the device there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Fh,
    Mh,
}

/// Emulate a link between two network namespaces.
#[derive(Args, Clone, Debug)]
pub(crate) struct LinkArgs {
    /// The FH's network namespace: a path, or a process id; the caller's own if
    /// not given
    #[arg(long, value_name = "PATH|PID")]
    pub(crate) fh_ns: Option<String>,
    /// The MH's network namespace
    #[arg(long, value_name = "PATH|PID")]
    pub(crate) mh_ns: Option<String>,
    /// Name of the device on the FH's side
    #[arg(long, value_name = "NAME", default_value = "link-fh", value_parser = interface_name)]
    pub(crate) fh_if: String,
    /// Name of the device on the MH's side
    #[arg(long, value_name = "NAME", default_value = "link-mh", value_parser = interface_name)]
    pub(crate) mh_if: String,
    /// Address of the FH's device, with its prefix length; may be given again
    #[arg(long, value_name = "ADDRESS/PREFIX")]
    pub(crate) fh_address: Vec<String>,
    /// Address of the MH's device
    #[arg(long, value_name = "ADDRESS/PREFIX")]
    pub(crate) mh_address: Vec<String>,
    /// MTU of both devices in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1500, value_parser = clap::value_parser!(u32).range(68..=65_535))]
    pub(crate) mtu: u32,
    /// Packets that may wait in a device until the link reads them
    #[arg(long, value_name = "PACKETS", default_value_t = 1000)]
    pub(crate) device_queue: u32,

    /// Settings file (TOML): seed, outages, outage_effect, tables downlink and uplink
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Settings of the downlink as in the file: `delay_ms = 25, loss = 0.01`
    #[arg(long, value_name = "KEY = VALUE, ...")]
    pub(crate) downlink: Option<String>,
    /// Settings of the uplink
    #[arg(long, value_name = "KEY = VALUE, ...")]
    pub(crate) uplink: Option<String>,
    /// Rate of both directions in Mb/s
    #[arg(long, value_name = "MBIT_PER_S")]
    pub(crate) rate: Option<f64>,
    /// Propagation delay of both directions in milliseconds
    #[arg(long, value_name = "MS")]
    pub(crate) delay: Option<f64>,
    /// Queue of both directions in packets
    #[arg(long, value_name = "PACKETS")]
    pub(crate) queue: Option<u32>,
    /// Loss of both directions, a probability
    #[arg(long, value_name = "PROBABILITY")]
    pub(crate) loss: Option<f64>,
    /// An outage of both directions, begin and length in seconds: `4.0+3.0`; may
    /// be given again
    #[arg(long, value_name = "AT_S+FOR_S", value_delimiter = ',')]
    pub(crate) outage: Vec<String>,
    /// What outages do to packets in queues and on the way
    #[arg(long, value_name = "EFFECT")]
    pub(crate) outage_effect: Option<OutageEffectArg>,
    /// Seed of all that is random
    #[arg(long)]
    pub(crate) seed: Option<u64>,

    /// The carrier of both devices follows the outages, or (`mh`) that of the MH's alone
    #[arg(
        long,
        value_name = "ENDS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "both"
    )]
    pub(crate) carrier: Option<CarrierArg>,
    /// When outages and rate traces begin to run
    #[arg(
        long,
        value_name = "WHEN",
        default_value = "now",
        conflicts_with = "start_at"
    )]
    pub(crate) start: StartArg,
    /// They begin at this time of CLOCK_MONOTONIC, in nanoseconds
    #[arg(long, value_name = "NANOSECONDS")]
    pub(crate) start_at: Option<u64>,
    /// Log of what happens, in JSON lines; `-` is the standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// Log every packet delivered to the MH too
    #[arg(long, requires = "log")]
    pub(crate) log_packets: bool,
    /// Log queues and state of the link at this interval in milliseconds, from the start on
    #[arg(long, value_name = "MS", requires = "log", value_parser = milliseconds)]
    pub(crate) sample_interval: Option<Duration>,
    /// Write every packet that enters or leaves the link to FILE, in pcapng
    #[arg(long, value_name = "FILE")]
    pub(crate) pcap: Option<PathBuf>,
    /// Write those at the FH's device alone to FILE
    #[arg(long, value_name = "FILE")]
    pub(crate) pcap_fh: Option<PathBuf>,
    /// Write those at the MH's device alone to FILE
    #[arg(long, value_name = "FILE")]
    pub(crate) pcap_mh: Option<PathBuf>,
}

/// An interval in milliseconds, at most a minute.
fn milliseconds(text: &str) -> Result<Duration, String> {
    let parsed = text.parse::<f64>().ok();
    let given = parsed.filter(|ms| (0.1..=60_000.0).contains(ms));
    given
        .map(|ms| Duration::from_secs_f64(ms / 1e3))
        .ok_or_else(|| format!("got `{text}`, takes 0.1 to 60000 milliseconds"))
}

/// `--start`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StartArg {
    /// With the devices.
    Now,
    /// With the first packet of either direction that is no multicast.
    FirstPacket,
    /// With a line on the standard input: `start`, or `start NANOSECONDS` of
    /// CLOCK_MONOTONIC.
    Line,
}

/// `--carrier`: whose device's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CarrierArg {
    /// That of both devices.
    Both,
    /// That of the device toward the MH.
    Mh,
}

/// `--outage-effect`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutageEffectArg {
    /// They are lost.
    Lose,
    /// The link stands still and goes on with them.
    Keep,
    /// The link goes on sending; what comes out while an outage lasts is lost.
    LoseArriving,
}

impl From<OutageEffectArg> for OutageEffect {
    fn from(effect: OutageEffectArg) -> Self {
        match effect {
            OutageEffectArg::Lose => Self::Lose,
            OutageEffectArg::Keep => Self::Keep,
            OutageEffectArg::LoseArriving => Self::LoseArriving,
        }
    }
}

/// Runs the link until SIGTERM or SIGINT.
///
/// # Errors
/// Wrong settings, each with its key; namespaces and devices that cannot be opened; failures of the
/// devices while it runs.
pub(crate) fn run(args: &LinkArgs) -> anyhow::Result<()> {
    let config = LinkConfig::from_args(args);
    let config = config.map_err(|error| SettingsError::of(format!("{error:#}")))?;
    // Before the devices exist: from then on a signal must not kill the process.
    let signals = emulator::Signals::register().context("cannot take over signals")?;
    let mut emulator = Emulator::open(args, &config)?;
    emulator.run(&signals)
}
