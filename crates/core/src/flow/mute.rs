// SPDX-License-Identifier: Apache-2.0
//! A flow that the MH leaves unanswered while it answers in others.

use super::{Flow, Stage};
use crate::{Payload, Resend};

/// Whether the MH answers other flows but not this one: a device behind its address has left, or a
/// firewall drops the port. A flow becomes mute when another one of its MH ends a silence, or when its
/// second timer is in vain beside others. It stays mute until it is answered itself. Nothing of it counts
/// as in flight, so that it makes no outage for the others. A segment of its cache, or a byte of it, goes
/// out as a probe, and then one after each retransmission timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mute {
    /// It is answered, or has nothing in flight.
    No,
    /// It is to be probed.
    ToProbe,
    /// It was probed.
    Probed,
}

impl<P: Payload> Flow<P> {
    /// Another flow of the MH has ended a silence. This one is probed before it recovers.
    pub(crate) fn wait_for_answer(&mut self) {
        let unanswered = self.in_flight() > 0 || self.has_backlog();
        if self.stage == Stage::Open && !self.has_own_sender && unanswered {
            self.mute = Mute::ToProbe;
        }
    }

    /// The probe of a mute flow, of at most `len_max` bytes.
    pub(crate) fn probe_mute(&mut self, len_max: u32) -> Option<Resend<P>> {
        self.mute = Mute::Probed;
        self.probe(len_max)
    }
}

#[cfg(test)]
mod tests {
    use holdfast_wire::Instant;

    use super::*;
    use crate::flow::handoff::tests::{flow, state};

    #[test]
    fn a_flow_becomes_mute_only_if_something_of_it_is_unanswered() {
        for (in_flight, mute) in [(0, Mute::No), (1, Mute::ToProbe)] {
            let mut flow = flow();
            flow.adopt(&state(), Instant::from_millis(1000));
            flow.sent_nxt += in_flight;
            flow.wait_for_answer();
            assert_eq!(flow.mute, mute, "{in_flight}");
        }
    }
}
