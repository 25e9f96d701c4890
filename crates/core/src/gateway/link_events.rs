// SPDX-License-Identifier: Apache-2.0
//! What is said of links: by mobiles, by the interface, by the operator.

use core::net::IpAddr;

use holdfast_wire::Instant;

use super::Gateway;
use crate::mobile::{LinkEvent, LinkSource};
use crate::settings::Scheme;
use crate::{Actions, Payload};

impl<P: Payload> Gateway<P> {
    /// Somebody says something of the link to the mobile with these addresses.
    pub fn handle_link(
        &mut self,
        addresses: &[IpAddr],
        event: LinkEvent,
        source: LinkSource,
        now: Instant,
        actions: &mut Actions<P>,
    ) {
        for address in addresses {
            if let Some(place) = self.mobiles.find(address) {
                self.apply(place, event, source, now, actions);
            }
        }
    }

    /// Somebody says something of all links: the gateway's own interface.
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
        for place in 0..self.mobiles.places() {
            self.apply(place, event, source, now, actions);
        }
    }

    fn apply(
        &mut self,
        place: u32,
        event: LinkEvent,
        source: LinkSource,
        now: Instant,
        actions: &mut Actions<P>,
    ) {
        let Some(mobile) = self.mobiles.at_mut(place) else {
            return;
        };
        if !Scheme::survives_outages(&self.settings) {
            return;
        }
        match event {
            LinkEvent::GoingDownSoon => {
                mobile.warn(now);
                self.with_flows_of(place, now, actions, |flow, _, cx| {
                    cx.settings.scheme.on_going_down_soon(flow, cx);
                });
            }
            LinkEvent::Down => {
                mobile.go_down(source, &self.settings, now);
                self.tell_disconnected(place, now, actions);
            }
            // Without a carrier nothing goes out, whatever a message says.
            LinkEvent::Up if self.carrier_down => {}
            LinkEvent::Up => {
                if mobile.is_away() {
                    self.begin_recovery(place, source, None, now, actions);
                } else {
                    mobile.going_down_soon = false;
                    mobile.warned_until = mobile.warned_until.map(|_| now);
                }
                self.greet_split(place, now, actions);
            }
        }
        self.schedule_mobile(place);
    }

    /// A warning may have been a false one: what the scheme did for it is undone.
    pub(super) fn end_warning(&mut self, place: u32, now: Instant, actions: &mut Actions<P>) {
        let Some(mobile) = self.mobiles.at_mut(place) else {
            return;
        };
        if !mobile.was_warned_in_vain(now) {
            return;
        }
        self.with_flows_of(place, now, actions, |flow, _, cx| {
            cx.settings.scheme.on_reconnected(flow, cx);
        });
        self.schedule_flows_of(place, now);
    }

    /// The scheme hears, once, that the MH is gone.
    pub(super) fn tell_disconnected(&mut self, place: u32, now: Instant, actions: &mut Actions<P>) {
        let Some(mobile) = self.mobiles.at_mut(place) else {
            return;
        };
        if core::mem::replace(&mut mobile.disconnected, true) {
            return;
        }
        self.with_flows_of(place, now, actions, |flow, _, cx| {
            cx.settings.scheme.on_disconnected(flow, cx);
        });
        self.schedule_flows_of(place, now);
    }
}
