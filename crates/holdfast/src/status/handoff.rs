// SPDX-License-Identifier: Apache-2.0
//! A base station's part in handoffs, as the gateway's status shows it.

use std::fmt::Write as _;

use super::units::bytes;
use super::{list, table};
use crate::control::HandoffStatus;

/// Adds the station's part to a status for people.
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
