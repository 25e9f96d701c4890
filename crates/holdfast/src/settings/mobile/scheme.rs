// SPDX-License-Identifier: Apache-2.0
//! `mobile.scheme`: what the mobile does for its own flows, or for what it sends.

use holdfast_core::mobile_host::MobileScheme;

use super::super::keys::{Key, Kind};

/// The names of the schemes: those of [`MobileScheme`], and `keep`.
pub(super) const SCHEMES: &[&str] = &["freeze", "fast-retransmit", "mtcp", "wake", "keep"];

pub(super) const SCHEME: Key = Key {
    path: "mobile.scheme",
    kind: Kind::Choice(SCHEMES),
    default: None,
    example: "\"freeze\"",
    meaning: "What the mobile does for its own TCP flows: `freeze` (closes their windows when an outage is \
        announced, and sends three ACKs after it), `fast-retransmit` (the three ACKs alone), `mtcp` (one marked \
        ACK after an outage, for a gateway with the scheme `mtcp`), `wake` (keeps one segment of each bulk \
        download unacknowledged and acknowledges it after an outage). `keep` is for what the mobile sends: it keeps \
        the newest packets of each flow in an outage, of any protocol, and sends them on after it. Without it the mobile only signals.",
    cost: "A BPF program on each packet of the interface. `freeze` and `fast-retransmit` need no gateway; \
        docs/schemes/freeze.md says what today's senders make of them.",
};

/// What `scheme` takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SchemeChoice {
    /// Something for the mobile's own TCP flows.
    Flows(MobileScheme),
    /// The newest packets of what it sends.
    Keep,
}

/// The choice of this name.
pub(super) fn scheme(text: &str) -> Result<SchemeChoice, String> {
    if text == "keep" {
        return Ok(SchemeChoice::Keep);
    }
    let mut schemes = MobileScheme::ALL.into_iter();
    schemes
        .find(|scheme| scheme.name() == text)
        .map(SchemeChoice::Flows)
        .ok_or_else(|| format!("takes {}", SCHEME.kind.takes()))
}
