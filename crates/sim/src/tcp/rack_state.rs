// SPDX-License-Identifier: Apache-2.0
//! What RACK-TLP (RFC 8985) knows of one connection, in the states of Linux.

use super::flight::Flight;
use super::prr::Prr;
use super::rack::Rack;
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
    /// New data alone.
    #[default]
    Nothing,
    /// What is lost, then new data.
    Lost,
    /// New data, for F-RTO, and what is lost only if there is none.
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
    /// F-RTO looks whether the timeout was spurious.
    pub frto: bool,
    /// Timeouts in a row that were no zero-window probes.
    pub timeouts: u32,
    /// Bytes delivered in all.
    pub delivered: u64,
}

impl RackTlp {
    /// A retransmission may be in flight.
    pub(super) fn has_repeated(&self) -> bool {
        let first = self.flight.first();
        self.flight.again() > 0 || first.is_some_and(|sent| sent.repeated)
    }

    /// The timestamp of the first retransmission has no use once none is in flight.
    pub(super) fn forget_stamp_if_unused(&mut self) {
        if !self.has_repeated() {
            self.undo.forget_stamp();
        }
    }
}
