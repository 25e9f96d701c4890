// SPDX-License-Identifier: Apache-2.0
//! The behaviour of a TCP host: each behaviour is a setting, with its source.
//!
//! [`TcpSettings::default`] is what today's RFCs require; [`Preset`](super::Preset) names the
//! senders of the papers.

use holdfast_core::lccwe::Parameters;
use holdfast_wire::Duration;
use serde::{Deserialize, Serialize};

/// How a sender finds losses, and retransmits, before the retransmission timer expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossRecovery {
    /// Fast retransmit without fast recovery (4.3BSD-Tahoe; RFC 5681, 3.2 without its
    /// steps 3 to 6): slow start from one segment.
    Tahoe,
    /// Fast retransmit and fast recovery (RFC 5681, 3.2): the first new ACK ends it.
    Reno,
    /// Fast recovery that lasts until all that was outstanding is acknowledged
    /// (RFC 6582).
    NewReno,
    /// Recovery from SACK information (RFC 6675). Needs [`TcpSettings::sack`] at both
    /// ends; otherwise it is `NewReno`.
    Sack,
    /// RACK-TLP (RFC 8985) with proportional rate reduction (RFC 9937), F-RTO
    /// ([`TcpSettings::f_rto`]) and undo, as Linux. Needs [`TcpSettings::sack`] at both ends; otherwise as `NewReno`.
    RackTlp,
}

/// How the congestion window grows with ACKs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowIncrease {
    /// Slow start by the bytes acknowledged, at most SMSS an ACK (RFC 5681, 3.1,
    /// equation 2); congestion avoidance by SMSS*SMSS/cwnd an ACK (equation 3), which is
    /// half as fast where every second segment is acknowledged.
    PerAck,
    /// Slow start by SMSS an ACK, avoidance by SMSS*SMSS/cwnd + SMSS/8: 4.3BSD-Reno,
    /// whose constant term RFC 5681, 3.1 forbids today.
    Bsd,
    /// By bytes acknowledged, `limit` segments an ACK at most in slow start (RFC 3465).
    /// With a limit of 1 it is what RFC 5681, 3.1 recommends: equation 2 in slow start,
    /// bytes counted up to `cwnd` in avoidance.
    ByBytes {
        /// L of RFC 3465, 2.2: 1 or 2.
        limit: u32,
    },
    /// By the bytes acknowledged. Slow start has no limit an ACK, up to `ssthresh`; the rest
    /// of that ACK counts in avoidance (Linux: `tcp_slow_start`, `tcp_cong_avoid_ai`).
    AllAcked,
    /// Slow start as `AllAcked`, ended by HyStart; avoidance along CUBIC's curve (RFC 9438). A loss
    /// reduces by three tenths. [`TcpSettings::half_of`] only decides which timeouts reduce.
    Cubic,
    /// By BBR, version 1, as in Linux (draft-cardwell-iccrg-bbr-congestion-control-00), which also paces what is
    /// sent. Needs [`LossRecovery::RackTlp`] and SACK at both ends; otherwise it is `AllAcked`.
    Bbr,
}

/// After a loss, `ssthresh` becomes half of this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HalfOf {
    /// FlightSize (RFC 5681, 3.1, equation 4).
    FlightSize,
    /// The smaller of `cwnd` and the receiver's window, in whole segments
    /// (4.3BSD-Reno).
    Window,
    /// `cwnd` in whole segments. A timeout in fast recovery reduces nothing: that loss has
    /// had its reduction (Linux: `tcp_reno_ssthresh`, `tcp_enter_loss`).
    CongestionWindow,
}

/// `cwnd` after the ACK that ends NewReno's fast recovery (RFC 6582, 3.2, step 3, full
/// acknowledgments).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFullAck {
    /// (1): min (ssthresh, max (FlightSize, SMSS) + SMSS), so that no burst follows.
    FlightSize,
    /// (2): ssthresh (Linux: `tcp_end_cwnd_reduction`).
    Ssthresh,
}

/// The estimator of the retransmission timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RttClock {
    /// RFC 6298, 2, with a clock of this granularity G; zero for an exact clock.
    Rfc6298 {
        /// G.
        granularity: Duration,
    },
    /// 4.3BSD-Reno: whole ticks, `srtt` in eighths and `rttvar` in quarters of one.
    Bsd {
        /// The slow timer's tick: 500 ms.
        tick: Duration,
    },
}

/// To what the least timeout applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RtoFloor {
    /// To the whole timeout (RFC 6298, 2.4: 1 s).
    Timeout(Duration),
    /// To the variance's term alone: the RTO is at least `srtt` plus this (Linux: 200 ms).
    Variance(Duration),
}

/// The retransmission timer (RFC 6298).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtoSettings {
    /// The timeout before the first measurement (RFC 6298, 2.1: 1 s; RFC 2988: 3 s).
    pub initial: Duration,
    /// The least timeout (2.4).
    pub floor: RtoFloor,
    /// Added to a measured timeout after its back-off (Darwin: 200 ms).
    pub slop: Duration,
    /// The largest timeout, back-off included (2.5: at least 60 s).
    pub max: Duration,
    /// The estimator.
    pub clock: RttClock,
    /// Each of the many timestamp samples in a round trip has a share of one sample's weight
    /// (RFC 7323, 4.2 and appendix G). Otherwise each has the whole weight, and the estimate
    /// forgets sooner (Linux).
    pub samples_share_weight: bool,
    /// The retransmission and persist timers expire only at multiples of this, as with a periodic
    /// slow timer. None: at their exact time.
    pub timer_tick: Option<Duration>,
    /// Time of the host's first tick: hosts started at different times tick at
    /// different times. Below `timer_tick`.
    pub tick_phase: Duration,
    /// The largest number of doublings (4.3BSD: 6, which is 64 times).
    pub doublings_max: u32,
    /// Consecutive timeouts of one segment after which the connection is given up
    /// (R2 of RFC 9293, 3.8.3; 4.3BSD: 12, Linux `tcp_retries2`: 15).
    pub retries_max: u32,
    /// The same limit for a SYN (RFC 9293, 3.8.3: at least 3 minutes).
    pub syn_retries_max: u32,
}

/// When ACKs are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelayedAck {
    /// One for each segment.
    Off,
    /// One for each `every`-th segment, or `delay` after the first segment that waits
    /// (RFC 5681, 4.2: every second full-sized one, at most 500 ms).
    On {
        /// Segments.
        every: u32,
        /// The longest wait.
        delay: Duration,
        /// The wait ends at the next multiple of `delay` instead (4.3BSD's fast
        /// timer: each 200 ms, for all connections).
        heartbeat: bool,
    },
}

/// The form of a zero-window probe (RFC 9293, 3.8.6.1 does not specify it).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeKind {
    /// The next byte that is to be sent (BSD).
    NextByte,
    /// No byte: its sequence number is just below `snd.una`, so that it is answered (Linux).
    Empty,
}

/// The persist timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PersistSettings {
    /// The form of a probe.
    pub probe: ProbeKind,
    /// The first interval: the RTO (RFC 9293, 3.8.6.1) unless set.
    pub initial: Option<Duration>,
    /// The least interval (4.3BSD: 5 s).
    pub min: Duration,
    /// The largest interval: intervals double up to this (4.3BSD: 60 s).
    pub max: Duration,
    /// Unanswered probes after which the connection is given up. None: never, as in RFC 9293,
    /// 3.8.6.1, which probes as long as probes are answered.
    pub unanswered_max: Option<u32>,
}

/// What a sender does if its window shrinks to zero over bytes in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnShrunkWindow {
    /// The retransmission timer is cancelled and persist begins at once, `snd.nxt`
    /// back at `snd.una`: 4.3BSD-Reno's `tcp_output` and the papers' senders.
    PersistAtOnce,
    /// The retransmission timer keeps running over what is outstanding, and each
    /// expiry is a timeout to congestion control. The segment repeated passes for a
    /// probe, so that the connection is not given up: Linux.
    #[serde(rename = "timer-runs")]
    RetransmissionTimerRuns,
    /// The same, but persist waits until nothing is outstanding: each expiry repeats the
    /// segment and counts toward giving up. OPNET's TCP (M-TCP+, 2007: persist needs a
    /// window of zero and no outstanding data).
    #[serde(rename = "timer-counts")]
    RetransmissionTimerCounts,
}

/// Whether the sender forgets bytes sent beyond `snd.una` when persist ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnPersistExit {
    /// It does not: an ACK of all that was ever sent is accepted.
    KeepSndMax,
    /// The highest byte sent is set back to `snd.una`. ACKs beyond it are rejected until it is
    /// reached again: the senders for which M-TCP's SH has its state RECOVERING (Brown and
    /// Singh, 1997).
    ResetSndMax,
}

/// The idle time after which `cwnd` starts again from the initial window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleRestart {
    /// `cwnd` never starts again.
    Never,
    /// Nothing was sent for longer than an RTO (RFC 5681, 4.1).
    SinceSent,
    /// Nothing was sent or received for longer than an RTO (4.3BSD's `t_idle`): the
    /// segment that opens a closed window ends the idle time.
    SinceReceived,
    /// Nothing was sent for longer than an RTO: `cwnd` is halved for each RTO, down to the
    /// initial window, and `ssthresh` keeps three quarters of it (Linux: `tcp_cwnd_restart`).
    HalvedEachTimeout,
}

/// What a sender does about handoffs of its own host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnHandoff {
    /// The sender gets no report of handoffs.
    Nothing,
    /// LC and CWE (Liao, Kao and Chien, 2005), or one of the two.
    LcCwe {
        /// Losses are attributed to congestion or to a handoff (LC); otherwise all to
        /// congestion.
        classifies: bool,
        /// The window grows for the time of the handoff (CWE).
        extrapolates: bool,
        /// The paper's numbers, and how its text is read.
        parameters: Parameters,
    },
    /// During a handoff the retransmission timer is stopped, and nothing is sent; then fast
    /// retransmit at once (their combination of Freeze-TCP with Caceres and Iftode, 1995,
    /// at the sender).
    FreezeAndFastRetransmit,
}

/// Which segments update the send window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowUpdates {
    /// Each newer segment, by SND.WL1 and SND.WL2 (RFC 9293, 3.10.7.4).
    Rfc9293,
    /// A segment that acknowledges nothing new may not shrink the window, unless its
    /// sequence number is newer: Linux before 6.6.
    NewAckToShrink,
}

/// The behaviour of one TCP host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpSettings {
    /// The largest payload that this host receives and sends, options not deducted
    /// (RFC 9293, 3.7.1; RFC 6691), bytes; at least 64.
    pub mss: u16,
    /// Offers timestamps (RFC 7323, 3).
    pub timestamps: bool,
    /// The unit of its timestamps (RFC 7323, 5.4: 1 ms to 1 s).
    pub timestamp_clock: Duration,
    /// Offers this window scale (RFC 7323, 2), 0 to 14.
    pub window_scale: Option<u8>,
    /// Offers SACK, and reports with it (RFC 2018).
    pub sack: bool,
    /// Reports duplicates with SACK blocks (D-SACK: RFC 2883).
    pub dsack: bool,
    /// Bytes of receive buffer, which bounds the window advertised.
    pub receive_buffer_bytes: u32,
    /// Bytes of send buffer, which limits what is outstanding; none: no limit.
    pub send_buffer_bytes: Option<u32>,
    /// How losses are found and retransmitted.
    pub recovery: LossRecovery,
    /// After a timeout two new segments show whether it was spurious (F-RTO: RFC 5682). For
    /// [`LossRecovery::RackTlp`] alone.
    pub f_rto: bool,
    /// Duplicate ACKs that mean a loss (RFC 5681, 3.2; RFC 6675, 2): 3.
    pub dup_ack_threshold: u32,
    /// The first two duplicate ACKs each let the sender send one new segment (RFC 3042).
    pub limited_transmit: bool,
    /// Only the first partial ACK restarts the timer (the Impatient variant of RFC 6582, 4);
    /// false: each does.
    pub impatient: bool,
    /// How the window grows.
    pub increase: WindowIncrease,
    /// The window grows only while it limits the sender (RFC 7661's idea; Linux).
    pub increase_when_limited_only: bool,
    /// The initial window, segments (RFC 5681, 3.1; RFC 6928: 10).
    pub initial_window_segments: u32,
    /// The initial `ssthresh`, bytes; none: as high as possible (RFC 5681, 3.1).
    pub initial_ssthresh_bytes: Option<u32>,
    /// What is halved after a loss.
    pub half_of: HalfOf,
    /// `cwnd` at the end of NewReno's recovery.
    pub on_full_ack: OnFullAck,
    /// `cwnd` after an idle time.
    pub idle_restart: IdleRestart,
    /// The retransmission timer.
    pub rto: RtoSettings,
    /// When ACKs are sent.
    pub delayed_ack: DelayedAck,
    /// This many first segments with data are acknowledged at once, so that a sender's slow
    /// start does not wait (Linux: its quick ACK mode).
    pub quick_acks: u32,
    /// The third and later duplicate ACKs wait this long for the missing segment, which a link
    /// may retransmit meanwhile (delayed duplicate acknowledgements: Vaidya, Mehta, Perkins and
    /// Montenegro, 1999). None: they are sent at once.
    pub dup_ack_delay: Option<Duration>,
    /// The persist timer.
    pub persist: PersistSettings,
    /// The reaction to a window of zero over bytes in flight.
    pub on_shrunk_window: OnShrunkWindow,
    /// The reaction to the end of persist.
    pub on_persist_exit: OnPersistExit,
    /// What updates the send window.
    pub window_updates: WindowUpdates,
    /// 2 MSL: how long TIME-WAIT lasts (RFC 9293, 3.4.2: 4 minutes; most: 60 s).
    pub time_wait: Duration,
    /// A message that a link of the path is bad restarts the retransmission timer with the
    /// present timeout (explicit bad state notification: Bakshi, Krishna, Vaidya and Pradhan,
    /// 1997).
    pub heeds_bad_link: bool,
    /// The reaction to handoffs of its host, which are reported to it.
    pub on_handoff: OnHandoff,
    /// After a loss, duplicate ACKs cause no fast retransmit until more is acknowledged than was
    /// outstanding then (RFC 6582, 3.2, step 2; ns-2's `bug_fix_`, in Reno too).
    pub recovers_once: bool,
    /// M-TCP at the mobile (Brown and Singh, 1997, 4.2): its timers are stopped while its
    /// link is down, and at link up it sends a marked ACK.
    pub m_tcp: bool,
}

impl Default for TcpSettings {
    /// The defaults of RFC 5681, 6582, 6675, 6298, 7323 and 6928.
    fn default() -> Self {
        Self {
            mss: 1460,
            timestamps: true,
            timestamp_clock: Duration::from_millis(1),
            window_scale: Some(7),
            sack: true,
            dsack: false,
            receive_buffer_bytes: 4 << 20,
            send_buffer_bytes: None,
            recovery: LossRecovery::Sack,
            f_rto: true,
            dup_ack_threshold: 3,
            limited_transmit: true,
            impatient: true,
            increase: WindowIncrease::ByBytes { limit: 1 },
            increase_when_limited_only: true,
            initial_window_segments: 10,
            initial_ssthresh_bytes: None,
            half_of: HalfOf::FlightSize,
            on_full_ack: OnFullAck::FlightSize,
            idle_restart: IdleRestart::SinceSent,
            rto: RtoSettings::RFC6298,
            delayed_ack: DelayedAck::RFC5681,
            quick_acks: 0,
            dup_ack_delay: None,
            persist: PersistSettings::RFC9293,
            on_shrunk_window: OnShrunkWindow::PersistAtOnce,
            on_persist_exit: OnPersistExit::KeepSndMax,
            window_updates: WindowUpdates::Rfc9293,
            time_wait: Duration::from_secs(60),
            heeds_bad_link: false,
            on_handoff: OnHandoff::Nothing,
            recovers_once: false,
            m_tcp: false,
        }
    }
}

impl RtoSettings {
    /// RFC 6298 with an exact clock.
    pub const RFC6298: Self = Self {
        initial: Duration::from_secs(1),
        floor: RtoFloor::Timeout(Duration::from_secs(1)),
        slop: Duration::ZERO,
        max: Duration::from_secs(60),
        clock: RttClock::Rfc6298 {
            granularity: Duration::ZERO,
        },
        samples_share_weight: true,
        timer_tick: None,
        tick_phase: Duration::ZERO,
        doublings_max: 16,
        retries_max: 15,
        syn_retries_max: 8,
    };

    /// 4.3BSD-Reno (`tcp_timer.h`): ticks of 500 ms, 1 to 64 s, 6 s before the first
    /// measurement, given up after the twelfth retransmission.
    pub const BSD: Self = Self {
        initial: Duration::from_secs(6),
        floor: RtoFloor::Timeout(Duration::from_secs(1)),
        slop: Duration::ZERO,
        max: Duration::from_secs(64),
        clock: RttClock::Bsd {
            tick: Duration::from_millis(500),
        },
        samples_share_weight: false,
        timer_tick: Some(Duration::from_millis(500)),
        tick_phase: Duration::ZERO,
        doublings_max: 6,
        retries_max: 12,
        syn_retries_max: 12,
    };
}

impl DelayedAck {
    /// Every second segment, 200 ms at most.
    pub const RFC5681: Self = Self::On {
        every: 2,
        delay: Duration::from_millis(200),
        heartbeat: false,
    };

    /// Every second segment, or at the next beat of the fast timer.
    pub const BSD: Self = Self::On {
        every: 2,
        delay: Duration::from_millis(200),
        heartbeat: true,
    };
}

impl PersistSettings {
    /// The first interval is the RTO; intervals double, and probing never ends.
    pub const RFC9293: Self = Self {
        probe: ProbeKind::NextByte,
        initial: None,
        min: Duration::from_millis(200),
        max: Duration::from_secs(60),
        unanswered_max: None,
    };

    /// 4.3BSD-Reno: 5 to 60 s.
    pub const BSD: Self = Self {
        probe: ProbeKind::NextByte,
        initial: None,
        min: Duration::from_secs(5),
        max: Duration::from_secs(60),
        unanswered_max: None,
    };
}
