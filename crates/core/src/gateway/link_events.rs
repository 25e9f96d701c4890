// SPDX-License-Identifier: Apache-2.0
//! Reports about links: by mobiles, by the interface, by the operator.

use core::net::IpAddr;

use holdfast_wire::Instant;

use super::Gateway;
use crate::link_state::{LinkEvent, LinkSource};
use crate::schemes;
use crate::table::MobileId;
use crate::{Actions, Payload};

impl<P: Payload> Gateway<P> {
    /// A report about the link to the mobile with these addresses.
    pub fn handle_link(
        &mut self,
        addresses: &[IpAddr],
        event: LinkEvent,
        source: LinkSource,
        now: Instant,
        actions: &mut Actions<P>,
    ) {
        for address in addresses {
            if let Some(mobile_id) = self.mobiles.find(address) {
                self.apply(mobile_id, event, source, now, actions);
            }
        }
    }

    /// A report about all links: by the gateway's own interface.
    pub fn handle_all_links(
        &mut self,
        event: LinkEvent,
        source: LinkSource,
        now: Instant,
        actions: &mut Actions<P>,
    ) {
        if source == LinkSource::Carrier {
            self.carrier_down = event == LinkEvent::Down;
        }
        for index in 0..self.mobiles.slots() {
            if let Some(mobile_id) = self.mobiles.id_in(index) {
                self.apply(mobile_id, event, source, now, actions);
            }
        }
    }

    fn apply(
        &mut self,
        mobile_id: MobileId,
        event: LinkEvent,
        source: LinkSource,
        now: Instant,
        actions: &mut Actions<P>,
    ) {
        let Some(mobile) = self.mobiles.at_mut(mobile_id) else {
            return;
        };
        if !schemes::survives_outages(&self.settings) {
            return;
        }
        match event {
            LinkEvent::GoingDownSoon(lead) => {
                mobile.warn(lead, now);
                self.with_flows_of(mobile_id, now, actions, |scheme, flow, cx| {
                    scheme.on_going_down_soon(flow, cx);
                });
            }
            LinkEvent::Down => {
                mobile.go_down(source, &self.settings, now);
                self.on_disconnected(mobile_id, now, actions);
            }
            // Without a carrier nothing goes out, whatever is reported.
            LinkEvent::Up if self.carrier_down => {}
            LinkEvent::Up => {
                if mobile.is_away() {
                    self.begin_recovery(mobile_id, source, None, now, actions);
                } else {
                    mobile.going_down_soon = false;
                    mobile.warned_until = mobile.warned_until.map(|_| now);
                }
                self.with_flows_of(mobile_id, now, actions, |scheme, flow, cx| {
                    scheme.on_link_up(flow, cx);
                });
                self.schedule_flows_of(mobile_id, now);
            }
        }
        self.schedule_mobile(mobile_id);
    }

    /// Undoes what the scheme did for a warning, if no outage has followed in time.
    pub(super) fn end_warning(
        &mut self,
        mobile_id: MobileId,
        now: Instant,
        actions: &mut Actions<P>,
    ) {
        let Some(mobile) = self.mobiles.at_mut(mobile_id) else {
            return;
        };
        if !mobile.was_warned_in_vain(now) {
            return;
        }
        self.with_flows_of(mobile_id, now, actions, |scheme, flow, cx| {
            scheme.on_reconnected(flow, cx);
        });
        self.schedule_flows_of(mobile_id, now);
    }

    /// The scheme is notified, once, that the MH cannot be reached.
    pub(super) fn on_disconnected(
        &mut self,
        mobile_id: MobileId,
        now: Instant,
        actions: &mut Actions<P>,
    ) {
        let Some(mobile) = self.mobiles.at_mut(mobile_id) else {
            return;
        };
        if core::mem::replace(&mut mobile.disconnected, true) {
            return;
        }
        self.with_flows_of(mobile_id, now, actions, |scheme, flow, cx| {
            scheme.on_disconnected(flow, cx);
        });
        self.schedule_flows_of(mobile_id, now);
    }
}
