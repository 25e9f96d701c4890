// SPDX-License-Identifier: Apache-2.0
//! The cells that a mobile may be in, and its present cell.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use holdfast_core::signal::GatewayChallenge;
use tokio::net::UdpSocket;
use tokio::sync::mpsc::Sender;

use crate::settings::{self, resolve};

/// Time between two attempts to resolve the gateway's name.
const RESOLVE_AGAIN: Duration = Duration::from_secs(5);
/// The same after an address was found: the name may have another address later.
const RESOLVE_AFRESH: Duration = Duration::from_secs(300);

/// A gateway and the link to it.
#[derive(Debug)]
pub(super) struct Cell {
    /// The interface of the link.
    pub(super) interface: String,
    /// Its carrier, as last seen; `None` before it was seen.
    pub(super) carrier: Option<bool>,
    /// The interface did not exist at the start: until it appears no report shows its carrier.
    began_absent: bool,
    /// The gateway's address for signals, once it is known.
    pub(super) gateway: Option<SocketAddr>,
    /// The socket that sends the signals.
    pub(super) socket: Option<UdpSocket>,
    /// The gateway's challenge when the mobile was last here.
    pub(super) challenge: Option<GatewayChallenge>,
}

/// All cells, one at least.
#[derive(Debug)]
pub(super) struct Cells {
    cells: Vec<Cell>,
    present: usize,
}

impl Cells {
    /// The cells of the settings. The mobile is assumed to be in the first. `exists`: whether an
    /// interface of this name exists.
    pub(super) fn new(cells: &[settings::Cell], exists: impl Fn(&str) -> bool) -> Self {
        let cells = cells.iter().map(|cell| Cell {
            interface: cell.interface.clone(),
            carrier: None,
            began_absent: !exists(&cell.interface),
            gateway: None,
            socket: None,
            challenge: None,
        });
        Self {
            cells: cells.collect(),
            present: 0,
        }
    }

    /// The cell in which the mobile is.
    pub(super) fn present(&self) -> &Cell {
        &self.cells[self.present]
    }

    /// The number of that cell.
    pub(super) const fn number(&self) -> usize {
        self.present
    }

    /// The cell with this number.
    pub(super) fn get_mut(&mut self, number: usize) -> Option<&mut Cell> {
        self.cells.get_mut(number)
    }

    /// Notes the carrier of an interface.
    pub(super) fn note_carrier(&mut self, interface: &str, carrier: bool) {
        let on_it = self
            .cells
            .iter_mut()
            .filter(|cell| cell.interface == interface);
        on_it.for_each(|cell| cell.carrier = Some(carrier));
    }

    /// The cell of the gateway with this address.
    pub(super) fn of_gateway(&self, address: IpAddr) -> Option<usize> {
        let is_it = |cell: &Cell| cell.gateway.is_some_and(|gateway| gateway.ip() == address);
        self.cells.iter().position(is_it)
    }

    /// The cell of the mobile, by the next hops of its default routes, the preferred first, and by the
    /// carriers.
    pub(super) fn choose(&self, next_hops: &[IpAddr]) -> usize {
        let routed = next_hops.iter().find_map(|hop| self.of_gateway(*hop));
        let has_carrier = |cell: &Cell| cell.carrier == Some(true);
        let present = self.present();
        let has_none = present
            .carrier
            .map_or(present.began_absent, |carrier| !carrier);
        let by_carrier = || {
            let other = self.cells.iter().position(has_carrier);
            other.filter(|_| has_none)
        };
        routed.or_else(by_carrier).unwrap_or(self.present)
    }

    /// Enters this cell. `leave` gets the last challenge of its gateway, if there was one,
    /// and returns the challenge of the cell before.
    pub(super) fn enter(
        &mut self,
        number: usize,
        leave: impl FnOnce(Option<GatewayChallenge>) -> GatewayChallenge,
    ) {
        let challenge = self.cells.get(number).and_then(|cell| cell.challenge);
        self.cells[self.present].challenge = Some(leave(challenge));
        self.present = number.min(self.cells.len() - 1);
    }
}

/// A socket for signals to the gateway. Errors: the kernel lacks the address family.
pub(super) fn signal_socket(gateway: SocketAddr) -> io::Result<UdpSocket> {
    let socket = socket_of_family(gateway)?;
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket)
}

/// A socket of the address's family, at any port.
fn socket_of_family(address: SocketAddr) -> io::Result<std::net::UdpSocket> {
    let any: IpAddr = match address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    std::net::UdpSocket::bind((any, 0))
}

/// Whether the kernel has a route to the address. Nothing is sent.
fn has_route(address: SocketAddr) -> bool {
    socket_of_family(address).is_ok_and(|socket| socket.connect(address).is_ok())
}

/// Resolves the gateway's name until an address is found, then again from time to time.
pub(super) async fn find_gateway(cell: usize, gateway: String, found: Sender<(usize, SocketAddr)>) {
    let mut present = None;
    loop {
        let name = gateway.clone();
        match tokio::task::spawn_blocking(move || resolve(&name)).await {
            Ok(Ok(addresses)) => {
                if let Some(address) = another_address(present, &addresses, has_route) {
                    present = Some(address);
                    if found.send((cell, address)).await.is_err() {
                        // The daemon is leaving.
                        return;
                    }
                }
            }
            // The name service may be behind the link that is down.
            Ok(Err(error)) if present.is_some() => {
                tracing::debug!(gateway, %error, "the gateway is not found; its address stays");
            }
            Ok(Err(error)) => {
                tracing::warn!(gateway, %error, "the gateway is not found; trying again");
            }
            Err(error) => tracing::error!(%error, "resolver"),
        }
        let wait = match present {
            Some(address) if has_route(address) => RESOLVE_AFRESH,
            _ => RESOLVE_AGAIN,
        };
        tokio::time::sleep(wait).await;
    }
}

/// The address to use instead of the present one. A name may have several, in changing order: those with a
/// route come first. While the link is down none may have a route.
fn another_address(
    present: Option<SocketAddr>,
    addresses: &[SocketAddr],
    has_route: impl Fn(SocketAddr) -> bool,
) -> Option<SocketAddr> {
    let mut usable = addresses.to_vec();
    usable.retain(|address| has_route(*address));
    if usable.is_empty() {
        usable = addresses.to_vec();
    }
    let stays = present.is_some_and(|present| usable.contains(&present));
    usable.first().copied().filter(|_| !stays)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(absent: &[&str]) -> Cells {
        let cell = |interface: &str, gateway: &str| settings::Cell {
            interface: interface.into(),
            gateway: Some(gateway.into()),
        };
        let settings = [
            cell("wlan0", "10.2.0.1"),
            cell("wlan1", "10.3.0.1"),
            cell("wlan1", "10.4.0.1"),
        ];
        let mut cells = Cells::new(&settings, |interface| !absent.contains(&interface));
        for (number, last) in [(0, 2), (1, 3), (2, 4)] {
            let gateway = SocketAddr::from(([10, last, 0, 1], 4848));
            cells.get_mut(number).expect("three").gateway = Some(gateway);
        }
        cells
    }

    #[test]
    fn the_default_route_shows_the_mobiles_cell_and_else_the_carrier() {
        let mut cells = cells(&[]);
        let hop = |last: u8| IpAddr::from([10, last, 0, 1]);
        assert_eq!(cells.choose(&[]), 0, "no report");
        assert_eq!(cells.choose(&[hop(9), hop(4), hop(3)]), 2);
        cells.note_carrier("wlan0", false);
        assert_eq!(cells.choose(&[]), 0, "no other is known to carry");
        cells.note_carrier("wlan1", true);
        assert_eq!(cells.choose(&[]), 1);
        assert_eq!(cells.choose(&[hop(2)]), 0, "the operator set the route");
    }

    #[test]
    fn a_first_cell_whose_interface_is_not_there_is_left_for_one_with_a_carrier() {
        let mut cells = cells(&["wlan0"]);
        assert_eq!(cells.choose(&[]), 0, "no other is known to carry");
        cells.note_carrier("wlan1", true);
        assert_eq!(cells.choose(&[]), 1);
    }

    #[test]
    fn a_cell_without_an_interface_has_no_carrier_to_report() {
        assert_eq!(cells(&["wlan0"]).present().carrier, None);
    }

    #[test]
    fn a_name_with_several_addresses_keeps_the_present_one_until_it_is_gone() {
        let [first, second] = [1, 2].map(|last| SocketAddr::from(([192, 0, 2, last], 4848)));
        let all = |_| true;
        assert_eq!(another_address(None, &[first, second], all), Some(first));
        assert_eq!(another_address(Some(first), &[second, first], all), None);
        assert_eq!(another_address(Some(first), &[second], all), Some(second));
    }

    #[test]
    fn an_address_without_a_route_is_left_for_one_with_a_route() {
        let v4 = SocketAddr::from(([192, 0, 2, 1], 4848));
        let v6 = SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1], 4848));
        let only_v4 = |address: SocketAddr| address.is_ipv4();
        assert_eq!(another_address(None, &[v6, v4], only_v4), Some(v4));
        assert_eq!(another_address(Some(v6), &[v6, v4], only_v4), Some(v4));
        assert_eq!(another_address(Some(v4), &[v6, v4], only_v4), None);
        assert_eq!(
            another_address(Some(v6), &[v6, v4], |_| false),
            None,
            "link down"
        );
        assert_eq!(another_address(None, &[v6, v4], |_| false), Some(v6));
    }

    #[test]
    fn loopback_has_a_route() {
        assert!(has_route(SocketAddr::from(([127, 0, 0, 1], 4848))));
    }
}
