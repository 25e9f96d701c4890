// SPDX-License-Identifier: Apache-2.0
//! The state of RACK-TLP (RFC 8985) for one connection, in the states of Linux; and what one ACK reports.

use holdfast_wire::{Duration, Instant};

use super::flight::{Flight, Sent};
use super::prr::Prr;
use super::rack::Rack;
use super::rate::{Delivered, RateSample, Rates};
use super::undo::Undo;

/// Linux's states of congestion control.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// Nothing is suspect.
    #[default]
    Open,
    /// Something is reported behind a hole, or a retransmission is in flight.
    Disorder,
    /// Fast recovery.
    Recovery,
    /// After a retransmission timeout.
    Loss,
}

/// What the retransmission timer waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Waiting {
    /// The retransmission timeout.
    #[default]
    Timeout,
    /// The end of the reordering window.
    Reordering,
    /// A tail loss probe.
    Probe,
}

/// What is sent after an ACK.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Resend {
    /// No retransmission: new data alone.
    #[default]
    Nothing,
    /// Lost segments, then new data.
    Lost,
    /// New data, for F-RTO; lost segments only if there is no new data.
    NewFirst,
}

/// A tail loss probe in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Probe {
    /// TLP.end_seq.
    pub end: u64,
    /// TLP.is_retrans.
    pub is_repeat: bool,
}

/// The state of one connection.
#[derive(Clone, Debug, Default)]
pub(super) struct RackTlp {
    pub flight: Flight,
    pub rack: Rack,
    pub prr: Prr,
    pub phase: Phase,
    pub undo: Undo,
    pub probe: Option<Probe>,
    pub waiting: Waiting,
    pub resend: Resend,
    /// F-RTO still checks whether the timeout was spurious.
    pub frto: bool,
    /// Timeouts in a row, without those that sent a zero-window probe.
    pub timeouts: u32,
    /// Bytes delivered, and the delivery rate.
    pub rates: Rates,
}

impl RackTlp {
    /// A retransmission may be in flight.
    pub(super) fn has_repeated(&self) -> bool {
        let first = self.flight.first();
        self.flight.retransmitted_in_flight() > 0 || first.is_some_and(|sent| sent.repeated)
    }

    /// The timestamp of the first retransmission has no use once none is in flight.
    pub(super) fn forget_stamp_if_unused(&mut self) {
        if !self.has_repeated() {
            self.undo.forget_stamp();
        }
    }
}

/// What an ACK reports.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ack {
    /// Something new is acknowledged.
    pub advances: bool,
    /// Something new is reported by SACK.
    pub reports: bool,
    /// It acknowledges nothing new, has no data, and leaves the window as it is.
    pub is_bare: bool,
    /// The echoed timestamp.
    pub echo: Option<u32>,
    /// Bytes newly acknowledged or reported.
    pub delivered: u64,
    /// They include a segment that was sent once, and before the last reduction.
    pub delivers_original: bool,
    /// D-SACK reports a duplicate (RFC 2883); the duplicate was the tail loss probe.
    pub duplicate: bool,
    pub duplicate_probe: bool,
    /// Bytes newly found lost, and whether a retransmission was lost.
    pub newly_lost: u64,
    pub lost_repeat: bool,
    /// The timer starts anew.
    pub restarts_timer: bool,
    /// The round trip of the newest segment that was sent once.
    pub rtt: Option<Duration>,
    /// The sample of the delivery rate that this ACK gives.
    pub sample: Option<RateSample>,
}

/// The times at which delivered segments were sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times {
    /// Oldest and newest of the segments sent once: those that ACK covers, those in SACK blocks.
    pub acked: Option<[Instant; 2]>,
    pub sacked: Option<[Instant; 2]>,
    /// A retransmitted segment is acknowledged.
    pub acks_repeat: bool,
    /// The newest of all, and bytes delivered in all when it was sent.
    pub newest: Option<(Instant, u64)>,
    /// The newest segment that no earlier ACK has reported.
    pub newest_new: Option<Delivered>,
    /// The start of the highest segment that an earlier ACK has reported.
    pub highest: Option<u64>,
    /// A segment below `highest` that was sent once is delivered.
    pub is_reordered: bool,
}

impl Times {
    pub(super) fn note(times: &mut Option<[Instant; 2]>, at: Instant) {
        *times = Some(times.map_or([at, at], |[oldest, _]| [oldest, at]));
    }

    pub(super) fn note_delivered(&mut self, sent: &Sent) {
        self.newest = self.newest.max(Some((sent.at, sent.snapshot.delivered)));
        let is_newest = |known: Delivered| (known.sent_at, known.to) < (sent.at, sent.to);
        if !sent.sacked && self.newest_new.is_none_or(is_newest) {
            self.newest_new = Some(Delivered {
                sent_at: sent.at,
                to: sent.to,
                snapshot: sent.snapshot,
            });
        }
        let is_behind = self.highest.is_some_and(|highest| sent.from < highest);
        self.is_reordered |= is_behind && !sent.repeated && !sent.sacked;
    }
}
