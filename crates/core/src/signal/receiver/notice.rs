// SPDX-License-Identifier: Apache-2.0
//! What a believed message changes of a mobile's link.

use core::net::IpAddr;

use holdfast_wire::Instant;

use super::PeerView;
use crate::link_state::{LinkEvent, LinkState};
use crate::sealed::KeyId;
use crate::signal::message::{Abilities, Request, SignalKind};

/// Something new about a mobile's link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkNotice {
    /// The mobile.
    pub key: KeyId,
    /// What happened. A registration is link up.
    pub event: LinkEvent,
    /// All addresses of the mobile.
    pub addresses: Vec<IpAddr>,
    /// Addresses that it no longer has.
    pub removed: Vec<IpAddr>,
    /// The link epoch.
    pub epoch: u64,
}

/// A mobile's report of its abilities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbilitiesNotice {
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// What it can do.
    pub abilities: Abilities,
    /// The run of the mobile's daemon. A new run knows nothing of what earlier ones received.
    pub session: u64,
    /// The report is valid until then, unless it is repeated.
    pub until: Instant,
}

impl AbilitiesNotice {
    /// The abilities in a believed request; `None` if its link is not up.
    pub(super) fn of(request: &Request, until: Instant) -> Option<Self> {
        let up = request.kind.state() == LinkState::Up;
        up.then(|| Self {
            addresses: request.addresses.clone(),
            abilities: Abilities::of_field(request.kind, request.lead_ms),
            session: u64::from_be_bytes(request.incarnation),
            until,
        })
    }
}

/// What a believed request changes, if anything. A new epoch is an event even if link up was
/// reported before: whatever was on the link in between may be lost.
pub(super) fn event(
    before: Option<&PeerView>,
    request: &Request,
    addresses: &[IpAddr],
) -> Option<LinkEvent> {
    let is_known = before.is_some_and(|view| {
        view.epoch == request.epoch
            && view.state == request.kind.state()
            && view.addresses == addresses
    });
    (!is_known).then(|| match request.kind {
        SignalKind::Register | SignalKind::Up => LinkEvent::Up,
        SignalKind::GoingDownSoon => LinkEvent::GoingDownSoon(request.lead()),
        SignalKind::Down => LinkEvent::Down,
    })
}
