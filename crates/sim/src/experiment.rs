// SPDX-License-Identifier: Apache-2.0
//! An experiment: a chain of links between fixed and mobile hosts, the traffic over it, and the
//! outcome.
//!
//! ```
//! use holdfast_link::{LinkSettings, OutageSettings};
//! use holdfast_sim::{Experiment, Hop, Preset, Transfer};
//! use holdfast_wire::Duration;
//!
//! let wired = LinkSettings { rate_mbit_per_s: Some(100.0), delay_ms: 10.0, ..Default::default() };
//! let radio = LinkSettings {
//!     rate_mbit_per_s: Some(20.0),
//!     delay_ms: 15.0,
//!     queue_packets_max: Some(200),
//!     outages: OutageSettings::Periodic { first_at_s: 2.0, every_s: 60.0, for_s: 1.0 },
//!     ..Default::default()
//! };
//! let mut experiment = Experiment::new(7, Duration::from_secs(100));
//! experiment.hops = vec![Hop::both_ways(&wired)?, Hop::both_ways(&radio)?];
//! experiment.transfers = vec![Transfer::download(10_000_000, Preset::NewReno.settings())];
//! let outcome = experiment.run();
//! assert!(outcome.transfers[0].finished && outcome.transfers[0].intact);
//! # Ok::<(), holdfast_link::SettingsError>(())
//! ```

use holdfast_core::{Direction, Settings};
use holdfast_link::{LinkPlan, LinkSettings, SettingsError};
use holdfast_wire::{Duration, Instant};

use crate::content::ContentKind;
use crate::network::{LinkSignal, MobileEnginePlan, MobilePlan, SplitPlan};
use crate::observe::Observer;
#[cfg(test)]
use crate::outcome::CrossOutcome;
use crate::outcome::Outcome;
use crate::tcp::{Reading, TcpSettings};

mod build;
mod hops;
mod reference;
mod roaming;

pub use roaming::{Move, Roaming};

/// One run: everything it depends on. The same experiment gives the same outcome, to
/// the bit, on every machine.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The seed of all random numbers.
    pub seed: u64,
    /// The run ends here at the latest; a transfer that is not done then is unfinished.
    pub limit: Duration,
    /// The hops from the FHs to the MHs, at least one. All FHs are at one end of this chain, all MHs
    /// at the other.
    pub hops: Vec<Hop>,
    /// More cells beside the last hop, and how the MHs move between them; none: they stay on the
    /// last hop.
    pub roaming: Option<Roaming>,
    /// The gateway, if there is one; with [`Self::roaming`] each base station is a gateway.
    pub gateway: Option<GatewayPlan>,
    /// A node before the last hop instead of a gateway; none: only a router.
    pub base_station: Option<BaseStation>,
    /// What the MHs do for their own flows; none: nothing.
    pub mobile: Option<MobilePlan>,
    /// The gateway's engine at the MHs' interface, for data that they send; none: no engine.
    pub mobile_engine: Option<MobileEnginePlan>,
    /// TCP headers are encrypted from end to end, as by ESP in transport mode: all other nodes pass
    /// all packets. ESP's own bytes are not counted.
    pub encrypted: bool,
    /// TCP transfers. Each has a connection of its own; an FH and an MH may have many.
    pub transfers: Vec<Transfer>,
    /// Cross traffic.
    pub cross_traffic: Vec<CrossTraffic>,
    /// Interval of the points of time series ([`crate::TransferOutcome::series`]);
    /// none: no series.
    pub series_interval: Option<Duration>,
    /// Every arrival of bytes in order is noted ([`crate::TransferOutcome::arrivals`]).
    pub notes_arrivals: bool,
    /// When the run may end before `limit`.
    pub run_until: RunUntil,
}

/// When a run ends, if not at its limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunUntil {
    /// When every transfer has delivered its bytes, or was given up.
    #[default]
    Delivered,
    /// When, in addition, every connection is closed at both ends (after TIME-WAIT).
    Closed,
    /// At its limit and not before.
    Limit,
}

/// One link, both directions.
#[derive(Clone, Debug)]
pub struct Hop {
    /// Toward the MH.
    pub downlink: LinkPlan,
    /// From the MH.
    pub uplink: LinkPlan,
    /// Both directions have the outages of `downlink`, drawn once.
    pub outages_shared: bool,
    /// Both directions share the medium of `downlink`, as on a half-duplex radio. Each has its own
    /// queue. If both have packets to send, they take turns packet by packet. `uplink` is then not
    /// used.
    pub half_duplex: bool,
    /// Bytes added to each IP packet: the cost of framing and of access to the medium, at the link's
    /// rate.
    pub frame_overhead_bytes: u32,
    /// TCP/IP headers are compressed on it (RFC 1144).
    pub header_compression: bool,
}

impl Hop {
    /// The same settings for both directions, with the same outages.
    ///
    /// # Errors
    /// Settings out of range, or that name a trace's file: build the plans with
    /// [`LinkSettings::plan_with`] and use [`Hop::of_plans`].
    pub fn both_ways(settings: &LinkSettings) -> Result<Self, SettingsError> {
        let plan = settings.plan()?;
        Ok(Self::of_plans(plan.clone(), plan))
    }

    /// A full-duplex link of two plans; they share outages if those of both plans are equal.
    pub fn of_plans(downlink: LinkPlan, uplink: LinkPlan) -> Self {
        Self {
            outages_shared: downlink.outages == uplink.outages,
            downlink,
            uplink,
            half_duplex: false,
            frame_overhead_bytes: 0,
            header_compression: false,
        }
    }

    /// The propagation delay of what the MH sends.
    pub fn uplink_delay(&self) -> Duration {
        if self.half_duplex {
            self.downlink.delay
        } else {
            self.uplink.delay
        }
    }
}

/// The gateway: the engine of `holdfast_core`, the very same as in the daemon.
#[derive(Clone, Debug)]
pub struct GatewayPlan {
    /// The engine's settings, the scheme among them.
    pub settings: Settings,
    /// The hop on its wireless side, counted from the FH: the gateway is before this hop. Usually
    /// the last one.
    pub before_hop: usize,
    /// What reports outages of that hop to the gateway; none: nothing does.
    pub signal: Option<LinkSignal>,
    /// At these times a new engine replaces the old one, with the records
    /// that the old one left (a crash and a restart).
    pub restarts: Vec<Duration>,
    /// The DSCP of packets that it retransmits ahead of ordinary traffic, 0 to 63; none: the
    /// hosts' DSCP (`priority_dscp_min` of a link).
    pub resend_dscp: Option<u8>,
    /// Time to compress a packet of 1,400 bytes; in proportion for other lengths. Later packets
    /// wait.
    pub compression_time: Duration,
}

impl GatewayPlan {
    /// In front of the last hop, without reports of outages.
    pub fn before_last(settings: Settings, hops: &[Hop]) -> Self {
        Self {
            settings,
            before_hop: hops.len().saturating_sub(1),
            signal: None,
            restarts: Vec::new(),
            resend_dscp: None,
            compression_time: Duration::ZERO,
        }
    }
}

/// A node that is not the gateway: other authors' proposals for a base station.
#[derive(Clone, Debug)]
pub enum BaseStation {
    /// It terminates TCP on both sides, with its own TCP for each.
    Splits(Box<SplitPlan>),
    /// It reports to FHs with unacknowledged data that its link is down, again and again
    /// ([`TcpSettings::heeds_bad_link`]).
    ReportsBadLink {
        /// Interval between messages, above 0.
        every: Duration,
    },
}

/// One transfer over a TCP connection. The MH opens the connection.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// Downlink: the FH sends the bytes. Uplink: the MH does.
    pub direction: Direction,
    /// Number of bytes.
    pub bytes: u64,
    /// Bytes of request from the MH that the FH waits for before it sends; 0: it sends
    /// as soon as the connection is open. Downlink only.
    pub request_bytes: u32,
    /// When the MH opens the connection, from the start of the run.
    pub start: Duration,
    /// How the FH's TCP behaves.
    pub fh: TcpSettings,
    /// How the MH's TCP behaves.
    pub mh: TcpSettings,
    /// The MH's number. Transfers with the same number share an address, and so a mobile of the
    /// gateway.
    pub mobile: u32,
    /// The kind of payload.
    pub content: ContentKind,
    /// How fast the receiving application reads.
    pub reading: Reading,
    /// The sender closes when it has sent everything; false: it stays open and silent.
    pub closes: bool,
}

impl Transfer {
    /// A download, both ends of the same settings.
    pub fn download(bytes: u64, tcp: TcpSettings) -> Self {
        Self {
            direction: Direction::Downlink,
            bytes,
            request_bytes: 0,
            start: Duration::ZERO,
            fh: tcp,
            mh: tcp,
            mobile: 0,
            content: ContentKind::Bulk,
            reading: Reading::AtOnce,
            closes: true,
        }
    }

    /// An upload, both ends of the same settings.
    pub fn upload(bytes: u64, tcp: TcpSettings) -> Self {
        Self {
            direction: Direction::Uplink,
            ..Self::download(bytes, tcp)
        }
    }
}

/// Datagrams at a constant rate over a stretch of the chain.
#[derive(Clone, Debug)]
pub struct CrossTraffic {
    /// The direction.
    pub direction: Direction,
    /// The first hop that it crosses, counted from the FH.
    pub from_hop: usize,
    /// The last one, not before `from_hop`.
    pub to_hop: usize,
    /// Bits of IP packets a second, above 0.
    pub rate_bit_per_s: u64,
    /// Bytes of each IP packet, headers included: at least 28.
    pub packet_bytes: u32,
    /// Start time, since the start of the run.
    pub start: Duration,
    /// Stop time, since the start of the run.
    pub stop: Duration,
    /// Exponential gaps of the same mean (a Poisson process) rather than equal ones.
    pub poisson: bool,
}

impl Experiment {
    /// One without hops and transfers.
    pub fn new(seed: u64, limit: Duration) -> Self {
        Self {
            seed,
            limit,
            hops: Vec::new(),
            roaming: None,
            gateway: None,
            base_station: None,
            mobile: None,
            mobile_engine: None,
            encrypted: false,
            transfers: Vec::new(),
            cross_traffic: Vec::new(),
            series_interval: None,
            notes_arrivals: false,
            run_until: RunUntil::Delivered,
        }
    }

    /// Runs it.
    ///
    /// # Panics
    /// If it has no hop, or names a hop that does not exist; if it has a gateway or cells beside a
    /// [`Self::base_station`].
    pub fn run(&self) -> Outcome {
        self.run_observed(&mut ())
    }

    /// Runs it, and shows `observer` every packet and every change of a link.
    ///
    /// # Panics
    /// As [`Self::run`].
    pub fn run_observed(&self, observer: &mut dyn Observer) -> Outcome {
        build::run(self, Instant::ZERO + self.limit, observer, &|| false).0
    }

    /// As [`Self::run_observed`]; none if `interrupted` returns true. It is called once in some
    /// thousand events.
    ///
    /// # Panics
    /// As [`Self::run`].
    pub fn run_unless(
        &self,
        interrupted: &dyn Fn() -> bool,
        observer: &mut dyn Observer,
    ) -> Option<Outcome> {
        let (outcome, ended) = build::run(self, Instant::ZERO + self.limit, observer, interrupted);
        ended.is_continue().then_some(outcome)
    }
}

#[cfg(test)]
mod tests;
