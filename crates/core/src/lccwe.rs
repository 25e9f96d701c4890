// SPDX-License-Identifier: Apache-2.0
//! LC and CWE: a loss classifier and a congestion window extrapolator for data that a
//! mobile host sends (Liao, Kao and Chien, Improving TCP Performance in Mobile Networks,
//! 2005).
//!
//! One object belongs to one sender. It receives handoffs and ACKs, judges each loss
//! that the sender finds, and computes by how much the window is to grow in the ambiguous
//! period, one smoothed round trip from the end of a handoff. It changes no window
//! itself: the simulator's sender and the kernel's (`bpf/lccwe.bpf.c`, which has the same
//! arithmetic in C) do.
//!
//! docs/schemes/lc-cwe.md lists what the paper leaves open, and what is read otherwise here. [`Parameters`]
//! has the cases in which more than one reading is worth trying.

pub mod arithmetic;

use core::time::Duration;

use holdfast_wire::Instant;

use arithmetic::{ONE, Window};

/// The constants, and the readings of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// w_c, the weight of the old congestion history, of [`ONE`]; printed: 0.2.
    pub history_weight: u32,
    /// w_a, the weight of the old acknowledgement interval, of [`ONE`]; not printed.
    pub interval_weight: u32,
    /// The first congestion history, of [`ONE`]; not printed.
    pub first_history: u32,
    /// The RTT that P_C is calculated with after a timeout.
    pub timeout_rtt: TimeoutRtt,
    /// How a loss is judged if both probabilities are 0.
    pub on_neither: OnNeither,
}

/// The RTT that P_C is calculated with after a timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeoutRtt {
    /// The last one measured.
    LastSample,
    /// The timeout itself, as in the congestion history.
    Timeout,
}

/// A loss with P_C = P_H = 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnNeither {
    /// Congestion: "transmission errors are treated in the same way as errors due to
    /// network congestion".
    Congestion,
    /// A handoff: "if P_C > P_H ... congestion; otherwise ... handoffs", to the letter.
    Handoff,
}

impl Parameters {
    /// The paper's values, except for a tie: here it is congestion, in the paper it is a handoff. For values that
    /// are not in the paper, docs/schemes/lc-cwe.md gives reasons.
    pub const DEFAULT: Self = Self {
        history_weight: ONE / 5,
        interval_weight: ONE / 8 * 7,
        first_history: ONE,
        timeout_rtt: TimeoutRtt::LastSample,
        on_neither: OnNeither::Congestion,
    };
}

/// How the sender found a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossSign {
    /// The retransmission timer expired, after this time.
    Timeout {
        /// The RTO, back-off included.
        rto: Duration,
    },
    /// Duplicate ACKs.
    DupAcks,
}

/// A loss, and what the sender knows of its round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// How it was found.
    pub sign: LossSign,
    /// When the lost segment was sent last.
    pub transmitted: Instant,
    /// SRTT.
    pub srtt: Duration,
    /// RTTVAR.
    pub rttvar: Duration,
}

/// Why a segment was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Congestion, or an error of transmission: the sender reduces its window as ever.
    Congestion,
    /// A handoff: windows stay as they are.
    Handoff,
}

/// A judgement with what it rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// The verdict.
    pub cause: Cause,
    /// P_H, of [`ONE`].
    pub p_handoff: u32,
    /// P_C, of [`ONE`].
    pub p_congestion: u32,
}

/// A handoff; one that goes on has no end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Handoff {
    start: Instant,
    finish: Option<Instant>,
    /// A loss since its start was put down to congestion.
    congested: bool,
    /// The window has grown by its missing ACKs.
    extrapolated: bool,
}

/// The state of one sender.
#[derive(Clone, Debug)]
pub struct LcCwe {
    parameters: Parameters,
    handoff: Option<Handoff>,
    alpha: u32,
    last_rtt: Duration,
    last_ack: Option<Instant>,
    ack_interval_ns: u64,
}

impl LcCwe {
    /// No handoff yet.
    pub const fn new(parameters: Parameters) -> Self {
        Self {
            parameters,
            handoff: None,
            alpha: parameters.first_history,
            last_rtt: Duration::ZERO,
            last_ack: None,
            ack_interval_ns: 0,
        }
    }

    /// The link is being changed.
    pub fn handle_handoff_start(&mut self, now: Instant) {
        // The time between two ACKs around a handoff is no ACK interval of the flow.
        self.last_ack = None;
        self.handoff = Some(Handoff {
            start: now,
            finish: None,
            congested: false,
            extrapolated: false,
        });
    }

    /// The new link is up. It has no effect without a start.
    pub fn handle_handoff_finish(&mut self, now: Instant) {
        if let Some(handoff) = &mut self.handoff
            && handoff.finish.is_none()
        {
            handoff.finish = Some(now);
            self.last_ack = None;
        }
    }

    /// A round trip was measured.
    pub fn handle_round_trip(&mut self, rtt: Duration) {
        self.last_rtt = rtt;
    }

    /// An ACK of something new has come.
    pub fn handle_ack(&mut self, now: Instant) {
        if let Some(last) = self.last_ack.replace(now) {
            let sample_ns = now.saturating_since(last).as_nanos() as u64;
            self.ack_interval_ns = arithmetic::next_ack_interval(
                self.ack_interval_ns,
                sample_ns,
                self.parameters.interval_weight,
            );
        }
    }

    /// Judges a loss, and notes it in the congestion history.
    pub fn judge(&mut self, loss: &Loss, now: Instant) -> Judgement {
        let p_handoff = self.p_handoff(loss);
        let value = match loss.sign {
            LossSign::Timeout { rto } => rto,
            LossSign::DupAcks => self.last_rtt,
        };
        let rtt = match self.parameters.timeout_rtt {
            TimeoutRtt::LastSample => self.last_rtt,
            TimeoutRtt::Timeout => value,
        };
        let p_congestion = arithmetic::p_congestion(micros(rtt), micros(loss.srtt), self.alpha);
        let neither = p_handoff == 0 && p_congestion == 0;
        let congested = p_congestion > p_handoff
            || neither && self.parameters.on_neither == OnNeither::Congestion;
        if congested && let Some(handoff) = &mut self.handoff {
            handoff.congested = true;
        }
        if !self.is_ambiguous(loss.srtt, now) {
            self.alpha = arithmetic::next_alpha(
                self.alpha,
                micros(value),
                micros(loss.srtt),
                self.parameters.history_weight,
            );
        }
        Judgement {
            cause: if congested {
                Cause::Congestion
            } else {
                Cause::Handoff
            },
            p_handoff,
            p_congestion,
        }
    }

    /// The window, grown by the ACKs that the handoff has prevented. `None`: it is not the ambiguous period, a
    /// loss since the handoff began was put down to congestion, or this was done before. To be called when the
    /// usable window is empty.
    pub fn extrapolate(&mut self, window: Window, srtt: Duration, now: Instant) -> Option<Window> {
        if !self.is_ambiguous(srtt, now) {
            return None;
        }
        let handoff = self.handoff.as_mut()?;
        if handoff.congested || handoff.extrapolated {
            return None;
        }
        handoff.extrapolated = true;
        let length = handoff.finish?.saturating_since(handoff.start);
        let steps = arithmetic::steps(
            u64::try_from(length.as_micros()).unwrap_or(u64::MAX / 2000),
            micros(srtt),
            self.ack_interval_ns,
        );
        Some(arithmetic::grow(window, steps))
    }

    /// Within one smoothed round trip from the end of a handoff.
    pub fn is_ambiguous(&self, srtt: Duration, now: Instant) -> bool {
        let finish = self.handoff.and_then(|handoff| handoff.finish);
        finish.is_some_and(|finish| finish <= now && now < finish + srtt)
    }

    /// The congestion history, of [`ONE`].
    pub const fn history(&self) -> u32 {
        self.alpha
    }

    /// T_ack; zero before the second ACK.
    pub const fn ack_interval(&self) -> Duration {
        Duration::from_nanos(self.ack_interval_ns)
    }

    fn p_handoff(&self, loss: &Loss) -> u32 {
        let Some(handoff) = self.handoff else {
            return 0;
        };
        let Some(finish) = handoff.finish else {
            // The end of the handoff is yet to come: any ACK would return before it.
            return ONE;
        };
        let parp = arithmetic::parp(
            loss.transmitted.as_nanos() / 1000,
            micros(loss.srtt),
            micros(loss.rttvar),
        );
        arithmetic::p_handoff(parp, finish.as_nanos() / 1000)
    }
}

fn micros(duration: Duration) -> u32 {
    u32::try_from(duration.as_micros()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
