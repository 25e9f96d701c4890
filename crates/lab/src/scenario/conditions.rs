// SPDX-License-Identifier: Apache-2.0
//! The conditions of a run, read from a document without sweeps.

use std::path::Path;

use holdfast_link::{OutageAt, seed_for};
use holdfast_settings::kind::{As, Count, Maybe, Number};
use holdfast_wire::{Duration, Instant};
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::cells::{self, Move, MovementConditions};
use super::direction::DirectionChoice;
use super::gateway::{GatewayConditions, SPLIT, SchemeChoice, UNREAD_BY_SPLIT};
use super::hop::HopConditions;
use super::host::HostConditions;
use super::mobile::MobileConditions;
use super::transfer::{LIMIT_MAX_S, TransferConditions};
use holdfast_files::document::{self, DocumentError};

mod check;
mod complete;

/// The seed's part for the wired hop, on all substrates.
pub(crate) const PART_WIRED: u64 = 1000;

/// Everything that a run's result depends on, except its seed and its substrate.
#[derive(Clone, Debug, PartialEq)]
pub struct Conditions {
    /// The seed of the first repetition; each further repetition adds 1.
    pub seed: u64,
    /// The number of runs of each combination; each has a seed of its own.
    pub repetitions: u64,
    /// The time series that are recorded.
    pub record: Vec<Record>,
    /// The interval of their points.
    pub record_interval: Duration,
    /// The bytes that are sent, and when.
    pub transfer: TransferConditions,
    /// The hop from the FH to the gateway; none: as fast as the substrate is.
    pub wired: Option<HopConditions>,
    /// The hop from the gateway to the MH, as the MH sees it: the first cell's link, with outages
    /// while no cell's link is up.
    pub wireless: HopConditions,
    /// The links of the cells, one or more. Each has outages while the MH is not in its cell.
    pub cells: Vec<HopConditions>,
    /// The MH's movement from cell to cell; none: it does not move.
    pub movement: Option<MovementConditions>,
    /// The moves of a run, in order.
    pub moves: Vec<Move>,
    /// The gateway, or what stands in its role.
    pub gateway: GatewayConditions,
    /// The MH's own scheme.
    pub mobile: MobileConditions,
    /// The FH's TCP.
    pub fh: HostConditions,
    /// The MH's TCP.
    pub mh: HostConditions,
    /// Other traffic.
    pub cross_traffic: Vec<CrossTraffic>,
}

/// `[[cross_traffic]]`: datagrams at a constant rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CrossTraffic {
    /// The part of the path.
    pub over: Stretch,
    /// The direction of the datagrams.
    #[serde(default)]
    pub direction: DirectionChoice,
    /// Its rate in Mb/s of IP packets.
    #[serde(with = "As::<Number<1, 100_000_000_000, 1_000_000>>")]
    pub rate_mbit_per_s: f64,
    /// Bytes of each IP packet.
    #[serde(default = "packet_bytes", with = "As::<Count<28, 65_535>>")]
    pub packet_bytes: u32,
    /// When they begin, in seconds.
    #[serde(default, with = "As::<Number<0, LIMIT_MAX_S>>")]
    pub start_s: f64,
    /// When they end, in seconds; none: at the run's end.
    #[serde(default, with = "Maybe::<Number<0, LIMIT_MAX_S>>")]
    pub stop_s: Option<f64>,
    /// Whether the gaps are exponential, with the same mean; otherwise they are equal.
    #[serde(default)]
    pub poisson: bool,
}

fn packet_bytes() -> u32 {
    1500
}

/// A part of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stretch {
    /// From the FH to the gateway.
    Wired,
    /// From the gateway to the MH.
    Wireless,
    /// The whole path from the FH to the MH.
    Both,
}

/// The figure of a time series.
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
    /// Whether the wireless hop delivers.
    LinkState,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default, rename = "description")]
    _description: String,
    #[serde(default = "one")]
    seed: u64,
    #[serde(default = "one", with = "As::<Count<1, 100_000>>")]
    repetitions: u64,
    #[serde(default)]
    record: Vec<Record>,
    #[serde(default = "record_interval_ms", with = "As::<Number<1, 1_000_000>>")]
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
    gateway: Table,
    #[serde(default)]
    mobile: Table,
    #[serde(default)]
    hosts: Table,
    #[serde(default)]
    fh: Table,
    #[serde(default)]
    mh: Table,
    #[serde(default)]
    cross_traffic: Vec<CrossTraffic>,
    /// Declared to be a known key; it is removed before this document is read.
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
    let mut gateway =
        GatewayConditions::read(&document.gateway).map_err(|error| error.within("gateway"))?;
    let fh = host("fh", &document.hosts, &document.fh)?;
    let mh = host("mh", &document.hosts, &document.mh)?;
    gateway.split = split(&document, gateway.scheme)?;
    let conditions = Conditions {
        seed: document.seed,
        repetitions: document.repetitions,
        record: document.record,
        record_interval: Duration::from_nanos((document.record_interval_ms * 1e6).round() as u64),
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
        gateway,
        mobile: MobileConditions::read(&document.mobile).map_err(|error| error.within("mobile"))?,
        fh,
        mh,
        cross_traffic: document.cross_traffic,
    };
    conditions.check(document.record_interval_ms)?;
    Ok(conditions)
}

/// The FH's table, with `[gateway.split]` laid over it.
fn split(document: &Document, scheme: SchemeChoice) -> Result<HostConditions, DocumentError> {
    let own = match document.gateway.get(SPLIT) {
        None => Table::new(),
        Some(Value::Table(own)) if scheme == SchemeChoice::Split => own.clone(),
        Some(_) => {
            let problem = "takes a table beside gateway.scheme split; leave it out";
            return Err(DocumentError::at(SPLIT, problem).within("gateway"));
        }
    };
    let mut unread = UNREAD_BY_SPLIT.into_iter();
    if let Some(key) = unread.find(|key| own.contains_key(*key)) {
        let problem = "is not a key of the node that splits; leave it out, or set split.preset";
        return Err(DocumentError::at(&format!("{SPLIT}.{key}"), problem).within("gateway"));
    }
    let mut fh = document.hosts.clone();
    fh.extend(document.fh.clone());
    host(SPLIT, &fh, &own).map_err(|error| error.within("gateway"))
}

/// `[hosts]`, with `[fh]` or `[mh]` laid over it.
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
    /// Checks the links and their traces. Traces are in `folder`.
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

    /// An error about the link of a cell; with one cell the key is in `wireless`.
    fn within_cell(&self, number: usize, error: DocumentError) -> DocumentError {
        if self.cells.len() == 1 {
            return error.within("wireless");
        }
        error.within(&number.to_string()).within("cells")
    }

    /// These conditions for one seed: with absolute paths of traces, from `folder`, and with drawn
    /// outages and moves.
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
            let item = cell
                .drawn(cells::seed_of(seed, number), until, folder)
                .map_err(|error| self.within_cell(number, error))?;
            *cell = item;
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
                others.fold(own.to_vec(), |common, item| cells::both(&common, item))
            })?;
        }
        Ok(drawn)
    }

    /// Whether the conditions name files of traces.
    pub fn names_traces(&self) -> bool {
        self.wired
            .iter()
            .chain(&self.cells)
            .any(HopConditions::names_traces)
    }

    /// The latest end of the run, since the start of the links' clocks.
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
            DirectionChoice::Downlink => &self.fh,
            DirectionChoice::Uplink => &self.mh,
        }
    }
}

/// Seconds in whole nanoseconds; they were checked not to be negative.
pub(crate) fn seconds(s: f64) -> Duration {
    Duration::from_nanos((s * 1e9).round() as u64)
}
