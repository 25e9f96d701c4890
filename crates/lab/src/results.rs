// SPDX-License-Identifier: Apache-2.0
//! The results of runs: a line of JSON for each, and a table of them.
//!
//! Lines carry no wall time: on the model the same run gives the same bytes.

pub mod ceiling;
pub mod comparison;
mod latency;

use std::collections::BTreeMap;

use comfy_table::{CellAlignment, Table, presets};
use holdfast_link::{Counters as LinkCounters, OutageEffect, OutageSchedule};
use holdfast_testbed::counters::TimerCounts;
use holdfast_wire::Instant;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::framing::{Framing, capacity_bytes, optimal_s};
use crate::full_rate::{PathRate, bytes_after, full_rates_s};
use crate::handoffs::{Handoff, HandoffSummary, Journal};
pub use crate::scenario::word;
use crate::scenario::{Conditions, Parameters, Run};
use crate::stall;
use crate::statistics::median;
use crate::traced::Traced;
pub use latency::Latency;

/// The commit that this program was built from; `unknown` outside of a checkout.
pub const COMMIT: &str = env!("HOLDFAST_COMMIT");

/// One run's result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResultLine {
    /// The scenario's name.
    pub scenario: String,
    /// `name=value` of each sweep.
    pub variant: String,
    /// The sweeps' parameters with their values.
    pub parameters: Parameters,
    /// All keys that the substrate reads, with their tables and values. Lines of older versions have
    /// only the keys that the scenario sets, or none.
    #[serde(skip_serializing_if = "Parameters::is_empty", default)]
    pub conditions: Parameters,
    /// `model`, `linux` or `live`.
    pub substrate: String,
    /// The run's seed.
    pub seed: u64,
    /// From the transfer's begin to its last byte, in seconds; none: not finished.
    pub transfer_s: Option<f64>,
    /// The time that no transfer over these links can beat, in seconds; none: the links carry too
    /// little.
    pub optimal_s: Option<f64>,
    /// For each outage of the wireless hop during the transfer: time from link up to the first new
    /// byte at the receiver, in seconds; none: no new byte came before the next outage.
    pub stalls_s: Vec<Option<f64>>,
    /// For each of these outages: time from link up to the full rate, in seconds; none: not before
    /// the next outage or the end. Also empty if the links have no constant rate.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub full_rate_s: Vec<Option<f64>>,
    /// The same times in round trips of the path without queueing.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub full_rate_round_trips: Vec<Option<f64>>,
    /// For each of these outages: bytes that arrived in the 10 s after link up, but not after the
    /// next outage's begin or the transfer's end.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub after_outage_bytes: Vec<u64>,
    /// Bytes that arrived, divided by the time until the last one, in Mb/s.
    pub goodput_mbps: f64,
    /// The goodput of each connection, if there are several; the other figures are of all together.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub flow_goodputs_mbps: Vec<f64>,
    /// `stalls_s` of each connection, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub flow_stalls_s: Vec<Vec<Option<f64>>>,
    /// Latencies of answers, if there were several requests; of all connections.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub latency: Option<Latency>,
    /// Bytes that came in the other direction, if some were to be sent; of all connections.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub back_bytes: Option<u64>,
    /// Packets that the sender's host sent because of its timers; none: not known (on the model).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sender_timers: Option<TimerCounts>,
    /// Segments retransmitted for each one sent first, in percent.
    pub retransmission_ratio_percent: f64,
    /// Bytes that reached the receiver again, for each byte delivered; none: not known (a Linux
    /// receiver without SACK does not count them).
    pub duplicates_per_byte: Option<f64>,
    /// Expiries of the sender's retransmission timer; none: not known (on Linux).
    pub timeouts: Option<u64>,
    /// Whole seconds in which the sender sent data or a zero-window probe; none: not known (on
    /// Linux).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub seconds_sending: Option<u64>,
    /// Those of these seconds in which data was retransmitted, or a probe followed an unanswered
    /// one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub seconds_repeating: Option<u64>,
    /// Compressed size of the payload that the gateway made smaller, in percent of its size before;
    /// on the model.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub compressed_to_percent: Option<f64>,
    /// The most bytes at a time that were acknowledged to the sender before the receiver had them;
    /// none: not known (on Linux).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub acknowledged_ahead_bytes: Option<u64>,
    /// Whether the transfer is complete.
    pub finished: bool,
    /// Whether the bytes that arrived are those that were sent.
    pub intact: bool,
    /// How the transfer ended: `delivered`, `given up` (by the sender), `not in time`.
    pub ending: String,
    /// Bytes that arrived.
    pub bytes: u64,
    /// Segments that the sender retransmitted.
    pub retransmitted_segments: u64,
    /// Segments that it sent for the first time.
    pub segments: u64,
    /// Outages of the wireless hop that began before the transfer's end.
    pub outages: usize,
    /// The effect of outages on packets.
    pub outage_effect: OutageEffect,
    /// The sender: the model's preset, or Linux's congestion control.
    pub sender: String,
    /// The kernel's release; none on the model.
    pub kernel: Option<String>,
    /// The commit of this program.
    pub commit: String,
    /// A hash over every packet with its time, on the model. Of a segment it has the numbers,
    /// length, window and flags.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub digest: Option<String>,
    /// Kernel parameters that were set at the hosts.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub sysctls: Vec<(String, String)>,
    /// The cost of each move from cell to cell.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub handoffs: Vec<Handoff>,
    /// The summary of these costs; none: there were no moves.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub handoff: Option<HandoffSummary>,
    /// How often the sender's loss classifier was right, on the model.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lc_cwe: Option<Hits>,
    /// Figures of the wireless hop for packets in the data's direction.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub link: Option<LinkFigures>,
    /// The figures of each stream of cross traffic.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub cross_traffic: Vec<DatagramFigures>,
    /// The MH's actions for its own flows, by the names of the daemon's counters.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub mobile: Option<BTreeMap<String, u64>>,
    /// Figures of its packets, if a claim needs them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub traced: Option<Traced>,
    /// Time series, if requested.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub series: Option<Series>,
}

/// What a link did with the packets of one direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkFigures {
    /// Bytes that it could have carried between the transfer's begin and end, outages excepted;
    /// none: its rate has no limit.
    pub capacity_bytes: Option<u64>,
    /// Packets that the link received.
    pub packets: u64,
    /// Those of these packets that its full queue dropped.
    pub dropped_by_queue: u64,
    /// The median of packets' time in its queue and in sending, in ms.
    pub wait_median_ms: f64,
    /// The 95th percentile of that time, in ms.
    pub wait_p95_ms: f64,
    /// Time from the end of each outage to the first packet that arrived over the link, in s; none:
    /// no packet arrived before the next outage.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub first_packet_s: Vec<Option<f64>>,
}

impl LinkFigures {
    /// Whether a run has these figures: it has one cell, and each direction has a medium of its own.
    /// On a shared medium the link counts both directions together.
    pub(crate) fn are_of(conditions: &Conditions) -> bool {
        conditions.cells.len() == 1 && !conditions.wireless.half_duplex
    }

    /// The figures from the hop's counters in the data's direction. `between_s`: the first
    /// connection's transfer. `end_s`: the end of the last one. Times are since the start of the
    /// hop's clock.
    pub(crate) fn of(
        conditions: &Conditions,
        counters: &LinkCounters,
        between_s: [f64; 2],
        end_s: f64,
    ) -> Self {
        let outages = conditions
            .wireless
            .outages_of(conditions.transfer.direction);
        let arrivals_s = counters.first_after_outage_us.iter();
        let arrivals_s: Vec<f64> = arrivals_s.map(|us| *us as f64 / 1e6).collect();
        let first_packet_s = stall::stalls_s(outages, between_s, |from_s, until_s| {
            // The arrivals are whole microseconds.
            let from_s = from_s - 1e-6;
            let first = arrivals_s.partition_point(|at_s| *at_s < from_s);
            let first = arrivals_s.get(first).copied();
            first.filter(|at_s| *at_s < until_s)
        });
        let way = conditions.transfer.direction as usize;
        let plan = conditions.wireless.plans().map(|plans| &plans[way]);
        let from = Instant::ZERO + conditions.start();
        let between = [from, Instant::from_nanos((end_s * 1e9) as u64)];
        let capacity_bytes = plan.and_then(|plan| {
            let mut schedule = OutageSchedule::new(&plan.outages, 0);
            capacity_bytes(&plan.capacity, &mut schedule, between)
        });
        Self {
            capacity_bytes,
            packets: counters.offered_packets,
            dropped_by_queue: counters.dropped_by_queue(),
            wait_median_ms: counters.wait_median_us as f64 / 1e3,
            wait_p95_ms: counters.wait_p95_us as f64 / 1e3,
            first_packet_s,
        }
    }
}

/// The figures of a stream of datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DatagramFigures {
    /// Datagrams sent.
    pub sent: u64,
    /// Those of them that arrived.
    pub arrived: u64,
    /// The median delay from the sender to the receiver, in ms; none: not known (on the model).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub delay_median_ms: Option<f64>,
    /// The 95th percentile of that delay, in ms.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub delay_p95_ms: Option<f64>,
}

/// How often a sender's loss classifier was right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Hits {
    /// Losses of handoffs, judged as such.
    pub handoff_right: u64,
    /// Losses of handoffs, judged as congestion.
    pub handoff_wrong: u64,
    /// Losses in queues, judged as congestion.
    pub congestion_right: u64,
    /// Losses in queues, judged as a handoff's.
    pub congestion_wrong: u64,
    /// Errors of the channel, judged as congestion: the sender has to treat them so.
    pub error_as_congestion: u64,
    /// Errors of the channel, judged as a handoff's.
    pub error_as_handoff: u64,
    /// False alarms, judged as congestion.
    pub false_as_congestion: u64,
    /// False alarms, judged as a handoff's.
    pub false_as_handoff: u64,
    /// Right judgements in percent of the lost segments; errors of the channel count as wrong. None:
    /// no segment was lost.
    pub hit_ratio_percent: Option<f64>,
}

/// Time series by columns. A column is empty if it was not requested, or is not known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Time since the start of the links' clocks, in seconds.
    pub t_s: Vec<f64>,
    /// Congestion window, bytes.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub cwnd: Vec<u64>,
    /// Slow start threshold, bytes; 0: none yet.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub ssthresh: Vec<u64>,
    /// The receiver's window as the sender knows it, bytes.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub rwnd: Vec<u64>,
    /// `snd.una` as an offset in the stream.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub snd_una: Vec<u64>,
    /// `snd.nxt`.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub snd_nxt: Vec<u64>,
    /// `rcv.nxt`.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub rcv_nxt: Vec<u64>,
    /// Packets in the wireless hop's queue.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub queue_packets: Vec<u32>,
    /// Whether the wireless hop delivers packets.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub link_up: Vec<bool>,
}

/// The values that the parameters of selected runs have.
pub type Where = BTreeMap<String, Json>;

/// Whether two values of a parameter are equal; 5 equals 5.0.
pub fn same(a: &Json, b: &Json) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a.total_cmp(&b).is_eq(),
        _ => a == b,
    }
}

/// A value that is compared by [`same`].
pub(crate) struct Same<'a>(pub(crate) &'a Json);

impl PartialEq for Same<'_> {
    fn eq(&self, other: &Self) -> bool {
        same(self.0, other.0)
    }
}

/// Groups of items with equal keys, in the order of their first members.
pub(crate) fn grouped<T, K: PartialEq>(
    items: impl IntoIterator<Item = T>,
    key: impl Fn(&T) -> K,
) -> Vec<(K, Vec<T>)> {
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    for item in items {
        let key = key(&item);
        match groups.iter_mut().find(|(other, _)| *other == key) {
            Some((_, group)) => group.push(item),
            None => groups.push((key, vec![item])),
        }
    }
    groups
}

impl ResultLine {
    /// A line of `run` without any results yet.
    pub fn of(run: &Run, substrate: &str, sender: String, framing: Framing) -> Self {
        Self {
            scenario: run.scenario.clone(),
            variant: run.variant.clone(),
            parameters: run.parameters.clone(),
            substrate: substrate.to_owned(),
            seed: run.seed,
            optimal_s: optimal_s(&run.conditions, framing),
            outage_effect: run.conditions.wireless.outage_effect(),
            sender,
            commit: COMMIT.to_owned(),
            ..Self::default()
        }
    }

    /// Notes the time of the full rate after each outage. `arrivals`: times since the start of the
    /// links' clocks with the total of bytes until then, in order.
    pub(crate) fn note_full_rates(
        &mut self,
        conditions: &Conditions,
        framing: Framing,
        end_s: f64,
        arrivals: &[(f64, u64)],
    ) {
        let begin_s = conditions.start().as_secs_f64();
        let outages = conditions
            .wireless
            .outages_of(conditions.transfer.direction);
        self.after_outage_bytes = bytes_after(outages, [begin_s, end_s], arrivals);
        let Some(path) = PathRate::of(conditions, framing) else {
            return;
        };
        self.full_rate_s = full_rates_s(outages, [begin_s, end_s], path, arrivals);
        let round_trips = |s: &Option<f64>| s.map(|s| s / path.round_trip_s);
        if path.round_trip_s > 0.0 {
            self.full_rate_round_trips = self.full_rate_s.iter().map(round_trips).collect();
        }
    }

    /// Notes the cost of the moves. The stalls are those after the times without any cell.
    pub(crate) fn note_moves(
        &mut self,
        conditions: &Conditions,
        journal: Journal,
        end_s: f64,
        buffered_bytes_max: Option<u64>,
    ) {
        let between_s = [conditions.start().as_secs_f64(), end_s];
        let outages = conditions
            .wireless
            .outages_of(conditions.transfer.direction);
        self.stalls_s = journal.stalls_s(outages, between_s);
        self.outages = self.stalls_s.len();
        self.handoffs = journal.handoffs(&conditions.moves, between_s);
        self.handoff = HandoffSummary::of(&self.handoffs, buffered_bytes_max);
    }

    /// The end of the transfer, since the start of the links' clocks; `otherwise` if it did not
    /// finish.
    pub(crate) fn end_s(&self, conditions: &Conditions, otherwise: f64) -> f64 {
        let begin_s = conditions.start().as_secs_f64();
        self.transfer_s.map_or(otherwise, |s| begin_s + s)
    }

    /// Whether a parameter has this value.
    pub fn is(&self, parameter: &str, value: &Json) -> bool {
        let own = self.parameters.get(parameter);
        own.is_some_and(|own| same(own, value))
    }

    /// Whether all of these parameters have these values.
    pub fn has(&self, selection: &Where) -> bool {
        selection
            .iter()
            .all(|(parameter, value)| self.is(parameter, value))
    }

    /// Whether the bytes that arrived are those that were sent; some may be missing.
    pub fn is_sound(&self) -> bool {
        self.intact
    }
}

/// The retransmission ratio of Omueti and Trajković (2007), in percent.
pub fn retransmission_ratio_percent(segments: u64, retransmitted: u64) -> f64 {
    if segments == 0 {
        return 0.0;
    }
    retransmitted as f64 * 100.0 / segments as f64
}

/// A table for people: a row for each variant, with medians of its runs.
pub fn table(lines: &[ResultLine]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    let header = [
        "scenario",
        "variant",
        "runs",
        "finished",
        "time",
        "optimum",
        "stall",
        "goodput",
        "retransmitted",
    ];
    table.set_header(header);
    for column in 2..header.len() {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let groups = grouped(lines, |line| {
        (&line.scenario, &line.variant, &line.substrate)
    });
    for (_, group) in &groups {
        table.add_row(row(group[0], group));
    }
    table
}

fn row(first: &ResultLine, group: &[&ResultLine]) -> Vec<String> {
    let finished = group.iter().filter(|line| line.finished).count();
    let broken = group.iter().filter(|line| !line.intact).count();
    let get = |value: &dyn Fn(&ResultLine) -> f64| {
        median(group.iter().map(|line| value(line)).collect()).unwrap_or(f64::NAN)
    };
    let shown = |value: f64, unit: &str| {
        if value.is_finite() {
            format!("{value:.2} {unit}")
        } else {
            "never".to_owned()
        }
    };
    // A stall that the next outage ended has no length and is left out. A stall at the end of an
    // unfinished run counts as infinite.
    let stall = |line: &ResultLine| match line.stalls_s.last() {
        Some(None) if !line.finished => f64::INFINITY,
        _ => line.stalls_s.iter().flatten().copied().fold(0.0, f64::max),
    };
    let mut finished = format!("{finished} of {}", group.len());
    if broken > 0 {
        finished.push_str(&format!(", {broken} BROKEN"));
    }
    vec![
        first.scenario.clone(),
        first.variant.clone(),
        group.len().to_string(),
        finished,
        shown(get(&|line| line.transfer_s.unwrap_or(f64::INFINITY)), "s"),
        shown(get(&|line| line.optimal_s.unwrap_or(f64::INFINITY)), "s"),
        shown(get(&stall), "s"),
        shown(get(&|line| line.goodput_mbps), "Mb/s"),
        shown(get(&|line| line.retransmission_ratio_percent), "%"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;
    use std::path::Path;

    fn run(more: &str) -> Run {
        let text = format!("[transfer]\nbytes = 2920000\n{more}");
        Scenario::parse(Path::new("s.toml"), &text)
            .unwrap()
            .runs(None)
            .unwrap()[0]
            .drawn()
            .unwrap()
    }

    #[test]
    fn links_that_carry_too_little_have_no_optimum_and_their_line_can_be_read_again() {
        let more =
            "limit_s = 1e6\n[wireless]\nrate_mbit_per_s = 0.001\nframe_overhead_bytes = 65535";
        let text = format!("[transfer]\nbytes = 1000000000000\n{more}");
        let scenario = Scenario::parse(Path::new("s.toml"), &text).unwrap();
        let run = scenario.runs(None).unwrap()[0].drawn().unwrap();
        let line = ResultLine::of(&run, "model", "reno".into(), Framing::new(64, true));
        assert_eq!(line.optimal_s, None);
        let text = serde_json::to_string(&line).unwrap();
        assert_eq!(serde_json::from_str::<ResultLine>(&text).unwrap(), line);
    }

    #[test]
    fn a_stall_that_an_outage_cut_short_does_not_make_the_longest_one_endless() {
        let run = run("[wireless]");
        let shown = |stalls_s: &[Option<f64>], finished| {
            let mut line = ResultLine::of(&run, "model", "reno".into(), Framing::new(1460, true));
            line.stalls_s = stalls_s.to_vec();
            line.finished = finished;
            row(&line, &[&line]).swap_remove(6)
        };
        assert_eq!(shown(&[None, Some(0.5), Some(0.2)], true), "0.50 s");
        assert_eq!(shown(&[Some(0.5), None], true), "0.50 s");
        assert_eq!(shown(&[Some(0.5), None], false), "never");
        assert_eq!(shown(&[], true), "0.00 s");
    }

    #[test]
    fn a_line_survives_json_and_the_table_takes_medians() {
        let run = run("[wireless]");
        let mut lines = Vec::new();
        for transfer_s in [Some(3.0), Some(1.0), None] {
            let mut line = ResultLine::of(&run, "model", "reno".into(), Framing::new(1460, true));
            line.transfer_s = transfer_s;
            line.finished = transfer_s.is_some();
            line.intact = true;
            let text = serde_json::to_string(&line).unwrap();
            assert_eq!(serde_json::from_str::<ResultLine>(&text).unwrap(), line);
            lines.push(line);
        }
        let table = table(&lines).to_string();
        assert!(
            table.contains("2 of 3") && table.contains("3.00 s"),
            "{table}"
        );
    }

    #[test]
    fn groups_keep_the_order_of_their_first_members() {
        let groups = grouped([3, 1, 4, 1, 5, 9], |number| number % 2);
        assert_eq!(groups, [(1, vec![3, 1, 1, 5, 9]), (0, vec![4])]);
    }
}
