// SPDX-License-Identifier: Apache-2.0
//! Keys that a substrate does not read. A run that sets such a key is refused, because its result
//! would be that of a run without the key.

use serde_json::{Value as Json, json};

use super::{Lacking, Refusal};
use crate::results::same;
use crate::scenario::{Conditions, DirectionChoice, Run, word};

/// The program that reads the keys of hosts and daemons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reader {
    /// The simulator: `model`.
    Model,
    /// A Linux kernel: `linux` and `live`.
    Kernel,
}

/// A key that a reader ignores.
struct Ignored {
    /// The reader that ignores it; none: all readers ignore it.
    reader: Option<Reader>,
    /// The key's name; for a key of hosts it begins with [`HOST`].
    key: &'static str,
    /// Values that are accepted, because they have no effect.
    neutral: fn() -> Vec<Json>,
    /// Keys of the same host with the same meaning for this reader: if one of them is set, this key
    /// is accepted.
    beside: &'static [&'static str],
    /// The condition under which a run does not read it; none: no run reads it.
    only: Option<fn(&Conditions) -> bool>,
    lacks: Lacking,
    remedy: &'static str,
}

/// The prefix of keys of hosts: it stands for each of [`HOSTS`].
const HOST: &str = "HOST.";
/// The tables of hosts.
const HOSTS: [&str; 3] = ["hosts.", "fh.", "mh."];

const NOTHING: fn() -> Vec<Json> = Vec::new;
const FALSE: fn() -> Vec<Json> = || vec![json!(false)];
const ZERO: fn() -> Vec<Json> = || vec![json!(0)];
const ONE: fn() -> Vec<Json> = || vec![json!(1)];
const NO_HANDOFF: fn() -> Vec<Json> = || vec![json!("nothing")];
/// The usual remedy.
const REMOVE: &str = "remove it";

/// All ignored keys. The functions `refusal` of the substrates refuse values that need other hosts
/// (`cubic`). A test of all keys (`each_key`) finds keys that are missing here.
const IGNORED: [Ignored; 28] = [
    kernel(
        "HOST.preset",
        NOTHING,
        &["congestion_control", "sysctls"],
        "set HOST.congestion_control beside it",
    ),
    kernel("HOST.m_tcp", FALSE, &[], REMOVE),
    // It comes before the key of any host, which the model does not read either.
    neither(
        "fh.on_handoff",
        NO_HANDOFF,
        "replace it by mh.on_handoff, with transfer.direction = uplink: the MH's sender is notified",
    ),
    neither(
        "fh.lc_cwe",
        NOTHING,
        "replace it by mh.lc_cwe, with transfer.direction = uplink: the MH's sender is notified",
    ),
    kernel(
        "HOST.on_handoff",
        NO_HANDOFF,
        &[],
        "replace it by mh.congestion_control = holdfast_lccwe",
    ),
    kernel("HOST.lc_cwe", NOTHING, &[], REMOVE),
    of_sending_mh("HOST.on_handoff", NO_HANDOFF),
    of_sending_mh("HOST.lc_cwe", NOTHING),
    kernel("HOST.send_buffer_bytes", NOTHING, &[], REMOVE),
    kernel("HOST.dup_ack_delay_ms", NOTHING, &[], REMOVE),
    kernel("HOST.tick_phase_s", NOTHING, &[], REMOVE),
    kernel("HOST.shrunk_window", NOTHING, &[], REMOVE),
    kernel("transfer.stays_open", FALSE, &[], REMOVE),
    kernel("transfer.encrypted", FALSE, &[], REMOVE),
    kernel("transfer.content", || vec![json!("bulk")], &[], REMOVE),
    kernel("wired.header_compression", FALSE, &[], REMOVE),
    kernel("wireless.header_compression", FALSE, &[], REMOVE),
    of_gateway("gateway.signal_delay_ms", ZERO),
    of_gateway("gateway.warning_ms", ZERO),
    of_gateway("gateway.mtcp.compression_ms", NOTHING),
    of_gateway("gateway.restarts_s", || vec![json!([])]),
    model("transfer.flows", ONE, &[], REMOVE),
    model("transfer.requests", ONE, &[], REMOVE),
    model("transfer.back_bytes", ZERO, &[], REMOVE),
    model("transfer.ip_version", || vec![json!(4)], &[], REMOVE),
    model("HOST.microsecond_timestamps", FALSE, &[], REMOVE),
    model(
        "HOST.sysctls",
        NOTHING,
        &["preset"],
        "set HOST.preset beside it",
    ),
    Ignored {
        lacks: Lacking::Setting,
        ..model("gateway.keep_packets", NOTHING, &[], REMOVE)
    },
];

const fn kernel(
    key: &'static str,
    neutral: fn() -> Vec<Json>,
    beside: &'static [&'static str],
    remedy: &'static str,
) -> Ignored {
    Ignored {
        reader: Some(Reader::Kernel),
        key,
        neutral,
        beside,
        only: None,
        lacks: Lacking::Hosts,
        remedy,
    }
}

/// A key of the model's gateway: the scenario's other runs may not need it.
const fn of_gateway(key: &'static str, neutral: fn() -> Vec<Json>) -> Ignored {
    Ignored {
        lacks: Lacking::Setting,
        ..kernel(key, neutral, &[], REMOVE)
    }
}

const fn model(
    key: &'static str,
    neutral: fn() -> Vec<Json>,
    beside: &'static [&'static str],
    remedy: &'static str,
) -> Ignored {
    Ignored {
        reader: Some(Reader::Model),
        ..kernel(key, neutral, beside, remedy)
    }
}

/// A key that no substrate reads.
const fn neither(key: &'static str, neutral: fn() -> Vec<Json>, remedy: &'static str) -> Ignored {
    Ignored {
        reader: None,
        ..kernel(key, neutral, &[], remedy)
    }
}

/// A key of the MH's sender: it has no effect if the MH sends no data.
const fn of_sending_mh(key: &'static str, neutral: fn() -> Vec<Json>) -> Ignored {
    Ignored {
        only: Some(|conditions| {
            let transfer = &conditions.transfer;
            transfer.direction == DirectionChoice::Downlink && transfer.request_bytes == 0
        }),
        lacks: Lacking::Setting,
        ..neither(
            key,
            neutral,
            "set transfer.direction = uplink: the MH's sender is notified",
        )
    }
}

impl Reader {
    const fn name(self) -> &'static str {
        match self {
            Self::Model => "the model",
            Self::Kernel => "linux and live",
        }
    }

    const fn other(self) -> &'static str {
        match self {
            Self::Model => "live or linux",
            Self::Kernel => "the model",
        }
    }
}

/// Why `reader` refuses `run`: the first key that the run sets and `reader` ignores.
pub(super) fn refusal(run: &Run, reader: Reader) -> Option<Refusal> {
    let mut of_reader = IGNORED
        .iter()
        .filter(|item| item.reader.is_none_or(|of_item| of_item == reader));
    of_reader.find_map(|item| item.refusal(run, reader))
}

/// Whether no run on `reader` reads this key of a line.
pub(super) fn is_ignored(key: &str, reader: Reader) -> bool {
    let is_within = |key: &str, name: &str| {
        let rest = key.strip_prefix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let mut of_reader = IGNORED
        .iter()
        .filter(|item| item.only.is_none() && item.reader.is_none_or(|of_item| of_item == reader));
    let is_ignored = of_reader.any(|item| match item.key.strip_prefix(HOST) {
        Some(own) => HOSTS
            .iter()
            .filter_map(|host| key.strip_prefix(host))
            .any(|key| is_within(key, own)),
        None => is_within(key, item.key),
    });
    is_ignored && !(reader == Reader::Model && is_read_by_model(key))
}

impl Ignored {
    fn refusal(&self, run: &Run, reader: Reader) -> Option<Refusal> {
        if self.only.is_some_and(|only| !only(&run.conditions)) {
            return None;
        }
        let Some(own) = self.key.strip_prefix(HOST) else {
            let (key, value) = given(run, self.key, reader)?;
            return self.refused("", key, value);
        };
        // The host's own key overrides that of both hosts.
        ["fh.", "mh."].into_iter().find_map(|host| {
            let (table, key, value) = host_key(run, host, own, reader)?;
            let is_beside = |beside: &&str| host_key(run, host, beside, reader).is_some();
            if self.beside.iter().any(is_beside) {
                return None;
            }
            self.refused(table, &key, &value)
        })
    }

    fn refused(&self, table: &str, key: &str, value: &Json) -> Option<Refusal> {
        let mut neutral = (self.neutral)().into_iter();
        if neutral.any(|neutral| same(&neutral, value)) {
            return None;
        }
        let value = word(value);
        let remedy = self.remedy.replace(HOST, table);
        let why = |who: &str| format!("{key}: got {value}, which {who} would ignore; {remedy}");
        Some(match self.reader {
            Some(reader) => Refusal::new(self.lacks, &why(reader.name()), reader.other()),
            None => Refusal {
                lacks: self.lacks,
                why: why("each substrate"),
            },
        })
    }
}

/// A host's key as the run sets it: its table, its whole name and its value. For a table it is the
/// first key in it.
fn host_key(
    run: &Run,
    host: &'static str,
    own: &str,
    reader: Reader,
) -> Option<(&'static str, String, Json)> {
    let tables = [host, HOSTS[0]];
    tables.into_iter().find_map(|table| {
        let (key, value) = given(run, &format!("{table}{own}"), reader)?;
        Some((table, key.to_owned(), value.clone()))
    })
}

/// The key with its value; for a table it is the first key in it.
fn given<'a>(run: &'a Run, name: &str, reader: Reader) -> Option<(&'a str, &'a Json)> {
    let is_within = |key: &str| {
        let rest = key.strip_prefix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let mut given = run.given.iter();
    let found = given
        .find(|(key, _)| is_within(key) && !(reader == Reader::Model && is_read_by_model(key)))?;
    Some((found.0.as_str(), found.1))
}

/// The one kernel parameter that the model reads.
fn is_read_by_model(key: &str) -> bool {
    key.ends_with(".sysctls.net.ipv4.tcp_slow_start_after_idle")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::scenario::{Scenario, find};
    use crate::substrate::SubstrateKind;

    fn run(more: &str) -> Run {
        let transfer = if more.contains("[transfer]") {
            ""
        } else {
            "[transfer]\nbytes = 1000\n"
        };
        let wireless = if more.contains("[wireless]") {
            ""
        } else {
            "[wireless]\n"
        };
        let text = format!("{transfer}{wireless}{more}");
        let scenario = Scenario::parse(Path::new("s.toml"), &text).unwrap();
        scenario.runs(None).unwrap().remove(0)
    }

    fn why(kind: SubstrateKind, more: &str) -> Option<String> {
        kind.refusal(&run(more)).map(|refusal| refusal.why)
    }

    /// For each key of the table: a scenario that sets it.
    const GIVEN: [(&str, &str); 28] = [
        ("hosts.preset", "[hosts]\npreset = \"new-reno\""),
        ("mh.m_tcp", "[mh]\nm_tcp = true"),
        ("fh.on_handoff", "[fh]\non_handoff = \"lc\""),
        (
            "fh.lc_cwe.first_history",
            "[fh]\nlc_cwe = { first_history = 2 }",
        ),
        (
            "mh.on_handoff",
            "[transfer]\nbytes = 1\ndirection = \"uplink\"\n[mh]\non_handoff = \"lc\"",
        ),
        (
            "mh.lc_cwe.first_history",
            "[transfer]\nbytes = 1\ndirection = \"uplink\"\n[mh]\nlc_cwe = { first_history = 2 }",
        ),
        ("mh.on_handoff", "[mh]\non_handoff = \"lc\""),
        (
            "mh.lc_cwe.first_history",
            "[mh]\nlc_cwe = { first_history = 2 }",
        ),
        ("fh.send_buffer_bytes", "[fh]\nsend_buffer_bytes = 65536"),
        ("mh.dup_ack_delay_ms", "[mh]\ndup_ack_delay_ms = 20"),
        (
            "fh.tick_phase_s",
            "[fh]\npreset = \"reno43bsd\"\ncongestion_control = \"reno\"\ntick_phase_s = 0.1",
        ),
        (
            "hosts.shrunk_window",
            "[hosts]\nshrunk_window = \"timer-runs\"",
        ),
        (
            "transfer.stays_open",
            "[transfer]\nbytes = 1\nstays_open = true",
        ),
        (
            "transfer.encrypted",
            "[transfer]\nbytes = 1\nencrypted = true",
        ),
        (
            "transfer.content",
            "[transfer]\nbytes = 1\ncontent = \"text\"",
        ),
        (
            "wired.header_compression",
            "[wired]\nheader_compression = true",
        ),
        (
            "wireless.header_compression",
            "[wireless]\nheader_compression = true",
        ),
        (
            "gateway.signal_delay_ms",
            "[gateway]\nscheme = \"hold\"\nsignal_delay_ms = 5",
        ),
        (
            "gateway.warning_ms",
            "[gateway]\nscheme = \"mtcp-2007\"\nwarning_ms = 5",
        ),
        (
            "gateway.mtcp.compression_ms",
            "[gateway]\nscheme = \"mtcp\"\nmtcp = { compression_ms = 3 }",
        ),
        (
            "gateway.restarts_s",
            "[gateway]\nscheme = \"hold\"\nrestarts_s = [1.0]",
        ),
        ("transfer.flows", "[transfer]\nbytes = 1\nflows = 2"),
        (
            "transfer.requests",
            "[transfer]\nbytes = 2\nrequest_bytes = 1\nrequests = 2",
        ),
        (
            "transfer.back_bytes",
            "[transfer]\nbytes = 1\nback_bytes = 2",
        ),
        (
            "transfer.ip_version",
            "[transfer]\nbytes = 1\nip_version = 6",
        ),
        (
            "mh.microsecond_timestamps",
            "[mh]\nmicrosecond_timestamps = true",
        ),
        (
            "fh.sysctls.net.ipv4.tcp_frto",
            "[fh]\nsysctls = { \"net.ipv4.tcp_frto\" = \"0\" }",
        ),
        (
            "gateway.keep_packets",
            "[gateway]\nscheme = \"auto\"\nkeep_packets = 4",
        ),
    ];

    #[test]
    fn each_key_of_the_table_is_refused_in_one_line_by_the_one_and_taken_by_the_other() {
        for (item, (key, text)) in IGNORED.iter().zip(GIVEN) {
            let bare = item.key.trim_start_matches(HOST);
            assert!(key.contains(bare), "{key} is no example of {}", item.key);
            let [ignores, reads] = match item.reader {
                Some(Reader::Model) => [SubstrateKind::Model, SubstrateKind::Live],
                Some(Reader::Kernel) => [SubstrateKind::Live, SubstrateKind::Model],
                None => continue,
            };
            let line = why(ignores, text).expect(key);
            assert!(line.starts_with(&format!("{key}: got ")), "{line}");
            let remedies = line.contains("; ") && line.contains("run it on");
            assert!(remedies && !line.contains('\n'), "{line}");
            assert_eq!(why(reads, text), None, "{key}");
        }
    }

    #[test]
    fn handoffs_of_the_fh_are_refused_everywhere_and_the_remedy_is_taken() {
        let line = "fh.on_handoff: got lc, which each substrate would ignore; replace it by mh.on_handoff, \
                    with transfer.direction = uplink: the MH's sender is notified";
        for kind in SubstrateKind::ALL {
            let refused = why(kind, "[fh]\non_handoff = \"lc\"");
            assert_eq!(refused.as_deref(), Some(line));
        }
        let uplink = "[transfer]\nbytes = 1\ndirection = \"uplink\"\n[mh]\n";
        let remedy = format!("{uplink}on_handoff = \"lc\"");
        assert_eq!(why(SubstrateKind::Model, &remedy), None);
        let remedy = format!("{uplink}congestion_control = \"holdfast_lccwe\"");
        assert_eq!(why(SubstrateKind::Live, &remedy), None);
    }

    #[test]
    fn what_an_mh_does_about_handoffs_is_refused_where_it_sends_no_data() {
        let own = [
            ("on_handoff", "\"lc\"", "on_handoff: got lc"),
            (
                "lc_cwe",
                "{ first_history = 2 }",
                "lc_cwe.first_history: got 2",
            ),
        ];
        for (table, (key, value, got)) in ["mh", "hosts"]
            .into_iter()
            .flat_map(|t| own.map(|o| (t, o)))
        {
            let text = |transfer: &str| {
                format!("[transfer]\nbytes = 1\n{transfer}\n[{table}]\n{key} = {value}")
            };
            let line = format!(
                "{table}.{got}, which each substrate would ignore; \
                 set transfer.direction = uplink: the MH's sender is notified"
            );
            let refusal = SubstrateKind::Model.refusal(&run(&text(""))).unwrap();
            assert_eq!((refusal.lacks, refusal.why), (Lacking::Setting, line));
            // The MH's request is data of the MH.
            for taken in ["direction = \"uplink\"", "request_bytes = 9"] {
                assert_eq!(why(SubstrateKind::Model, &text(taken)), None, "{taken}");
            }
        }
    }

    #[test]
    fn a_value_that_asks_for_nothing_is_taken_everywhere() {
        for text in [
            "[mh]\nm_tcp = false",
            "[transfer]\nbytes = 1\nstays_open = false\ncontent = \"bulk\"",
            "[gateway]\nsignal_delay_ms = 0\nwarning_ms = 0.0",
            "[fh]\nsysctls = { \"net.ipv4.tcp_slow_start_after_idle\" = \"0\" }",
            "[fh]\non_handoff = \"nothing\"",
        ] {
            for kind in SubstrateKind::ALL {
                assert_eq!(why(kind, text), None, "{text}");
            }
        }
    }

    #[test]
    fn a_preset_and_what_stands_for_it_on_linux_are_one_host() {
        for own in [
            "congestion_control = \"cubic\"",
            "sysctls = { \"net.ipv4.tcp_frto\" = \"0\" }",
        ] {
            let text = format!("[fh]\npreset = \"reno43bsd\"\n[hosts]\n{own}");
            assert_eq!(why(SubstrateKind::Live, &text), None, "{text}");
            let both = format!("[hosts]\npreset = \"reno43bsd\"\n{own}");
            for kind in SubstrateKind::ALL {
                assert_eq!(why(kind, &both), None, "{both}");
            }
        }
        // The FH has a key that replaces the preset, the MH has none.
        let text = "[hosts]\npreset = \"reno43bsd\"\n[fh]\ncongestion_control = \"cubic\"";
        let line = why(SubstrateKind::Linux, text).unwrap();
        assert!(
            line.contains("set hosts.congestion_control beside it"),
            "{line}"
        );
    }

    #[test]
    fn keep_is_refused_by_the_model_and_auto_is_not() {
        for table in ["gateway", "mobile"] {
            let why = |scheme: &str| {
                let text = format!("[{table}]\nscheme = \"{scheme}\"");
                why(SubstrateKind::Model, &text)
            };
            let line = why("keep").unwrap();
            let expected = format!("{table}.scheme: got keep");
            assert!(line.starts_with(&expected), "{line}");
            assert_eq!(why("auto"), None);
        }
    }

    #[test]
    fn every_scenario_of_the_repository_runs_on_some_substrate() {
        for folder in ["papers", "docs/scenarios"] {
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
            for file in find(&root.join(folder)).unwrap() {
                let runs = Scenario::load(&file).unwrap().runs(None).unwrap();
                for run in &runs {
                    let refusals = SubstrateKind::ALL.map(|kind| kind.refusal(run));
                    assert!(refusals.contains(&None), "{}: {refusals:?}", file.display());
                }
            }
        }
    }
}
