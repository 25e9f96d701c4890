// SPDX-License-Identifier: Apache-2.0
//! `model`: the simulator. It has virtual time, and the same results to the bit on every machine.

use std::path::Path;

use anyhow::Context as _;
use holdfast_core::Direction;
use holdfast_link::{LinkPlan, LinkSettings};
use holdfast_sim::outcome::{Ending, Stall};
use holdfast_sim::{
    Experiment, Hop, Move, Outcome, Roaming, RunUntil, TcpSettings, Transfer, TransferOutcome,
};
use holdfast_testbed::stop::{Interrupted, StopFlag};
use holdfast_wire::Instant;

use super::{Lacking, Refusal};
use crate::framing::Framing;
use crate::results::{
    DatagramFigures, LinkFigures, ResultLine, Series, retransmission_ratio_percent,
};
use crate::scenario::{
    Conditions, DirectionChoice, HopConditions, PRESET_DEFAULT, Record, Run, SchemeChoice, Stretch,
    seconds,
};
use crate::stall;
use watcher::Watcher;

mod fates;
mod gateway;
mod host;
mod mobile;
mod watcher;

pub(super) use host::in_full;

/// Times that differ by less are equal: they were rounded to nanoseconds.
const SAME_MOMENT_S: f64 = 1e-6;

/// The hop between FH and gateway.
const WIRED: usize = 0;
/// The hop between gateway and MH.
const WIRELESS: usize = 1;

/// What the simulator lacks, besides keys that it ignores.
pub(super) fn refusal(conditions: &Conditions) -> Option<Refusal> {
    let schemes = [
        ("gateway", conditions.gateway.scheme.name()),
        ("mobile", conditions.mobile.scheme.name()),
    ];
    for (key, scheme) in schemes {
        if ["haproxy", "keep"].contains(&scheme) {
            let why = format!("{key}.scheme: got {scheme}, which runs on real hosts");
            return Some(Refusal::new(Lacking::Scheme, &why, "live or linux"));
        }
    }
    let hosts = [("fh", &conditions.fh), ("mh", &conditions.mh)];
    let (name, host) = hosts
        .into_iter()
        .find(|(_, host)| host.model_preset().is_none())?;
    let why = format!(
        "{name}.congestion_control: got {}, the model takes reno, cubic and bbr; set {name}.preset",
        host.congestion_control()
    );
    Some(Refusal::new(Lacking::Hosts, &why, "live or linux"))
}

/// Executes one run; its packets go to a file in `pcap`.
pub(super) fn execute(
    run: &Run,
    pcap: Option<&Path>,
    stop: &StopFlag,
) -> anyhow::Result<ResultLine> {
    let experiment = experiment(run)?;
    let mut watcher = Watcher::create(run, pcap)?;
    let outcome = experiment.run_unless(&|| stop.is_raised(), &mut watcher);
    let (journal, fates) = watcher.finish()?;
    let outcome = outcome.ok_or(Interrupted)?;
    let mut line = line(run, &experiment, &outcome)?;
    line.lc_cwe = fates.map(|fates| {
        let judged = &outcome.transfers[0].judgements;
        fates.hits(judged, &handoffs(&run.conditions))
    });
    if let Some(journal) = journal {
        let end_s = line.end_s(&run.conditions, outcome.ended_at.as_secs_f64());
        let bytes_max = outcome.handoff.map(|did| did.buffered_bytes_max);
        line.note_moves(&run.conditions, journal, end_s, bytes_max);
        if let Some(summary) = &mut line.handoff {
            let of_state = outcome.handoff.map(|did| did.state_bytes_max);
            summary.state_bytes_max = of_state.filter(|bytes| *bytes > 0);
        }
    }
    Ok(line)
}

/// The begin and end of the MH's handoffs: its moves, or with one cell the link's outages.
fn handoffs(conditions: &Conditions) -> Vec<[Instant; 2]> {
    let at = |s: f64| Instant::ZERO + seconds(s);
    if conditions.cells.len() > 1 {
        let moves = conditions.moves.iter();
        return moves
            .map(|item| [at(item.leave_s), at(item.enter_s)])
            .collect();
    }
    let outages = conditions.wireless.outages_of(DirectionChoice::Downlink);
    let each = outages
        .iter()
        .map(|item| [at(item.at_s), at(item.at_s + item.for_s)]);
    each.collect()
}

pub(super) fn experiment(run: &Run) -> anyhow::Result<Experiment> {
    let conditions = &run.conditions;
    let transfer = &conditions.transfer;
    let mut experiment = Experiment::new(run.seed, conditions.limit());
    let wired = match &conditions.wired {
        Some(wired) => hop(wired)?,
        None => Hop::both_ways(&LinkSettings::default())?,
    };
    experiment.hops = vec![wired, hop(&conditions.cells[0])?];
    experiment.roaming = roaming(conditions)?;
    experiment.gateway = gateway::plan(&conditions.gateway, &experiment.hops)?;
    experiment.base_station = gateway::base_station(conditions);
    experiment.mobile = mobile::plan(conditions);
    experiment.mobile_engine = mobile::engine(&conditions.mobile);
    experiment.encrypted = transfer.encrypted;
    experiment.transfers = vec![Transfer {
        direction: transfer.direction.into(),
        request_bytes: transfer.request_bytes,
        start: conditions.start(),
        fh: TcpSettings {
            heeds_bad_link: conditions.gateway.scheme == SchemeChoice::Ebsn,
            ..host::tcp(&conditions.fh)
        },
        mh: host::tcp(&conditions.mh),
        content: transfer.content,
        closes: !transfer.stays_open,
        ..Transfer::download(transfer.bytes, TcpSettings::default())
    }];
    if transfer.stays_open {
        experiment.run_until = RunUntil::Limit;
    }
    experiment.notes_arrivals = !conditions
        .wireless
        .outages_of(transfer.direction)
        .is_empty();
    experiment.cross_traffic = cross_traffic(conditions);
    experiment.series_interval =
        (!conditions.record.is_empty()).then_some(conditions.record_interval);
    Ok(experiment)
}

/// The cells after the first, and the moves; none: there is only one cell.
fn roaming(conditions: &Conditions) -> anyhow::Result<Option<Roaming>> {
    let Some((_, others)) = conditions
        .cells
        .split_first()
        .filter(|(_, o)| !o.is_empty())
    else {
        return Ok(None);
    };
    let handoff = &conditions.gateway.handoff;
    let moves = conditions.moves.iter().map(|item| Move {
        from: item.from,
        to: item.to,
        warning: item.warning_s.map(seconds),
        enter: seconds(item.enter_s),
        route: item.route_s.map(seconds),
    });
    Ok(Some(Roaming {
        others: others.iter().map(hop).collect::<anyhow::Result<_>>()?,
        // The wires between router and base stations: as fast as possible, like a bridge within a
        // machine.
        lan: LinkSettings::default().plan()?,
        moves: moves.collect(),
        handoff: handoff.is_on().then(|| handoff.settings()),
    }))
}

fn hop(conditions: &HopConditions) -> anyhow::Result<Hop> {
    let [downlink, uplink]: &[LinkPlan; 2] = conditions
        .plans()
        .context("the run's outages are not drawn")?;
    Ok(Hop {
        downlink: downlink.clone(),
        uplink: uplink.clone(),
        outages_shared: conditions.outages_shared,
        half_duplex: conditions.half_duplex,
        frame_overhead_bytes: conditions.frame_overhead_bytes,
        header_compression: conditions.header_compression,
    })
}

fn cross_traffic(conditions: &Conditions) -> Vec<holdfast_sim::CrossTraffic> {
    let streams = conditions.cross_traffic.iter();
    let stream = streams.map(|cross| {
        let (from_hop, to_hop) = match cross.over {
            Stretch::Wired => (WIRED, WIRED),
            Stretch::Wireless => (WIRELESS, WIRELESS),
            Stretch::Both => (WIRED, WIRELESS),
        };
        holdfast_sim::CrossTraffic {
            direction: cross.direction.into(),
            from_hop,
            to_hop,
            rate_bit_per_s: (cross.rate_mbit_per_s * 1e6).round().max(1.0) as u64,
            packet_bytes: cross.packet_bytes,
            start: seconds(cross.start_s),
            stop: cross.stop_s.map_or(conditions.limit(), seconds),
            poisson: cross.poisson,
        }
    });
    stream.collect()
}

fn line(run: &Run, experiment: &Experiment, outcome: &Outcome) -> anyhow::Result<ResultLine> {
    let conditions = &run.conditions;
    let sent = outcome
        .transfers
        .first()
        .context("the simulator gave no transfer")?;
    let ends = &experiment.transfers[0];
    let (sending, receiving) = match ends.direction {
        Direction::Downlink => (&ends.fh, &ends.mh),
        Direction::Uplink => (&ends.mh, &ends.fh),
    };
    let framing = Framing::new(
        sending.mss.min(receiving.mss),
        sending.timestamps && receiving.timestamps,
    );
    // The preset that ran: the default is not the RFC's Reno.
    let preset = conditions.sender().model_preset();
    let name = preset.unwrap_or(PRESET_DEFAULT).name();
    let first = sent.sender.data_segments - sent.sender.data_segments_repeated;
    let mut line = ResultLine::of(run, "model", name.to_owned(), framing);
    line.transfer_s = sent.transfer_time.map(|time| time.as_secs_f64());
    let between_s = between_s(conditions, sent, outcome.ended_at);
    line.stalls_s = stalls_s(conditions, sent, between_s);
    line.goodput_mbps = sent.goodput_bit_per_s / 1e6;
    line.retransmission_ratio_percent =
        retransmission_ratio_percent(first, sent.sender.data_segments_repeated);
    line.duplicates_per_byte = Some(sent.duplicates_per_byte());
    line.timeouts = Some(sent.sender.timeouts);
    line.seconds_sending = Some(sent.sender.seconds_sending.count());
    line.seconds_repeating = Some(sent.sender.seconds_repeating.count());
    line.compressed_to_percent = compressed_to_percent(&outcome.gateway);
    line.acknowledged_ahead_bytes = Some(sent.acknowledged_ahead_bytes_max);
    line.finished = sent.finished && !(conditions.transfer.stays_open && has_died(sent));
    line.intact = sent.intact;
    ending(sent).clone_into(&mut line.ending);
    line.bytes = sent.delivered_bytes;
    line.retransmitted_segments = sent.sender.data_segments_repeated;
    line.segments = first;
    line.outages = line.stalls_s.len();
    let arrivals = sent.arrivals.iter();
    let arrivals: Vec<_> = arrivals
        .map(|(at, bytes)| (at.as_secs_f64(), *bytes))
        .collect();
    let end_s = line.end_s(conditions, outcome.ended_at.as_secs_f64());
    line.note_full_rates(conditions, framing, end_s, &arrivals);
    line.mobile = outcome.mobile.as_ref().map(mobile::counters);
    if let [.., hop] = outcome.hops.as_slice()
        && LinkFigures::are_of(conditions)
    {
        let counters = &hop[conditions.transfer.direction as usize];
        let figures = LinkFigures::of(conditions, counters, between_s, end_s);
        line.link = Some(figures);
    }
    let streams = outcome.cross_traffic.iter();
    let figures = streams.map(|stream| DatagramFigures {
        sent: stream.sent,
        arrived: stream.arrived,
        ..DatagramFigures::default()
    });
    line.cross_traffic = figures.collect();
    line.digest = Some(format!("{:016x}", outcome.digest));
    line.series = (!conditions.record.is_empty()).then(|| series(conditions, sent));
    Ok(line)
}

/// Compressed size in percent of the payload that the gateway made smaller; none: it compressed
/// nothing.
fn compressed_to_percent(counters: &[(&str, u64)]) -> Option<f64> {
    let count = |wanted: &str| {
        let found = counters.iter().find(|(name, _)| *name == wanted);
        found.map(|(_, bytes)| *bytes as f64)
    };
    let from = count("compressed_from_bytes").filter(|bytes| *bytes > 0.0)?;
    Some(count("compressed_to_bytes")? * 100.0 / from)
}

/// Whether one of the ends gave up, or was reset.
fn has_died(sent: &TransferOutcome) -> bool {
    let died = |ending: &Ending| matches!(ending, Ending::GaveUp | Ending::Reset);
    sent.endings.iter().any(died)
}

fn ending(sent: &TransferOutcome) -> &'static str {
    let [sender, receiver] = sent.endings;
    match (sent.finished, sender, receiver) {
        (true, _, _) => "delivered",
        (false, Ending::GaveUp | Ending::Reset, _) | (false, _, Ending::GaveUp | Ending::Reset) => {
            "given up"
        }
        (false, _, _) => "not in time",
    }
}

/// Begin and end of the transfer, since the start of the links' clocks.
fn between_s(conditions: &Conditions, sent: &TransferOutcome, ended_at: Instant) -> [f64; 2] {
    let begin_s = conditions.start().as_secs_f64();
    let end_s = sent
        .transfer_time
        .map_or(ended_at.as_secs_f64(), |time| begin_s + time.as_secs_f64());
    [begin_s, end_s]
}

/// The stalls after the outages of the wireless hop, in the bytes' direction, by the rule of all
/// substrates.
fn stalls_s(
    conditions: &Conditions,
    sent: &TransferOutcome,
    between_s: [f64; 2],
) -> Vec<Option<f64>> {
    let outages = conditions
        .wireless
        .outages_of(conditions.transfer.direction);
    stall::stalls_s(outages, between_s, |up_s, _| {
        // The simulator ends a stall at the next outage by itself.
        let after = |stall: &Stall| stall.link_up_at.as_secs_f64() > up_s - SAME_MOMENT_S;
        let index = sent.stalls.partition_point(|stall| !after(stall));
        let stall = sent.stalls.get(index).filter(|stall| stall.ended)?;
        let is_own = (stall.link_up_at.as_secs_f64() - up_s).abs() < SAME_MOMENT_S;
        is_own.then(|| (stall.link_up_at + stall.length).as_secs_f64())
    })
}

fn series(conditions: &Conditions, sent: &TransferOutcome) -> Series {
    let wants = |record| conditions.record.contains(&record);
    let column = |record, value: &dyn Fn(&holdfast_sim::Sample) -> u64| {
        if wants(record) {
            sent.series.iter().map(value).collect()
        } else {
            Vec::new()
        }
    };
    Series {
        t_s: sent
            .series
            .iter()
            .map(|sample| sample.at.as_secs_f64())
            .collect(),
        cwnd: column(Record::Cwnd, &|sample| sample.cwnd),
        ssthresh: column(Record::Ssthresh, &|sample| match sample.ssthresh {
            u64::MAX => 0,
            bytes => bytes,
        }),
        rwnd: column(Record::Rwnd, &|sample| sample.rwnd),
        snd_una: column(Record::Sequence, &|sample| sample.snd_una),
        snd_nxt: column(Record::Sequence, &|sample| sample.snd_nxt),
        rcv_nxt: column(Record::Sequence, &|sample| sample.rcv_nxt),
        queue_packets: if wants(Record::Queue) {
            sent.series
                .iter()
                .map(|sample| sample.queue_packets)
                .collect()
        } else {
            Vec::new()
        },
        link_up: if wants(Record::LinkState) {
            sent.series.iter().map(|sample| sample.link_up).collect()
        } else {
            Vec::new()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;
    use crate::substrate::SubstrateKind;

    #[test]
    fn compression_leaves_a_share_of_what_it_made_smaller() {
        let counters = [("compressed_from_bytes", 400), ("compressed_to_bytes", 100)];
        assert_eq!(compressed_to_percent(&counters), Some(25.0));
        let nothing = [("compressed_from_bytes", 0), ("compressed_to_bytes", 0)];
        assert_eq!(compressed_to_percent(&nothing), None);
        assert_eq!(compressed_to_percent(&[]), None);
    }

    /// The share of lost bursts: "independent bursts of 6 packets", "of 32 packets" (Brown and
    /// Singh, 1997, 6.1), over the wired hop of the far sender, with its cross traffic.
    fn burst_loss(packets: u64) -> f64 {
        const BURSTS: u64 = 1500;
        const APART_S: u64 = 2;
        let file = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../papers/mtcp-1997/disconnections.toml");
        let runs = Scenario::load(&file).unwrap().runs(None).unwrap();
        let mut far = runs
            .into_iter()
            .find(|run| run.parameters["hops"] == 15)
            .unwrap();
        far.conditions.transfer.limit_s = ((BURSTS + 1) * APART_S) as f64;
        let mut experiment = experiment(&far.drawn().unwrap()).unwrap();
        // The transfer does not begin: there are only the bursts.
        experiment.transfers[0].start = experiment.limit;
        let others = experiment.cross_traffic.len();
        let packet_bytes = 552;
        let rate_bit_per_s = 1_000_000_000;
        let length = packets * packet_bytes * 8 * 1_000_000_000 / rate_bit_per_s;
        experiment.cross_traffic.extend((1..=BURSTS).map(|burst| {
            let start = holdfast_wire::Duration::from_secs(burst * APART_S);
            holdfast_sim::CrossTraffic {
                direction: Direction::Downlink,
                from_hop: WIRED,
                to_hop: WIRED,
                rate_bit_per_s,
                packet_bytes: packet_bytes as u32,
                start,
                stop: start + holdfast_wire::Duration::from_nanos(length),
                poisson: false,
            }
        }));
        let outcome = experiment.run();
        let bursts = &outcome.cross_traffic[others..];
        let sent: u64 = bursts.iter().map(|item| item.sent).sum();
        assert_eq!(sent, BURSTS * packets);
        1.0 - bursts.iter().map(|item| item.arrived).sum::<u64>() as f64 / sent as f64
    }

    /// The result of a scenario's first run.
    fn line_of(text: &str) -> ResultLine {
        let scenario = Scenario::parse(Path::new("s.toml"), text).unwrap();
        let run = scenario.runs(None).unwrap()[0].drawn().unwrap();
        let experiment = experiment(&run).unwrap();
        line(&run, &experiment, &experiment.run()).unwrap()
    }

    #[test]
    fn the_mobiles_auto_shortens_the_stall_of_both_directions() {
        let stall_s = |direction: &str, mobile: &str| {
            let line = line_of(&format!(
                "[transfer]\nbytes = 8_000_000\ndirection = \"{direction}\"\n[mobile]\n{mobile}\n\
                [wireless]\nrate_mbit_per_s = 8\ndelay_ms = 20\nqueue_packets_max = 50\n\
                outages = {{ kind = \"list\", list = [{{ at_s = 2, for_s = 3 }}] }}\n"
            ));
            assert!(line.finished && line.intact, "{line:?}");
            line.stalls_s[0].unwrap()
        };
        for direction in ["uplink", "downlink"] {
            let plain_s = stall_s(direction, "scheme = \"none\"");
            for signal in ["carrier", "none"] {
                let mobile = format!("scheme = \"auto\"\nsignal = \"{signal}\"");
                let auto_s = stall_s(direction, &mobile);
                assert!(
                    auto_s < 0.2 && auto_s * 2.0 < plain_s,
                    "{direction} {signal}: {auto_s}, {plain_s} without"
                );
            }
        }
    }

    #[test]
    fn a_result_has_when_the_link_carried_its_first_packet_after_an_outage() {
        let text = "[transfer]\nbytes = 4_000_000\n[wireless]\nrate_mbit_per_s = 8\ndelay_ms = 20\n\
            outages = { kind = \"list\", list = [{ at_s = 1, for_s = 1 }, { at_s = 60, for_s = 1 }] }\n";
        let line = line_of(text);
        let (link, stall_s) = (line.link.unwrap(), line.stalls_s[0].unwrap());
        let [Some(first_s)] = link.first_packet_s[..] else {
            panic!("one outage in the transfer: {link:?}");
        };
        // The time until the FH's first retransmission, and the link's delay.
        assert!(first_s >= 0.02 && first_s <= stall_s, "{first_s} {stall_s}");
    }

    #[test]
    fn a_result_has_what_the_link_could_carry_and_what_its_queue_dropped() {
        let text = "[transfer]\nbytes = 2_000_000\n[wireless]\nrate_mbit_per_s = 8\ndelay_ms = 20\n\
            queue_packets_max = 20\n[[cross_traffic]]\nover = \"wireless\"\nrate_mbit_per_s = 1\n";
        let scenario = Scenario::parse(Path::new("s.toml"), text).unwrap();
        let run = scenario.runs(None).unwrap()[0].drawn().unwrap();
        let experiment = experiment(&run).unwrap();
        let outcome = experiment.run();
        let line = line(&run, &experiment, &outcome).unwrap();
        let link = line.link.unwrap();
        let capacity_bytes = outcome.ended_at.as_secs_f64() * 1e6;
        let share = link.capacity_bytes.unwrap() as f64 / capacity_bytes;
        assert!((share - 1.0).abs() < 0.01, "{link:?}");
        assert!(link.packets > 1300 && link.dropped_by_queue > 0, "{link:?}");
        assert!(link.dropped_by_queue < link.packets / 10, "{link:?}");
        // A full queue of packets of 1500 bytes takes 30 ms.
        assert!((5.0..32.0).contains(&link.wait_p95_ms), "{link:?}");
        let datagrams = line.cross_traffic[0];
        assert!(
            datagrams.arrived > 100 && datagrams.arrived <= datagrams.sent,
            "{datagrams:?}"
        );
    }

    #[test]
    fn a_link_carries_nothing_in_an_outage() {
        let text = |transfer: &str| {
            format!(
                "[transfer]\nbytes = 4_000_000\n{transfer}\n[wireless]\nrate_mbit_per_s = 8\ndelay_ms = 20\n\
                 outages = {{ kind = \"list\", list = [{{ at_s = 1, for_s = 1 }}, {{ at_s = 7, for_s = 90 }}] }}\n"
            )
        };
        let capacity_s = |line: &ResultLine| {
            let link = line.link.as_ref().unwrap();
            link.capacity_bytes.unwrap() as f64 / 1e6
        };
        let line = line_of(&text(""));
        let expected = line.transfer_s.unwrap() - 1.0;
        assert!((capacity_s(&line) - expected).abs() < 1e-5, "{line:?}");
        // It begins in an outage, and does not end in time.
        let line = line_of(
            &text("bytes = 9_000_000\nstart_s = 1.5\nlimit_s = 20").replacen(
                "bytes = 4_000_000\n",
                "",
                1,
            ),
        );
        assert!((capacity_s(&line) - 5.0).abs() < 1e-5, "{line:?}");
    }

    #[test]
    fn a_medium_of_both_directions_has_no_figures_of_one() {
        for direction in ["uplink", "downlink"] {
            let line = line_of(&format!(
                "[transfer]\nbytes = 100_000\ndirection = \"{direction}\"\n\
                 [wireless]\nhalf_duplex = true\nrate_mbit_per_s = 8\n"
            ));
            assert!(line.finished && line.link.is_none(), "{line:?}");
        }
    }

    #[test]
    fn two_traces_make_the_run_that_they_make_with_outages_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("d.steps"), "1 10\n2 0\n6 10\n").unwrap();
        std::fs::write(folder.path().join("u.steps"), "3 10\n4.5 0\n6 10\n").unwrap();
        let line = |direction: &str, common: &str, own: &str| {
            let text = format!(
                "[transfer]\nbytes = 5_000_000\ndirection = \"{direction}\"\n\
                 [wireless]\ndelay_ms = 20\nqueue_packets_max = 100\n{common}\n\
                 [wireless.downlink]\nrate_trace = \"d.steps\"\n{own}\n\
                 [wireless.uplink]\nrate_trace = \"u.steps\"\n{own}\n"
            );
            let file = folder.path().join("s.toml");
            let run = Scenario::parse(&file, &text).unwrap().runs(None).unwrap();
            let conditions = SubstrateKind::Model.conditions(&run[0]);
            let run = run[0].drawn().unwrap();
            let experiment = experiment(&run).unwrap();
            (
                line(&run, &experiment, &experiment.run()).unwrap(),
                conditions,
            )
        };
        let outages = "outages = { kind = \"trace\", gap_min_s = 0.3 }";
        for direction in ["uplink", "downlink"] {
            let common = line(direction, outages, "");
            assert_eq!(common, line(direction, "", outages), "{direction}");
            assert!(common.0.stalls_s[0].is_some_and(|s| s >= 0.0), "{common:?}");
        }
    }

    #[test]
    fn bursts_over_the_far_senders_path_are_lost_as_its_authors_measured() {
        for (packets, printed) in [(6, 0.051), (32, 0.238)] {
            let lost = burst_loss(packets);
            assert!(
                (lost / printed - 1.0).abs() < 0.1,
                "{packets}: {lost} for {printed}"
            );
        }
    }
}
