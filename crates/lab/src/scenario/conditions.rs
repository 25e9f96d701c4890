// SPDX-License-Identifier: Apache-2.0
//! What a run depends on, read from one document without sweeps.

use std::path::Path;

use holdfast_core::Direction;
use holdfast_link::{OutageAt, seed_for};
use holdfast_wire::{Duration, Instant};
use serde::{Deserialize, Serialize};
use toml::Table;

use super::bandwidth::BandwidthConditions;
use super::cells::{self, Move, MovementConditions};
use super::handoff::HandoffConditions;
use super::hop::HopConditions;
use super::host::HostConditions;
use super::mobile::MobileConditions;
use super::mtcp::MtcpConditions;
use super::snoop::SnoopConditions;
use super::transfer::TransferConditions;
use crate::document::{self, DocumentError};

pub(super) mod check;

/// The part of the seed that is the wired hop's, on all substrates.
pub(crate) const PART_WIRED: u64 = 1000;

/// Everything that a run depends on besides its seed and its substrate.
#[derive(Clone, Debug, PartialEq)]
pub struct Conditions {
    /// The first repetition's seed; the next ones count up.
    pub seed: u64,
    /// How often each combination runs, with a seed of its own.
    pub repetitions: u64,
    /// Time series to be recorded.
    pub record: Vec<Record>,
    /// Distance of their points.
    pub record_interval: Duration,
    /// What is sent.
    pub transfer: TransferConditions,
    /// From the FH to the gateway; none: as fast as the substrate.
    pub wired: Option<HopConditions>,
    /// From the gateway to the MH, as the MH finds it: the first cell's link, in an outage
    /// when no cell carries.
    pub wireless: HopConditions,
    /// The link of each cell, in an outage while the MH is away: one or more.
    pub cells: Vec<HopConditions>,
    /// How the MH goes from one to another; none: it does not.
    pub movement: Option<MovementConditions>,
    /// Its moves, of a run, in order.
    pub moves: Vec<Move>,
    /// What stands between them.
    pub gateway: GatewayConditions,
    /// What the MH does for its own flows.
    pub mobile: MobileConditions,
    /// The FH's TCP.
    pub fh: HostConditions,
    /// The MH's TCP.
    pub mh: HostConditions,
    /// Other traffic.
    pub cross_traffic: Vec<CrossTraffic>,
}

/// A direction as scenarios write it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// Toward the MH.
    #[default]
    Downlink,
    /// From the MH.
    Uplink,
}

impl From<Way> for Direction {
    fn from(way: Way) -> Self {
        match way {
            Way::Downlink => Self::Downlink,
            Way::Uplink => Self::Uplink,
        }
    }
}

/// `[gateway]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GatewayConditions {
    /// The scheme.
    pub scheme: SchemeChoice,
    /// Who tells it of outages; it notices them by silence in any case.
    pub signal: SignalChoice,
    /// From an outage's begin or end to the word of it, in milliseconds, on the model.
    pub signal_delay_ms: f64,
    /// So long before an outage a warning of it, in milliseconds, on the model; 0: none.
    pub warning_ms: f64,
    /// Bytes kept at most for one flow; none: the gateway's default.
    pub flow_cache_bytes_max: Option<u64>,
    /// The least time without an ACK that is taken for silence, in milliseconds.
    pub silence_min_ms: Option<f64>,
    /// The least time between two probes of a silent MH, in milliseconds.
    pub probe_interval_min_ms: Option<f64>,
    /// The longest.
    pub probe_interval_max_ms: Option<f64>,
    /// The DSCP of what is resent ahead of ordinary traffic, 0 to 63; none: its sender's.
    pub resend_dscp: Option<u8>,
    /// What the cells carry; none: not known.
    pub bandwidth: Option<BandwidthConditions>,
    /// Parameters of the scheme `mtcp`; none: the gateway's defaults.
    pub mtcp: Option<MtcpConditions>,
    /// Parameters of the scheme `snoop`; none: the gateway's defaults.
    pub snoop: Option<SnoopConditions>,
    /// Packets that `keep` keeps for each flow; none: the gateway's default.
    pub keep_packets: Option<u32>,
    /// Whether the base stations of several cells hand the MH over.
    pub handoff: HandoffConditions,
}

impl Default for GatewayConditions {
    fn default() -> Self {
        Self {
            scheme: SchemeChoice::None,
            signal: SignalChoice::Carrier,
            signal_delay_ms: 0.0,
            warning_ms: 0.0,
            flow_cache_bytes_max: None,
            silence_min_ms: None,
            probe_interval_min_ms: None,
            probe_interval_max_ms: None,
            resend_dscp: None,
            bandwidth: None,
            mtcp: None,
            snoop: None,
            keep_packets: None,
            handoff: HandoffConditions::default(),
        }
    }
}

/// What the gateway runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SchemeChoice {
    /// Nothing: plain forwarding.
    #[default]
    None,
    /// `hold`.
    Hold,
    /// `mtcp-plus`.
    MtcpPlus,
    /// `mtcp`: M-TCP.
    Mtcp,
    /// `mtcp-2007`: M-TCP as the M-TCP+ paper models it, on the model.
    #[serde(rename = "mtcp-2007")]
    Mtcp2007,
    /// `snoop`.
    Snoop,
    /// `keep`, on Linux hosts.
    Keep,
    /// HAProxy as a split proxy, on Linux hosts.
    Haproxy,
}

impl SchemeChoice {
    /// Its name, as `--scheme` takes it where it is one of the gateway's.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Hold => "hold",
            Self::MtcpPlus => "mtcp-plus",
            Self::Mtcp => "mtcp",
            Self::Mtcp2007 => "mtcp-2007",
            Self::Snoop => "snoop",
            Self::Keep => "keep",
            Self::Haproxy => "haproxy",
        }
    }
}

/// Who tells the gateway of outages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SignalChoice {
    /// Nobody.
    None,
    /// The carrier of its own interface: both the begin and the end.
    #[default]
    Carrier,
    /// The MH, by a message that reaches it when the link is back: the end alone.
    Mobile,
    /// Both of them.
    Both,
}

/// `[[cross_traffic]]`: datagrams at a constant rate.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CrossTraffic {
    /// Where.
    pub over: Stretch,
    /// Which way.
    #[serde(default)]
    pub direction: Way,
    /// Its rate in Mb/s of IP packets.
    pub rate_mbit_per_s: f64,
    /// Bytes of each IP packet.
    #[serde(default = "packet_bytes")]
    pub packet_bytes: u32,
    /// From when, in seconds.
    #[serde(default)]
    pub start_s: f64,
    /// Until when; none: until the end.
    #[serde(default)]
    pub stop_s: Option<f64>,
    /// Exponential gaps of the same mean rather than equal ones.
    #[serde(default)]
    pub poisson: bool,
}

fn packet_bytes() -> u32 {
    1500
}

/// A part of the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stretch {
    /// From the FH to the gateway.
    Wired,
    /// From the gateway to the MH.
    Wireless,
    /// All of it.
    Both,
}

/// What a time series is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Record {
    /// The sender's congestion window, bytes.
    Cwnd,
    /// Its slow start threshold, bytes; 0: none yet.
    Ssthresh,
    /// The receiver's window as the sender knows it, bytes.
    Rwnd,
    /// `snd.una`, `snd.nxt` and `rcv.nxt` as offsets in the stream.
    Sequence,
    /// Packets in the wireless hop's queue, in the bytes' direction.
    Queue,
    /// Whether the wireless hop carries.
    LinkState,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default, rename = "description")]
    _description: String,
    #[serde(default = "one")]
    seed: u64,
    #[serde(default = "one")]
    repetitions: u64,
    #[serde(default)]
    record: Vec<Record>,
    #[serde(default = "record_interval_ms")]
    record_interval_ms: f64,
    transfer: TransferConditions,
    #[serde(default)]
    wired: Option<Table>,
    wireless: Table,
    #[serde(default)]
    cells: Vec<Table>,
    #[serde(default)]
    movement: Option<MovementConditions>,
    #[serde(default)]
    gateway: GatewayConditions,
    #[serde(default)]
    mobile: MobileConditions,
    #[serde(default)]
    hosts: Table,
    #[serde(default)]
    fh: Table,
    #[serde(default)]
    mh: Table,
    #[serde(default)]
    cross_traffic: Vec<CrossTraffic>,
    /// Known here for the sake of errors; taken out before.
    #[serde(default, rename = "sweep")]
    _sweep: Vec<Table>,
}

fn one() -> u64 {
    1
}

fn record_interval_ms() -> f64 {
    100.0
}

/// Reads and checks a document without sweeps.
pub(super) fn read(table: &Table) -> Result<Conditions, DocumentError> {
    let document: Document = document::read(table)?;
    let hop =
        |name: &str, table: &Table| HopConditions::read(table).map_err(|error| error.within(name));
    let cells = cells::read(&document.wireless, &document.cells)?;
    let conditions = Conditions {
        seed: document.seed,
        repetitions: document.repetitions,
        record: document.record,
        record_interval: Duration::from_nanos((document.record_interval_ms * 1e6) as u64),
        transfer: document.transfer,
        wired: document
            .wired
            .as_ref()
            .map(|table| hop("wired", table))
            .transpose()?,
        wireless: cells[0].clone(),
        cells,
        movement: document.movement,
        moves: Vec::new(),
        gateway: document.gateway,
        mobile: document.mobile,
        fh: host("fh", &document.hosts, &document.fh)?,
        mh: host("mh", &document.hosts, &document.mh)?,
        cross_traffic: document.cross_traffic,
    };
    conditions.check(document.record_interval_ms)?;
    Ok(conditions)
}

/// `[hosts]` with `[fh]` or `[mh]` on top of it.
fn host(name: &str, common: &Table, own: &Table) -> Result<HostConditions, DocumentError> {
    let read = |name: &str, table: &Table| {
        let host: HostConditions = document::read(table).map_err(|error| error.within(name))?;
        host.check().map_err(|error| error.within(name))?;
        Ok(host)
    };
    read("hosts", common)?;
    read(name, own)?;
    let mut table = common.clone();
    table.extend(own.clone());
    let host = read(name, &table)?;
    host.check_tick().map_err(|error| error.within(name))?;
    if host.m_tcp && name != "mh" {
        let problem = "is the mobile's part; takes true in [mh] alone";
        return Err(DocumentError::at("m_tcp", problem).within(name));
    }
    Ok(host)
}

impl Conditions {
    /// Checks the links, with their traces, which are in `folder`.
    pub(super) fn check_links(&self, folder: Option<&Path>) -> Result<(), DocumentError> {
        if let Some(wired) = &self.wired {
            wired.check(folder).map_err(|error| error.within("wired"))?;
        }
        let cells = self.cells.iter().enumerate();
        for (number, cell) in cells {
            cell.check(folder)
                .map_err(|error| self.within_cell(number, error))?;
        }
        Ok(())
    }

    /// An error about the link of a cell, which may be the only one.
    fn within_cell(&self, number: usize, error: DocumentError) -> DocumentError {
        if self.cells.len() == 1 {
            return error.within("wireless");
        }
        error.within(&number.to_string()).within("cells")
    }

    /// These conditions for one seed: traces found from `folder`, the outages drawn.
    pub(super) fn drawn(&self, seed: u64, folder: Option<&Path>) -> Result<Self, DocumentError> {
        let until = Instant::ZERO + self.limit();
        let mut drawn = self.clone();
        if let Some(wired) = &mut drawn.wired {
            *wired = wired
                .drawn(seed_for(seed, PART_WIRED), until, folder)
                .map_err(|error| error.within("wired"))?;
        }
        let until_s = self.limit().as_secs_f64();
        if let Some(movement) = &self.movement {
            drawn.moves = movement.drawn(seed, until_s, self.cells.len())?;
        }
        for (number, cell) in drawn.cells.iter_mut().enumerate() {
            let its = cell
                .drawn(cells::seed_of(seed, number), until, folder)
                .map_err(|error| self.within_cell(number, error))?;
            *cell = its;
            if self.cells.len() > 1 {
                let away = cells::away(&drawn.moves, number, until_s);
                let away = |_, own: &[OutageAt]| cells::either(own, &away);
                *cell = cell.with_outages(away)?;
            }
        }
        drawn.wireless = drawn.cells[0].clone();
        if let Some((first, others)) = drawn.cells.split_first().filter(|(_, o)| !o.is_empty()) {
            drawn.wireless = first.with_outages(|way, own| {
                let others = others.iter().map(|cell| cell.outages_of(way));
                others.fold(own.to_vec(), |common, its| cells::both(&common, its))
            })?;
        }
        Ok(drawn)
    }

    /// Whether files of traces belong to it.
    pub fn names_traces(&self) -> bool {
        self.wired
            .iter()
            .chain(&self.cells)
            .any(HopConditions::names_traces)
    }

    /// The end of the run at the latest, since the start of the links' clocks.
    pub fn limit(&self) -> Duration {
        seconds(self.transfer.limit_s)
    }

    /// The begin of the transfer, since the start of the links' clocks.
    pub fn start(&self) -> Duration {
        seconds(self.transfer.start_s)
    }

    /// The host that sends the bytes.
    pub fn sender(&self) -> &HostConditions {
        match self.transfer.direction {
            Way::Downlink => &self.fh,
            Way::Uplink => &self.mh,
        }
    }
}

/// Seconds that were checked to be none below zero, in whole nanoseconds.
pub(crate) fn seconds(s: f64) -> Duration {
    Duration::from_nanos((s * 1e9).round() as u64)
}
