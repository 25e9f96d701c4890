// SPDX-License-Identifier: Apache-2.0
//! `[gateway]`: what the daemon needs, and what its engine needs.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::bandwidth::BandwidthSettings;
use crate::kind::{As, Bytes, Count, Maybe, Millis, Seconds};
use crate::mtcp::{CompressionSettings, MtcpSettings};
use crate::snoop::SnoopSettings;
use crate::text::{AbsolutePath, Dscp, InterfaceName, Interfaces, LogFilter};
use crate::{Contradiction, size_text};

/// The control socket of the gateway, unless another is given.
pub const GATEWAY_SOCKET: &str = "/run/holdfast/gateway.sock";

/// Declares the schemes: a variant for each, and its name.
macro_rules! schemes {
    ($($(#[$meta:meta])* $scheme:ident = $name:literal,)*) => {
        /// The schemes of the gateway's engine.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum Scheme {
            $($(#[$meta])* $scheme,)*
        }

        impl Scheme {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$scheme,)*];
        }

        /// The schemes of a gateway's daemon: those of its engine, and `keep`.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
        pub enum SchemeName {
            $($(#[$meta])*
            #[serde(rename = $name)]
            #[cfg_attr(feature = "clap", value(name = $name))]
            $scheme,)*
            /// Queue the newest packets of an outage, of any protocol, and send them after it
            #[serde(rename = "keep")]
            Keep,
        }

        impl SchemeName {
            /// The name in settings and flags.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$scheme => $name,)*
                    Self::Keep => "keep",
                }
            }

            /// The scheme of the engine; none: `keep`, which has a worker of its own.
            pub const fn for_flows(self) -> Option<Scheme> {
                match self {
                    $(Self::$scheme => Some(Scheme::$scheme),)*
                    Self::Keep => None,
                }
            }
        }
    };
}

schemes! {
    /// Cache the segments of an outage and send them after it; touch no ACK
    Hold = "hold",
    /// As hold, for links whose rate changes; as keep for all but TCP
    #[default]
    Auto = "auto",
    /// M-TCP+: as hold, and acknowledge what is cached while the link is down
    MtcpPlus = "mtcp-plus",
    /// M-TCP: split connections here, freeze fixed hosts while the link is down
    Mtcp = "mtcp",
    /// Snoop: retransmit what the wireless half loses, and hide the loss from the fixed host
    Snoop = "snoop",
    /// Pass every segment, and count what outages cost
    Observe = "observe",
    /// M-TCP as the M-TCP+ paper models it, for comparison in the lab: each ACK is reduced by one, and at
    /// disconnection the last byte is acknowledged with a window of 0
    Mtcp2007 = "mtcp-2007",
}

/// Keys of `[gateway]` that the engine does not need.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GatewayDaemon {
    /// What the gateway does for the flows. `hold` caches the segments of an outage and sends them
    /// after it; it makes no ACK for FHs and touches no window. `auto` does so for links whose rate
    /// changes. It also retransmits what the radio loses, hides nothing from the FH, and serves all
    /// but TCP as `keep` does. `keep` queues the newest packets of each flow in an outage, of any
    /// protocol, by the parameters of `[keep]`. All other packets stay in the kernel. `mtcp-plus`
    /// also acknowledges what it caches while the link is down. `mtcp` splits the connections, and
    /// freezes the FHs with a zero window while the link is down, by the parameters of `[mtcp]`.
    /// `snoop` retransmits what the wireless half loses and hides the loss from the FH, by the
    /// parameters of `[snoop]`. `observe` passes every segment as it came, and counts what outages
    /// cost. `mtcp-2007` is the M-TCP that the M-TCP+ paper compares with, for the lab.
    ///
    /// Cost: With `mtcp-plus` bytes are acknowledged before the MH has them: a gateway that dies
    /// in an outage breaks those connections. With `mtcp` and `set_up = "early"` they wait for the next
    /// gateway. With the others none breaks.
    pub scheme: SchemeName,
    /// The interface toward the mobiles, or several: `["wlan0", "wlan1"]`. All TCP through them passes
    /// the gateway. Each has an engine of its own. A flow whose mobile moves to another of them is
    /// adopted there.
    ///
    /// Cost: Has to be given, here or by `--wireless`. Each of several has its own cache and tables:
    /// all limits are per interface, and so is the memory. The state file's name then has the
    /// interface at its end. With `[handoff]` there is one.
    ///
    /// Example: `"wlan0"`
    #[serde(with = "As::<Interfaces>")]
    pub wireless: Vec<String>,
    /// The interface toward the fixed hosts. Only `--check` and `holdfast status` use it.
    ///
    /// Cost: None.
    ///
    /// Example: `"eth0"`
    #[serde(with = "Maybe::<InterfaceName>")]
    pub wired: Option<String>,
    /// `mtcp-plus` only: how long SIGTERM waits for the MHs to acknowledge the owed bytes. The
    /// gateway acknowledges nothing further meanwhile.
    ///
    /// Cost: Longer: the service stops later. Shorter: flows that are still owed bytes get a RST.
    #[serde(rename = "drain_s", with = "As::<Seconds<0, 3600>>")]
    pub drain: Duration,
    /// The Unix socket of `holdfast status` and `holdfast gateway signal`, for its owner and group
    /// (mode 0660). A socket that a killed daemon left is replaced. Anything else stays, and the
    /// daemon does not start.
    ///
    /// Cost: None. Only /run/holdfast is made if it is missing.
    #[serde(with = "As::<AbsolutePath>")]
    pub control_socket: String,
    /// Where the daemon stores what its successor needs to continue in mid-flow, also after a
    /// kill. A file that is no state file of holdfast stays as it is, and the daemon does not
    /// start.
    ///
    /// Cost: 64 bytes for each of `flows_max`, 4 MiB with the default, taken at the start. They are
    /// in memory if the path is on a tmpfs, as /run is. If the file system is full the gateway runs
    /// without it, logs it, and `mtcp-plus` acknowledges nothing ahead.
    #[serde(with = "As::<AbsolutePath>")]
    pub state_file: String,
    /// The lines that the log has: a level (`error`, `warn`, `info`, `debug`, `trace`), or several
    /// for parts of the program. Without it `info`. The variable `HOLDFAST_LOG` of the environment
    /// overrides it.
    ///
    /// Cost: With `debug` several lines for each outage, with `trace` for many packets.
    ///
    /// Example: `"info,holdfast::gateway=debug"`
    #[serde(with = "Maybe::<LogFilter>")]
    pub log_filter: Option<String>,
}

impl Default for GatewayDaemon {
    fn default() -> Self {
        Self {
            scheme: SchemeName::default(),
            wireless: Vec::new(),
            wired: None,
            drain: Duration::from_secs(10),
            control_socket: GATEWAY_SOCKET.to_owned(),
            state_file: "/run/holdfast/gateway.state".to_owned(),
            log_filter: None,
        }
    }
}

/// Settings of the gateway's engine: its keys of `[gateway]`, and the sections that it needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EngineSettings {
    /// The scheme.
    #[serde(skip)]
    pub scheme: Scheme,
    /// The largest number of flows. Further ones pass.
    ///
    /// Cost: 2 to 4.3 KiB of memory for each flow in use, 0.5 KiB for each idle one. Many losses or a fast upload
    /// take 32 KiB more.
    #[serde(with = "As::<Count<1, 1_048_576>>")]
    pub flows_max: usize,
    /// The largest payload in the cache, all flows together. A segment counts as 1,000 bytes at
    /// least. One mobile takes four fifths at most, the next one four fifths of the rest. At the
    /// limit segments pass and are not cached: their senders retransmit them, as without a
    /// gateway.
    ///
    /// Cost: Up to twice that much memory and 16 MiB, when it is full. A segment pins a buffer of
    /// 2,176, 8,704, 17,408 or 69,632 bytes. Without a free buffer a segment passes and is not
    /// cached (counter `worker.no_buffer`). Buffers never take more than 36,506,664,960 bytes,
    /// whatever is set.
    #[serde(with = "As::<Bytes<1_048_576, 68_719_476_736>>")]
    pub cache_bytes_max: usize,
    /// The largest cached payload of one flow. What an FH has in flight should fit: the product of
    /// the link's rate and the round trip with its queue.
    ///
    /// Cost: Memory; one flow may take this much of `cache_bytes_max`.
    #[serde(with = "As::<Bytes<65_536, 1_073_741_824>>")]
    pub flow_cache_bytes_max: usize,
    /// The largest number of cached segments of one flow; a super-segment counts once. Bounds what
    /// many tiny segments cost.
    ///
    /// Cost: About 100 bytes of memory for each cached segment, beside its payload.
    #[serde(with = "As::<Count<16, 1_048_576>>")]
    pub flow_cache_entries_max: usize,
    /// The least time that is added to the smoothed round trip of the wireless half (RFC 6298's 4
    /// `rttvar`, with Linux's floor). After this time an MH that acknowledges nothing is taken for
    /// silent, if no signal comes first.
    ///
    /// Cost: Shorter: outages without signals are seen sooner, and delay spikes are taken for
    /// outages.
    #[serde(rename = "silence_min_ms", with = "As::<Millis<10, 60_000>>")]
    pub silence_min: Duration,
    /// The least time between two probes of a silent MH; otherwise it is about the round trip of
    /// the wireless half.
    ///
    /// Cost: Shorter: the end of an outage without signals is seen sooner, for more probes on the
    /// link.
    #[serde(rename = "probe_interval_min_ms", with = "As::<Millis<1, 60_000>>")]
    pub probe_interval_min: Duration,
    /// The longest time between two probes of a silent MH.
    ///
    /// Cost: Longer: fewer probes, and a longer stall after an outage without signals.
    #[serde(rename = "probe_interval_max_ms", with = "As::<Millis<10, 600_000>>")]
    pub probe_interval_max: Duration,
    /// After this time without any segment a flow is forgotten. RFC 5382 (REQ-5) requires at least
    /// 2 h 4 min of middle nodes.
    ///
    /// Cost: Longer: flows whose end the gateway did not see fill the table for longer.
    #[serde(rename = "flow_idle_max_s", with = "As::<Seconds<60, 604_800>>")]
    pub flow_idle_max: Duration,
    /// `mtcp-plus` only: how long owed bytes wait for the MH. Then both ends get a RST, never a
    /// silent gap.
    ///
    /// Cost: Longer: the bytes take up the cache for longer.
    #[serde(rename = "owed_wait_s", with = "As::<Seconds<1, 86_400>>")]
    pub owed_wait_max: Duration,
    /// The DSCP of the segments that `snoop` retransmits ahead of ordinary traffic; without it
    /// they have the DSCP of their sender. On the wireless interface those packets also get the
    /// priority of interactive traffic. Queueing disciplines with bands (`pfifo_fast`, `prio`,
    /// `fq`) serve them first, as everything else that passes the gateway downlink with this DSCP.
    /// Wi-Fi goes by the DSCP itself.
    ///
    /// Cost: Other traffic that is marked with this DSCP gets the same priority.
    ///
    /// Example: `"cs5"`
    #[serde(with = "Maybe::<Dscp>")]
    pub resend_dscp: Option<u8>,
    /// The caller passes segments by itself while the link is up, and `Gateway::poll_peer` names
    /// the peers to take. So it is at a mobile.
    #[serde(skip)]
    pub takes_in_outages: bool,
    /// The rates of the cells, for all schemes that send from the cache.
    #[serde(skip)]
    pub bandwidth: BandwidthSettings,
    /// Parameters of the scheme `mtcp`.
    #[serde(skip)]
    pub mtcp: MtcpSettings,
    /// How the scheme `mtcp` compresses payload for mobiles that can read it; none: not at all.
    #[serde(skip)]
    pub compression: Option<CompressionSettings>,
    /// Parameters of the scheme `snoop`.
    #[serde(skip)]
    pub snoop: SnoopSettings,
    /// Seed of the tables' hashes: unpredictable in a daemon, fixed in a test.
    #[serde(skip)]
    pub hash_seed: u64,
}

impl Default for EngineSettings {
    fn default() -> Self {
        Self {
            scheme: Scheme::default(),
            flows_max: 65_536,
            cache_bytes_max: 256 << 20,
            flow_cache_bytes_max: 8 << 20,
            flow_cache_entries_max: 8_192,
            silence_min: Duration::from_millis(200),
            probe_interval_min: Duration::from_millis(20),
            probe_interval_max: Duration::from_secs(1),
            flow_idle_max: Duration::from_secs(2 * 3600 + 4 * 60),
            owed_wait_max: Duration::from_secs(600),
            resend_dscp: None,
            takes_in_outages: false,
            bandwidth: BandwidthSettings::default(),
            mtcp: MtcpSettings::default(),
            compression: None,
            snoop: SnoopSettings::default(),
            hash_seed: 0,
        }
    }
}

impl EngineSettings {
    /// These settings with the limits and times of `other`: all that can change while flows live.
    #[must_use]
    pub fn with_limits_of(&self, other: &Self) -> Self {
        Self {
            cache_bytes_max: other.cache_bytes_max,
            flow_cache_bytes_max: other.flow_cache_bytes_max,
            flow_cache_entries_max: other.flow_cache_entries_max,
            silence_min: other.silence_min,
            probe_interval_min: other.probe_interval_min,
            probe_interval_max: other.probe_interval_max,
            flow_idle_max: other.flow_idle_max,
            owed_wait_max: other.owed_wait_max,
            ..self.clone()
        }
    }

    /// Refuses limits that contradict each other.
    ///
    /// # Errors
    /// The key, and what it takes.
    pub fn check(&self) -> Result<(), Contradiction> {
        if self.flow_cache_bytes_max > self.cache_bytes_max {
            let flow = size_text(self.flow_cache_bytes_max as u64);
            let all = size_text(self.cache_bytes_max as u64);
            let problem = format!(
                "got {flow}, more than all flows together may keep; takes at most \
                 gateway.cache_bytes_max, {all}"
            );
            let limit_problem = format!(
                "got {all}, less than one flow may keep; takes at least \
                 gateway.flow_cache_bytes_max, {flow}"
            );
            return Err(Contradiction::new(
                ("flow_cache_bytes_max", problem),
                ("cache_bytes_max", limit_problem),
            ));
        }
        if self.probe_interval_min > self.probe_interval_max {
            let min = self.probe_interval_min.as_millis();
            let max = self.probe_interval_max.as_millis();
            let problem =
                format!("got {min} ms, takes at most gateway.probe_interval_max_ms, {max} ms");
            let limit_problem =
                format!("got {max} ms, takes at least gateway.probe_interval_min_ms, {min} ms");
            return Err(Contradiction::new(
                ("probe_interval_min_ms", problem),
                ("probe_interval_max_ms", limit_problem),
            ));
        }
        Ok(())
    }
}
