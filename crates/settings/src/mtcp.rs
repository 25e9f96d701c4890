// SPDX-License-Identifier: Apache-2.0
//! `[mtcp]`: the parameters of the scheme `mtcp`, those that the paper names and those that it
//! leaves open, and the two sets.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::kind::{As, BytesOrNone, Count, Millis};

/// The sets of parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MtcpSet {
    /// For today's senders.
    #[default]
    Today,
    /// As published in 1997.
    Published,
}

/// The key of `[mtcp]` with which the others begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MtcpChoice {
    /// Which M-TCP, as published in 1997 or for the senders of today. It sets the defaults of the
    /// other keys of this section. The defaults below are those of `today`; `published` has
    /// `shrink`, `persist` and `release` as published and an initial window of 1 segment.
    ///
    /// Cost: With `published` today's senders lose their congestion window in each outage of some
    /// seconds.
    ///
    /// Example: `"published"`
    pub set: MtcpSet,
}

/// When the FH's window is closed while the MH is away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MtcpShrink {
    /// As soon as the wintimer expires or M-TCP freezes (section 5), with the ACK of the saved
    /// byte, so that the FH stops before its own timeout.
    #[default]
    Published,
    /// Over data in flight today's senders do not stop, and each timeout with a zero window is
    /// a new loss recovery. So the FH receives nothing until it has retransmitted its first
    /// segment three times; then duplicate ACKs with a zero window, by which it does not give up.
    /// The saved byte is acknowledged with the window when the link is up, and unfreezes the FH.
    Late,
}

/// When persist packets are sent to an MH that does not answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MtcpPersist {
    /// After 5 s, then at intervals that double up to 60 s (section 4.2).
    #[default]
    Published,
    /// At the round trip of the wireless half, which the paper names and did not implement.
    RoundTrip,
}

/// When the last byte that the MH has acknowledged is acknowledged to the FH.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MtcpRelease {
    /// When the wintimer expires (section 5).
    #[default]
    Wintimer,
    /// At once if the FH has sent nothing beyond it: no new ACK can come then, and nothing is left
    /// for which its window had to be shrunk.
    AtOnce,
}

/// What happens to the data that an SH caches for a mobile that has moved to another SH.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MtcpHandoff {
    /// As published: it is discarded. The FH's window is closed until the new SH opens it, and
    /// the FH retransmits everything in flight.
    #[default]
    Published,
    /// The new SH requests it, as Snoop's base stations do. The FH's window is left as it is.
    Forward,
}

/// In which order the two halves of a new connection are set up (section 5.3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MtcpSetUp {
    /// SYNs pass as they are: sequence numbers are the same on both halves, and the ends can
    /// continue without the gateway.
    #[default]
    LockStep,
    /// As the paper chose: the SH completes the half of the end that opens, then opens the other.
    /// The sequence numbers of one direction differ between the halves, and **a connection stands
    /// still without the gateway**.
    Early,
}

/// Parameters of the scheme `mtcp`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MtcpSettings {
    /// When the FH's window is closed: at the begin of the outage, as published, or when the FH
    /// has retransmitted its first segment three times. With the latter it does not give up.
    ///
    /// Cost: With `published` today's senders lose their congestion window. With `late` those that
    /// would wait for the window have a timeout, and detect after the outage that it was spurious.
    ///
    /// Example: `"published"`
    pub shrink: MtcpShrink,
    /// When an MH that does not answer is probed. The probes come after 5 s and then at intervals
    /// that double up to 60 s, or at the round trip of the wireless half.
    ///
    /// Cost: With `published` an MH without M-TCP of its own, whose return no signal reports,
    /// waits until it is probed. With `round-trip` an MH that is away is probed often.
    ///
    /// Example: `"published"`
    pub persist: MtcpPersist,
    /// When to acknowledge the final byte to the FH: after the wintimer (as published) or
    /// immediately.
    ///
    /// Cost: With `wintimer` the FH gets the last ACK a timeout of the wireless half late, and may
    /// retransmit the byte. With `at-once` a window cannot be shrunk from there until the MH
    /// acknowledges more.
    ///
    /// Example: `"wintimer"`
    pub release: MtcpRelease,
    /// The wireless half has a congestion window that grows by what the MH acknowledges, as
    /// published, and never shrinks (section 5.3.4). Without it there is none.
    ///
    /// Cost: With: short transfers take longer. Without, and without a cell in `[bandwidth]`,
    /// nothing but the FH's own window keeps the link's queue short.
    ///
    /// Example: `false`
    pub slow_start: bool,
    /// The initial congestion window of the wireless half, in segments.
    ///
    /// Cost: Fewer than the FH begins with (Linux: 10): each connection starts some round trips
    /// late. More: bursts into the link's queue.
    ///
    /// Example: `1`
    #[serde(with = "As::<Count<1, 1000>>")]
    pub initial_window_segments: u32,
    /// The least time that is added to the round trip of the wireless half for its timeouts. These
    /// are the one that freezes, and the wintimer (RFC 6298's 4 `rttvar`).
    ///
    /// Cost: Longer than the least that the FH adds to its own (Linux: 200): it times out first.
    /// Shorter: a delayed ACK is taken for a disconnection.
    #[serde(rename = "rto_variation_min_ms", with = "As::<Millis<1, 10_000>>")]
    pub rto_variation_min: Duration,
    /// The largest window that FHs see; without it the MH's own. In a cell of `[bandwidth]` it is
    /// twice what the share takes in a round trip.
    ///
    /// Cost: Smaller than what the path holds: slower. Larger: what the link cannot take waits in
    /// the cache.
    ///
    /// Example: `"128 KiB"`
    #[serde(with = "As::<BytesOrNone<2_048, 1_073_741_824>>")]
    pub window_bytes: usize,
    /// With `[handoff]`: what happens to the data cached for a mobile that has moved to another
    /// gateway. `published`: it is discarded, the FH's window is closed until the new gateway
    /// opens it, and the FH retransmits everything in flight. `forward`: the new gateway requests
    /// it.
    ///
    /// Cost: With `published` each handoff costs today's senders a retransmission timeout. With
    /// `forward` the data crosses the wired side a second time.
    ///
    /// Example: `"published"`
    pub handoff: MtcpHandoff,
    /// How the two halves of a new connection are set up. It is both at once, or, as the paper
    /// chose, first with the end that opens it and then with the other.
    ///
    /// Cost: With `early` sequence numbers differ between the halves: connections stand still
    /// without the gateway, until one comes that has its state file. They have no timestamps. An
    /// end that is refused is connected first and reset then.
    ///
    /// Example: `"early"`
    pub set_up: MtcpSetUp,
}

impl MtcpSettings {
    /// As published in 1997.
    pub const fn published() -> Self {
        Self {
            shrink: MtcpShrink::Published,
            persist: MtcpPersist::Published,
            release: MtcpRelease::Wintimer,
            slow_start: true,
            initial_window_segments: 1,
            rto_variation_min: Duration::from_millis(100),
            window_bytes: 0,
            handoff: MtcpHandoff::Published,
            set_up: MtcpSetUp::LockStep,
        }
    }

    /// For today's senders.
    pub const fn today() -> Self {
        Self {
            shrink: MtcpShrink::Late,
            persist: MtcpPersist::RoundTrip,
            release: MtcpRelease::AtOnce,
            // RFC 6928: what the FH itself begins with.
            initial_window_segments: 10,
            handoff: MtcpHandoff::Forward,
            ..Self::published()
        }
    }

    /// Those of a set.
    pub const fn of_set(set: MtcpSet) -> Self {
        match set {
            MtcpSet::Today => Self::today(),
            MtcpSet::Published => Self::published(),
        }
    }
}

impl Default for MtcpSettings {
    fn default() -> Self {
        Self::today()
    }
}

/// A method of compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Raw deflate (RFC 1951), each packet on its own: as published in 1997.
    Deflate,
    /// Zstd (RFC 8878), with what the MH has acknowledged of the stream as its dictionary.
    Zstd,
}

/// How payload is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompressionSettings {
    /// The method.
    pub method: Method,
    /// 1 (fast) to 9 (small); 3 as published.
    pub level: u8,
}

/// A method of compression, or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CompressionChoice {
    /// None.
    #[default]
    Off,
    /// [`Method::Deflate`].
    Deflate,
    /// [`Method::Zstd`].
    Zstd,
}

/// The keys of `[mtcp]` for compression toward the mobiles.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MtcpCompression {
    /// The payload toward mobiles that can read it is compressed, packet by packet. `deflate`
    /// compresses each on its own, as published. `zstd` has the help of what the MH has
    /// acknowledged before. Mobiles report by their signals that they can. To others, and of
    /// payload that does not shrink, everything is sent as it is.
    ///
    /// Cost: Processor time for each packet, ten times and more what forwarding it takes; for slow
    /// links. With `zstd` 64 KiB of memory a flow, for 1,024 flows at most.
    ///
    /// Example: `"zstd"`
    pub compression: CompressionChoice,
    /// The effort, from 1 (fast) to 9 (small). 3 as published.
    ///
    /// Cost: Higher: more processor time, for a few percent less on the link.
    #[serde(with = "As::<Count<1, 9>>")]
    pub compression_level: u8,
}

impl Default for MtcpCompression {
    fn default() -> Self {
        Self {
            compression: CompressionChoice::Off,
            compression_level: 3,
        }
    }
}

impl MtcpCompression {
    /// How payload is compressed; none: not at all.
    pub fn settings(self) -> Option<CompressionSettings> {
        let method = match self.compression {
            CompressionChoice::Off => return None,
            CompressionChoice::Deflate => Method::Deflate,
            CompressionChoice::Zstd => Method::Zstd,
        };
        let level = self.compression_level;
        Some(CompressionSettings { method, level })
    }
}
