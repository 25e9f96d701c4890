// SPDX-License-Identifier: Apache-2.0
//! A flow as the MH's data path shows it.

use core::time::Duration;

use holdfast_wire::{Instant, SackBlocks, SeqNum, Timestamps};

use super::FLOWS_SERVED_MAX;
use super::withheld::Download;
use crate::FlowKey;

/// A flow without a segment of either end for this time needs no help.
const IDLE_MAX: Duration = Duration::from_secs(600);
/// The round trip of a flow without a measured one (RFC 6298, 2.1: the first RTO).
pub(super) const ROUND_TRIP_UNKNOWN: Duration = Duration::from_secs(1);

/// A flow as the data path shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostFlow {
    /// The flow's ends.
    pub key: FlowKey,
    /// The next byte that the MH sends: SEG.SEQ of a made ACK.
    pub snd_nxt: SeqNum,
    /// What the MH has acknowledged.
    pub rcv_nxt: SeqNum,
    /// The newest window of the MH itself, not scaled.
    pub window: u16,
    /// The shift of the window (RFC 7323, Rcv.Wind.Shift), 0 to 14; `None`: the MH's SYN was not
    /// seen.
    pub window_shift: Option<u8>,
    /// The newest timestamps of the MH.
    pub timestamps: Option<Timestamps>,
    /// The SACK blocks of its last ACK.
    pub sack: SackBlocks,
    /// The smoothed round trip (RFC 6298), queues included.
    pub srtt: Option<Duration>,
    /// The newest round trip.
    pub rtt: Option<Duration>,
    /// When the MH last sent a segment.
    pub sent_at: Instant,
    /// When the last segment of the FH arrived.
    pub received_at: Option<Instant>,
    /// Its segments have options that a made ACK cannot have (MPTCP, MD5, AO).
    pub is_opaque: bool,
    /// The FH has sent a FIN.
    pub is_finished: bool,
    /// When the newest payload of the FH arrived.
    pub data_at: Option<Instant>,
    /// Both ends permit SACK (RFC 2018).
    pub permits_sack: bool,
    /// With `wake`: the state of the FH's data; `None`: unknown.
    pub download: Option<Download>,
}

impl HostFlow {
    /// The round trip that a warning must cover: the longer of the newest and the smoothed one.
    pub fn round_trip(&self) -> Option<Duration> {
        self.srtt.max(self.rtt)
    }

    /// The window's shift. If it is unknown, windows count as not scaled, which never makes them
    /// larger.
    fn shift(&self) -> u8 {
        self.window_shift.unwrap_or(0).min(14)
    }

    /// The newest window of the MH itself, in bytes; less if its scale is unknown.
    pub fn window_bytes(&self) -> u32 {
        u32::from(self.window) << self.shift()
    }

    /// The part of the MH's own window up to `edge`, as a header has it, rounded up to a unit.
    pub fn window_until(&self, edge: SeqNum) -> u16 {
        if !edge.after(self.rcv_nxt) {
            return 0;
        }
        let unit = 1_u32 << self.shift();
        let units = edge.distance_from(self.rcv_nxt).div_ceil(unit);
        u16::try_from(units).map_or(self.window, |units| units.min(self.window))
    }

    /// The first number from `edge` on at which a window can end now.
    pub(super) fn aligned(&self, edge: SeqNum) -> SeqNum {
        let unit = 1_u32 << self.shift();
        self.rcv_nxt + edge.distance_from(self.rcv_nxt).div_ceil(unit) * unit
    }

    pub(super) fn newest(&self) -> Instant {
        self.received_at
            .map_or(self.sent_at, |received| received.max(self.sent_at))
    }

    /// A segment of the FH arrived within the last round trip.
    pub(super) fn has_received_lately(&self, now: Instant) -> bool {
        let round_trip = self.round_trip().unwrap_or(ROUND_TRIP_UNKNOWN);
        self.received_at
            .is_some_and(|received| now.saturating_since(received) <= round_trip)
    }

    /// An answer to a packet that was sent at `since` would have arrived by now. Copies before that
    /// would count as duplicate ACKs, which show a loss.
    pub(super) fn is_late(&self, since: Instant, now: Instant) -> bool {
        now.saturating_since(since) > self.round_trip().unwrap_or_default()
    }

    /// The newest data end an answer: the FH waits for a request, and pauses.
    pub(super) fn is_answered(&self) -> bool {
        let ack = self.rcv_nxt;
        self.download.is_some_and(|download| {
            download.pushed_end == Some(ack) && download.boundaries.ends_answer(ack)
        })
    }

    /// The FH can use an ICMP unreachable: it knows SACK or timestamps. An FH without either would
    /// retransmit one segment a round trip from there on.
    pub(super) const fn takes_unreachable(&self) -> bool {
        self.permits_sack || self.timestamps.is_some()
    }

    pub(super) fn is_live(&self, now: Instant) -> bool {
        let idle = now.saturating_since(self.newest());
        !self.is_opaque && !self.is_finished && idle < IDLE_MAX
    }
}

/// The flows that are served: live ones, the most recently active first.
pub(super) fn served(flows: &[HostFlow], now: Instant) -> Vec<&HostFlow> {
    let mut live: Vec<_> = flows.iter().filter(|flow| flow.is_live(now)).collect();
    live.sort_by_key(|flow| (core::cmp::Reverse(flow.newest()), flow.key));
    live.truncate(FLOWS_SERVED_MAX);
    live
}

#[cfg(test)]
mod tests {
    use super::super::tests::wake_flow;
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(1_000_000 + ms)
    }

    /// The MH has everything before 5000; its window is 501 units of 128 bytes.
    fn flow() -> HostFlow {
        wake_flow(1, at(0))
    }

    #[test]
    fn a_window_ends_at_the_first_unit_from_the_edge_on_and_within_the_mhs_own() {
        let flow = flow();
        let own = 501 * 128;
        for (edge, units) in [
            (4_999, 0),
            (5_000, 0),
            (5_001, 1),
            (5_128, 1),
            (5_129, 2),
            (5_000 + own, 501),
            (5_001 + own, 501),
            (5_000 + 65_536 * 128, 501),
        ] {
            assert_eq!(flow.window_until(SeqNum::new(edge)), units, "{edge}");
        }
        let aligned = |edge| flow.aligned(SeqNum::new(edge)).get();
        assert_eq!(
            [5_000, 5_001, 5_128, 5_129].map(aligned),
            [5_000, 5_128, 5_128, 5_256]
        );
        let unscaled = HostFlow {
            window_shift: None,
            ..flow
        };
        assert_eq!((flow.window_bytes(), unscaled.window_bytes()), (own, 501));
    }

    #[test]
    fn an_answer_is_there_within_the_longer_of_the_two_round_trips() {
        let flow = HostFlow {
            rtt: Some(Duration::from_millis(80)),
            ..flow()
        };
        assert!(flow.has_received_lately(at(80)) && !flow.has_received_lately(at(81)));
        assert!(!flow.is_late(at(0), at(80)) && flow.is_late(at(0), at(81)));
        let unmeasured = HostFlow {
            srtt: None,
            rtt: None,
            ..flow
        };
        let lately = [1_000, 1_001].map(|ms| unmeasured.has_received_lately(at(ms)));
        assert_eq!(lately, [true, false]);
        assert!(unmeasured.is_late(at(0), at(1)));
    }

    #[test]
    fn a_flow_is_live_for_ten_minutes_after_the_newest_segment_of_either_end() {
        let sent_later = HostFlow {
            sent_at: at(5),
            ..flow()
        };
        assert_eq!(sent_later.newest(), at(5));
        let [opaque, finished] =
            [(true, false), (false, true)].map(|(opaque, finished)| HostFlow {
                is_opaque: opaque,
                is_finished: finished,
                ..flow()
            });
        assert!(flow().is_live(at(599_999)) && !flow().is_live(at(600_000)));
        assert!(sent_later.is_live(at(600_000)));
        assert!(!opaque.is_live(at(0)) && !finished.is_live(at(0)));
    }

    #[test]
    fn an_fh_can_use_an_unreachable_if_it_knows_sack_or_timestamps() {
        use holdfast_wire::Timestamps;
        let stamps = Timestamps { tsval: 1, tsecr: 1 };
        for (permits_sack, timestamps, takes) in [
            (false, None, false),
            (true, None, true),
            (false, Some(stamps), true),
        ] {
            let flow = HostFlow {
                timestamps,
                permits_sack,
                ..flow()
            };
            assert_eq!(flow.takes_unreachable(), takes);
        }
    }
}
