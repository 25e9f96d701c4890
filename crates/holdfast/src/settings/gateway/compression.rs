// SPDX-License-Identifier: Apache-2.0
//! The keys of `[mtcp]` for compression toward the mobiles.

use super::super::SettingsError;
use super::super::file::Section;
use super::super::keys::{Key, Kind};
use holdfast_core::compression::{CompressionSettings, Method};

pub(super) const COMPRESSION: Key = Key {
    path: "mtcp.compression",
    kind: Kind::Choice(&["off", "deflate", "zstd"]),
    default: Some("\"off\""),
    example: "\"zstd\"",
    meaning: "The payload of what goes to mobiles that can read it is compressed, packet by packet: by \
        `deflate` each on its own, as published; by `zstd` with the help of what the MH has \
        acknowledged before. Mobiles say so by their signals; to others, and of payload that does not \
        shrink, everything goes as it is.",
    cost: "Processor time for each packet, ten times and more what forwarding it takes; for slow links. \
        With `zstd` 64 KiB of memory a flow, for 1,024 flows at most.",
};

pub(super) const COMPRESSION_LEVEL: Key = Key {
    path: "mtcp.compression_level",
    kind: Kind::Count { min: 1, max: 9 },
    default: Some("3"),
    example: "3",
    meaning: "How hard is tried, from 1 (fast) to 9 (small). 3 as published.",
    cost: "Higher: more processor time, for a few percent less on the link.",
};

/// The method of a name; none of `off`.
fn method_of(name: &str) -> Option<Method> {
    match name {
        "deflate" => Some(Method::Deflate),
        "zstd" => Some(Method::Zstd),
        _ => None,
    }
}

/// What `[mtcp]` says of it.
pub(super) fn settings(
    section: &Section<'_>,
) -> Result<Option<CompressionSettings>, SettingsError> {
    let method = method_of(&section.get_or_default(&COMPRESSION, Kind::text)?);
    let level = section.get_or_default(&COMPRESSION_LEVEL, Kind::count)? as u8;
    Ok(method.map(|method| CompressionSettings { method, level }))
}
