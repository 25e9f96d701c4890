// SPDX-License-Identifier: Apache-2.0
//! The conditions in a run's line: each key that its substrate reads, with its value. So a line can
//! be read without the scenario, and without the defaults of the version that wrote it.

use super::{SubstrateKind, ignored, ignored::Reader, model};
use crate::scenario::{Parameters, Run};

impl SubstrateKind {
    /// The conditions in a run's line, also those that its scenario does not set. Null: there is
    /// none, or, for a Linux host's TCP, the kernel's own value applies.
    pub fn conditions(self, run: &Run) -> Parameters {
        let mut conditions = run.conditions.clone();
        let reader = match self {
            Self::Model => {
                let of_split = &mut conditions.gateway.split;
                for host in [&mut conditions.fh, &mut conditions.mh, of_split] {
                    *host = model::in_full(host);
                }
                Reader::Model
            }
            Self::Linux | Self::Live => {
                for host in [&mut conditions.fh, &mut conditions.mh] {
                    host.congestion_control = Some(host.congestion_control().to_owned());
                }
                Reader::Kernel
            }
        };
        let mut keys = conditions.complete();
        keys.retain(|key, _| !ignored::is_ignored(key, reader) && !is_in_preset(key, reader));
        keys
    }
}

/// A preset of the model contains the congestion control, so that key adds nothing.
fn is_in_preset(key: &str, reader: Reader) -> bool {
    reader == Reader::Model && key.ends_with(".congestion_control")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use holdfast_files::document;
    use serde_json::Value as Json;
    use toml::{Table, Value};

    use super::*;
    use crate::scenario::{Scenario, find};

    fn conditions(kind: SubstrateKind, text: &str) -> Parameters {
        let scenario = Scenario::parse(Path::new("s.toml"), text).unwrap();
        kind.conditions(&scenario.runs(None).unwrap()[0])
    }

    fn keys(conditions: &Parameters) -> Vec<&str> {
        conditions.keys().map(String::as_str).collect()
    }

    const BARE: &str = "[transfer]\nbytes = 1000\n[wired]\n[wireless]\n[gateway]\nscheme = \"mtcp\"\n\
        signal = \"none\"\n[mobile]\nscheme = \"freeze\"\nsignal = \"none\"\n";

    #[test]
    fn a_key_at_its_default_stands_in_the_line_as_one_that_is_given() {
        let given = "record = []\nrecord_interval_ms = 100.0\ncross_traffic = []\n\
            [transfer]\nbytes = 1000\ndirection = \"downlink\"\nstart_s = 0.0\nlimit_s = 600\n\
            request_bytes = 0\nrequests = 1\nthink_ms = 0\nback_bytes = 0\nip_version = 4\nflows = 1\n\
            [wired]\ndelay_ms = 0\n\
            [wireless]\nqueue_packets_max = 1000\ndelay_ms = 0.0\nloss = 0\nbit_error_effect = \"lose\"\n\
            outage_effect = \"lose\"\noutages = { kind = \"none\" }\nframe_overhead_bytes = 0\n\
            uplink = { loss = 0.0, delay_ms = 0 }\n\
            [gateway]\nscheme = \"mtcp\"\nsignal = \"none\"\nflow_cache_bytes_max = \"8 MiB\"\n\
            mtcp = { set = \"today\", slow_start = true, compression = \"off\" }\n\
            [mobile]\nscheme = \"freeze\"\nsignal = \"none\"\nwarning_ms = 0\nfreeze_set = \"today\"\n\
            [hosts]\ncongestion_control = \"reno\"\nmicrosecond_timestamps = false\n\
            [mh]\non_handoff = \"nothing\"\n";
        for kind in SubstrateKind::ALL {
            assert_eq!(conditions(kind, given), conditions(kind, BARE));
        }
    }

    #[test]
    fn a_line_has_the_same_keys_with_other_values() {
        let other = "record = [\"cwnd\"]\nrecord_interval_ms = 10\n[transfer]\nbytes = 7\nlimit_s = 9\n\
            [wired]\nrate_mbit_per_s = 10\n[wireless]\nloss = 0.5\nuplink = { delay_ms = 7.5 }\n\
            [gateway]\nscheme = \"mtcp\"\nsignal = \"mobile\"\nsilence_min_ms = 150\nresend_dscp = 46\n\
            mtcp = { set = \"published\", window_bytes = \"32 KiB\", compression_level = 9 }\n\
            [mobile]\nscheme = \"wake\"\nsignal = \"none\"\nfalse_alarm_ms = 700\n\
            [hosts]\nmss = 1000\n[fh]\nsack = false\nretries_max = 3\n[mh]\ndelayed_ack = false\n";
        for kind in SubstrateKind::ALL {
            let [other, bare] = [other, BARE].map(|text| conditions(kind, text));
            assert_eq!(keys(&other), keys(&bare));
        }
        for (key, value) in [
            ("fh.mss", Json::from(1000)),
            ("fh.sack", false.into()),
            ("mh.sack", true.into()),
            ("wireless.delay_ms", 0.into()),
            ("wireless.uplink.delay_ms", 7.5.into()),
            ("gateway.mtcp.window_bytes", 32_768.into()),
            ("mobile.false_alarm_ms", 700.into()),
        ] {
            let conditions = conditions(SubstrateKind::Model, other);
            assert_eq!(conditions.get(key), Some(&value), "{key}");
        }
    }

    #[test]
    fn what_the_substrate_or_the_scheme_does_not_read_is_not_in_the_line() {
        let [model, linux] =
            [SubstrateKind::Model, SubstrateKind::Linux].map(|kind| conditions(kind, BARE));
        assert_eq!(model["fh.preset"], "linux-reno");
        assert_eq!(model["fh.initial_window_segments"], 10);
        assert_eq!(linux["fh.initial_window_segments"], Json::Null);
        assert_eq!(linux["fh.congestion_control"], "reno");
        assert!(!model.contains_key("fh.congestion_control"));
        assert!(!linux.contains_key("fh.preset") && !linux.contains_key("mh.m_tcp"));
        assert!(!linux.contains_key("gateway.signal_delay_ms"));
        assert!(!keys(&model).iter().any(|key| key.contains("snoop")));
        assert!(!model.contains_key("gateway.handoff.kind"));
    }

    /// A document with these conditions, without null values.
    fn document_of(conditions: &Parameters) -> Table {
        let mut table = Table::new();
        for (key, value) in conditions {
            let is_empty = value.as_array().is_some_and(Vec::is_empty);
            let Some(value) = toml_of(value).filter(|_| !is_empty) else {
                continue;
            };
            // The name of a kernel parameter contains dots.
            match key.split_once(".sysctls.") {
                Some((host, name)) => {
                    let sysctls = Table::from_iter([(name.to_owned(), value)]);
                    document::set(&mut table, &format!("{host}.sysctls"), sysctls.into())
                }
                None => document::set(&mut table, key, value),
            }
            .unwrap();
        }
        table
    }

    fn toml_of(value: &Json) -> Option<Value> {
        Some(match value {
            Json::Null => return None,
            Json::Bool(is) => Value::Boolean(*is),
            Json::Number(number) => match number.as_i64() {
                Some(number) => Value::Integer(number),
                None => Value::Float(number.as_f64()?),
            },
            Json::String(text) => Value::String(text.clone()),
            Json::Array(items) => Value::Array(items.iter().filter_map(toml_of).collect()),
            Json::Object(table) => {
                let keys = table.iter();
                let keys = keys.filter_map(|(key, value)| Some((key.clone(), toml_of(value)?)));
                Value::Table(keys.collect())
            }
        })
    }

    /// Whether a scenario can have these conditions. It cannot remove what another table sets: a
    /// splitting node has the FH's keys, and an uplink its hop's.
    fn is_a_scenario(conditions: &Parameters) -> bool {
        let is_null = |key: &str| conditions.get(key).is_none_or(Json::is_null);
        let tables = [
            ("gateway.split.", "fh."),
            ("wired.uplink.", "wired."),
            ("wireless.uplink.", "wireless."),
        ];
        !tables.into_iter().any(|(table, below)| {
            let own = conditions.keys().filter_map(|key| key.strip_prefix(table));
            let mut nulls = own.filter(|own| is_null(&format!("{table}{own}")));
            nulls.any(|own| !is_null(&format!("{below}{own}")))
        })
    }

    /// The number of runs of each scenario that are tried.
    const TRIED: usize = 6;

    #[test]
    fn the_experiment_of_a_run_can_be_repeated_from_its_line_alone() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut repeated = 0;
        for folder in ["papers", "docs/scenarios"] {
            for file in find(&root.join(folder)).unwrap() {
                let runs = Scenario::load(&file).unwrap().runs(None).unwrap();
                let step = runs.len() / TRIED + 1;
                for run in runs.iter().step_by(step) {
                    let kind = SubstrateKind::Model;
                    if kind.refusal(run).is_some() {
                        continue;
                    }
                    let conditions = kind.conditions(run);
                    if !is_a_scenario(&conditions) {
                        continue;
                    }
                    let text = document_of(&conditions).to_string();
                    let again = Scenario::parse(&file, &text).unwrap();
                    let again = again.runs(Some(run.seed)).expect(&text).remove(0);
                    assert_eq!(kind.conditions(&again), conditions, "{}", run.scenario);
                    let [one, other] = [run, &again].map(|run| {
                        let drawn = run.drawn().unwrap();
                        format!("{:?}", model::experiment(&drawn).unwrap())
                    });
                    assert!(one == other, "{} {}", run.scenario, run.variant);
                    repeated += 1;
                }
            }
        }
        assert!(repeated > 100, "{repeated}");
    }
}
