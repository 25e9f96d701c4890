// SPDX-License-Identifier: Apache-2.0
//! `[keep]`: the parameters of the scheme `keep`, for the gateway and for the mobile.

use holdfast_core::keep::KeepSettings;

use super::SettingsError;
use super::file::Section;
use super::keys::{Key, Kind};

/// The section's keys, in the order of the documentation.
pub(crate) const KEYS: &[Key] = &[FLOW_PACKETS_MAX, BYTES_MAX, AGE_MAX];

/// What a flow's packets may have on average, bytes.
const PACKET_BYTES: usize = 16 << 10;

const FLOW_PACKETS_MAX: Key = Key {
    path: "keep.flow_packets_max",
    kind: Kind::Count { min: 1, max: 1024 },
    default: Some("16"),
    example: "16",
    meaning: "Packets kept for each flow while its link is down: the newest.",
    cost: "More: a longer burst when the link is back, and more memory. docs/schemes/keep.md has figures.",
};

const BYTES_MAX: Key = Key {
    path: "keep.bytes_max",
    kind: Kind::Bytes {
        min: 1 << 20,
        max: 16 << 30,
    },
    default: Some("\"64 MiB\""),
    example: "\"64 MiB\"",
    meaning: "Memory for kept packets, all flows together. A packet counts as 2,304 bytes at least. At \
        the limit the oldest packets of the same mobile go.",
    cost: "Up to twice that much memory when it is full.",
};

const AGE_MAX: Key = Key {
    path: "keep.age_max_s",
    kind: Kind::Seconds {
        min: 0.1,
        max: 3_600.0,
    },
    default: Some("180"),
    example: "180",
    meaning: "A packet that is older is not sent any more. Packets of a flow that the other side has not \
        answered for a minute may become 1 s old at most.",
    cost: "Shorter than the pause of a sender between two tries: nothing is left to send after a long outage.",
};

/// The settings of the section.
pub(super) fn settings(section: &Section<'_>) -> Result<KeepSettings, SettingsError> {
    let bytes_max = section.get_or_default(&BYTES_MAX, Kind::bytes)? as usize;
    let flow_packets_max = section.get_or_default(&FLOW_PACKETS_MAX, Kind::count)? as usize;
    let default = KeepSettings::default();
    Ok(KeepSettings {
        flow_packets_max,
        // Super-segments count as one packet each, up to this.
        flow_bytes_max: flow_packets_max * PACKET_BYTES,
        bytes_max,
        age_max: section.get_or_default(&AGE_MAX, Kind::duration)?,
        ..default
    })
}
