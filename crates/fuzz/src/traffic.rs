// SPDX-License-Identifier: Apache-2.0
//! The traffic: segments of many flows. Most are right, some have wrong fields, and some bytes are
//! damaged.
//!
//! One flow in three is honest. Its segments may be lost, repeated or late, but are never damaged,
//! and each byte follows from its sequence number. So what the gateway sends for it can be checked
//! exactly.

use core::net::IpAddr;

use holdfast_core::Direction;
use holdfast_wire::{Segment, checksum};

use crate::dice::Dice;

/// The number of mobiles.
pub(crate) const MOBILES: u64 = 6;
/// The FH's port of honest flows; the others have [`PORT`].
const PORT_HONEST: u16 = 8000;
const PORT: u16 = 80;

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;

/// One end as a sender.
#[derive(Clone, Copy, Default)]
struct End {
    nxt: u32,
    window: u16,
    clock: u32,
    /// The highest ACK that it sent.
    acked: u32,
    /// Where its SYN ends, if it sent one.
    syn_until: Option<u32>,
    /// Added to the other end's numbers in its ACKs: the gateway has set up the connection with
    /// numbers of its own.
    shift: u32,
}

/// One flow.
struct Flow {
    is_v6: bool,
    is_honest: bool,
    mobile: u8,
    mh_port: u16,
    window_scale: u8,
    timestamps: bool,
    sack: bool,
    ends: [End; 2],
}

/// A segment as it will be built.
struct Draft {
    seq: u32,
    ack: u32,
    flags: u8,
    window: u16,
    options: Vec<u8>,
    len: usize,
}

/// A frame on its way to the gateway.
pub(crate) struct Input {
    pub(crate) direction: Direction,
    pub(crate) frame: Vec<u8>,
}

/// Where an honest flow stands.
#[derive(Clone, Copy)]
pub(crate) struct Truth {
    /// The highest ACK of the MH.
    pub(crate) mh_acked: u32,
    /// The highest ACK of the FH.
    pub(crate) fh_acked: u32,
    /// The FH's next number.
    pub(crate) fh_nxt: u32,
}

/// The largest payload of most segments, and of some, bytes.
#[derive(Clone, Copy)]
pub(crate) struct PayloadLen {
    pub(crate) usual: u64,
    pub(crate) longest: u64,
}

pub(crate) struct Traffic {
    flows: Vec<Flow>,
    /// Flows at one time.
    flows_max: usize,
    payload: PayloadLen,
    /// Each honest flow has its own port.
    honest_port: u16,
}

/// The address of a mobile.
pub(crate) fn mobile_address(mobile: u8) -> IpAddr {
    IpAddr::from([10, 2, mobile, 2])
}

/// The byte of an honest flow at this number.
pub(crate) fn honest_byte(seq: u32, mh_port: u16) -> u8 {
    (seq ^ (seq >> 8) ^ u32::from(mh_port)) as u8
}

pub(crate) fn is_honest(fh_port: u16) -> bool {
    fh_port == PORT_HONEST
}

impl Traffic {
    pub(crate) fn new(flows_max: usize, payload: PayloadLen) -> Self {
        Self {
            flows: Vec::new(),
            flows_max,
            payload,
            honest_port: 1000,
        }
    }

    /// Where the honest flow with this port stands, if it still goes on.
    pub(crate) fn truth(&self, mh_port: u16) -> Option<Truth> {
        let fits = |flow: &&Flow| flow.is_honest && flow.mh_port == mh_port;
        let flow = self.flows.iter().find(fits)?;
        Some(Truth {
            mh_acked: flow.ends[1].acked,
            fh_acked: flow.ends[0].acked,
            fh_nxt: flow.ends[0].nxt,
        })
    }

    /// The gateway has made a SYN/ACK for an end: from now on that end acknowledges the numbers
    /// that follow.
    pub(crate) fn take_syn_ack(&mut self, answer: &Segment) {
        let is_of = |flow: &&mut Flow| {
            let fh_port = if flow.is_honest { PORT_HONEST } else { PORT };
            let to_mh = (answer.from.port, answer.to.port) == (fh_port, flow.mh_port);
            let to_fh = (answer.to.port, answer.from.port) == (fh_port, flow.mh_port);
            to_mh || to_fh
        };
        if let Some(flow) = self.flows.iter_mut().find(is_of) {
            let by = usize::from(answer.to.port == flow.mh_port);
            let next = answer.seq + 1;
            flow.ends[by].shift = next.get().wrapping_sub(flow.ends[1 - by].nxt);
        }
    }

    pub(crate) fn next(&mut self, dice: &mut Dice) -> Input {
        if self.flows.len() < self.flows_max * 2 / 3 || dice.once_in(7 * self.flows_max as u64) {
            self.begin(dice);
        }
        let index = dice.below(self.flows.len() as u64) as usize;
        let by = dice.below(2) as usize;
        let flow = &mut self.flows[index];
        let mut draft = flow.draft(by, self.payload, dice);
        if flow.is_honest {
            flow.note(by, &draft);
        } else if dice.once_in(6) {
            draft.lie(dice);
        }
        let mut frame = flow.build(by, draft, dice);
        if !flow.is_honest && dice.once_in(8) {
            dice.damage(&mut frame);
        }
        let direction = if by == 0 {
            Direction::Downlink
        } else {
            Direction::Uplink
        };
        Input { direction, frame }
    }

    fn begin(&mut self, dice: &mut Dice) {
        let is_honest = dice.once_in(3);
        if is_honest {
            self.honest_port = self.honest_port.checked_add(1).unwrap_or(1000);
        }
        let mut end = || {
            let nxt = dice.word();
            End {
                nxt,
                window: 30_000,
                clock: dice.word(),
                acked: 0,
                syn_until: None,
                shift: 0,
            }
        };
        let mut ends = [end(), end()];
        ends[0].acked = ends[1].nxt;
        ends[1].acked = ends[0].nxt;
        let flow = Flow {
            is_v6: !is_honest && dice.once_in(3),
            is_honest,
            mobile: dice.below(MOBILES) as u8,
            mh_port: if is_honest {
                self.honest_port
            } else {
                1000 + dice.below(200) as u16
            },
            window_scale: dice.below(10) as u8,
            timestamps: !dice.once_in(3),
            sack: !dice.once_in(4),
            ends,
        };
        if self.flows.len() >= self.flows_max {
            let index = dice.below(self.flows_max as u64) as usize;
            self.flows.swap_remove(index);
        }
        self.flows.push(flow);
    }
}

impl Flow {
    /// A segment as an end may send it.
    fn draft(&mut self, by: usize, payload: PayloadLen, dice: &mut Dice) -> Draft {
        let (own, other) = (self.ends[by], self.ends[1 - by]);
        let mut draft = Draft {
            seq: own.nxt,
            ack: other.nxt.wrapping_add(own.shift),
            flags: ACK,
            window: own.window,
            options: Vec::new(),
            len: 0,
        };
        match dice.below(12) {
            kind @ 0..=1 => {
                draft.flags = if kind == 0 { SYN } else { SYN | ACK };
                draft.options = vec![2, 4, 5, 0xb4, 3, 3, self.window_scale];
                if self.sack {
                    draft.options.extend([4, 2]);
                }
            }
            2..=6 => {
                let most = if dice.once_in(20) {
                    payload.longest
                } else {
                    payload.usual
                };
                draft.len = 1 + dice.below(most) as usize;
            }
            7 => {
                draft.len = dice.below(payload.usual) as usize;
                draft.seq = own.nxt.wrapping_sub(dice.below(43 * payload.usual) as u32);
            }
            8 if dice.once_in(30) => draft.flags = ACK | FIN,
            9 => {
                draft.ack = draft
                    .ack
                    .wrapping_sub(dice.below(21 * payload.usual) as u32);
            }
            10 if dice.once_in(50) => draft.flags = RST,
            _ => {}
        }
        let sent = draft.len as u32 + u32::from(draft.flags & (SYN | FIN) != 0);
        let end = draft.seq.wrapping_add(sent);
        if (end.wrapping_sub(own.nxt) as i32) > 0 {
            self.ends[by].nxt = end;
        }
        if self.timestamps {
            self.ends[by].clock = own.clock.wrapping_add(1);
            draft.options.extend([1, 1, 8, 10]);
            draft.options.extend(own.clock.to_be_bytes());
            draft.options.extend(other.clock.to_be_bytes());
        }
        if self.sack && draft.flags == ACK && dice.once_in(4) {
            draft.report(self.is_honest, payload, dice);
        }
        draft
    }

    fn note(&mut self, by: usize, draft: &Draft) {
        let newer = |ack: u32, old: u32| (ack.wrapping_sub(old) as i32) > 0;
        if draft.flags & SYN != 0 {
            self.ends[by].syn_until = Some(draft.seq.wrapping_add(1));
        } else if let Some(syn_end) = self.ends[by].syn_until.take() {
            // An end sends data when its SYN is acknowledged: that ACK passed unseen.
            let other = &mut self.ends[1 - by];
            if newer(syn_end, other.acked) {
                other.acked = syn_end;
            }
        }
        let end = &mut self.ends[by];
        if draft.flags & ACK != 0 && newer(draft.ack, end.acked) {
            end.acked = draft.ack;
        }
    }

    fn build(&self, by: usize, draft: Draft, dice: &mut Dice) -> Vec<u8> {
        let mut options = draft.options;
        while !options.len().is_multiple_of(4) {
            options.push(1);
        }
        options.truncate(40);
        let tcp_len = 20 + options.len();
        let mut frame = Vec::with_capacity(40 + tcp_len + draft.len);
        self.build_ip(by, tcp_len + draft.len, &mut frame);
        let fh_port = if self.is_honest { PORT_HONEST } else { PORT };
        let (from, to) = if by == 0 {
            (fh_port, self.mh_port)
        } else {
            (self.mh_port, fh_port)
        };
        frame.extend(from.to_be_bytes());
        frame.extend(to.to_be_bytes());
        frame.extend(draft.seq.to_be_bytes());
        frame.extend(draft.ack.to_be_bytes());
        frame.extend([((tcp_len / 4) << 4) as u8, draft.flags]);
        frame.extend(draft.window.to_be_bytes());
        frame.extend([0; 4]);
        frame.extend(&options);
        let seqs = (0..draft.len).map(|i| draft.seq.wrapping_add(i as u32));
        frame.extend(seqs.map(|seq| honest_byte(seq, self.mh_port)));
        // Other bytes for the same sequence numbers: the gateway may cache only one of them.
        if !self.is_honest && draft.len > 0 && dice.once_in(10) {
            let last = frame.len() - 1;
            frame[last] ^= 1;
        }
        frame
    }

    fn build_ip(&self, by: usize, len: usize, frame: &mut Vec<u8>) {
        let addresses = if by == 0 { [1, 2] } else { [2, 1] };
        if self.is_v6 {
            frame.extend([0x60, 0, 0, 0]);
            frame.extend((len as u16).to_be_bytes());
            frame.extend([6, 64]);
            for side in addresses {
                frame.extend([0x20, 1, 0xd, 0xb8]);
                frame.extend([0; 10]);
                frame.extend([self.mobile, side]);
            }
            return;
        }
        frame.extend([0x45, 0]);
        frame.extend((20 + len as u16).to_be_bytes());
        frame.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
        for side in addresses {
            // Honest flows have another network: damage turns no other flow into an honest one.
            let network = if side == 1 && self.is_honest {
                77
            } else {
                side
            };
            frame.extend([10, network, self.mobile, 2]);
        }
        let mut sum = checksum::Sum::default();
        sum.add(&frame[..20]);
        frame[10..12].copy_from_slice(&sum.finish().to_be_bytes());
    }
}

impl Draft {
    /// Adds SACK blocks: of what may have arrived; if the flow is not honest, of anything.
    fn report(&mut self, is_honest: bool, payload: PayloadLen, dice: &mut Dice) {
        let count = 1 + dice.below(3) as u8;
        self.options.extend([1, 1, 5, 2 + 8 * count]);
        let mut farthest = self.ack;
        for _ in 0..count {
            // Each block lies beyond the ACK and the other blocks.
            let mut left = farthest.wrapping_add(1 + dice.below(14 * payload.usual) as u32);
            let mut right = left.wrapping_add(1 + dice.below(4 * payload.usual) as u32);
            farthest = right;
            if !is_honest && dice.once_in(3) {
                left = dice.word();
                right = left.wrapping_add(dice.word() >> dice.below(20));
            }
            self.options.extend(left.to_be_bytes());
            self.options.extend(right.to_be_bytes());
        }
    }

    /// Makes one field wrong.
    fn lie(&mut self, dice: &mut Dice) {
        let half = 0x7fff_fff0 + dice.below(32) as u32;
        match dice.below(12) {
            0 => self.seq = dice.word(),
            1 => self.ack = dice.word(),
            2 => self.window = dice.pick(&[0, 1, u16::MAX]),
            3 => self.flags = dice.word() as u8,
            4 => {
                let len = dice.below(40);
                self.options = dice.bytes(len);
            }
            5 => self.seq = self.seq.wrapping_add(1 << 30),
            6 => self.seq = self.seq.wrapping_add(half),
            7 => self.ack = self.ack.wrapping_add(half),
            8 => self.ack = self.ack.wrapping_add(dice.word() >> 1),
            9 => self.flags |= 0x20,
            10 => self.options.extend([253, 4, 0, 0]),
            _ => self.seq = self.seq.wrapping_sub(1),
        }
    }
}
