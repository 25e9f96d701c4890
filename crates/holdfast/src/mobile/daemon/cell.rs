// SPDX-License-Identifier: Apache-2.0
//! The mobile's present cell, its addresses there, and the gateway there.

use std::net::SocketAddr;

use holdfast_core::{LinkEvent, LinkState};
use holdfast_net::addresses;

use super::Daemon;
use crate::mobile::cells::signal_socket;

impl Daemon {
    /// Chooses the cell again: routes or carriers may have changed.
    pub(super) fn look_where_it_is(&mut self) {
        if self.settings.cells.len() == 1 {
            return;
        }
        match addresses::default_gateways() {
            Ok(next_hops) => self.enter(self.cells.choose(&next_hops)),
            Err(error) => tracing::warn!(%error, "the routes cannot be read"),
        }
    }

    /// Enters this cell, unless the mobile is there already. The session moves to its gateway.
    pub(super) fn enter(&mut self, number: usize) {
        if number == self.cells.number() {
            return;
        }
        let now = self.now();
        let session = &mut self.session;
        self.cells
            .enter(number, |challenge| session.hand_over(challenge, now));
        self.handovers += 1;
        self.link.forget();
        let cell = self.cells.present();
        tracing::info!(interface = cell.interface, gateway = ?cell.gateway, "in another cell");
        self.notify_host(LinkEvent::Up);
        self.read_addresses();
    }

    pub(super) fn read_addresses(&mut self) {
        let Some(ifindex) = self.interface.ifindex() else {
            return;
        };
        match addresses::of_interface(ifindex) {
            // At link down the kernel removes IPv6 addresses, which are valid again at link
            // up: they stay registered.
            Ok(found) if found.is_empty() || self.cells.present().carrier == Some(false) => {}
            Ok(found) => self.session.set_addresses(&found, self.now()),
            Err(error) => tracing::warn!(%error, "the interface's addresses cannot be read"),
        }
    }

    /// Uses this address for a cell's gateway.
    pub(super) fn use_gateway(&mut self, number: usize, gateway: SocketAddr) {
        let socket = match signal_socket(gateway) {
            Ok(socket) => socket,
            Err(error) => {
                tracing::warn!(%error, %gateway, "no socket for signals to this gateway");
                return;
            }
        };
        let (now, is_present) = (self.now(), number == self.cells.number());
        if let Some(cell) = self.cells.get_mut(number) {
            if cell.gateway.is_some() {
                // A gateway at another address has not challenged the mobile yet.
                cell.challenge = None;
                if is_present {
                    let was_down = self.session.state() == LinkState::Down;
                    self.session.hand_over(None, now);
                    if was_down {
                        self.session.link_down(now);
                    }
                }
            }
            cell.socket = Some(socket);
            cell.gateway = Some(gateway);
            tracing::info!(interface = cell.interface, %gateway, "gateway");
        }
        self.look_where_it_is();
    }
}
