// SPDX-License-Identifier: Apache-2.0
//! Whose silence it is: the mobile's, or that of one flow.

use core::time::Duration;

use holdfast_wire::Flags;

use super::bench::{Bench, LEN, SHIFT, WINDOW, bench, passed};
use crate::Scheme;
use crate::link_state::LinkState;

const SCHEMES: [Scheme; 4] = [Scheme::Hold, Scheme::Auto, Scheme::MtcpPlus, Scheme::Snoop];

fn link(bench: &Bench) -> LinkState {
    bench.gateway.mobiles().next().expect("a mobile").link
}

/// Twenty segments, each answered after 20 ms.
fn answer_twenty(bench: &mut Bench) {
    for number in 0..20 {
        bench.forward(1 + number * LEN, 1);
        bench.wait(20);
        bench.up(1001 + number * LEN);
    }
}

#[test]
fn a_download_that_the_mh_resets_is_no_outage() {
    for scheme in SCHEMES {
        let mut bench = bench(scheme);
        bench.forward(1, 3);
        let mut reset = bench.mh_segment(1001);
        reset.flags = Flags::RST.with(Flags::ACK);
        assert_eq!(bench.put(reset), passed());
        assert_eq!(bench.down(3001, LEN), passed(), "what was under way");
        bench.wait(5_000);
        assert_eq!(bench.counter("silences"), 0, "{scheme:?}");
        assert_eq!(link(&bench), LinkState::Up, "{scheme:?}");
        // The next connection of the MH waits for an answer from its own first segment on.
        bench.mh_port += 1;
        bench.shake_hands(0, 5000);
        assert!(bench.up(1).forwarded);
        bench.forward(1, 1);
        bench.wait(100);
        assert_eq!(bench.counter("silences"), 0, "{scheme:?}");
    }
}

#[test]
fn a_reset_by_the_mh_ends_a_silence() {
    let mut bench = bench(Scheme::Hold);
    bench.forward(1, 3);
    bench.wait(3_000);
    assert_eq!(link(&bench), LinkState::Down);
    let mut reset = bench.mh_segment(1);
    reset.flags = Flags::RST;
    assert_eq!(bench.put(reset), passed());
    assert_eq!(link(&bench), LinkState::Up);
}

#[test]
fn a_reset_by_the_fh_does_not_end_a_silence() {
    let mut bench = two_flows(Scheme::Hold);
    bench.forward(1001, 3);
    bench.mh_port += 1;
    bench.forward(1001, 1);
    bench.wait(3_000);
    assert_eq!(link(&bench), LinkState::Down);
    let mut reset = bench.fh_segment(2001, 0);
    reset.flags = Flags::RST;
    assert_eq!(bench.put(reset), passed());
    assert_eq!(link(&bench), LinkState::Down);
}

/// Two flows of one MH: the first one was answered until now.
fn two_flows(scheme: Scheme) -> Bench {
    let mut bench = bench(scheme);
    bench.forward(1, 1);
    bench.wait(20);
    bench.up(1001);
    bench.mh_port += 1;
    bench.shake_hands(0, 5000);
    assert!(bench.up(1).forwarded);
    bench.forward(1, 1);
    bench.wait(20);
    bench.up(1001);
    bench.mh_port -= 1;
    bench
}

#[test]
fn a_flow_that_is_left_unanswered_does_not_hold_up_the_others_of_its_mobile() {
    for scheme in [Scheme::Hold, Scheme::Auto, Scheme::Snoop] {
        let mut bench = two_flows(scheme);
        bench.forward(1001, 8);
        bench.wait(3_000);
        assert_eq!(link(&bench), LinkState::Down, "{scheme:?}");
        // The first flow has nothing to probe with. The other flow's next segment is a probe at once.
        bench.mh_port += 1;
        let mut to_dead_flow = 0;
        for push in 0..100 {
            assert_eq!(
                bench.down(1001 + push * LEN, LEN),
                passed(),
                "{scheme:?} {push}"
            );
            let mut lines = bench.wait(20);
            let answer = bench.up(2001 + push * LEN);
            assert!(answer.forwarded, "{scheme:?} {push}");
            lines.extend(answer.lines);
            lines.extend(bench.wait(500));
            to_dead_flow += lines.iter().filter(|line| line.starts_with("DATA")).count();
        }
        assert_eq!(bench.counter("silences"), 1, "{scheme:?}");
        assert!(
            to_dead_flow < 100,
            "{scheme:?}: {to_dead_flow} segments for the dead flow"
        );
    }
}

#[test]
fn a_silence_that_one_flow_makes_freezes_no_other_for_long() {
    let mut bench = two_flows(Scheme::MtcpPlus);
    bench.forward(1001, 8);
    let mut lines = bench.wait(3_000);
    // The idle flow's FH waits with a window of 0, so a probe goes to this flow too.
    let probed = lines
        .iter()
        .any(|line| line.starts_with("MADE to MH seq 1000 "));
    assert!(probed, "{lines:?}");
    bench.mh_port += 1;
    lines = bench.up(1001).lines;
    let opens = format!("ACK 1001 wnd {} ", super::bench::WINDOW);
    assert!(
        lines.iter().any(|line| line.starts_with(&opens)),
        "{lines:?}"
    );
    for push in 0..20 {
        assert_eq!(bench.down(1001 + push * LEN, LEN), passed(), "{push}");
        bench.wait(20);
        assert!(bench.up(2001 + push * LEN).forwarded, "{push}");
        bench.wait(1_000);
    }
    assert_eq!(bench.counter("silences"), 1);
}

#[test]
fn a_flow_that_was_mute_is_probed_anew_in_the_next_silence() {
    let mut bench = two_flows(Scheme::Auto);
    bench.forward(1001, 4);
    bench.wait(3_000);
    bench.mh_port += 1;
    bench.forward(1001, 1);
    bench.up(2001);
    bench.wait(100);
    bench.mh_port -= 1;
    bench.up(2001);
    bench.wait(200);
    bench.up(5001);
    bench.wait(200);
    assert_eq!(link(&bench), LinkState::Up);
    // A slow link: the first of four segments arrives after seconds.
    bench.forward(5001, 4);
    bench.wait(5_000);
    let before = ["silences", "false_silences", "recoveries"].map(|name| bench.counter(name));
    bench.up(6001);
    let after = ["silences", "false_silences", "recoveries"].map(|name| bench.counter(name));
    assert_eq!((before, after), ([2, 0, 1], [2, 1, 1]));
}

#[test]
fn a_mute_flow_that_is_answered_gets_all_that_is_in_the_cache() {
    let mut bench = two_flows(Scheme::Hold);
    bench.forward(1001, 8);
    bench.wait(3_000);
    bench.mh_port += 1;
    bench.forward(1001, 1);
    let mut lines = bench.up(2001).lines;
    lines.extend(bench.wait(100));
    // One segment is the probe.
    assert_eq!(lines, ["DATA 1001..2001 ts 1040"]);
    bench.mh_port -= 1;
    lines = bench.up(2001).lines;
    lines.extend(bench.wait(200));
    // The rest follows at the link's pace.
    let first: Vec<&str> = lines
        .iter()
        .map(|line| line.split(" ts").next().unwrap())
        .collect();
    assert_eq!(
        first[..3],
        ["DATA 2001..3001", "DATA 3001..4001", "DATA 4001..5001"]
    );
}

#[test]
fn a_mute_flow_is_found_soon_after_a_second_outage_without_a_report() {
    for scheme in SCHEMES {
        let mut bench = two_flows(scheme);
        bench.forward(1001, 8);
        bench.wait(3_000);
        bench.mh_port += 1;
        // A segment of the other flow ends the silence, and the link goes again at once.
        bench.up(1001);
        bench.wait(15_000);
        // Back again: from now on whatever is sent is answered.
        let probes = bench.wait(1_500);
        let probed = probes.iter().any(|line| line.starts_with("DATA 1001"));
        assert!(probed, "{scheme:?}: {probes:?}");
    }
}

/// One of two flows is mute, with eight segments: the other one ended the silence ten seconds ago.
fn probed_mute_flow() -> Bench {
    let mut bench = two_flows(Scheme::Hold);
    bench.forward(1001, 8);
    bench.wait(3_000);
    bench.mh_port += 1;
    bench.forward(1001, 1);
    bench.up(2001);
    bench.wait(10_000);
    bench.mh_port -= 1;
    bench
}

#[test]
fn after_some_probes_of_a_mute_flow_its_fh_is_let_through() {
    let mut bench = probed_mute_flow();
    assert_eq!(bench.down(1001, LEN), passed());
}

#[test]
fn new_data_of_a_mute_flow_wait_behind_what_the_mh_lacks() {
    let mut bench = probed_mute_flow();
    assert!(!bench.down(9001, LEN).forwarded);
}

#[test]
fn an_idle_flow_that_answers_first_does_not_show_that_the_link_kept_a_download() {
    let mut bench = bench(Scheme::Auto);
    let request = |bench: &Bench, number: u32| {
        let mut segment = bench.mh_segment(1);
        segment.seq += number * LEN;
        segment
    };
    let mut data = request(&bench, 0);
    data.payload_len = LEN;
    bench.put(data);
    let mut ack = bench.fh_segment(1, 0);
    ack.ack += LEN;
    bench.put(ack);
    bench.wait(20);
    bench.mh_port += 1;
    bench.shake_hands(0, 5000);
    bench.up(1);
    answer_twenty(&mut bench);
    bench.forward(20_001, 8);
    let probes = bench.wait(3_000);
    let has = |line: &str| probes.iter().any(|probe| probe.starts_with(line));
    assert!(has("DATA 20001") && has("MADE to MH seq 0 "), "{probes:?}");
    // The link has lost all that it had.
    bench.mh_port -= 1;
    let mut lines = bench.put(request(&bench, 1)).lines;
    lines.extend(bench.wait(20));
    assert_eq!(bench.counter("false_silences"), 0);
    bench.mh_port += 1;
    lines.extend(bench.up(21_001).lines);
    lines.extend(bench.wait(200));
    for number in 20..28 {
        let seq = format!("DATA {}..", 1 + number * LEN);
        assert!(lines.iter().any(|line| line.starts_with(&seq)), "{seq}");
    }
}

#[test]
fn of_a_flow_that_is_not_mute_the_fhs_copies_wait_for_their_turn() {
    let mut bench = bench(Scheme::Hold);
    bench.forward(1, 40);
    bench.link_down();
    bench.wait(500);
    let sent = bench.link_up().len() as u32;
    assert!(sent < 40, "{sent}");
    // After some retransmissions in vain the FH's copies go on, but not those that wait.
    for _ in 0..4 {
        bench.link_down();
        bench.wait(2_000);
        bench.link_up();
    }
    assert_eq!(bench.down(1, LEN), passed(), "it was sent");
    let waits = bench.down(39_001, LEN);
    assert!(!waits.forwarded, "{waits:?}");
}

#[test]
fn the_only_flow_of_its_mobile_is_retransmitted_as_a_whole_however_often_in_vain() {
    let mut bench = bench(Scheme::Hold);
    bench.forward(1, 3);
    bench.link_down();
    bench.wait(500);
    assert_eq!(bench.recovers().len(), 3);
    // The link is up, for the MH sends data.
    let (mut data, mut sent) = (bench.mh_segment(1), Vec::new());
    data.payload_len = 10;
    let until = bench.now + Duration::from_secs(10);
    while bench.counter("repaired") < 3 && bench.now < until {
        sent.extend(bench.put(data).lines);
        data.seq += 10;
        sent.extend(bench.wait(50));
    }
    sent.extend(bench.wait(40));
    for seq in ["DATA 1..", "DATA 1001..", "DATA 2001.."] {
        let copies = sent.iter().filter(|line| line.starts_with(seq)).count();
        assert_eq!(copies, 3, "{seq}: {sent:?}");
    }
}

/// BSD's probe is a byte beyond the window (RFC 9293, 3.8.6.1). No answer can acknowledge it.
#[test]
fn a_window_that_is_closed_for_long_is_no_outage() {
    for scheme in SCHEMES {
        let mut bench = bench(scheme);
        let edge = 1 + (u32::from(WINDOW) << SHIFT);
        for seq in (1..edge).step_by(LEN as usize) {
            assert!(bench.down(seq, LEN.min(edge - seq)).forwarded, "{scheme:?}");
        }
        bench.wait(20);
        let mut closed = bench.mh_segment(edge);
        closed.window = 0;
        assert!(bench.put(closed).forwarded, "{scheme:?}");
        for _ in 0..20 {
            assert!(bench.down(edge, 1).forwarded, "{scheme:?}");
            bench.wait(20);
            assert!(bench.put(closed).forwarded, "{scheme:?}");
            assert_eq!(bench.wait(4980), [] as [&str; 0], "{scheme:?}");
        }
        assert_eq!(bench.counter("silences"), 0, "{scheme:?}");
        // A probe without an answer is a sign of an outage, as before.
        assert!(bench.down(edge, 1).forwarded, "{scheme:?}");
        bench.wait(5_000);
        assert_eq!(bench.counter("silences"), 1, "{scheme:?}");
    }
}

/// `freeze` and a host short of memory close the window while data within it are in flight.
#[test]
fn a_window_that_closes_over_data_in_flight_hides_no_outage() {
    for scheme in SCHEMES {
        let mut bench = bench(scheme);
        bench.forward(1, 8);
        bench.wait(20);
        let mut closed = bench.mh_segment(1001);
        closed.window = 0;
        assert!(bench.put(closed).forwarded, "{scheme:?}");
        bench.wait(5_000);
        assert_eq!(bench.counter("silences"), 1, "{scheme:?}");
    }
}

#[test]
fn a_silence_in_which_nothing_was_lost_counts_as_no_outage_of_the_mobile() {
    let mut bench = bench(Scheme::Auto);
    answer_twenty(&mut bench);
    bench.forward(20_001, 2);
    // The ACK of the first segment is late, and no probe was answered.
    let sent = bench.mh_segment(21_001);
    bench.wait(1_000);
    let outages = |bench: &Bench| bench.gateway.mobiles().next().expect("a mobile").outages;
    assert_eq!(outages(&bench), 1, "as long as it lasts");
    bench.put(sent);
    assert_eq!(bench.counter("false_silences"), 1);
    assert_eq!(outages(&bench), 0);
}

#[test]
fn a_warning_is_over_when_its_outage_has_ended() {
    let mut bench = bench(Scheme::MtcpPlus);
    bench.link_warning();
    bench.link_down();
    bench.link_up();
    let mobile = bench.gateway.mobiles.iter().next().expect("a mobile");
    assert_eq!(mobile.warned_until, None);
}
