// SPDX-License-Identifier: Apache-2.0
//! `[mtcp]`: the parameters of the scheme `mtcp`.

use holdfast_core::{MtcpHandoff, MtcpPersist, MtcpRelease, MtcpSetUp, MtcpSettings, MtcpShrink};
use toml::Value;

use super::super::SettingsError;
use super::super::file::Section;
use super::super::keys::{Key, Kind};
use super::compression::{COMPRESSION, COMPRESSION_LEVEL};

/// `[mtcp]`, in the order of the documentation.
pub(crate) const KEYS: &[Key] = &[
    SET,
    SHRINK,
    PERSIST,
    RELEASE,
    SLOW_START,
    INITIAL_WINDOW,
    RTO_VARIATION_MIN,
    WINDOW_BYTES,
    COMPRESSION,
    COMPRESSION_LEVEL,
    HANDOFF,
    SET_UP,
];

const SET: Key = Key {
    path: "mtcp.set",
    kind: Kind::Choice(&["today", "published"]),
    default: Some("\"today\""),
    example: "\"published\"",
    meaning: "Which M-TCP, as published in 1997 or for the senders of today: where the other keys of this \
        section begin. The defaults named are those of `today`; `published` has `shrink`, `persist` and \
        `release` as published and an initial window of 1 segment.",
    cost: "With `published` today's senders lose their congestion window in each outage of some \
        seconds.",
};

const SHRINK: Key = Key {
    path: "mtcp.shrink",
    kind: Kind::Choice(&["published", "late"]),
    default: Some("\"late\""),
    example: "\"published\"",
    meaning: "When the FH's window is closed: at once when the MH is gone, as published, or when the \
        FH has repeated its first segment three times, so that it does not give up.",
    cost: "With `published` today's senders lose their congestion window. With `late` those that would \
        wait for the window go through a timeout, and find out by the MH's return that it was none.",
};

const PERSIST: Key = Key {
    path: "mtcp.persist",
    kind: Kind::Choice(&["published", "round-trip"]),
    default: Some("\"round-trip\""),
    example: "\"published\"",
    meaning: "When an MH that does not answer is asked: after 5 s and then at intervals that double up \
        to 60 s, or at the round trip of the wireless half.",
    cost: "With `published` an MH without M-TCP of its own, of which nobody says that it is back, waits \
        until it is asked. With `round-trip` an MH that is away is asked often.",
};

const RELEASE: Key = Key {
    path: "mtcp.release",
    kind: Kind::Choice(&["wintimer", "at-once"]),
    default: Some("\"at-once\""),
    example: "\"wintimer\"",
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
    meaning: "The wireless half has a congestion window that grows by what the MH acknowledges, as \
        published, and never shrinks. Without there is none.",
    cost: "With: short transfers take longer. Without, and without a cell in `[bandwidth]`, nothing but the FH's own \
        window keeps the link's queue short.",
};

const INITIAL_WINDOW: Key = Key {
    path: "mtcp.initial_window_segments",
    kind: Kind::Count { min: 1, max: 1000 },
    default: Some("10"),
    example: "1",
    meaning: "Segments that the wireless half begins with.",
    cost: "Fewer than the FH begins with (Linux: 10): each connection starts some round trips late. More: \
        bursts into the link's queue.",
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
    meaning: "The largest window that FHs see; without it the MH's own, and in a cell of `[bandwidth]` twice \
        what the share takes in a round trip.",
    cost: "Smaller than what the path holds: slower. Larger: what the link cannot take waits in the \
        cache.",
};

const HANDOFF: Key = Key {
    path: "mtcp.handoff",
    kind: Kind::Choice(&["published", "forward"]),
    default: Some("\"forward\""),
    example: "\"published\"",
    meaning: "With `[handoff]`: what becomes of the data kept for a mobile that has gone to another \
        gateway. `published`: it is discarded, the FH's window is closed until the new gateway opens \
        it, and the FH sends everything outstanding again. `forward`: the new gateway asks for it.",
    cost: "With `published` each handoff costs today's senders a retransmission timeout. With \
        `forward` the data goes once more over the wired side.",
};

const SET_UP: Key = Key {
    path: "mtcp.set_up",
    kind: Kind::Choice(&["lock-step", "early"]),
    default: Some("\"lock-step\""),
    example: "\"early\"",
    meaning: "How the two halves of a new connection are set up: both at once, or, as the paper chose, \
        first with the end that opens it and then with the other.",
    cost: "With `early` sequence numbers differ between the halves: connections stand still without \
        the gateway, until one comes that has its state file; they have no timestamps; and an end \
        that is refused is connected first and reset then.",
};

fn set_of(kind: Kind, value: &Value) -> Option<MtcpSettings> {
    match kind.text(value)?.as_str() {
        "today" => Some(MtcpSettings::today()),
        "published" => Some(MtcpSettings::published()),
        _ => None,
    }
}

fn shrink_of(kind: Kind, value: &Value) -> Option<MtcpShrink> {
    match kind.text(value)?.as_str() {
        "published" => Some(MtcpShrink::Published),
        "late" => Some(MtcpShrink::Late),
        _ => None,
    }
}

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

fn handoff_of(kind: Kind, value: &Value) -> Option<MtcpHandoff> {
    match kind.text(value)?.as_str() {
        "published" => Some(MtcpHandoff::Published),
        "forward" => Some(MtcpHandoff::Forward),
        _ => None,
    }
}

fn set_up_of(kind: Kind, value: &Value) -> Option<MtcpSetUp> {
    match kind.text(value)?.as_str() {
        "lock-step" => Some(MtcpSetUp::LockStep),
        "early" => Some(MtcpSetUp::Early),
        _ => None,
    }
}

/// The section's keys over the set's own values.
pub(super) fn settings(section: &Section<'_>) -> Result<MtcpSettings, SettingsError> {
    let set = section.get_or_default(&SET, set_of)?;
    let window = section.get(&WINDOW_BYTES, Kind::bytes)?;
    let initial = section.get(&INITIAL_WINDOW, Kind::count)?;
    Ok(MtcpSettings {
        shrink: section.get(&SHRINK, shrink_of)?.unwrap_or(set.shrink),
        persist: section.get(&PERSIST, persist_of)?.unwrap_or(set.persist),
        release: section.get(&RELEASE, release_of)?.unwrap_or(set.release),
        slow_start: section
            .get(&SLOW_START, Kind::flag)?
            .unwrap_or(set.slow_start),
        initial_window_segments: initial.map_or(set.initial_window_segments, |count| count as u32),
        rto_variation_min: section
            .get(&RTO_VARIATION_MIN, Kind::duration)?
            .unwrap_or(set.rto_variation_min),
        window_bytes: window.map_or(set.window_bytes, |bytes| bytes as usize),
        handoff: section.get(&HANDOFF, handoff_of)?.unwrap_or(set.handoff),
        set_up: section.get(&SET_UP, set_up_of)?.unwrap_or(set.set_up),
    })
}
