// SPDX-License-Identifier: Apache-2.0
//! The variables of a connection's end, and what can be seen of it from outside.

use holdfast_wire::{Duration, Endpoint, Instant, SeqNum};

use super::reassembly::Reassembly;
use crate::packet::NodeId;

/// Duplicate ACKs that wait, since `rcv.nxt` last advanced.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DelayedDupAcks {
    /// Segments behind the hole.
    pub segments: u32,
    /// These ACKs.
    pub waiting: u32,
    /// They have waited in vain.
    pub released: bool,
}

/// What an end has received in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    /// Bytes.
    pub bytes: u64,
    /// The other end has closed behind them.
    pub closed: bool,
}

/// One end's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The host.
    pub node: NodeId,
    /// Its address and port.
    pub endpoint: Endpoint,
    /// The number of the stream that it sends ([`crate::packet::Origin::stream`]).
    pub stream: u32,
    /// Its initial sequence number.
    pub iss: SeqNum,
}

/// What the application at one end does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Application {
    /// Bytes that it sends.
    pub sends: u64,
    /// It starts to send when it has received this many.
    pub after_receiving: u64,
    /// It closes when it has sent everything; otherwise when, besides, the other end
    /// has closed.
    pub closes_first: bool,
    /// How it reads; a relay reads what another connection has passed on.
    pub reading: Reading,
    /// It sends what another connection has received, and closes when that one is closed.
    pub(crate) relays: bool,
}

/// How an application takes what its TCP has received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reading {
    /// As soon as it is there.
    #[default]
    AtOnce,
    /// Chunks of `bytes` at distances of `every`.
    Chunks {
        /// Bytes, at least 1.
        bytes: u32,
        /// The distance, at least 1 µs.
        every: Duration,
    },
    /// Nothing before `until`, from the start of the run; then as soon as it is there.
    NotBefore {
        /// The time.
        until: Duration,
    },
}

/// RFC 9293, 3.3.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No connection, any more or yet.
    Closed,
    /// Waits for a SYN.
    Listen,
    /// Has sent a SYN.
    SynSent,
    /// Has answered one.
    SynReceived,
    /// Open.
    Established,
    /// Has sent a FIN.
    FinWait1,
    /// Its FIN is acknowledged.
    FinWait2,
    /// Has got a FIN.
    CloseWait,
    /// Both have sent a FIN, neither is acknowledged.
    Closing,
    /// Has got a FIN and sent its own.
    LastAck,
    /// Waits for 2 MSL.
    TimeWait,
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It has not.
    Open,
    /// Both directions were closed in order.
    Closed,
    /// Too many timeouts in a row: this end gave up.
    GaveUp,
    /// The other end sent a RST.
    Reset,
}

/// What one end has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Segments sent, of any kind.
    pub segments: u64,
    /// Segments sent with data, zero-window probes apart.
    pub data_segments: u64,
    /// Of them, those some of whose bytes had been sent before.
    pub data_segments_repeated: u64,
    /// Bytes of data sent.
    pub data_bytes: u64,
    /// Of them, those sent before.
    pub data_bytes_repeated: u64,
    /// Expiries of the retransmission timer.
    pub timeouts: u64,
    /// Losses found by duplicate ACKs or SACK.
    pub fast_retransmits: u64,
    /// Zero-window probes sent.
    pub probes: u64,
    /// Segments sent without data, SYN, FIN or RST.
    pub pure_acks: u64,
    /// Duplicate ACKs received.
    pub dup_acks_received: u64,
    /// Round trips measured.
    pub rtt_samples: u64,
    /// Bytes received that were here before.
    pub duplicate_bytes_received: u64,
    /// Segments with data received.
    pub data_segments_received: u64,
    /// Segments dropped for a wrong checksum.
    pub corrupted_received: u64,
    /// Seconds in which it sent data or a zero-window probe.
    pub seconds_sending: Seconds,
    /// Of them, those in which data was retransmitted, or a probe followed an unanswered one.
    pub seconds_repeating: Seconds,
}

/// Whole seconds of the clock in which something happened, each counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seconds {
    count: u64,
    last: Option<u64>,
}

impl Seconds {
    /// It happens now.
    pub(super) fn note(&mut self, now: Instant) {
        let second = now.as_nanos() / 1_000_000_000;
        if self.last.replace(second) != Some(second) {
            self.count += 1;
        }
    }

    /// How many.
    pub const fn count(self) -> u64 {
        self.count
    }
}

/// RFC 9293, 3.3.1: send sequence variables.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Snd {
    pub una: u64,
    pub nxt: u64,
    /// Highest ever sent, as the sender remembers it: what `nxt` returns to after a
    /// timeout.
    pub max: u64,
    /// Highest ever sent, for counters and Karn's algorithm, whatever the sender forgets
    /// ([`OnPersistExit::ResetSndMax`](super::settings::OnPersistExit)).
    pub highest: u64,
    pub wnd: u64,
    /// Largest window offered so far (RFC 9293, 3.8.6.2.1).
    pub wnd_max: u64,
    /// Segment numbers of the last window update: `wl1` in the other end's space.
    pub wl1: i64,
    pub wl2: u64,
    pub scale: u8,
}

/// Receive sequence variables.
#[derive(Clone, Debug, Default)]
pub(super) struct Rcv {
    pub irs: SeqNum,
    pub nxt: u64,
    /// The right edge of the window offered: never goes back.
    pub edge: u64,
    pub scale: u8,
    /// In order, and not yet read.
    pub unread: u64,
    pub ahead: Reassembly,
    /// Where the other end's FIN is.
    pub fin: Option<u64>,
    /// Segments that wait for an ACK.
    pub unacked_segments: u32,
    /// RFC 7323, 4.3.
    pub ts_recent: u32,
    pub last_ack_sent: u64,
    /// Duplicate ACKs that wait.
    pub dup_acks: DelayedDupAcks,
    /// Bytes that have arrived again, for D-SACK.
    pub duplicate: Option<(u64, u64)>,
    /// The window is advertised as 0 whatever it is.
    pub frozen: bool,
}

/// When what is due.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Timers {
    pub retransmit: Option<Instant>,
    pub persist: Option<Instant>,
    pub delayed_ack: Option<Instant>,
    pub dup_acks: Option<Instant>,
    pub read: Option<Instant>,
    pub pace: Option<Instant>,
    pub time_wait: Option<Instant>,
}

/// A segment whose ACK gives a round trip, where there are no timestamps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timed {
    pub end: u64,
    pub sent: Instant,
}

/// What can be seen of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Its state.
    pub state: State,
    /// How it ended.
    pub ending: Ending,
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Slow start threshold, bytes.
    pub ssthresh: u64,
    /// The other end's window, bytes.
    pub rwnd: u64,
    /// Bytes acknowledged.
    pub snd_una: u64,
    /// Bytes sent, less what is to be retransmitted.
    pub snd_nxt: u64,
    /// Bytes ever sent.
    pub snd_max: u64,
    /// Bytes received in order.
    pub delivered: u64,
    /// The retransmission timeout, back-off included.
    pub rto: Duration,
    /// In persist state.
    pub persisting: bool,
    /// In fast recovery.
    pub recovering: bool,
    /// No byte stood where another one belongs.
    pub intact: bool,
}
