// SPDX-License-Identifier: Apache-2.0
//! The trace of a case, and the state of the engine as text.

use holdfast_wire::SeqNum;

use super::{Event, World};
use crate::gateway::Connection;
use crate::testing::{FH, Packet};

impl World {
    /// Prints a line of the trace.
    pub(super) fn print_event(&self, event: &Event) {
        let time = self.now.as_secs_f64();
        match event {
            Event::ToGateway(direction, packet) => {
                eprintln!("{time:10.6} {direction:?} {}", self.brief(packet));
            }
            Event::ToHost(side, packet) => {
                eprintln!("{time:10.6} at {side:?} {}", self.brief(packet));
            }
            Event::Read(..) => {}
            other => eprintln!("{time:10.6} {other:?}"),
        }
    }

    /// The engine's state, for a trace.
    pub(in crate::gateway::tests) fn describe(&self) -> String {
        let mut text = String::new();
        for Connection { flow, scheme } in self.gateway.flows.iter() {
            let at = |seq: SeqNum| self.mh.peer_offset(seq);
            text += &format!(
                "{:?} {:?} una {} max {} sent {} kept to {:?} recover {:?} repair {:?} x{} owed {:?} edge {:?};",
                flow.stage,
                scheme.get().state(flow),
                at(flow.fh.una),
                at(flow.fh.max),
                at(flow.sent_nxt),
                flow.cache.end().map(at),
                flow.recover.map(at),
                flow.retransmit_at,
                flow.vain_retransmissions,
                flow.owed.map(at),
                flow.mh.right_edge.map(at),
            );
        }
        for mobile in self.gateway.mobiles.iter() {
            text += &format!(
                " {:?} deadline {:?}",
                mobile.link,
                mobile.deadline(&self.settings)
            );
        }
        text
    }

    pub(super) fn brief(&self, packet: &Packet) -> String {
        let segment = &packet.segment;
        let (from, to) = if segment.from == FH {
            (&self.mh, &self.fh)
        } else {
            (&self.fh, &self.mh)
        };
        let seq = from.peer_offset(segment.seq);
        format!(
            "{seq}..{} ack {} win {} {:x} {:?} {:?}",
            seq + i64::from(segment.len()),
            to.peer_offset(segment.ack),
            segment.window,
            segment.flags.0,
            segment.options.timestamps.map(|ts| (ts.tsval, ts.tsecr)),
            segment
                .options
                .sack
                .iter()
                .map(|(left, right)| (to.peer_offset(left), to.peer_offset(right)))
                .collect::<Vec<_>>(),
        )
    }
}
