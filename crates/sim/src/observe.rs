// SPDX-License-Identifier: Apache-2.0
//! What an observer sees during a run.

use holdfast_link::{DropReason, MediumState};
use holdfast_wire::Instant;

use crate::packet::Packet;

/// One direction of a link, by its number. In an [`Experiment`](crate::Experiment) hop
/// `h`, counted from the FH, is 2h downlink and 2h + 1 uplink.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u32);

/// What happens to a packet at a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketEvent {
    /// A node gives the packet to the link.
    Sent,
    /// The link refuses it at once. A packet that is lost later, in flight, is not reported: it does
    /// not arrive.
    Dropped(DropReason),
    /// It comes out at the other end.
    Arrived,
}

/// Watches a run. Nothing that it does changes the run.
pub trait Observer {
    /// A packet at a link, at its time; times never go back.
    fn on_packet(&mut self, link: LinkId, event: PacketEvent, packet: &Packet, now: Instant) {
        let _ = (link, event, packet, now);
    }

    /// A link has changed its state.
    fn on_link_state(&mut self, link: LinkId, state: MediumState, now: Instant) {
        let _ = (link, state, now);
    }

    /// Whether [`Self::on_packet`] is to be called at all.
    fn wants_packets(&self) -> bool {
        true
    }
}

/// Observes nothing.
impl Observer for () {
    fn wants_packets(&self) -> bool {
        false
    }
}
