// SPDX-License-Identifier: Apache-2.0
//! How a sender at a mobile host reacts to handoffs: LC and CWE (Liao, Kao and Chien, 2005), with
//! the mechanism of `holdfast_core::lccwe`. That paper compares them with a frozen timer and fast
//! retransmit at the sender, which is here too.
//!
//! A loss attributed to a handoff leaves `cwnd` and `ssthresh` as they are. The segment is
//! retransmitted as usual: alone after duplicate ACKs, and after a timeout with all that
//! follows it (ns-2's Reno also goes on from the lost segment, with its window of one). The
//! timer backs off as usual: the paper changes only windows.

use holdfast_core::lccwe::arithmetic::Window;
use holdfast_core::lccwe::{Cause, Loss, LossSign};
use holdfast_wire::{Duration, Instant};

use super::connection::Connection;
use super::handoffs::Judged;
use super::settings::OnHandoff;
use super::variables::State;
use crate::packet::Packet;

/// A connection stores at most this many judgements.
const JUDGEMENTS_MAX: usize = 100_000;

impl Connection {
    /// The first losses that were judged.
    pub fn judgements(&self) -> &[Judged] {
        &self.handoffs.judgements
    }

    /// Whether this end reacts to handoffs.
    pub(super) fn handles_handoffs(&self) -> bool {
        self.settings.on_handoff != OnHandoff::Nothing
    }

    /// The host's link goes down, or up.
    pub(super) fn handle_handoff(&mut self, up: bool, now: Instant, out: &mut Vec<Packet>) {
        if let Some(mechanism) = &mut self.handoffs.mechanism {
            if up {
                mechanism.handle_handoff_finish(now);
                // The larger window may allow new segments: they are sent at once.
                self.output(now, out);
            } else {
                mechanism.handle_handoff_start(now);
            }
            return;
        }
        if up && self.handoffs.frozen {
            self.handoffs.frozen = false;
            if self.snd.una < self.snd.max && self.state != State::SynSent {
                self.fast_retransmit(now, out);
            }
            self.output(now, out);
        } else if !up && self.state == State::Established {
            self.handoffs.frozen = true;
            self.timers.retransmit = None;
        }
    }

    /// Data may not be sent, and the retransmission timer is stopped.
    pub(super) fn is_frozen_by_handoff(&self) -> bool {
        self.handoffs.frozen
    }

    pub(super) fn note_transmitted(&mut self, from: u64, now: Instant) {
        if self.handoffs.mechanism.is_some() {
            self.handoffs.transmitted.insert(from, now);
        }
    }

    /// Something new is acknowledged.
    pub(super) fn note_ack_for_handoffs(&mut self, now: Instant) {
        if let Some(mechanism) = &mut self.handoffs.mechanism {
            mechanism.handle_ack(now);
            // The segment that contains `snd.una` is kept.
            let transmitted = &mut self.handoffs.transmitted;
            let first = transmitted.range(..=self.snd.una).next_back();
            if let Some((&first, _)) = first {
                *transmitted = transmitted.split_off(&first);
            }
        }
    }

    pub(super) fn note_round_trip_for_handoffs(&mut self, rtt: Duration) {
        if let Some(mechanism) = &mut self.handoffs.mechanism {
            mechanism.handle_round_trip(rtt);
        }
    }

    /// The cause to which the loss of the segment at `snd.una` is attributed. CWE without LC judges it too: a loss by
    /// congestion stops the extrapolation ("if no packet is lost due to congestion", section II).
    /// The window then shrinks as Reno's.
    pub(super) fn cause_of_loss(&mut self, by_timeout: bool, now: Instant) -> Cause {
        let OnHandoff::LcCwe { classifies, .. } = self.settings.on_handoff else {
            return Cause::Congestion;
        };
        let una = self.snd.una;
        let transmitted = self.handoffs.transmitted.range(..=una).next_back();
        let transmitted = transmitted.map_or(self.sent_at, |(_, at)| *at);
        let Some(mechanism) = &mut self.handoffs.mechanism else {
            return Cause::Congestion;
        };
        let sign = if by_timeout {
            let rto = self.rto.rto();
            LossSign::Timeout { rto }
        } else {
            LossSign::DupAcks
        };
        let loss = Loss {
            sign,
            transmitted,
            srtt: self.rto.srtt().unwrap_or_default(),
            rttvar: self.rto.rttvar(),
        };
        let judgement = mechanism.judge(&loss, now);
        if self.handoffs.judgements.len() < JUDGEMENTS_MAX {
            self.handoffs.judgements.push(Judged {
                at: now,
                offset: una.saturating_sub(1),
                transmitted,
                by_timeout,
                judgement,
            });
        }
        if classifies {
            judgement.cause
        } else {
            Cause::Congestion
        }
    }

    /// Fast recovery begins because of a handoff: stores the windows that it will end with.
    pub(super) fn keep_windows(&mut self) {
        let settings = &self.congestion;
        self.handoffs.kept = Some((settings.cwnd, settings.ssthresh));
    }

    /// Fast recovery has ended: the stored windows replace the others, if there are any.
    pub(super) fn restore_windows(&mut self) {
        if let Some((cwnd, ssthresh)) = self.handoffs.kept.take() {
            (self.congestion.cwnd, self.congestion.ssthresh) = (cwnd, ssthresh);
        }
    }

    /// A timeout by congestion ends a fast recovery: the stored windows are dropped.
    pub(super) fn forget_kept_windows(&mut self) -> Option<(u64, u64)> {
        self.handoffs.kept.take()
    }

    /// The window has no room for a segment: applies the paper's table I, if it is due. True: the
    /// window has grown.
    pub(super) fn extrapolate(&mut self, now: Instant) -> bool {
        let OnHandoff::LcCwe {
            extrapolates: true, ..
        } = self.settings.on_handoff
        else {
            return false;
        };
        let (Some(mechanism), Some(srtt)) = (&mut self.handoffs.mechanism, self.rto.srtt()) else {
            return false;
        };
        let congestion = &mut self.congestion;
        let segments = |bytes: u64| u32::try_from(bytes / self.smss).unwrap_or(u32::MAX);
        let cwnd = segments(congestion.cwnd).max(1);
        let fraction = congestion.cwnd % self.smss;
        let window = Window {
            cwnd,
            counted: (fraction * u64::from(cwnd) / self.smss) as u32,
            ssthresh: segments(congestion.ssthresh),
        };
        let Some(grown) = mechanism.extrapolate(window, srtt, now) else {
            return false;
        };
        let bytes = u64::from(grown.cwnd) * self.smss
            + u64::from(grown.counted) * self.smss / u64::from(grown.cwnd.max(1));
        let grows = bytes > congestion.cwnd;
        congestion.cwnd = congestion.cwnd.max(bytes);
        if let Some((kept, _)) = &mut self.handoffs.kept {
            *kept = (*kept).max(bytes);
        }
        grows
    }
}

#[cfg(test)]
mod tests {
    use holdfast_core::lccwe::Parameters;
    use holdfast_link::{LinkSettings, OutageAt, OutageSettings};

    use super::super::Preset;
    use super::super::settings::TcpSettings;
    use super::*;
    use crate::experiment::{Experiment, Hop, Transfer};
    use crate::outcome::{Outcome, Sample};

    const LC_CWE: OnHandoff = OnHandoff::LcCwe {
        classifies: true,
        extrapolates: true,
        parameters: Parameters::DEFAULT,
    };
    const LEAVES_S: f64 = 20.0;
    const AWAY_S: f64 = 1.0;

    /// An MH that sends over 10 Mb/s and a round trip of 600 ms, away for a second.
    fn run(on_handoff: OnHandoff, with_outage: bool) -> Outcome {
        let mut list = Vec::new();
        if with_outage {
            list.push(OutageAt {
                at_s: LEAVES_S,
                for_s: AWAY_S,
            });
        }
        let radio = LinkSettings {
            rate_mbit_per_s: Some(10.0),
            delay_ms: 100.0,
            outages: OutageSettings::List { list },
            ..LinkSettings::default()
        };
        let wired = LinkSettings {
            delay_ms: 200.0,
            ..LinkSettings::default()
        };
        let mut experiment = Experiment::new(1, Duration::from_secs(60));
        experiment.hops = [wired, radio]
            .iter()
            .map(|link| Hop::both_ways(link).unwrap())
            .collect();
        let host = TcpSettings {
            receive_buffer_bytes: 20_000,
            initial_ssthresh_bytes: Some(20_000),
            ..Preset::Reno2005.settings()
        };
        experiment.transfers = vec![Transfer {
            mh: TcpSettings { on_handoff, ..host },
            ..Transfer::upload(1_000_000, host)
        }];
        experiment.series_interval = Some(Duration::from_millis(20));
        experiment.run()
    }

    /// The least congestion window from the handoff's begin on, segments.
    fn least_window(outcome: &Outcome) -> u64 {
        let after = |sample: &&Sample| sample.at.as_secs_f64() > LEAVES_S;
        let series = outcome.transfers[0].series.iter().filter(after);
        series.map(|sample| sample.cwnd).min().unwrap() / 1000
    }

    #[test]
    fn a_handoff_leaves_the_window_where_reno_begins_with_one_segment() {
        let (reno, own) = (run(OnHandoff::Nothing, true), run(LC_CWE, true));
        for outcome in [&reno, &own] {
            assert!(outcome.transfers[0].finished && outcome.transfers[0].intact);
            assert!(outcome.transfers[0].sender.timeouts > 0);
        }
        assert_eq!(least_window(&reno), 1);
        assert!(least_window(&own) >= 20, "{}", least_window(&own));
        let judged = &own.transfers[0].judgements;
        assert!(!judged.is_empty());
        for settings in judged {
            assert_eq!(settings.judgement.cause, Cause::Handoff, "{settings:?}");
        }
        assert!(own.transfers[0].transfer_time < reno.transfers[0].transfer_time);
    }

    #[test]
    fn cwe_alone_judges_its_losses_and_its_window_is_renos() {
        let cwe = OnHandoff::LcCwe {
            classifies: false,
            extrapolates: true,
            parameters: Parameters::DEFAULT,
        };
        let outcome = run(cwe, true);
        assert!(!outcome.transfers[0].judgements.is_empty());
        assert_eq!(least_window(&outcome), 1);
    }

    #[test]
    fn without_a_handoff_it_is_reno_to_the_bit() {
        let digest = |on_handoff| run(on_handoff, false).digest;
        assert_eq!(digest(LC_CWE), digest(OnHandoff::Nothing));
        assert_eq!(
            digest(OnHandoff::FreezeAndFastRetransmit),
            digest(OnHandoff::Nothing)
        );
    }

    #[test]
    fn a_frozen_timer_does_not_expire_and_the_window_is_halved() {
        let frozen = run(OnHandoff::FreezeAndFastRetransmit, true);
        let settings = &frozen.transfers[0];
        assert!(settings.finished && settings.intact);
        assert!(settings.sender.fast_retransmits > 0);
        assert_eq!(settings.sender.timeouts, 0, "{:?}", settings.sender);
        let least = least_window(&frozen);
        assert!((5..20).contains(&least), "{least}");
    }
}
