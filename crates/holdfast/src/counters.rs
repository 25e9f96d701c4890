// SPDX-License-Identifier: Apache-2.0
//! All counters of both daemons by their names, with their descriptions: for metrics and
//! docs/counters.md.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::LazyLock;

use holdfast_core::CounterInfo;
use holdfast_core::keep::KeepCounters;
use holdfast_net::counters::KEEP_PATH;

use crate::keep::{KeepWorkerCounters, KeepWorkerGauges};
use crate::{gateway, mobile};

type Group = (&'static str, &'static [CounterInfo]);

/// The counters of `keep`, on the gateway and on the mobile.
const KEEP: [Group; 4] = [
    ("keep.", KeepCounters::INFO),
    ("keep.", KeepWorkerCounters::INFO),
    ("keep.", KeepWorkerGauges::INFO),
    ("data-path.", KEEP_PATH),
];

fn groups() -> impl Iterator<Item = Group> {
    let of_gateway = gateway::counters::GROUPS.into_iter();
    of_gateway.chain(KEEP).chain(mobile::counters::GROUPS)
}

/// The counter of each name.
static BY_NAME: LazyLock<BTreeMap<String, &CounterInfo>> = LazyLock::new(|| {
    let named = |(prefix, infos): Group| {
        let name = move |info: &'static CounterInfo| (format!("{prefix}{}", info.name), info);
        infos.iter().map(name)
    };
    groups().flat_map(named).collect()
});

/// The counter of this name.
pub(crate) fn of_name(name: &str) -> Option<&'static CounterInfo> {
    BY_NAME.get(name).copied()
}

/// The names of all counters.
#[cfg(test)]
pub(crate) fn names() -> impl Iterator<Item = String> {
    BY_NAME.keys().cloned()
}

const INTRODUCTION: &str = "\
<!-- Made by `holdfast generate counters docs/`; a test compares. -->
# Counters

`holdfast status` prints the counters that are not 0, `holdfast status --json` all of them. They begin at 0 with the
daemon, those of a data path with each interface to which it attaches. Where both daemons have a counter, it is the
same. *Now* marks a present value.

[Metrics](metrics.md) have the same counters: `host.acks-made` is `holdfast_host_acks_made_total` there, and the present
value `worker.buffer_bytes` is `holdfast_worker_buffer_bytes`.
";

/// `docs/counters.md`.
pub(crate) fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    page.push_str("\n| counter | meaning |\n| --- | --- |\n");
    for (name, info) in BY_NAME.iter() {
        let now = if info.is_gauge { "*Now:* " } else { "" };
        // Writing into a String cannot fail.
        let _ = writeln!(page, "| `{name}` | {now}{} |", info.description);
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_counter_has_one_description_which_is_a_sentence() {
        for (prefix, infos) in groups() {
            for info in infos {
                let name = format!("{prefix}{}", info.name);
                assert_eq!(of_name(&name), Some(info), "{name} has two descriptions");
                let text = info.description;
                assert!(text.ends_with('.') && text.len() > 15, "{name}: {text:?}");
            }
        }
    }

    #[test]
    fn the_page_is_what_the_program_makes() {
        let page_file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/counters.md");
        let found = std::fs::read_to_string(page_file).unwrap_or_default();
        assert!(found == page(), "run: holdfast generate counters docs");
    }
}
