// SPDX-License-Identifier: Apache-2.0
//! Counters by their names, with their descriptions: for metrics and docs/counters.md.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use holdfast_core::CounterInfo;
use holdfast_core::keep::KeepCounters;
use holdfast_net::counters::KEEP_PATH;

use crate::keep::{KeepWorkerCounters, KeepWorkerGauges};

/// The prefix of a group's names, and its counters.
pub(crate) type CounterGroup = (&'static str, &'static [CounterInfo]);

/// The counters of `keep`, on the gateway and on the mobile.
pub(crate) const KEEP: [CounterGroup; 4] = [
    ("keep.", KeepCounters::INFO),
    ("keep.", KeepWorkerCounters::INFO),
    ("keep.", KeepWorkerGauges::INFO),
    ("data-path.", KEEP_PATH),
];

/// Counters by their names in the status.
pub(crate) type CountersByName = BTreeMap<String, &'static CounterInfo>;

/// The counters of these groups. A counter of several groups is there once.
pub(crate) fn by_name(groups: impl Iterator<Item = CounterGroup>) -> CountersByName {
    let named = |(prefix, infos): CounterGroup| {
        let name = move |info: &'static CounterInfo| (format!("{prefix}{}", info.name), info);
        infos.iter().map(name)
    };
    groups.flat_map(named).collect()
}

const INTRODUCTION: &str = "\
<!-- Made by `holdfast generate counters docs/`; a test compares. -->
# Counters

`holdfast status` prints the counters that are not 0, `holdfast status --json` all of them. They begin at 0 with the
daemon, those of a data path with each interface to which it attaches. Where both daemons have a counter, it is the
same. *Now* marks a present value.

`data-path.` is of the gateway. On the mobile `tcp-path.` is of `auto`, `keep-path.` of `auto` and `keep`, and `path.`
of downloads.

[Metrics](metrics.md) have the same counters: `host.acks-made` is `holdfast_host_acks_made_total` there, and the present
value `worker.buffer_bytes` is `holdfast_worker_buffer_bytes`.
";

/// `docs/counters.md`, with the counters of these groups.
pub(crate) fn page(groups: impl Iterator<Item = CounterGroup>) -> String {
    let mut page = INTRODUCTION.to_owned();
    page.push_str("\n| counter | meaning |\n| --- | --- |\n");
    for (name, info) in by_name(groups) {
        let now = if info.is_gauge { "*Now:* " } else { "" };
        // Writing into a String cannot fail.
        let _ = writeln!(page, "| `{name}` | {now}{} |", info.description);
    }
    page
}
