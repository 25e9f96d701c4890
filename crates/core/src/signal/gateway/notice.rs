// SPDX-License-Identifier: Apache-2.0
//! What a believed message changes of a mobile's link.

use core::net::IpAddr;

use holdfast_wire::Instant;

use super::PeerView;
use crate::signal::key::KeyId;
use crate::signal::message::{Abilities, LinkState, Request, SignalKind};

/// What a believed message changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkNoticeKind {
    /// The mobile made itself known, or has other addresses now; its link is up.
    Registered,
    /// Link up: a new epoch.
    Up,
    /// Link down in `lead_ms` milliseconds; 0 if not known.
    GoingDownSoon {
        /// Time until then.
        lead_ms: u16,
    },
    /// Link down.
    Down,
}

/// Something new about a mobile's link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkNotice {
    /// Whose.
    pub key: KeyId,
    /// What happened.
    pub kind: LinkNoticeKind,
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
    /// The run of its daemon: another number, and nothing of before is known there.
    pub session: u64,
    /// Until then it is believed, unless repeated.
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

/// What a believed request changes, if anything.
pub(super) fn notice_kind(
    before: Option<&PeerView>,
    request: &Request,
    addresses: &[IpAddr],
) -> Option<LinkNoticeKind> {
    let same_link = before
        .is_some_and(|view| view.epoch == request.epoch && view.state == request.kind.state());
    let same_addresses = before.is_some_and(|view| view.addresses == addresses);
    let registered = || (!same_addresses).then_some(LinkNoticeKind::Registered);
    match request.kind {
        SignalKind::Up | SignalKind::Register if same_link => registered(),
        SignalKind::Register if before.is_none() => Some(LinkNoticeKind::Registered),
        // A new epoch: whatever was on the link in between may be lost.
        SignalKind::Up | SignalKind::Register => Some(LinkNoticeKind::Up),
        SignalKind::GoingDownSoon | SignalKind::Down if same_link && same_addresses => None,
        SignalKind::GoingDownSoon => Some(LinkNoticeKind::GoingDownSoon {
            lead_ms: request.lead_ms,
        }),
        SignalKind::Down => Some(LinkNoticeKind::Down),
    }
}
