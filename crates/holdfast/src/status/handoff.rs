// SPDX-License-Identifier: Apache-2.0
//! A base station's part in handoffs, as the gateway's status shows it.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use super::units::bytes;
use super::{list, table};

/// A base station's part in handoffs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct HandoffStatus {
    /// The station's name.
    pub(crate) name: String,
    /// Its neighbours.
    pub(crate) neighbours: u64,
    /// Memory that buffered packets take.
    pub(crate) buffered_bytes: u64,
    /// Most that it may be.
    pub(crate) buffered_bytes_max: u64,
    /// The mobiles that it knows of.
    pub(crate) mobiles: Vec<HandoffMobileStatus>,
}

/// What a base station is to one mobile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct HandoffMobileStatus {
    /// The id of its key.
    pub(crate) key: String,
    /// Its addresses.
    pub(crate) addresses: Vec<IpAddr>,
    /// `idle`, `buffering`, `synchronising` or `forwarding`.
    pub(crate) role: String,
    /// The highest link epoch known.
    pub(crate) epoch: u64,
    /// The neighbour that has it.
    pub(crate) elsewhere: Option<SocketAddr>,
    /// Neighbours in its group.
    pub(crate) members: u64,
    /// The group, if this station is in it.
    pub(crate) group: Option<IpAddr>,
    /// Packets buffered.
    pub(crate) buffered_packets: u64,
    /// Memory that they take, bytes.
    pub(crate) buffered_bytes: u64,
    /// Times that it came here from another station.
    pub(crate) handoffs: u64,
    /// From its registration to the end of the last synchronisation, in ms.
    pub(crate) last_sync_ms: Option<f64>,
}

/// Adds it to a status for people.
pub(super) fn write_text(text: &mut String, handoff: &HandoffStatus) {
    // Writing into a `String` cannot fail.
    let _ = writeln!(
        text,
        "base station {}, {} neighbours, buffered {} of {}",
        handoff.name,
        handoff.neighbours,
        bytes(handoff.buffered_bytes),
        bytes(handoff.buffered_bytes_max)
    );
    if handoff.mobiles.is_empty() {
        return;
    }
    let mut table = table(&[
        "key",
        "addresses",
        "role",
        "epoch",
        "at",
        "members",
        "group",
        "buffered",
        "handoffs",
        "last took",
    ]);
    let or_none = |address: Option<String>| address.unwrap_or_else(|| "-".into());
    for mobile in &handoff.mobiles {
        table.add_row([
            mobile.key.clone(),
            list(&mobile.addresses),
            mobile.role.clone(),
            mobile.epoch.to_string(),
            or_none(mobile.elsewhere.map(|at| at.to_string())),
            mobile.members.to_string(),
            or_none(mobile.group.map(|group| group.to_string())),
            bytes(mobile.buffered_bytes),
            mobile.handoffs.to_string(),
            or_none(mobile.last_sync_ms.map(|ms| format!("{ms:.1} ms"))),
        ]);
    }
    let _ = writeln!(text, "{table}");
}
