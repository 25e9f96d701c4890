// SPDX-License-Identifier: Apache-2.0
//! What the congestion control did, and from which values: `struct event` of
//! `bpf/lccwe_judge.h`.

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A timeout was judged.
    JudgedTimeout,
    /// A loss found by duplicate ACKs or SACK was judged.
    JudgedDupAcks,
    /// The window was extrapolated for a handoff.
    Extrapolated,
}

/// One judgement, or one extrapolation. In probabilities and history
/// `holdfast_core::lccwe::arithmetic::ONE` stands for 1. Windows are in segments. In a
/// judgement `cwnd_before` is the window that was kept; 0: none was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of the paper and of the kernel")]
pub struct Event {
    pub kind: EventKind,
    pub transmit_us: u64,
    pub handoff_start_us: u64,
    pub handoff_finish_us: u64,
    pub ack_interval_ns: u64,
    pub srtt_us: u32,
    pub rttvar_us: u32,
    pub rtt_us: u32,
    pub rto_us: u32,
    pub alpha_before: u32,
    pub alpha_after: u32,
    pub p_handoff: u32,
    pub p_congestion: u32,
    pub by_handoff: bool,
    pub cwnd_before: u32,
    pub counted_before: u32,
    pub ssthresh_before: u32,
    pub cwnd_after: u32,
    pub counted_after: u32,
    pub ssthresh_after: u32,
}

/// The length of the C structure.
const BYTES: usize = 4 * 8 + 16 * 4;

impl Event {
    /// None: the bytes are no event.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < BYTES {
            return None;
        }
        let long = |number: usize| {
            let mut octets = [0; 8];
            octets.copy_from_slice(&bytes[8 * number..8 * number + 8]);
            u64::from_ne_bytes(octets)
        };
        let word = |number: usize| {
            let at = 32 + 4 * number;
            let mut octets = [0; 4];
            octets.copy_from_slice(&bytes[at..at + 4]);
            u32::from_ne_bytes(octets)
        };
        let kind = match word(0) {
            1 => EventKind::JudgedTimeout,
            2 => EventKind::JudgedDupAcks,
            3 => EventKind::Extrapolated,
            _ => return None,
        };
        Some(Self {
            kind,
            transmit_us: long(0),
            handoff_start_us: long(1),
            handoff_finish_us: long(2),
            ack_interval_ns: long(3),
            srtt_us: word(1),
            rttvar_us: word(2),
            rtt_us: word(3),
            rto_us: word(4),
            alpha_before: word(5),
            alpha_after: word(6),
            p_handoff: word(7),
            p_congestion: word(8),
            by_handoff: word(9) != 0,
            cwnd_before: word(10),
            counted_before: word(11),
            ssthresh_before: word(12),
            cwnd_after: word(13),
            counted_after: word(14),
            ssthresh_after: word(15),
        })
    }
}
