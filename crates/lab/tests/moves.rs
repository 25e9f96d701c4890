// SPDX-License-Identifier: Apache-2.0
//! An MH that goes from cell to cell, on the model: with base stations that hand it over and
//! with base stations that know nothing of each other.

use std::path::Path;

use holdfast_lab::results::ResultLine;
use holdfast_lab::scenario::Scenario;
use holdfast_lab::substrate::{ExecutionSettings, Substrate, SubstrateKind};
use holdfast_testbed::stop::StopFlag;

/// What differs is put in front of it.
const COMMON: &str = "
[wired]
rate_mbit_per_s = 10
delay_ms = 1
[wireless]
rate_mbit_per_s = 2
delay_ms = 1
queue_packets_max = 50
[[cells]]
[[cells]]
[[cells]]
[hosts]
preset = 'reno43bsd'
[gateway]
scheme = 'snoop'
signal = 'mobile'
[[sweep]]
name = 'handoff'
key = 'gateway.handoff.kind'
values = ['none', 'multicast']
[transfer]
bytes = 2000000
limit_s = 100
";

fn on_model(movement: &str, transfer: &str) -> Vec<ResultLine> {
    let text = format!("{COMMON}{transfer}\n[movement]\n{movement}");
    let scenario = Scenario::parse(Path::new("p/s.toml"), &text).unwrap();
    let settings = ExecutionSettings {
        holdfast: "/nonexistent".into(),
        label: None,
        pcap: None,
    };
    let model = Substrate::new(SubstrateKind::Model, settings).unwrap();
    let runs = scenario.runs(None).unwrap();
    runs.iter()
        .map(|run| model.execute(run, &StopFlag::default()).unwrap())
        .collect()
}

#[test]
fn base_stations_that_hand_over_lose_nothing_and_others_lose_what_was_on_the_way() {
    for movement in [
        "moves = { kind = 'periodic', first_at_s = 1, every_s = 2 }\nroute_after_ms = 100",
        "moves = { kind = 'random', stay_mean_s = 2, stay_min_s = 1 }\nroute_after_ms = 20\n\
         warning_ms = 300",
    ] {
        let lines = on_model(movement, "");
        let [none, multicast] = lines.as_slice() else {
            panic!("two runs");
        };
        for line in &lines {
            assert!(line.finished && line.intact, "{line:?}");
            let count = line.handoffs.len();
            assert!(count >= 2 && line.stalls_s.len() == count, "{line:?}");
            assert_eq!(line.handoff.as_ref().unwrap().count, count);
        }
        for handoff in &multicast.handoffs {
            // The gap of 10 ms, the word that it is here, and a packet's time on the link.
            let first_ms = handoff.first_packet_ms.unwrap();
            assert!((17.0..30.0).contains(&first_ms), "{handoff:?}");
            assert!(handoff.new_byte_ms.unwrap() < 60.0, "{handoff:?}");
            assert_eq!((handoff.lost_packets, handoff.sent_again_packets), (0, 0));
        }
        let [of_none, of_multicast] = [none, multicast].map(|line| line.handoff.clone().unwrap());
        assert_eq!(of_none.buffered_bytes_max, None);
        assert!(of_multicast.buffered_bytes_max.unwrap() > 10_000);
        let lost = none
            .handoffs
            .iter()
            .map(|one| one.lost_packets)
            .sum::<u64>();
        assert!(lost > 10, "{lost} {of_none:?}");
        assert!(none.timeouts > Some(0) && multicast.timeouts == Some(0));
        assert!(none.transfer_s > multicast.transfer_s);
    }
}

#[test]
fn an_mh_to_which_the_route_never_leads_gets_what_the_old_base_station_copies() {
    let movement = "moves = { kind = 'list', list = [{ at_s = 2, to = 3 }] }";
    let lines = on_model(movement, "");
    assert!(!lines[0].finished, "{:?}", lines[0]);
    assert_eq!(lines[0].handoffs[0].new_byte_ms, None);
    assert!(lines[1].finished && lines[1].intact, "{:?}", lines[1]);
    assert_eq!(lines[1].retransmitted_segments, 0, "{:?}", lines[1]);
}

#[test]
fn what_the_mh_sends_goes_on_through_the_new_cell() {
    let movement =
        "moves = { kind = 'periodic', first_at_s = 1, every_s = 2 }\nroute_after_ms = 50";
    for line in on_model(movement, "direction = 'uplink'") {
        assert!(line.finished && line.intact, "{line:?}");
        assert!(line.handoffs.len() >= 2);
        assert!(
            line.handoffs
                .iter()
                .any(|handoff| handoff.new_byte_ms.is_some())
        );
    }
}

#[test]
fn the_papers_scenarios_of_handoff_are_carried_out() {
    for (name, cells) in [("handoff-2", 2), ("handoff-4", 4)] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../papers/snoop-1995");
        let scenario = Scenario::load(&folder.join(format!("{name}.toml"))).unwrap();
        let runs = scenario.runs(None).unwrap();
        assert!(runs.iter().all(|run| run.conditions.cells.len() == cells));
        for kind in SubstrateKind::ALL {
            assert_eq!(kind.takes(&runs), runs.len());
        }
    }
}

#[test]
fn what_cannot_be_is_refused_with_its_key() {
    let refusal = |text: String| {
        let scenario = Scenario::parse(Path::new("p/s.toml"), &text).unwrap();
        scenario.runs(None).unwrap_err().to_string()
    };
    let moves = "[movement]\nmoves = { kind = 'list', list = [{ at_s = 1, to = 2 }] }\n";
    for (text, expected) in [
        (format!("{COMMON}{moves}gap = 5"), "key `movement.gap`"),
        (
            format!("{COMMON}{}", moves.replace("to = 2", "to = 4")),
            "key `movement.moves.list.0.to`",
        ),
        (
            format!(
                "{}{moves}",
                COMMON
                    .replace("[wired]", "[fh]")
                    .replace("delay_ms = 1\n[w", "[w")
            )
            .replace("rate_mbit_per_s = 10", ""),
            "key `cells`: got",
        ),
        (
            COMMON.replace("[[cells]]\n", ""),
            "key `gateway.handoff.kind`",
        ),
        (
            COMMON
                .replace("[[cells]]\n", "")
                .replace("'none', 'multicast'", "'none'")
                + moves,
            "there is nowhere to go",
        ),
        (
            COMMON.replacen("[[cells]]", "[[cells]]\ndelay = 5", 1),
            "key `cells.0.delay`: got 5",
        ),
    ] {
        let error = refusal(text);
        assert!(error.contains(expected), "{error}");
    }
}
