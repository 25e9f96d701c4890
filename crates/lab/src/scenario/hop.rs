// SPDX-License-Identifier: Apache-2.0
//! One hop of the path, in both directions: `[wired]` and `[wireless]`.

use std::path::Path;

use holdfast_link::{
    Jitter, LinkPlan, LinkSettings, OutageAt, OutageEffect, OutageSchedule, OutageSettings,
    QUEUE_PACKETS_DEFAULT, RATE_KEYS, check_half_duplex, seed_for,
};
use holdfast_sim::COMPRESSED_HEADER_BYTES_MIN;
use holdfast_wire::Instant;
use serde::Deserialize;
use serde_json::{Map, Value as Json};
use toml::{Table, Value};

use super::direction::DirectionChoice;
use super::keys::json;
use holdfast_files::document::{self, DocumentError};

/// The keys of a hop that a link does not have.
pub(super) const OWN_KEYS: &[&str] = &[
    "half_duplex",
    "frame_overhead_bytes",
    "header_compression",
    "downlink",
    "uplink",
];

/// The largest number of outages of a run in one direction: the limit of a list.
const OUTAGES_MAX: usize = 100_000;
/// The most bytes that framing may add to a packet.
const FRAME_OVERHEAD_BYTES_MAX: u32 = 65_535;
/// A trace's path that begins with `$` and this name lies in the folder that this environment
/// variable names. Such recordings may not be published.
pub(crate) const TRACES_VARIABLE: &str = "HOLDFAST_TRACES";
/// The longest file of a trace, in bytes.
pub(crate) const TRACE_BYTES_MAX: u64 = 64 << 20;

/// One hop.
#[derive(Clone, Debug, PartialEq)]
pub struct HopConditions {
    /// Toward the MH.
    pub downlink: LinkSettings,
    /// From the MH.
    pub uplink: LinkSettings,
    /// Whether both directions have the same outages.
    pub outages_shared: bool,
    /// Whether both directions take turns on the downlink's medium. Then no key of the uplink is
    /// used.
    pub half_duplex: bool,
    /// Bytes added to each IP packet for framing and access to the medium.
    pub frame_overhead_bytes: u32,
    /// Whether the link compresses TCP/IP headers (RFC 1144).
    pub header_compression: bool,
    names_traces: bool,
    /// Both directions, checked; none before the outages are drawn.
    plans: Option<[LinkPlan; 2]>,
}

/// The keys of a hop that a link does not have.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Own {
    half_duplex: bool,
    frame_overhead_bytes: u32,
    header_compression: bool,
    downlink: Table,
    uplink: Table,
}

impl HopConditions {
    /// Reads a hop's table: a link's keys for both directions, and the tables `downlink` and
    /// `uplink` with the differences.
    pub(super) fn read(table: &Table) -> Result<Self, DocumentError> {
        let own: Own = document::read(table)?;
        let mut common = table.clone();
        for key in OWN_KEYS {
            common.remove(*key);
        }
        let direction = |name: &str, overlay: &Table| {
            // Reads the direction's table alone first: its errors name the key in that table.
            let _: LinkSettings = document::read(overlay).map_err(|error| error.within(name))?;
            document::read::<LinkSettings>(&laid_over(&common, overlay))
        };
        let _: LinkSettings = document::read(&common)?;
        let downlink = direction("downlink", &own.downlink)?;
        let mut uplink = direction("uplink", &own.uplink)?;
        if own.half_duplex {
            check_half_duplex(&downlink, &uplink, |key| own.uplink.contains_key(key))
                .map_err(|error| DocumentError::at(&error.key, error.problem))?;
        }
        let own_outages =
            own.downlink.contains_key("outages") || own.uplink.contains_key("outages");
        // Both directions' outages are the gaps of one trace, or of one model.
        if let OutageSettings::Trace { file, .. } = &mut uplink.outages
            && uplink.rate_trace.is_none()
            && uplink.rate_model.is_none()
        {
            *file = file.take().or_else(|| downlink.rate_trace.clone());
            if file.is_none() && downlink.rate_model.is_some() && !own_outages {
                uplink.outages = OutageSettings::None;
            }
        }
        let names_traces = [&downlink, &uplink].iter().any(|settings| {
            let of_outages = matches!(
                &settings.outages,
                OutageSettings::Trace { file: Some(_), .. }
            );
            settings.rate_trace.is_some() || of_outages
        });
        Ok(Self {
            outages_shared: !own_outages && !have_own_gaps(&downlink, &uplink),
            downlink,
            uplink,
            half_duplex: own.half_duplex,
            frame_overhead_bytes: own.frame_overhead_bytes,
            header_compression: own.header_compression,
            names_traces,
            plans: None,
        })
    }

    /// All keys of the hop: those of the downlink, and in `uplink` those of the other direction. A
    /// shared medium has no `uplink`. Shared outages are in the hop's own table.
    pub(super) fn table(&self) -> Map<String, Json> {
        let mut table = link_table(&self.downlink);
        table.insert("half_duplex".to_owned(), self.half_duplex.into());
        let overhead = self.frame_overhead_bytes.into();
        table.insert("frame_overhead_bytes".to_owned(), overhead);
        let compression = self.header_compression.into();
        table.insert("header_compression".to_owned(), compression);
        if !self.half_duplex {
            let mut uplink = link_table(&self.uplink);
            if self.outages_shared {
                uplink.remove("outages");
            }
            table.insert("uplink".to_owned(), Json::Object(uplink));
        }
        table
    }

    /// As [`Self::read`], with `own` laid over `common`.
    pub(super) fn read_over(common: &Table, own: &Table) -> Result<Self, DocumentError> {
        Self::read(&laid_over(common, own))
    }

    /// Checks both directions and their traces. Traces are in `folder`.
    pub(super) fn check(&self, folder: Option<&Path>) -> Result<(), DocumentError> {
        if self.frame_overhead_bytes > FRAME_OVERHEAD_BYTES_MAX {
            let problem = format!("takes 0 to {FRAME_OVERHEAD_BYTES_MAX} bytes");
            return Err(DocumentError::at("frame_overhead_bytes", problem));
        }
        let changes_order = [&self.downlink, &self.uplink].iter().any(|settings| {
            let reorders = settings.jitter.as_ref().is_some_and(Jitter::reorders);
            reorders || settings.priority_dscp_min.is_some()
        });
        if self.header_compression && changes_order {
            let problem = "takes false on a link that changes the order of packets; \
                           leave out jitter.reorder and priority_dscp_min";
            return Err(DocumentError::at("header_compression", problem));
        }
        self.located(folder).planned().map(|_| ())
    }

    /// The hop with the outages of `seed` that begin before `until`, instead of their description.
    /// Traces are in `folder`.
    pub(super) fn drawn(
        &self,
        seed: u64,
        until: Instant,
        folder: Option<&Path>,
    ) -> Result<Self, DocumentError> {
        let mut drawn = self.located(folder);
        for (settings, direction) in [(&mut drawn.downlink, 1), (&mut drawn.uplink, 2)] {
            if let Some(model) = &mut settings.rate_model {
                model.seed_from(seed, direction);
            }
        }
        // As in `holdfast link`: one random stream for shared outages, or one for each direction.
        let parts = if self.outages_shared { [0, 0] } else { [1, 2] };
        let plans = drawn.planned()?;
        let directions = [&mut drawn.downlink, &mut drawn.uplink];
        for ((settings, plan), part) in directions.into_iter().zip(&plans).zip(parts) {
            if settings.outages == OutageSettings::None {
                continue;
            }
            let mut schedule = OutageSchedule::new(&plan.outages, seed_for(seed, part));
            let outages = schedule.first_until(until, OUTAGES_MAX + 1);
            if outages.len() > OUTAGES_MAX {
                let problem = format!("more than {OUTAGES_MAX} outages in a run; take fewer");
                return Err(DocumentError::at("outages", problem));
            }
            let list = outages.iter().map(|outage| OutageAt {
                at_s: outage.begin.as_secs_f64(),
                for_s: outage.end.saturating_since(outage.begin).as_secs_f64(),
            });
            settings.outages = OutageSettings::List {
                list: list.collect(),
            };
        }
        if drawn.outages_shared {
            drawn.uplink.outages = drawn.downlink.outages.clone();
        }
        drawn.plans = Some(drawn.planned()?);
        Ok(drawn)
    }

    /// The hop of a run with other outages: `get` maps the outages of each direction to new ones.
    pub(super) fn with_outages(
        &self,
        mut get: impl FnMut(DirectionChoice, &[OutageAt]) -> Vec<OutageAt>,
    ) -> Result<Self, DocumentError> {
        let mut changed = self.clone();
        for direction in [DirectionChoice::Downlink, DirectionChoice::Uplink] {
            let list = get(direction, self.outages_of(direction));
            let settings = match direction {
                DirectionChoice::Downlink => &mut changed.downlink,
                DirectionChoice::Uplink => &mut changed.uplink,
            };
            settings.outages = if list.is_empty() {
                OutageSettings::None
            } else {
                OutageSettings::List { list }
            };
        }
        changed.plans = Some(changed.planned()?);
        Ok(changed)
    }

    /// The hop with the absolute paths of its traces.
    fn located(&self, folder: Option<&Path>) -> Self {
        let mut located = self.clone();
        for settings in [&mut located.downlink, &mut located.uplink] {
            absolute(&mut settings.rate_trace, folder);
            if let OutageSettings::Trace { file, .. } = &mut settings.outages {
                absolute(file, folder);
            }
        }
        located
    }

    /// Both directions, checked.
    fn planned(&self) -> Result<[LinkPlan; 2], DocumentError> {
        let plan = |name: &str, settings: &LinkSettings| {
            settings.plan_with(read_trace).map_err(|error| {
                let problem = format!("got {}, takes {}", error.got, error.takes);
                // If both directions are equal, the key is in the hop's own table.
                if self.downlink == self.uplink {
                    DocumentError::at(&error.key, problem)
                } else {
                    DocumentError::at(&error.key, problem).within(name)
                }
            })
        };
        Ok([
            plan("downlink", &self.downlink)?,
            plan("uplink", &self.uplink)?,
        ])
    }

    /// Both directions as link plans, the downlink first; none before the run's outages are drawn.
    pub fn plans(&self) -> Option<&[LinkPlan; 2]> {
        self.plans.as_ref()
    }

    /// Whether the scenario names files of traces, also those of outages that a run already has as a
    /// list.
    pub fn names_traces(&self) -> bool {
        self.names_traces
    }

    /// The downlink's outages; empty before they are drawn.
    pub fn outages(&self) -> &[OutageAt] {
        match &self.downlink.outages {
            OutageSettings::List { list } => list,
            _ => &[],
        }
    }

    /// The outages of one direction: on a shared medium, or with shared outages, the downlink's.
    pub fn outages_of(&self, way: DirectionChoice) -> &[OutageAt] {
        match (&self.uplink.outages, way) {
            (OutageSettings::List { list }, DirectionChoice::Uplink) if !self.half_duplex => list,
            (_, DirectionChoice::Uplink) if !self.half_duplex && !self.outages_shared => &[],
            _ => self.outages(),
        }
    }

    /// Size of headers of `header_bytes` on the medium; with compression their least size.
    pub(crate) fn header_bytes(&self, header_bytes: u64) -> u64 {
        if self.header_compression {
            COMPRESSED_HEADER_BYTES_MIN.into()
        } else {
            header_bytes
        }
    }

    /// The same size with the bytes of framing.
    pub(crate) fn header_and_frame_bytes(&self, header_bytes: u64) -> u64 {
        self.header_bytes(header_bytes) + u64::from(self.frame_overhead_bytes)
    }

    /// The effect of outages on packets.
    pub fn outage_effect(&self) -> OutageEffect {
        self.downlink.outage_effect
    }
}

/// Whether the outages of each direction are the gaps of its own trace or model, and differ.
fn have_own_gaps(downlink: &LinkSettings, uplink: &LinkSettings) -> bool {
    let gaps = |way: &LinkSettings| {
        let own = matches!(way.outages, OutageSettings::Trace { file: None, .. });
        // Other parameters of a model do not change its outages.
        let model = way.rate_model.as_ref();
        let model = model.map(|model| {
            (
                model.seed,
                model.up_s.clone(),
                model.down_s.clone(),
                model.trains,
            )
        });
        let trace = (way.rate_trace.clone(), way.trace_format, way.trace_start_s);
        own.then_some((trace, model))
    };
    let both = gaps(downlink).zip(gaps(uplink));
    both.is_some_and(|(downlink, uplink)| downlink != uplink)
}

/// All keys of one direction.
fn link_table(settings: &LinkSettings) -> Map<String, Json> {
    let packets = settings.queue_packets_max.unwrap_or(QUEUE_PACKETS_DEFAULT);
    let settings = LinkSettings {
        queue_packets_max: Some(packets),
        ..settings.clone()
    };
    let Json::Object(mut table) = json(&settings) else {
        return Map::new();
    };
    // The key is missing if there is no ARQ.
    table.entry("arq").or_insert(Json::Null);
    table
}

/// Lays `own` over `common`. Another kind of rate replaces that of `common`; a rate model takes its
/// missing keys from the model in `common`.
fn laid_over(common: &Table, own: &Table) -> Table {
    let (mut table, mut own) = (common.clone(), own.clone());
    let below = table.get("rate_model").and_then(Value::as_table).cloned();
    if let (Some(mut model), Some(Value::Table(over))) = (below, own.get_mut("rate_model")) {
        model.extend(std::mem::take(over));
        *over = model;
    }
    if RATE_KEYS.iter().any(|key| own.contains_key(*key)) {
        for key in RATE_KEYS {
            table.remove(key);
        }
    }
    table.extend(own);
    table
}

/// Makes a trace's path absolute, from the scenario's folder or that of [`TRACES_VARIABLE`].
fn absolute(file: &mut Option<String>, folder: Option<&Path>) {
    let traces = std::env::var_os(TRACES_VARIABLE);
    if let (Some(name), Some(folder)) = (file.as_mut(), folder) {
        *name = path_of(name, folder, traces.as_deref().map(Path::new));
    }
}

/// The path of a trace; `traces` is the folder of the recordings.
fn path_of(name: &str, folder: &Path, traces: Option<&Path>) -> String {
    let in_traces = name.strip_prefix(&format!("${TRACES_VARIABLE}/"));
    let path = match (in_traces, traces) {
        (Some(name), Some(traces)) => traces.join(name),
        _ => folder.join(name),
    };
    let path = std::path::absolute(&path).unwrap_or(path);
    path.to_string_lossy().into_owned()
}

fn read_trace(file: &str) -> Result<String, String> {
    if file.contains(&format!("${TRACES_VARIABLE}/")) {
        return Err(format!(
            "{TRACES_VARIABLE} is not set; set it to the folder of the recordings"
        ));
    }
    holdfast_files::read_up_to(Path::new(file), TRACE_BYTES_MAX).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_is_in_the_folder_of_the_variable() {
        let path = |name, traces| path_of(name, Path::new("/scenarios"), traces);
        let traces = Some(Path::new("/recordings"));
        assert_eq!(path("a.mm", traces), "/scenarios/a.mm");
        assert_eq!(path("$HOLDFAST_TRACES/a.mm", traces), "/recordings/a.mm");
        let error = read_trace(&path("$HOLDFAST_TRACES/a.mm", None)).unwrap_err();
        assert!(error.starts_with("HOLDFAST_TRACES is not set"), "{error}");
    }

    #[test]
    fn both_directions_have_the_gaps_of_the_downlinks_trace() {
        let table: Table = toml::from_str(
            "rate_trace = \"a.mm\"\noutages = { kind = \"trace\", gap_min_s = 0.3 }\n\
             uplink = { rate_mbit_per_s = 5 }",
        )
        .unwrap();
        let hop = HopConditions::read(&table).unwrap();
        assert!(hop.outages_shared && hop.uplink.rate_trace.is_none());
        let file = match &hop.uplink.outages {
            OutageSettings::Trace { file, .. } => file.as_deref(),
            _ => None,
        };
        assert_eq!(file, Some("a.mm"));
    }

    #[test]
    fn two_traces_have_gaps_of_their_own() {
        let hop = |text: &str| {
            let text = format!("outages = {{ kind = \"trace\", gap_min_s = 0.3 }}\n{text}");
            HopConditions::read(&toml::from_str(&text).unwrap()).unwrap()
        };
        let apart = [
            "downlink = { rate_trace = \"d\" }\nuplink = { rate_trace = \"u\" }",
            "rate_trace = \"d\"\nuplink = { trace_start_s = 5 }",
        ];
        for text in apart {
            let hop = hop(text);
            assert!(!hop.outages_shared, "{text}");
            assert!(hop.table()["uplink"].get("outages").is_some(), "{text}");
        }
        let shared = [
            "rate_trace = \"d\"",
            "rate_trace = \"d\"\nuplink = { rate_mbit_per_s = 5 }",
            "rate_trace = \"d\"\noutage_effect = \"keep\"\nuplink = { loss = 0 }",
        ];
        for text in shared {
            assert!(hop(text).outages_shared, "{text}");
        }
        let text = "outages = { kind = \"trace\", file = \"o\", gap_min_s = 0.3 }\n\
                    downlink = { rate_trace = \"d\" }\nuplink = { rate_trace = \"u\" }";
        let hop = HopConditions::read(&toml::from_str(text).unwrap()).unwrap();
        assert!(hop.outages_shared);
    }

    #[test]
    fn the_direction_without_a_trace_has_the_outages_of_the_other() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("d.steps"), "3 10\n5 0\n9 10\n").unwrap();
        let text = "outages = { kind = \"trace\", gap_min_s = 0.3 }\n\
                    downlink = { rate_trace = \"d.steps\", trace_start_s = 2 }\nuplink = { rate_mbit_per_s = 5 }";
        let hop = HopConditions::read(&toml::from_str(text).unwrap()).unwrap();
        let until = Instant::from_nanos(8_000_000_000);
        let drawn = hop.drawn(1, until, Some(folder.path())).unwrap();
        let [downlink, uplink] = [DirectionChoice::Downlink, DirectionChoice::Uplink]
            .map(|direction| drawn.outages_of(direction).to_vec());
        assert_eq!(
            downlink,
            [OutageAt {
                at_s: 1.0,
                for_s: 2.0
            }]
        );
        assert_eq!(uplink, downlink);
    }

    #[test]
    fn models_of_rates_share_their_outages_unless_these_differ() {
        let deciles = |from: f64| {
            let values = (0..11).map(|step| (from + f64::from(step)).to_string());
            values.collect::<Vec<_>>().join(", ")
        };
        let (rates, times) = (deciles(1.0), deciles(0.5));
        let hop = |uplink: &str| {
            let text = format!(
                "outages = {{ kind = \"trace\", gap_min_s = 0.3 }}\nrate_model = {{ rate_mbit_per_s = [{rates}], \
                 up_s = [{times}], down_s = [{times}] }}\nuplink = {{ {uplink} }}"
            );
            HopConditions::read(&toml::from_str(&text).unwrap()).unwrap()
        };
        let slower = format!("rate_model = {{ rate_mbit_per_s = [{times}] }}");
        for uplink in ["", &slower, "rate_mbit_per_s = 5"] {
            assert!(hop(uplink).outages_shared, "{uplink}");
        }
        let other = format!("rate_model = {{ down_s = [{rates}] }}");
        assert!(!hop(&other).outages_shared);
    }
}
