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

use super::bytes::{Reader, Writer};
use crate::split_state::SplitState;
use crate::{FlowKey, Renumber};

/// The longest record of a flow, bytes.
pub const FLOW_STATE_BYTES_MAX: usize = 500;

/// Ranges that the MH has reported, at most, in a record.
const REPORTED_MAX: usize = 32;

const VERSION: u8 = 2;

/// A link's rate that is believed, bytes a second: 8 Tb/s.
const RATE_MAX: u64 = 1_000_000_000_000;

/// The numbers of a flow at one moment. A part that is missing is not known.
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
    /// FH: the window of that, not scaled.
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
    /// What the MH holds beyond `fh_una`, in order; at most 32 ranges are sent.
    pub reported: Vec<(SeqNum, SeqNum)>,
    /// The wireless half's smoothed round trip at the station before.
    pub srtt: Option<Duration>,
    /// What the link there delivered, bytes a second.
    pub bytes_per_s: Option<u64>,
    /// M-TCP: the halves, of a connection that is split.
    pub split: Option<SplitState>,
    /// M-TCP: how the numbers of the halves differ, of a connection that was set up early; all
    /// numbers here are those of the MH's half.
    pub renumber: Option<Renumber>,
}

impl FlowState {
    /// Ranges in [`reported`](Self::reported) at most.
    pub const REPORTED_MAX: usize = REPORTED_MAX;

    /// The record, at most [`FLOW_STATE_BYTES_MAX`] bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut w = Writer::default();
        w.u8(VERSION);
        let flags = [
            self.fh_window_scale.is_some(),
            self.fh_fin.is_some(),
            self.fh_sack,
            self.mh_window_scale.is_some(),
            self.mh_right_edge.is_some(),
            self.mh_timestamps.is_some(),
            self.mh_fin.is_some(),
            self.tsval_sent.is_some(),
            self.path_mtu.is_some(),
            self.srtt.is_some(),
            self.bytes_per_s.is_some(),
            self.split.is_some(),
            self.renumber.is_some(),
        ];
        let bits = flags.iter().enumerate();
        w.u16(bits.fold(0, |bits, (at, flag)| bits | u16::from(*flag) << at));
        w.flow(&self.key);
        w.seq(self.fh_max);
        w.seq(self.fh_una);
        w.seq(self.fh_ack);
        w.u16(self.fh_window);
        w.u16(self.fh_window_largest);
        w.u32(self.fh_tsecr);
        w.seq(self.mh_nxt);
        w.u16(self.mh_window_largest);
        self.fh_window_scale
            .into_iter()
            .for_each(|shift| w.u8(shift));
        self.fh_fin.into_iter().for_each(|fin| w.seq(fin));
        self.mh_window_scale
            .into_iter()
            .for_each(|shift| w.u8(shift));
        self.mh_right_edge.into_iter().for_each(|edge| w.seq(edge));
        if let Some(timestamps) = self.mh_timestamps {
            w.u32(timestamps.tsval);
            w.u32(timestamps.tsecr);
        }
        self.mh_fin.into_iter().for_each(|fin| w.seq(fin));
        self.tsval_sent.into_iter().for_each(|tsval| w.u32(tsval));
        self.path_mtu.into_iter().for_each(|mtu| w.u32(mtu));
        self.srtt.into_iter().for_each(|srtt| w.u32(micros(srtt)));
        self.bytes_per_s.into_iter().for_each(|rate| w.u64(rate));
        self.split
            .iter()
            .for_each(|split| write_split(&mut w, split));
        let numbers = self.renumber.iter();
        numbers.for_each(|numbers| w.0.extend(numbers.to_bytes()));
        let reported = self.reported.iter().take(REPORTED_MAX);
        w.u8(reported.len() as u8);
        for (left, right) in reported {
            w.seq(*left);
            w.seq(*right);
        }
        debug_assert!(w.0.len() <= FLOW_STATE_BYTES_MAX);
        w.0
    }

    /// Reads a record back; `None` if it is of another version, torn, or impossible.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut r = Reader(bytes);
        if r.u8()? != VERSION {
            return None;
        }
        let flags = r.u16()?;
        let has = |at: u16| flags & 1 << at != 0;
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
            fh_window_scale: None,
            fh_fin: None,
            fh_sack: has(2),
            mh_window_scale: None,
            mh_right_edge: None,
            mh_timestamps: None,
            mh_fin: None,
            tsval_sent: None,
            path_mtu: None,
            reported: Vec::new(),
            srtt: None,
            bytes_per_s: None,
            split: None,
            renumber: None,
        };
        state.read_optional(&mut r, has)?;
        let count = usize::from(r.u8()?);
        for _ in 0..count {
            state.reported.push((r.seq()?, r.seq()?));
        }
        (r.is_at_end() && state.is_possible()).then_some(state)
    }

    /// The parts that not every flow has.
    fn read_optional(&mut self, r: &mut Reader<'_>, has: impl Fn(u16) -> bool) -> Option<()> {
        if has(0) {
            self.fh_window_scale = Some(r.u8()?);
        }
        if has(1) {
            self.fh_fin = Some(r.seq()?);
        }
        if has(3) {
            self.mh_window_scale = Some(r.u8()?);
        }
        if has(4) {
            self.mh_right_edge = Some(r.seq()?);
        }
        if has(5) {
            let (tsval, tsecr) = (r.u32()?, r.u32()?);
            self.mh_timestamps = Some(Timestamps { tsval, tsecr });
        }
        if has(6) {
            self.mh_fin = Some(r.seq()?);
        }
        if has(7) {
            self.tsval_sent = Some(r.u32()?);
        }
        if has(8) {
            self.path_mtu = Some(r.u32()?);
        }
        if has(9) {
            self.srtt = Some(Duration::from_micros(r.u32()?.into()));
        }
        if has(10) {
            self.bytes_per_s = Some(r.u64()?.min(RATE_MAX));
        }
        if has(11) {
            self.split = Some(read_split(r)?);
        }
        if has(12) {
            let bytes = r.take(Renumber::BYTES)?.try_into().ok()?;
            self.renumber = Some(Renumber::from_bytes(bytes)?);
        }
        Some(())
    }

    /// No sane station sends another value.
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
                .is_none_or(|split| split.told.at_or_before(self.fh_una))
            && shifts.into_iter().flatten().all(|shift| shift <= 14)
    }
}

fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

/// Which parts there are, then they.
fn write_split(w: &mut Writer, split: &SplitState) {
    let flags = [
        split.is_shrunk,
        split.was_shrunk,
        split.uplink_open,
        split.cwnd.is_some(),
        split.srtt.is_some(),
        split.wired_srtt.is_some(),
    ];
    let bits = flags.iter().enumerate();
    w.u8(bits.fold(0, |bits, (at, flag)| bits | u8::from(*flag) << at));
    w.seq(split.told);
    split.cwnd.into_iter().for_each(|cwnd| w.u32(cwnd));
    let both = [split.srtt, split.wired_srtt];
    both.into_iter()
        .flatten()
        .for_each(|srtt| w.u32(micros(srtt)));
}

fn read_split(r: &mut Reader<'_>) -> Option<SplitState> {
    let flags = r.u8()?;
    let has = |at: u8| flags & 1 << at != 0;
    let told = r.seq()?;
    let mut number =
        |at: u8| -> Option<Option<u32>> { Some(if has(at) { Some(r.u32()?) } else { None }) };
    let time = |micros: Option<u32>| micros.map(|micros| Duration::from_micros(micros.into()));
    Some(SplitState {
        told,
        is_shrunk: has(0),
        was_shrunk: has(1),
        uplink_open: has(2),
        cwnd: number(3)?,
        srtt: time(number(4)?),
        wired_srtt: time(number(5)?),
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
                told: seq(u32::MAX - 501),
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
                told: state.fh_una + 1,
                ..SplitState::default()
            });
        });
    }
}
