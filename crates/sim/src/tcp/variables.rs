// SPDX-License-Identifier: Apache-2.0
//! The variables of a connection's end, and those that an observer sees.

use holdfast_wire::{Duration, Endpoint, Instant, SeqNum};

use super::reassembly::Reassembly;
use crate::packet::NodeId;

/// The receiver's delayed duplicate ACKs since `rcv.nxt` last advanced.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DelayedDupAcks {
    /// Segments received behind the hole.
    pub segments: u32,
    /// Duplicate ACKs that wait.
    pub waiting: u32,
    /// The delay has ended for this hole: later duplicate ACKs are sent at once.
    pub released: bool,
}

/// The data that an end has received in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    /// Bytes.
    pub bytes: u64,
    /// The other end has closed after these bytes.
    pub closed: bool,
}

/// The identity of one end.
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
    /// It starts to send when it has received this many bytes.
    pub after_receiving: u64,
    /// It closes when it has sent everything. If false, it also waits until the other end has
    /// closed.
    pub closes_first: bool,
    /// How it reads. A relay instead reads what it can pass on to another connection.
    pub reading: Reading,
    /// It sends what another connection has received, and closes when that one is closed.
    pub(crate) relays: bool,
}

/// How an application reads what its TCP has received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reading {
    /// As soon as it has arrived.
    #[default]
    AtOnce,
    /// Chunks of `bytes`, at intervals of `every`.
    Chunks {
        /// Bytes, at least 1.
        bytes: u32,
        /// The interval, at least 1 µs.
        every: Duration,
    },
    /// Nothing before `until`, from the start of the run; later as soon as it has arrived.
    NotBefore {
        /// The time.
        until: Duration,
    },
}

/// RFC 9293, 3.3.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No connection yet, or the connection has ended.
    Closed,
    /// Waits for a SYN.
    Listen,
    /// Has sent a SYN.
    SynSent,
    /// Has received a SYN and sent a SYN,ACK.
    SynReceived,
    /// Open.
    Established,
    /// Has sent a FIN.
    FinWait1,
    /// Its FIN is acknowledged.
    FinWait2,
    /// Has received a FIN.
    CloseWait,
    /// Both ends have sent a FIN, and this end's is not acknowledged.
    Closing,
    /// Has received a FIN and sent its own.
    LastAck,
    /// Waits for 2 MSL.
    TimeWait,
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It has not ended.
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
    /// Segments sent with data, without zero-window probes.
    pub data_segments: u64,
    /// Data segments with at least one byte that had been sent before.
    pub data_segments_repeated: u64,
    /// Bytes of data sent.
    pub data_bytes: u64,
    /// Bytes of data that had been sent before.
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
    /// Bytes received more than once.
    pub duplicate_bytes_received: u64,
    /// Segments with data received.
    pub data_segments_received: u64,
    /// Segments dropped for a wrong checksum.
    pub corrupted_received: u64,
    /// Seconds in which it sent data or a zero-window probe.
    pub seconds_sending: Seconds,
    /// Seconds in which it retransmitted data, or sent a probe after an unanswered one.
    pub seconds_repeating: Seconds,
}

/// Whole seconds of the clock in which something happened, each counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seconds {
    count: u64,
    last: Option<u64>,
}

impl Seconds {
    /// Counts the second of `now`.
    pub(super) fn count_second_of(&mut self, now: Instant) {
        let second = now.as_nanos() / 1_000_000_000;
        if self.last.replace(second) != Some(second) {
            self.count += 1;
        }
    }

    /// The number of seconds.
    pub const fn count(self) -> u64 {
        self.count
    }
}

/// RFC 9293, 3.3.1: send sequence variables.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Snd {
    pub una: u64,
    pub nxt: u64,
    /// Highest ever sent, as the sender remembers it. After a timeout `nxt` is lower.
    pub max: u64,
    /// Highest ever sent, for counters and Karn's algorithm. It stays if the sender forgets `max`
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
    /// The sequence number of the other end's FIN.
    pub fin: Option<u64>,
    /// Segments that wait for an ACK.
    pub unacked_segments: u32,
    /// RFC 7323, 4.3.
    pub ts_recent: u32,
    pub last_ack_sent: u64,
    /// The state of delayed duplicate ACKs.
    pub dup_acks: DelayedDupAcks,
    /// Bytes that have arrived twice, for D-SACK.
    pub duplicate: Option<(u64, u64)>,
    /// The window is advertised as 0 whatever its size.
    pub frozen: bool,
}

/// When each timer expires.
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

/// A segment whose ACK gives a round trip, for connections without timestamps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timed {
    pub end: u64,
    pub sent: Instant,
}

/// The variables of a connection that an observer sees.
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
    /// Every byte has arrived at its own offset.
    pub intact: bool,
}
