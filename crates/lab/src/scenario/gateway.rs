// SPDX-License-Identifier: Apache-2.0
//! `[gateway]`: the scheme and its signals, and the daemon's own settings, named as in its file.

use holdfast_core::Settings;
use holdfast_files::document::{DocumentError, TableReader, differing};
use holdfast_settings::bandwidth::BandwidthSettings;
use holdfast_settings::keep::KeepSettings;
use holdfast_settings::kind::{As, Count, Maybe, Number};
use holdfast_settings::mtcp::{MtcpChoice, MtcpCompression, MtcpSettings};
use holdfast_settings::snoop::SnoopSettings;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use toml::{Table, Value};

use super::handoff::HandoffConditions;
use super::host::HostConditions;
use super::keys::{Keys, json};

/// The table in `[gateway]` with a host's keys; it is laid over the FH's table.
pub(super) const SPLIT: &str = "split";
/// Keys of hosts that the splitting node does not read, because only the model has that node.
pub(super) const UNREAD_BY_SPLIT: [&str; 6] = [
    "congestion_control",
    "sysctls",
    "microsecond_timestamps",
    "m_tcp",
    "on_handoff",
    "lc_cwe",
];

/// The table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GatewayConditions {
    /// The scheme.
    pub scheme: SchemeChoice,
    /// The source of signals about outages; the scheme also detects outages by silence.
    pub signal: SignalChoice,
    /// Delay of the signal after an outage's begin or end, in milliseconds, on the model.
    pub signal_delay_ms: f64,
    /// Time from a warning to its outage, in milliseconds, on the model; 0: no warnings.
    pub warning_ms: f64,
    /// `keep.flow_packets_max` of the gateway's file; none: its default.
    pub keep_packets: Option<u32>,
    /// When the gateway, or what stands in its role, loses its state and restarts, on the model. In seconds
    /// after the start of the links' clocks.
    pub restarts_s: Vec<f64>,
    /// The engine's settings with the parameters of schemes and cells; its scheme is not used.
    pub engine: Settings,
    /// The set of values that the other keys of `[gateway.mtcp]` start from.
    mtcp_set: MtcpChoice,
    /// The compression of `mtcp`.
    compression: MtcpCompression,
    /// The SH's time for a packet of 1,400 bytes, in milliseconds, on the model; it is proportional to the
    /// packet's size.
    pub compression_ms: Option<f64>,
    /// The handoff between the base stations of several cells.
    pub handoff: HandoffConditions,
    /// The TCP of `split` toward the MH: the FH's, with the keys of `[gateway.split]`.
    pub split: HostConditions,
}

/// Keys that `[gateway]` of the gateway's settings file does not have.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct GatewayKeys {
    scheme: SchemeChoice,
    signal: SignalChoice,
    #[serde(with = "As::<Number<0, 60_000>>")]
    signal_delay_ms: f64,
    #[serde(with = "As::<Number<0, 60_000>>")]
    warning_ms: f64,
    #[serde(with = "Maybe::<Count<1, 1024>>")]
    keep_packets: Option<u32>,
    restarts_s: Vec<f64>,
}

/// The key of `[gateway.mtcp]` that the gateway's settings file does not have.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct MtcpKeys {
    #[serde(with = "Maybe::<Number<0, 1000>>")]
    compression_ms: Option<f64>,
}

/// What the gateway runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SchemeChoice {
    /// Nothing: plain forwarding.
    #[default]
    None,
    /// `hold`.
    Hold,
    /// `auto`.
    Auto,
    /// `mtcp-plus`.
    MtcpPlus,
    /// `mtcp`: M-TCP.
    Mtcp,
    /// `mtcp-2007`: M-TCP as the M-TCP+ paper models it.
    #[serde(rename = "mtcp-2007")]
    Mtcp2007,
    /// `snoop`.
    Snoop,
    /// `keep`, on Linux hosts.
    Keep,
    /// HAProxy as a split proxy, on Linux hosts.
    Haproxy,
    /// A split connection, on the model: the gateway ends TCP on both sides (I-TCP, MTCP).
    Split,
    /// Explicit bad state notification, on the model; the FH understands its messages.
    Ebsn,
}

impl SchemeChoice {
    /// All of them.
    pub(super) const ALL: [Self; 11] = [
        Self::None,
        Self::Hold,
        Self::Auto,
        Self::MtcpPlus,
        Self::Mtcp,
        Self::Mtcp2007,
        Self::Snoop,
        Self::Keep,
        Self::Haproxy,
        Self::Split,
        Self::Ebsn,
    ];

    /// Its name; for a scheme of the gateway it is the value of `--scheme`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Hold => "hold",
            Self::Auto => "auto",
            Self::MtcpPlus => "mtcp-plus",
            Self::Mtcp => "mtcp",
            Self::Mtcp2007 => "mtcp-2007",
            Self::Snoop => "snoop",
            Self::Keep => "keep",
            Self::Haproxy => "haproxy",
            Self::Split => "split",
            Self::Ebsn => "ebsn",
        }
    }

    /// Whether the gateway has no daemon.
    pub const fn is_without_daemon(self) -> bool {
        matches!(self, Self::None | Self::Haproxy | Self::Split | Self::Ebsn)
    }

    /// Whether only the model has it.
    pub const fn is_of_the_model(self) -> bool {
        matches!(self, Self::Split | Self::Ebsn)
    }
}

/// What signals outages to the gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SignalChoice {
    /// Nothing.
    None,
    /// The carrier of its own interface: link down and link up.
    #[default]
    Carrier,
    /// The MH, by a message that arrives when the link is up: link up alone.
    Mobile,
    /// Both of them.
    Both,
}

impl GatewayConditions {
    /// Reads the table. The ranges of values are the daemon's, also on the model.
    pub(super) fn read(table: &Table) -> Result<Self, DocumentError> {
        let mut table = table.clone();
        table.remove(SPLIT);
        let mut section = |name: &'static str| match table.remove(name) {
            Some(Value::Table(section)) => Ok(section),
            None => Ok(Table::new()),
            Some(_) => Err(DocumentError::at(name, "takes a table")),
        };
        let sections = ["bandwidth", "mtcp", "snoop", "handoff"];
        let [bandwidth, mtcp, snoop, handoff] = sections.map(&mut section);
        let given = table.clone();
        let mut read = TableReader::new(table);
        let own = read.take(&GatewayKeys::default())?;
        // The paper's SH may cache nothing; the daemon requires a cache.
        let caches_nothing =
            own.scheme == SchemeChoice::Mtcp2007 && read.remove_if("flow_cache_bytes_max", 0);
        let mut engine: Settings = read.take(&Settings::default())?;
        read.finish(&sections)?;
        if own
            .restarts_s
            .iter()
            .any(|at_s| !(0.0..=86_400.0).contains(at_s))
        {
            return Err(DocumentError::at(
                "restarts_s",
                "takes times of 0 to 86400 s",
            ));
        }
        if caches_nothing {
            engine.flow_cache_bytes_max = 0;
        }
        engine
            .check()
            .map_err(|error| error.of_given(|key| given.contains_key(key)))
            .map_err(|(key, problem)| DocumentError::at(key, problem))?;

        let within = |name: &'static str| move |error: DocumentError| error.within(name);
        engine.bandwidth = read_bandwidth(bandwidth?).map_err(within("bandwidth"))?;
        engine.snoop = read_snoop(snoop?).map_err(within("snoop"))?;
        let (settings, mtcp_set, compression, compression_ms) =
            read_mtcp(mtcp?).map_err(within("mtcp"))?;
        engine.mtcp = settings;
        engine.compression = compression.settings();
        let handoff = HandoffConditions::read(handoff?).map_err(within("handoff"))?;
        Ok(Self {
            scheme: own.scheme,
            signal: own.signal,
            signal_delay_ms: own.signal_delay_ms,
            warning_ms: own.warning_ms,
            keep_packets: own.keep_packets,
            restarts_s: own.restarts_s,
            engine,
            mtcp_set,
            compression,
            compression_ms,
            handoff,
            split: HostConditions::default(),
        })
    }

    /// Whether the MH's daemon sends signals to the gateway. A handoff begins with such a signal.
    pub fn receives_signals(&self) -> bool {
        let is_source = matches!(self.signal, SignalChoice::Mobile | SignalChoice::Both);
        !self.scheme.is_without_daemon() && (is_source || self.handoff.is_on())
    }

    /// Adds the keys that its scheme reads; with several cells also those of handoffs.
    pub(super) fn add_to(&self, keys: &mut Keys, cells: usize) {
        let scheme = self.scheme;
        keys.add("gateway.scheme", scheme);
        keys.add("gateway.signal", self.signal);
        if !scheme.is_without_daemon() {
            keys.add("gateway.signal_delay_ms", self.signal_delay_ms);
            // Other schemes only show a warning in `holdfast status`.
            if scheme == SchemeChoice::Mtcp2007 || cells > 1 {
                keys.add("gateway.warning_ms", self.warning_ms);
            }
            keys.add("gateway", &self.engine);
            keys.add("gateway.bandwidth", &self.engine.bandwidth);
            if cells > 1 {
                self.handoff.add_to(keys);
            }
        }
        if !scheme.is_without_daemon() || scheme == SchemeChoice::Split {
            keys.add("gateway.restarts_s", &self.restarts_s);
        }
        if matches!(scheme, SchemeChoice::Keep | SchemeChoice::Auto) {
            let packets = self.keep_packets.map(|packets| packets as usize);
            let packets = packets.unwrap_or(KeepSettings::default().flow_packets_max);
            keys.add("gateway.keep_packets", packets);
        }
        if matches!(scheme, SchemeChoice::Snoop | SchemeChoice::Auto) {
            keys.add("gateway.snoop", &self.engine.snoop);
        }
        if scheme == SchemeChoice::Mtcp {
            keys.add("gateway.mtcp", self.mtcp_set);
            keys.add("gateway.mtcp", &self.engine.mtcp);
            keys.add("gateway.mtcp", self.compression);
            keys.add("gateway.mtcp.compression_ms", self.compression_ms);
        }
        if scheme == SchemeChoice::Split
            && let Json::Object(mut split) = json(&self.split)
        {
            split.retain(|key, _| !UNREAD_BY_SPLIT.contains(&key.as_str()));
            keys.add("gateway.split", split);
        }
    }

    /// The settings file of the gateway's daemon: first the lines of `[gateway]`, then the other sections.
    pub(crate) fn to_file(&self) -> String {
        let engine = &self.engine;
        let mut file = differing(engine, &Settings::default());
        let mut add = |name: &str, section: Table| {
            if !section.is_empty() {
                file.insert(name.to_owned(), section.into());
            }
        };
        add(
            "bandwidth",
            differing(&engine.bandwidth, &BandwidthSettings::default()),
        );
        let of_set = SnoopSettings {
            set: SnoopSettings::default().set,
            ..SnoopSettings::of_set(engine.snoop.set)
        };
        add("snoop", differing(&engine.snoop, &of_set));
        let mut mtcp = differing(&self.mtcp_set, &MtcpChoice::default());
        mtcp.extend(differing(
            &engine.mtcp,
            &MtcpSettings::of_set(self.mtcp_set.set),
        ));
        mtcp.extend(differing(&self.compression, &MtcpCompression::default()));
        add("mtcp", mtcp);
        if let Some(packets) = self.keep_packets {
            let packets = Value::Integer(packets.into());
            add(
                "keep",
                Table::from_iter([("flow_packets_max".to_owned(), packets)]),
            );
        }
        file.to_string()
    }
}

fn read_bandwidth(table: Table) -> Result<BandwidthSettings, DocumentError> {
    TableReader::new(table).take_all(&BandwidthSettings::default())
}

fn read_snoop(table: Table) -> Result<SnoopSettings, DocumentError> {
    let first = TableReader::new(table.clone()).take_all(&SnoopSettings::default())?;
    TableReader::new(table).take_all(&SnoopSettings::of_set(first.set))
}

type Mtcp = (MtcpSettings, MtcpChoice, MtcpCompression, Option<f64>);

fn read_mtcp(table: Table) -> Result<Mtcp, DocumentError> {
    let mut read = TableReader::new(table);
    let choice = read.take(&MtcpChoice::default())?;
    let settings = read.take(&MtcpSettings::of_set(choice.set))?;
    let compression = read.take(&MtcpCompression::default())?;
    let own = read.take(&MtcpKeys::default())?;
    read.finish(&[])?;
    Ok((settings, choice, compression, own.compression_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<GatewayConditions, DocumentError> {
        GatewayConditions::read(&text.parse().expect("TOML"))
    }

    const SNOOP: &str = "set = \"1995\"\nalpha = 0.5\nretransmit_srtts = 3\n\
        retransmit_interval_min_ms = 7.5\npersist_ms = 100\nhigh_water_mark_bytes = \"32 KiB\"\n\
        nack_threshold_packets = 4\nnack_wait_ms = 50\nhide_rtos = 2\ncongested_rtts = 0.125\n";
    const MTCP: &str = "set = \"published\"\nshrink = \"late\"\npersist = \"round-trip\"\n\
        release = \"at-once\"\nslow_start = false\ninitial_window_segments = 4\n\
        rto_variation_min_ms = 7.5\nwindow_bytes = \"32 KiB\"\n\
        handoff = \"forward\"\nset_up = \"early\"\n";
    const BANDWIDTH: &str =
        "cells = [\"10.2.0.0/24 20000\", \"* estimate\"]\nweights = [\"10.2.0.7/32 3\"]\n";

    #[test]
    fn without_keys_the_sets_are_the_engines() {
        for (text, expected) in [
            ("", SnoopSettings::today()),
            ("snoop = { set = \"today\" }", SnoopSettings::today()),
            ("snoop = { set = \"1995\" }", SnoopSettings::paper_1995()),
        ] {
            assert_eq!(read(text).unwrap().engine.snoop, expected);
        }
        let published = read("mtcp = { set = \"published\" }").unwrap();
        assert_eq!(published.engine.mtcp, MtcpSettings::published());
        let none = read("").unwrap();
        assert_eq!(none.engine, Settings::default());
        assert_eq!(none.to_file(), "");
    }

    #[test]
    fn what_is_given_goes_to_the_engine_and_into_the_gateways_file() {
        let text = format!(
            "silence_min_ms = 150\nresend_dscp = 46\n\
            [bandwidth]\n{BANDWIDTH}[mtcp]\n{MTCP}[snoop]\n{SNOOP}"
        );
        let own = read(&format!("scheme = \"snoop\"\n{text}")).unwrap();
        let file: Table = own.to_file().parse().unwrap();
        assert_eq!(file, text.parse::<Table>().unwrap());
        assert_eq!(read(&own.to_file()).unwrap().engine, own.engine);
        assert_eq!(
            format!("{:?}", own.engine.snoop),
            "SnoopSettings { set: Paper1995, alpha: 0.5, retransmit_srtts: 3, \
             retransmit_interval_min: 7.5ms, persist: 100ms, high_water_mark_bytes: 32768, \
             nack_threshold_packets: 4, nack_wait: 50ms, hide_rtos: 2.0, congested_rtts: 0.125 }"
        );
        assert_eq!(
            format!("{:?}", own.engine.mtcp),
            "MtcpSettings { shrink: Late, persist: RoundTrip, release: AtOnce, slow_start: false, \
             initial_window_segments: 4, rto_variation_min: 7.5ms, window_bytes: 32768, \
             handoff: Forward, set_up: Early }"
        );
        let cells = &own.engine.bandwidth.cells;
        assert_eq!(cells[0].bytes_per_s, Some(2_500_000));
        assert_eq!((cells[1].mobiles, cells[1].bytes_per_s), (None, None));
        assert_eq!(own.engine.bandwidth.weights[0].1, 3);
    }

    #[test]
    fn a_value_out_of_range_names_its_key() {
        for (section, text) in [
            ("snoop", "alpha = 0"),
            ("snoop", "retransmit_srtts = 0"),
            ("snoop", "retransmit_interval_min_ms = 0.5"),
            ("snoop", "persist_ms = 60001"),
            ("snoop", "high_water_mark_bytes = 1"),
            ("snoop", "nack_threshold_packets = 0"),
            ("snoop", "nack_wait_ms = nan"),
            ("snoop", "hide_rtos = -1"),
            ("snoop", "congested_rtts = inf"),
            ("mtcp", "rto_variation_min_ms = 0.5"),
            ("mtcp", "window_bytes = 1000"),
            ("mtcp", "compression_ms = 1001"),
            ("bandwidth", "cells = [\"*\"]"),
            ("bandwidth", "cells = [\"* 0\"]"),
            ("bandwidth", "weights = [\"10.2.0.7 0\"]"),
        ] {
            let error = read(&format!("[{section}]\n{text}"))
                .unwrap_err()
                .to_string();
            let key = text.split(' ').next().unwrap();
            let named = error.contains(&format!("{section}.{key}"));
            assert!(named && error.contains("takes"), "{error}");
        }
    }
}
