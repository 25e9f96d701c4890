// SPDX-License-Identifier: Apache-2.0
//! `[mtcp]`: the parameters of the scheme `mtcp`.

use holdfast_core::{MtcpPersist, MtcpRelease, MtcpSettings};
use toml::Value;

use super::super::SettingsError;
use super::super::file::Section;
use super::super::keys::{Key, Kind};

/// `[mtcp]`, in the order of the documentation.
pub(crate) const KEYS: &[Key] = &[
    PERSIST,
    RELEASE,
    SLOW_START,
    RTO_VARIATION_MIN,
    WINDOW_BYTES,
    CELL_KBPS,
];

const PERSIST: Key = Key {
    path: "mtcp.persist",
    kind: Kind::Choice(&["published", "round-trip"]),
    default: Some("\"published\""),
    example: "\"round-trip\"",
    meaning: "When an MH that does not answer is asked: after 5 s and then at intervals that double up \
        to 60 s, or at the round trip of the wireless half.",
    cost: "With `published` an MH without M-TCP of its own, of which nobody says that it is back, waits \
        until it is asked. With `round-trip` an MH that is away is asked often.",
};

const RELEASE: Key = Key {
    path: "mtcp.release",
    kind: Kind::Choice(&["wintimer", "at-once"]),
    default: Some("\"wintimer\""),
    example: "\"at-once\"",
    meaning: "When the FH gets the ACK of the last byte of all that it has sent: when the wintimer \
        expires, as published, or at once.",
    cost: "With `wintimer` the FH hears of its last byte a timeout of the wireless half late, and may \
        send it again. With `at-once` a window cannot be shrunk from there until the MH acknowledges \
        more.",
};

const SLOW_START: Key = Key {
    path: "mtcp.slow_start",
    kind: Kind::Flag,
    default: Some("true"),
    example: "false",
    meaning: "The wireless half begins with one segment and grows by what the MH acknowledges, as \
        published. Without it has no congestion window.",
    cost: "With: short transfers take longer. Without, and without `cell_kbps`, nothing but the FH's own \
        window keeps the link's queue short.",
};

const RTO_VARIATION_MIN: Key = Key {
    path: "mtcp.rto_variation_min_ms",
    kind: Kind::Millis {
        min: 1.0,
        max: 10_000.0,
    },
    default: Some("100"),
    example: "100",
    meaning: "The least that is added to the round trip of the wireless half for its timeouts: that \
        which freezes, and the wintimer.",
    cost: "Longer than the least that the FH adds to its own (Linux: 200): it times out first. \
        Shorter: a delayed ACK passes for a disconnection.",
};

const WINDOW_BYTES: Key = Key {
    path: "mtcp.window_bytes",
    kind: Kind::Bytes {
        min: 2 << 10,
        max: 1 << 30,
    },
    default: None,
    example: "\"128 KiB\"",
    meaning: "The largest window that FHs see; without it the MH's own.",
    cost: "Smaller than what the path holds: slower. Larger: what the link cannot take waits in the \
        cache.",
};

const CELL_KBPS: Key = Key {
    path: "mtcp.cell_kbps",
    kind: Kind::Count {
        min: 1,
        max: 100_000_000,
    },
    default: None,
    example: "20000",
    meaning: "What the cell carries toward the mobiles, kilobits of payload a second: shared among \
        the connections by their needs, each paced to its share; FHs do not hear of what the \
        wireless half loses. Without it FHs regulate themselves.",
    cost: "More than the link carries: its queue overflows and nobody slows down. Less: the rest is not \
        used.",
};

fn persist_of(kind: Kind, value: &Value) -> Option<MtcpPersist> {
    match kind.text(value)?.as_str() {
        "published" => Some(MtcpPersist::Published),
        "round-trip" => Some(MtcpPersist::RoundTrip),
        _ => None,
    }
}

fn release_of(kind: Kind, value: &Value) -> Option<MtcpRelease> {
    match kind.text(value)?.as_str() {
        "wintimer" => Some(MtcpRelease::Wintimer),
        "at-once" => Some(MtcpRelease::AtOnce),
        _ => None,
    }
}

/// The section's keys over the defaults.
pub(super) fn settings(section: &Section<'_>) -> Result<MtcpSettings, SettingsError> {
    let window = section.get(&WINDOW_BYTES, Kind::bytes)?;
    let cell = section.get(&CELL_KBPS, Kind::count)?;
    Ok(MtcpSettings {
        persist: section.get_or_default(&PERSIST, persist_of)?,
        release: section.get_or_default(&RELEASE, release_of)?,
        slow_start: section.get_or_default(&SLOW_START, Kind::flag)?,
        rto_variation_min: section.get_or_default(&RTO_VARIATION_MIN, Kind::duration)?,
        window_bytes: window.map_or(0, |bytes| bytes as usize),
        cell_bytes_per_s: cell.map(|kbps| kbps * 1000 / 8),
    })
}
