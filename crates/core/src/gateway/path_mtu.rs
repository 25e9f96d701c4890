// SPDX-License-Identifier: Apache-2.0
//! Reports of routers between gateway and MH about the size of packets.

use core::net::IpAddr;

use holdfast_wire::{Instant, PacketTooBig};

use super::Gateway;
use crate::flow::Stage;
use crate::{Actions, FlowKey, Payload};

/// The smallest path MTU that is believed: the default of Linux's minimum for IPv4, and the smallest that
/// IPv6 allows (RFC 8201, 4).
const fn path_mtu_min(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(_) => 552,
        IpAddr::V6(_) => 1280,
    }
}

impl<P: Payload> Gateway<P> {
    /// A router reports that a packet to an MH was too big. Believed if it is about
    /// bytes in flight (RFC 5927, 4.1).
    pub fn handle_packet_too_big(
        &mut self,
        too_big: &PacketTooBig,
        now: Instant,
        actions: &mut Actions<P>,
    ) {
        let key = FlowKey {
            fh: too_big.from,
            mh: too_big.to,
        };
        let Some(flow_id) = self.flows.find(&key) else {
            return;
        };
        let Some(connection) = self.flows.at_mut(flow_id) else {
            // It has nothing in flight.
            self.counters.implausible += 1;
            return;
        };
        let flow = &mut connection.flow;
        let in_flight = flow.fh.una.at_or_before(too_big.seq) && too_big.seq.before(flow.sent_nxt);
        if flow.stage != Stage::Open || !in_flight || too_big.mtu < path_mtu_min(key.mh.address) {
            self.counters.implausible += 1;
            return;
        }
        let mobile = flow.mobile;
        if flow.path_mtu.is_some_and(|mtu| mtu <= too_big.mtu) {
            return;
        }
        flow.path_mtu = Some(too_big.mtu);
        // The FH has dropped what is acknowledged: only the gateway can retransmit it.
        if flow.has_own_sender {
            self.with_context(flow_id, now, actions, |scheme, flow, cx| {
                scheme.on_path_mtu(flow, cx);
            });
            self.schedule_flow(flow_id, now);
        } else if flow.retransmits_itself() {
            connection.rewind();
            self.count_in_flight(flow_id);
            self.resume_recovery(mobile, now, actions);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_size_of_packets_that_is_believed_is_of_the_address_family() {
        assert_eq!(path_mtu_min([10, 2, 0, 2].into()), 552);
        assert_eq!(path_mtu_min([0xfd00, 0, 0, 0, 0, 0, 0, 2].into()), 1280);
    }
}
