// SPDX-License-Identifier: Apache-2.0
//! The state of a flow that one station sends to the next, so that the next knows it as if it had seen
//! both directions from the start.
//!
//! ```text
//! 0  version, 2           then both ends (7 or 19 bytes each), the numbers of the FH, and of
//! 1  flags, 2 bytes       the MH; by the flags timestamps, M-TCP's halves; what the MH has
//!                         reported
//! ```

use core::time::Duration;

use holdfast_wire::{SeqNum, Timestamps};

use crate::bytes::{OptionalReader, OptionalWriter, Reader, Writer};
use crate::split_state::SplitState;
use crate::{FlowKey, Renumber};

/// The longest record of a flow, bytes.
pub const FLOW_STATE_BYTES_MAX: usize = 500;

/// Ranges that the MH has reported, at most, in a record.
const REPORTED_MAX: usize = 32;

const VERSION: u8 = 2;

/// The highest rate of a link that is accepted, bytes a second: 8 Tb/s.
const RATE_MAX: u64 = 1_000_000_000_000;

/// The state of a flow at one moment. `None` is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowState {
    /// The flow.
    pub key: FlowKey,
    /// FH: highest SND.NXT seen.
    pub fh_max: SeqNum,
    /// FH: SND.UNA, by the MH's ACKs.
    pub fh_una: SeqNum,
    /// FH: newest SEG.ACK.
    pub fh_ack: SeqNum,
    /// FH: the window of that ACK, not scaled.
    pub fh_window: u16,
    /// FH: the largest window, not scaled.
    pub fh_window_largest: u16,
    /// FH: the shift of its windows.
    pub fh_window_scale: Option<u8>,
    /// FH: newest timestamp echo.
    pub fh_tsecr: u32,
    /// FH: the sequence number after its FIN.
    pub fh_fin: Option<SeqNum>,
    /// FH: its ACKs may have SACK blocks.
    pub fh_sack: bool,
    /// MH: highest SND.NXT seen.
    pub mh_nxt: SeqNum,
    /// MH: the shift of its windows.
    pub mh_window_scale: Option<u8>,
    /// MH: the largest window, not scaled.
    pub mh_window_largest: u16,
    /// MH: the farthest right edge of its window.
    pub mh_right_edge: Option<SeqNum>,
    /// MH: newest timestamps.
    pub mh_timestamps: Option<Timestamps>,
    /// MH: the sequence number after its FIN.
    pub mh_fin: Option<SeqNum>,
    /// The newest TSval that was sent to the MH.
    pub tsval_sent: Option<u32>,
    /// The largest IP packet of the path to the MH, if a router reported it, bytes.
    pub path_mtu: Option<u32>,
    /// Ranges beyond `fh_una` that the MH has received, in order; at most 32 are sent.
    pub reported: Vec<(SeqNum, SeqNum)>,
    /// The wireless half's smoothed round trip at the previous station.
    pub srtt: Option<Duration>,
    /// The rate that the link there delivered, bytes a second.
    pub bytes_per_s: Option<u64>,
    /// M-TCP: the state of a split connection.
    pub split: Option<SplitState>,
    /// M-TCP: how the numbers of the halves differ, if the connection was set up early. All numbers
    /// here are those of the MH's half.
    pub renumber: Option<Renumber>,
}

impl FlowState {
    /// Ranges in [`reported`](Self::reported) at most.
    pub const REPORTED_MAX: usize = REPORTED_MAX;

    /// The record, at most [`FLOW_STATE_BYTES_MAX`] bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut optional = OptionalWriter::default();
        optional.put(self.fh_window_scale, Writer::u8);
        optional.put(self.fh_fin, Writer::seq);
        optional.flag(self.fh_sack);
        optional.put(self.mh_window_scale, Writer::u8);
        optional.put(self.mh_right_edge, Writer::seq);
        optional.put(self.mh_timestamps, |w, timestamps| {
            w.u32(timestamps.tsval);
            w.u32(timestamps.tsecr);
        });
        optional.put(self.mh_fin, Writer::seq);
        optional.put(self.tsval_sent, Writer::u32);
        optional.put(self.path_mtu, Writer::u32);
        optional.put(self.srtt, write_micros);
        optional.put(self.bytes_per_s, Writer::u64);
        optional.put(self.split.as_ref(), write_split);
        optional.put(self.renumber, |w, numbers| w.0.extend(numbers.to_bytes()));
        let mut w = Writer::default();
        w.u8(VERSION);
        w.u16(optional.bits);
        w.flow(&self.key);
        w.seq(self.fh_max);
        w.seq(self.fh_una);
        w.seq(self.fh_ack);
        w.u16(self.fh_window);
        w.u16(self.fh_window_largest);
        w.u32(self.fh_tsecr);
        w.seq(self.mh_nxt);
        w.u16(self.mh_window_largest);
        w.0.extend(optional.fields.0);
        let reported = self.reported.iter().take(REPORTED_MAX);
        w.u8(reported.len() as u8);
        for (left, right) in reported {
            w.seq(*left);
            w.seq(*right);
        }
        debug_assert!(w.0.len() <= FLOW_STATE_BYTES_MAX);
        w.0
    }

    /// Parses a record; `None` if it is of another version, torn, or impossible.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut r = Reader(bytes);
        if r.u8()? != VERSION {
            return None;
        }
        let mut optional = OptionalReader { bits: r.u16()? };
        // The fields are in the order of the record.
        let mut state = Self {
            key: r.flow()?,
            fh_max: r.seq()?,
            fh_una: r.seq()?,
            fh_ack: r.seq()?,
            fh_window: r.u16()?,
            fh_window_largest: r.u16()?,
            fh_tsecr: r.u32()?,
            mh_nxt: r.seq()?,
            mh_window_largest: r.u16()?,
            fh_window_scale: optional.get(|| r.u8())?,
            fh_fin: optional.get(|| r.seq())?,
            fh_sack: optional.flag(),
            mh_window_scale: optional.get(|| r.u8())?,
            mh_right_edge: optional.get(|| r.seq())?,
            mh_timestamps: optional.get(|| read_timestamps(&mut r))?,
            mh_fin: optional.get(|| r.seq())?,
            tsval_sent: optional.get(|| r.u32())?,
            path_mtu: optional.get(|| r.u32())?,
            srtt: optional.get(|| read_micros(&mut r))?,
            bytes_per_s: optional.get(|| Some(r.u64()?.min(RATE_MAX)))?,
            split: optional.get(|| read_split(&mut r))?,
            renumber: optional.get(|| Renumber::from_bytes(&r.array()?))?,
            reported: Vec::new(),
        };
        let count = usize::from(r.u8()?);
        for _ in 0..count {
            state.reported.push((r.seq()?, r.seq()?));
        }
        (r.is_at_end() && state.is_possible()).then_some(state)
    }

    /// False for a value that no correct station sends.
    fn is_possible(&self) -> bool {
        let shifts = [self.fh_window_scale, self.mh_window_scale];
        let mut at = self.fh_una;
        let in_order = self.reported.iter().all(|(left, right)| {
            let fits = at.at_or_before(*left) && left.before(*right);
            at = *right;
            fits
        });
        in_order
            && at.at_or_before(self.fh_max)
            && self.fh_una.at_or_before(self.fh_max)
            && self.reported.len() <= REPORTED_MAX
            && self
                .split
                .is_none_or(|split| split.acked.at_or_before(self.fh_una))
            && shifts.into_iter().flatten().all(|shift| shift <= 14)
    }
}

fn write_micros(w: &mut Writer, time: Duration) {
    w.u32(u32::try_from(time.as_micros()).unwrap_or(u32::MAX));
}

fn read_micros(r: &mut Reader<'_>) -> Option<Duration> {
    Some(Duration::from_micros(r.u32()?.into()))
}

fn read_timestamps(r: &mut Reader<'_>) -> Option<Timestamps> {
    Some(Timestamps {
        tsval: r.u32()?,
        tsecr: r.u32()?,
    })
}

fn write_split(w: &mut Writer, split: &SplitState) {
    let mut optional = OptionalWriter::default();
    optional.flag(split.is_shrunk);
    optional.flag(split.was_shrunk);
    optional.flag(split.uplink_open);
    optional.put(split.cwnd, Writer::u32);
    optional.put(split.srtt, write_micros);
    optional.put(split.wired_srtt, write_micros);
    w.u8(optional.bits as u8);
    w.seq(split.acked);
    w.0.extend(optional.fields.0);
}

fn read_split(r: &mut Reader<'_>) -> Option<SplitState> {
    let mut optional = OptionalReader {
        bits: r.u8()?.into(),
    };
    Some(SplitState {
        acked: r.seq()?,
        is_shrunk: optional.flag(),
        was_shrunk: optional.flag(),
        uplink_open: optional.flag(),
        cwnd: optional.get(|| r.u32())?,
        srtt: optional.get(|| read_micros(r))?,
        wired_srtt: optional.get(|| read_micros(r))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{FH, MH};

    pub(super) fn full() -> FlowState {
        let seq = SeqNum::new;
        let v6 = |mut end: holdfast_wire::Endpoint| {
            end.address = "2001:db8::2".parse().unwrap();
            end
        };
        FlowState {
            key: FlowKey {
                fh: v6(FH),
                mh: v6(MH),
            },
            fh_max: seq(100_000),
            fh_una: seq(u32::MAX - 500),
            fh_ack: seq(77),
            fh_window: 501,
            fh_window_largest: 502,
            fh_window_scale: Some(7),
            fh_tsecr: 9,
            fh_fin: Some(seq(100_000)),
            fh_sack: true,
            mh_nxt: seq(78),
            mh_window_scale: Some(10),
            mh_window_largest: 65_535,
            mh_right_edge: Some(seq(200_000)),
            mh_timestamps: Some(Timestamps { tsval: 1, tsecr: 2 }),
            mh_fin: Some(seq(79)),
            tsval_sent: Some(3),
            path_mtu: Some(1400),
            reported: (0..32).map(|i| (seq(i * 100), seq(i * 100 + 50))).collect(),
            srtt: Some(Duration::from_micros(12_345)),
            bytes_per_s: Some(2_500_000),
            split: Some(SplitState {
                acked: seq(u32::MAX - 501),
                is_shrunk: true,
                was_shrunk: false,
                uplink_open: true,
                cwnd: Some(14_600),
                srtt: Some(Duration::from_millis(7)),
                wired_srtt: Some(Duration::from_millis(9)),
            }),
            renumber: Some(Renumber {
                uplink: 3,
                downlink: 4,
                fh_sack: true,
                ..Renumber::default()
            }),
        }
    }

    #[test]
    fn the_fullest_record_of_ipv6_survives_and_is_below_five_hundred_bytes() {
        let bytes = full().to_bytes();
        assert!(bytes.len() <= FLOW_STATE_BYTES_MAX, "{}", bytes.len());
        assert_eq!(FlowState::from_bytes(&bytes), Some(full()));
    }

    #[test]
    fn a_torn_record_and_an_impossible_one_are_refused() {
        let bytes = full().to_bytes();
        for len in 0..bytes.len() {
            assert_eq!(FlowState::from_bytes(&bytes[..len]), None, "{len}");
        }
        let refused = |change: fn(&mut FlowState)| {
            let mut state = full();
            change(&mut state);
            assert_eq!(FlowState::from_bytes(&state.to_bytes()), None, "{state:?}");
        };
        refused(|state| state.fh_window_scale = Some(15));
        refused(|state| state.fh_max = state.fh_una - 1);
        refused(|state| state.reported.swap(0, 1));
        refused(|state| state.reported[0].0 = state.fh_una - 1);
        refused(|state| {
            state.split = Some(SplitState {
                acked: state.fh_una + 1,
                ..SplitState::default()
            });
        });
    }

    #[test]
    fn a_record_has_the_pinned_bytes() {
        let digits = full().to_bytes();
        let digits = digits.iter().map(|byte| format!("{byte:02x}"));
        let digits: String = digits.collect();
        // The ranges that the MH has reported follow, all alike.
        assert!(digits.starts_with(PINNED), "{digits}");
        assert_eq!(digits.len(), 2 * PINNED_RECORD_BYTES);
    }

    const PINNED_RECORD_BYTES: usize = 396;

    const PINNED: &str = concat!(
        "021fff0620010db800000000000000000000000200500620010db80000000000000000000000029c",
        "40000186a0fffffe0b0000004d01f501f6000000090000004effff07000186a00a00030d40000000",
        "01000000020000004f00000003000005780000303900000000002625a03dfffffe0a000039080000",
        "1b5800002328000000030000000400000000012000000000000000320000006400000096",
    );
}
