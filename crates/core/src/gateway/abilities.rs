// SPDX-License-Identifier: Apache-2.0
//! Which compressed payload mobiles report that they can read, and how segments are compressed for them.

use core::net::IpAddr;

use holdfast_wire::{Flags, Instant};

use super::{Connection, Gateway};
use crate::schemes::Offer;
use crate::signal::Abilities;
use crate::table::FlowId;
use crate::{Payload, Resend};

impl<P: Payload> Gateway<P> {
    /// The mobile with these addresses has reported what it can read, in this `session` of its
    /// daemon; that holds until `until`, unless it reports again.
    pub fn handle_abilities(
        &mut self,
        addresses: &[IpAddr],
        abilities: Abilities,
        session: u64,
        until: Instant,
    ) {
        if let Some(compression) = &mut self.shared.compression {
            for address in addresses {
                compression.register(*address, abilities, session, until);
            }
            self.on_abilities(addresses);
        }
    }

    /// These addresses are no longer those of the mobile that had them.
    pub(super) fn forget_abilities(&mut self, addresses: &[IpAddr]) {
        if let Some(compression) = &mut self.shared.compression {
            for address in addresses {
                compression.forget(*address);
            }
            self.on_abilities(addresses);
        }
    }

    fn on_abilities(&mut self, addresses: &[IpAddr]) {
        for address in addresses {
            let mobile = self.mobiles.get(address);
            for flow_id in mobile.map_or(&[][..], |mobile| &mobile.flows) {
                if let Some(Connection { flow, scheme }) = self.flows.at_mut(*flow_id) {
                    scheme.get_mut().on_abilities(flow, &self.shared);
                }
            }
        }
    }

    /// From now on the flow's scheme uses what the MH can read.
    pub(super) fn follow_abilities(&mut self, flow_id: FlowId) {
        if let Some(Connection { flow, scheme }) = self.flows.at_mut(flow_id) {
            scheme.get_mut().on_abilities(flow, &self.shared);
        }
    }

    /// Compresses `len` bytes of a piece that has [`compress`](Resend::compress), after its first `sent`
    /// bytes. They go out in one segment with these `flags`. Returns the payload to send instead; the
    /// segment then gets the flags of [`marked`](crate::compression::marked). `None`: the segment is sent
    /// unchanged.
    pub fn compress(
        &mut self,
        piece: &Resend<P>,
        sent: u32,
        len: u32,
        flags: Flags,
        now: Instant,
    ) -> Option<&[u8]> {
        let flow_id = self.flows.find(&piece.compress?)?;
        let Connection { flow, scheme } = self.flows.at_mut(flow_id)?;
        let offer = Offer {
            piece,
            sent,
            len,
            flags,
        };
        let scheme = scheme.get_mut();
        let wire_len = scheme.compress(&offer, &mut self.shared, &mut self.counters, now)?;
        let is_paced = scheme
            .share_mut()
            .is_some_and(|share| share.assigned.is_some());
        if is_paced && flow.has_backlog() {
            self.schedule_flow(flow_id, now);
        }
        let compression = self.shared.compression.as_ref()?;
        Some(compression.payload(wire_len))
    }

    /// Flows with a dictionary.
    pub fn dictionaries(&self) -> usize {
        self.shared.dictionaries()
    }
}
