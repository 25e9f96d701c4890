// SPDX-License-Identifier: Apache-2.0
//! Strangers, limits and what is not understood.

use crate::gateway::tests::first_flow;
use holdfast_wire::{Flags, PacketTooBig, Segment, SeqNum};

use super::bench::{
    Bench, LEN, SHIFT, bench, bench_with, lines, not_adopted, passed, settings, suppressed,
};
use crate::gateway::deadlines::{STALE_MAX, SWEEP_SLOTS};
use crate::testing::{FH, MH, Packet};
use crate::{Action, Scheme, Settings, Stage};

fn state_of(bench: &Bench) -> (SeqNum, SeqNum, SeqNum, SeqNum, Stage, u64) {
    let flow = first_flow(&bench.gateway);
    (
        flow.fh.una,
        flow.fh.max,
        flow.mh.nxt,
        flow.sent_nxt,
        flow.stage,
        bench.cached(),
    )
}

#[test]
fn forged_segments_pass_and_change_no_state() {
    for scheme in [Scheme::Hold, Scheme::MtcpPlus] {
        let mut bench = bench(scheme);
        bench.forward(1, 3);
        let before = state_of(&bench);
        let far = bench.fh_segment(200_000, LEN);
        let mut beyond = bench.mh_segment(100_000);
        beyond.seq = SeqNum::new(1_000_000);
        let mut reset = bench.mh_segment(1);
        (reset.flags, reset.seq) = (Flags::RST, SeqNum::new(5500));
        let mut long_ago = bench.mh_segment(1);
        long_ago.ack = SeqNum::new(0u32.wrapping_sub(1 << 30));
        for forged in [far, beyond, reset, long_ago] {
            assert_eq!(bench.put(forged), passed(), "{forged:?}");
            assert_eq!(state_of(&bench), before, "{forged:?}");
        }
        assert_eq!(bench.counter("passed.implausible"), 4);
    }
}

/// RFC 7413: the SYN has data, and the FH acknowledges both at once.
#[test]
fn a_syn_with_data_is_known_like_any_other() {
    let mut bench = not_adopted(settings(Scheme::Auto));
    let mut syn = bench.mh_segment(0);
    (syn.seq, syn.flags, syn.payload_len) = (SeqNum::new(5000), Flags::SYN, 300);
    syn.options.window_scale = Some(SHIFT);
    assert_eq!(bench.put(syn), passed());
    assert_eq!(bench.put(bench.syn_ack(0, 5300)), passed());
    let mut ack = bench.mh_segment(1);
    ack.seq = SeqNum::new(5301);
    assert_eq!(bench.put(ack), passed());
    let flow = first_flow(&bench.gateway);
    assert_eq!(flow.stage, Stage::Open);
    assert_eq!(flow.mh.window_scale, Some(SHIFT));
}

#[test]
fn a_forged_ack_does_not_end_an_outage() {
    let mut bench = bench(Scheme::MtcpPlus);
    bench.forward(1, 1);
    bench.link_down();
    bench.wait(1000);
    let mut forged = bench.mh_segment(700_000);
    forged.seq = SeqNum::new(1_000_000);
    bench.put(forged);
    assert_eq!(bench.state(), "frozen");
}

fn too_big(seq: u32, mtu: u32) -> PacketTooBig {
    PacketTooBig {
        from: FH,
        to: MH,
        seq: SeqNum::new(seq),
        mtu,
    }
}

fn path_mtu(bench: &Bench) -> Option<u32> {
    first_flow(&bench.gateway).path_mtu
}

#[test]
fn packet_too_big_about_what_the_gateway_sent_again_is_followed_by_smaller_pieces() {
    let mut bench = bench(Scheme::MtcpPlus);
    bench.forward(1, 2);
    bench.link_down();
    bench.recovers();
    let (mut actions, now) = (Vec::new(), bench.now);
    bench
        .gateway
        .handle_packet_too_big(&too_big(1, 900), now, &mut actions);
    let until = now + core::time::Duration::from_millis(40);
    while let Some(at) = bench.gateway.poll_timeout().filter(|at| *at <= until) {
        bench.gateway.handle_timeout(at, &mut actions);
    }
    let fh_retransmitted = |action: &Action<Packet>| match action {
        Action::Resend(resend) => Some((resend.seq.get(), resend.path_mtu)),
        _ => None,
    };
    let fh_retransmitted: Vec<_> = actions.iter().filter_map(fh_retransmitted).collect();
    assert_eq!(fh_retransmitted, [(1, Some(900)), (1001, Some(900))]);
}

#[test]
fn packet_too_big_about_bytes_that_are_not_in_flight_is_not_believed() {
    let mut bench = bench(Scheme::Hold);
    bench.forward(1, 2);
    let now = bench.now;
    for (seq, mtu) in [(2001, 900), (0u32.wrapping_sub(5), 900), (1, 68)] {
        bench
            .gateway
            .handle_packet_too_big(&too_big(seq, mtu), now, &mut Vec::new());
        assert_eq!(path_mtu(&bench), None, "{seq} {mtu}");
    }
    assert_eq!(bench.counter("passed.implausible"), 3);
}

#[test]
fn with_the_table_full_further_flows_pass_untouched() {
    let mut small = settings(Scheme::MtcpPlus);
    small.flows_max = 1;
    let mut bench = bench_with(small);
    bench.mh_port += 1;
    assert_eq!(bench.down(1, LEN), passed());
    assert_eq!(bench.up(1001), passed());
    bench.mh_port -= 1;
    bench.link_down();
    bench.mh_port += 1;
    assert_eq!(bench.down(1001, LEN), passed());
    assert_eq!(bench.counter("passed.table_full"), 3);
    assert_eq!(bench.gateway.stats().flows, 1);
}

#[test]
fn a_flow_that_begins_with_an_option_that_is_not_known_is_passed_on_for_ever() {
    let mut bench = not_adopted(settings(Scheme::MtcpPlus));
    bench.shake_hands(0, 5000);
    let mut strange = bench.mh_segment(1);
    strange.options.others = true;
    assert_eq!(bench.put(strange), passed());
    assert_eq!(bench.state(), "opaque");
    bench.forward(1, 1);
    assert!(bench.link_down().is_empty());
    assert_eq!(bench.down(1001, LEN), passed());
    assert_eq!(bench.cached(), 0);
}

#[test]
fn an_option_that_is_not_known_in_an_open_flow_costs_no_owed_byte() {
    let mut bench = bench(Scheme::MtcpPlus);
    bench.forward(1, 2);
    assert!(!bench.link_down().is_empty());
    let mut forged = bench.fh_segment(900_000, LEN);
    forged.options.others = true;
    assert_eq!(bench.put(forged), passed());
    assert_eq!((bench.state(), bench.cached()), ("frozen", 2000));
    let mut uncopied = bench.fh_segment(2001, LEN);
    uncopied.options.others = true;
    assert_eq!(bench.put(uncopied), passed());
    assert_eq!((bench.state(), bench.cached()), ("frozen", 2000));
}

#[test]
fn urgent_data_is_not_kept() {
    let mut bench = bench(Scheme::Hold);
    let mut urgent = bench.fh_segment(1, LEN);
    urgent.flags = Flags::ACK.with(Flags::URG);
    assert_eq!(bench.put(urgent), passed());
    assert_eq!(bench.cached(), 0);
}

#[test]
fn a_flow_closed_by_both_ends_is_forgotten_and_leaves_nothing() {
    let mut bench = bench(Scheme::Hold);
    let mut fin = bench.fh_segment(1, LEN);
    fin.flags = Flags::ACK.with(Flags::FIN);
    assert_eq!(bench.put(fin), passed());
    let mut answer = bench.mh_segment(1002);
    answer.flags = Flags::ACK.with(Flags::FIN);
    assert_eq!(bench.put(answer), passed());
    let mut last = bench.fh_segment(1002, 0);
    last.ack = SeqNum::new(5002);
    assert_eq!(bench.put(last), passed());
    let acks = bench.mh_segment(1002);
    bench.put(acks);
    assert_eq!(bench.cached(), 0);
    bench.wait(70_000);
    assert_eq!(bench.gateway.stats().flows, 0);
    assert_eq!(bench.gateway.poll_timeout(), None);
}

#[test]
fn after_a_hang_in_which_both_ends_went_on_the_flow_is_followed_again() {
    for scheme in [Scheme::Hold, Scheme::MtcpPlus] {
        let mut bench = bench(scheme);
        bench.forward(1, 2);
        // 2001..9001 and their ACKs passed by unseen.
        assert_eq!(bench.up(9001), passed());
        assert_eq!(bench.cached(), 0);
        bench.forward(9001, 1);
        assert_eq!(bench.cached(), 1000);
        bench.link_down();
        assert!(!bench.down(10_001, LEN).forwarded);
    }
}

#[test]
fn a_numbers_wrap_makes_no_difference() {
    let mut bench = super::bench::not_adopted(settings(Scheme::Hold));
    let start = 0u32.wrapping_sub(1500);
    bench.shake_hands(start.wrapping_sub(1), 5000);
    bench.up(start);
    assert_eq!(bench.down(start, LEN), passed());
    assert_eq!(bench.down(start.wrapping_add(LEN), LEN), passed());
    bench.link_down();
    assert_eq!(bench.down(500, LEN), suppressed(&[]));
    let lines = bench.recovers();
    let expected = [
        format!("DATA {start}..{} ts 1000", start + LEN),
        format!("DATA {}..500 ts 1000", start + LEN),
        "DATA 500..1500 ts 1000".into(),
    ];
    assert_eq!(lines, expected);
}

/// A segment of a flow that the MH knows nothing of.
fn spoofed(bench: &Bench, number: u16) -> Segment {
    let mut segment = bench.fh_segment(u32::from(number).wrapping_mul(1_000_003), 0);
    segment.from.port = number;
    segment.options.others = number.is_multiple_of(2);
    segment
}

fn small(flows_max: usize) -> Bench {
    bench_with(Settings {
        flows_max,
        ..settings(Scheme::Hold)
    })
}

#[test]
fn a_flood_of_unanswered_flows_displaces_no_true_flow() {
    let mut bench = small(16);
    bench.forward(1, 1);
    let first = bench.mh_port;
    for number in 1_000..6_000 {
        bench.put(spoofed(&bench, number));
        if number % 1_000 != 500 {
            continue;
        }
        // A true connection begins in the middle of it.
        bench.mh_port += 1;
        let mut syn = bench.mh_segment(0);
        (syn.seq, syn.flags) = (SeqNum::new(5000), Flags::SYN);
        bench.put(syn);
        for more in 0..4 {
            bench.put(spoofed(&bench, 6_000 + more));
        }
        bench.put(bench.syn_ack(0, 5000));
        for more in 0..4 {
            bench.put(spoofed(&bench, 7_000 + more));
        }
        assert_eq!(bench.up(1), passed());
        bench.forward(1, 1);
    }
    assert_eq!(bench.gateway.stats().flows, 16);
    let open = bench
        .gateway
        .flows
        .iter()
        .map(|row| &row.flow)
        .filter(|flow| flow.stage == Stage::Open);
    let mut ports: Vec<u16> = open.map(|flow| flow.key.mh.port).collect();
    ports.sort_unstable();
    assert_eq!(ports, (first..first + 6).collect::<Vec<_>>());
    assert_eq!(bench.counter("passed.table_full"), 0);
}

/// A flow of another mobile is adopted from a segment of each end. Were they forwarded?
fn begin_another(bench: &mut Bench, mobile: u8, port: u16) -> [bool; 2] {
    let mut down = bench.fh_segment(1, LEN);
    down.to.address = core::net::IpAddr::from([10, 9, 9, mobile]);
    down.to.port = port;
    let mut up = bench.mh_segment(1001);
    up.from = down.to;
    [down, up].map(|segment| bench.put(segment).forwarded)
}

#[test]
fn a_mobile_that_fills_the_table_makes_room_for_the_flows_of_others() {
    let mut bench = small(8);
    for _ in 0..7 {
        bench.mh_port += 1;
        bench.shake_hands(0, 5000);
        assert_eq!(bench.up(1), passed());
    }
    assert_eq!(bench.gateway.stats().mobiles, 1);
    // A flow of its own waits.
    bench.mh_port += 1;
    assert_eq!(bench.down(1, LEN), passed());
    assert_eq!(bench.counter("passed.table_full"), 1);
    // Those of another do not, up to its share.
    for number in 0..8 {
        begin_another(&mut bench, 9, 700 + number);
    }
    let flows: Vec<usize> = bench.gateway.mobiles().map(|mobile| mobile.flows).collect();
    assert_eq!(flows.iter().sum::<usize>(), 8);
    assert!(
        flows.iter().all(|flows| (3..=5).contains(flows)),
        "{flows:?}"
    );
}

#[test]
fn a_flood_of_newcomers_evicts_no_more_confirmed_flows_than_the_limit() {
    let mut bench = small(64);
    for _ in 0..63 {
        bench.mh_port += 1;
        bench.shake_hands(0, 5000);
        assert_eq!(bench.up(1), passed());
    }
    for number in 0..1_000_u16 {
        let mut segment = spoofed(&bench, number);
        let [high, low] = number.to_be_bytes();
        segment.to.address = core::net::IpAddr::from([10, 8, high, low]);
        bench.put(segment);
    }
    let open = bench
        .gateway
        .flows
        .iter()
        .map(|row| &row.flow)
        .filter(|flow| flow.stage == Stage::Open);
    assert_eq!(open.count(), 60);
}

/// Begins fifty flows of another mobile, each with a junk packet before its answer. Returns how
/// many of them are opened.
fn newcomers_amid_junk(bench: &mut Bench) -> usize {
    let mut opened = 0;
    for number in 0..50_u16 {
        let mut down = bench.fh_segment(1, LEN);
        down.to.address = core::net::IpAddr::from([10, 9, 9, 9]);
        down.to.port = 700 + number;
        let mut up = bench.mh_segment(1001);
        up.from = down.to;
        bench.put(down);
        // Junk comes before the answer.
        bench.put(spoofed(bench, number));
        bench.put(up);
        let mut flows = bench.gateway.flows.iter().map(|row| &row.flow);
        opened +=
            usize::from(flows.any(|flow| flow.key.mh == down.to && flow.stage == Stage::Open));
    }
    opened
}

#[test]
fn an_attacker_that_fills_the_table_keeps_no_newcomer_out_with_a_packet_for_each() {
    let mut bench = small(64);
    for _ in 0..63 {
        bench.mh_port += 1;
        bench.shake_hands(0, 5000);
        assert_eq!(bench.up(1), passed());
    }
    let opened = newcomers_amid_junk(&mut bench);
    assert!(opened >= 20, "{opened} of 50");
}

#[test]
fn one_mobile_leaves_a_part_of_the_cache_to_others() {
    let mut bench = bench_with(Settings {
        cache_bytes_max: 50_000,
        ..settings(Scheme::Hold)
    });
    bench.link_down();
    for i in 0..100 {
        bench.down(1 + i * LEN, LEN);
    }
    assert_eq!(bench.cached(), 40_000);
    let mut down = bench.fh_segment(1, LEN);
    down.to.address = core::net::IpAddr::from([10, 9, 9, 9]);
    let mut up = bench.mh_segment(1001);
    up.from = down.to;
    bench.put(down);
    bench.put(up);
    down.seq = SeqNum::new(1001);
    bench.put(down);
    assert_eq!(bench.cached(), 41_000);
}

#[test]
fn another_limit_of_the_cache_holds_while_flows_live() {
    let with_limit = |cache_bytes_max| Settings {
        cache_bytes_max,
        ..settings(Scheme::Hold)
    };
    let mut bench = bench_with(with_limit(50_000));
    bench.link_down();
    for i in 0..20 {
        bench.down(1 + i * LEN, LEN);
    }
    bench.gateway.set_limits(&with_limit(10_000));
    for i in 20..40 {
        bench.down(1 + i * LEN, LEN);
    }
    assert_eq!(bench.cached(), 20_000, "what is cached stays");
    bench.gateway.set_limits(&with_limit(100_000));
    for i in 20..40 {
        bench.down(1 + i * LEN, LEN);
    }
    assert_eq!(bench.cached(), 40_000);
}

#[test]
fn acks_of_bytes_that_were_never_seen_are_no_rate() {
    let mut bench = bench(Scheme::Hold);
    bench.forward(1, 2);
    bench.wait(20);
    let mut ack = 2001_u32;
    // The MH has the number of its next byte right, and lies about all else.
    for _ in 0..40_000 {
        ack = ack.wrapping_add(100_000);
        bench.up(ack);
    }
    bench.wait(100);
    let next = bench.fh_segment(ack, LEN);
    bench.put(next);
    bench.link_down();
    bench.wait(500);
    bench.link_up();
    bench.wait(100);
    let mobile = bench.gateway.mobiles.iter().next().expect("a mobile");
    let rate = mobile.delivery.bytes_per_s().unwrap_or(0);
    assert!(rate < 1_000_000, "{rate} bytes a second");
}

/// A flow whose segments carry an option that is not known: Multipath TCP.
fn opaque(bench: &mut Bench) {
    bench.mh_port += 1;
    bench.shake_hands(0, 5000);
    let mut ack = bench.mh_segment(1);
    ack.options.others = true;
    assert_eq!(bench.put(ack), passed());
}

#[test]
fn flows_that_pass_untouched_are_no_newcomers() {
    let mut bench = small(64);
    for _ in 0..64 {
        opaque(&mut bench);
    }
    let opened = newcomers_amid_junk(&mut bench);
    assert!(opened >= 20, "{opened} of 50");
}

#[test]
fn a_flow_that_passes_untouched_is_forgotten_some_minutes_after_its_fins() {
    for is_reset in [false, true] {
        let mut bench = small(8);
        bench.gateway = crate::Gateway::new(settings(Scheme::Hold));
        opaque(&mut bench);
        assert_eq!(bench.state(), "opaque");
        let mut end = bench.fh_segment(1, 0);
        end.flags = if is_reset {
            Flags::RST
        } else {
            Flags::FIN.with(Flags::ACK)
        };
        bench.put(end);
        let mut end = bench.mh_segment(2);
        end.flags = Flags::FIN.with(Flags::ACK);
        bench.put(end);
        bench.wait(200_000);
        assert_eq!(bench.gateway.stats().flows, 1);
        bench.wait(60_000);
        assert_eq!(bench.gateway.stats().flows, 0, "reset: {is_reset}");
    }
}

#[test]
fn a_half_closed_connection_stays_while_its_other_half_works() {
    let mut bench = bench(Scheme::Hold);
    let mut fin = bench.mh_segment(1);
    fin.flags = Flags::FIN.with(Flags::ACK);
    bench.put(fin);
    let mut ack = bench.fh_segment(1, 0);
    ack.ack = SeqNum::new(5002);
    bench.put(ack);
    bench.wait(3_600_000);
    assert_eq!(bench.gateway.stats().flows, 1);
}

#[test]
fn a_sweep_forgets_a_limited_number_of_the_flows_of_one_mobile() {
    let settings = settings(Scheme::Hold);
    let idle = settings.flow_idle_max + settings.flow_idle_max;
    let mut bench = not_adopted(settings);
    for port in 10_000..15_000 {
        bench.mh_port = port;
        bench.shake_hands(0, 5000);
        assert!(bench.up(1).forwarded);
    }
    bench.now += idle;
    let mut actions = Vec::new();
    let mut left = bench.gateway.stats().flows;
    for _ in 0..2 {
        bench.gateway.handle_timeout(bench.now, &mut actions);
        let forgotten = left - bench.gateway.stats().flows;
        assert!(
            (1..=SWEEP_SLOTS as usize).contains(&forgotten),
            "{forgotten}"
        );
        left -= forgotten;
        bench.now += core::time::Duration::from_secs(1);
    }
    assert_eq!((left, bench.gateway.stats().mobiles), (0, 0));
}

#[test]
fn a_router_is_believed_about_bytes_in_flight_and_packets_of_552_bytes_or_more() {
    for (seq, mtu, believed) in [
        (1, 552, Some(552)),
        (1, 551, None),
        (2000, 900, Some(900)),
        (2001, 900, None),
        (0, 900, None),
    ] {
        let mut bench = bench(Scheme::Hold);
        bench.forward(1, 2);
        let now = bench.now;
        bench
            .gateway
            .handle_packet_too_big(&too_big(seq, mtu), now, &mut Vec::new());
        assert_eq!(path_mtu(&bench), believed, "{seq} {mtu}");
    }
}

#[test]
fn a_flow_of_one_end_is_forgotten_after_30_seconds_and_a_closed_one_after_60() {
    let mut half = not_adopted(settings(Scheme::Hold));
    assert_eq!(half.down(1, LEN), passed());
    let mut closed = bench(Scheme::Hold);
    let mut reset = closed.mh_segment(1);
    reset.flags = Flags::RST;
    assert_eq!(closed.put(reset), passed());
    assert_eq!(closed.state(), "closed");
    for (bench, seconds) in [(&mut half, 30), (&mut closed, 60)] {
        bench.wait(seconds * 1_000);
        assert_eq!(bench.gateway.stats().flows, 1, "{seconds}");
        // The sweep comes by each second.
        bench.wait(1_000);
        assert_eq!(bench.gateway.stats().flows, 0, "{seconds}");
    }
}

#[test]
fn a_second_report_of_the_same_size_of_packets_sends_nothing() {
    let mut bench = bench(Scheme::MtcpPlus);
    bench.forward(1, 2);
    bench.link_down();
    bench.recovers();
    let mut sent = |mtu: u32| {
        let (mut actions, now) = (Vec::new(), bench.now);
        bench
            .gateway
            .handle_packet_too_big(&too_big(1, mtu), now, &mut actions);
        let lines = [lines(actions), bench.wait(40)].concat();
        lines.iter().filter(|line| line.starts_with("DATA")).count()
    };
    assert_eq!([900, 900, 1000, 800].map(&mut sent), [2, 0, 0, 2]);
}

#[test]
fn a_closed_flow_makes_room_before_a_confirmed_one() {
    let mut bench = small(64);
    let mut reset = bench.mh_segment(1);
    reset.flags = Flags::RST;
    for _ in 0..63 {
        bench.mh_port += 1;
        bench.shake_hands(0, 5000);
        assert_eq!(bench.up(1), passed());
    }
    let count = |bench: &Bench, stage: Stage| {
        let rows = bench.gateway.flows.iter();
        rows.filter(|row| row.flow.stage == stage).count()
    };
    assert_eq!(bench.put(reset), passed());
    assert_eq!(count(&bench, Stage::Open), 63);
    let mut segment = bench.fh_segment(1, LEN);
    segment.to.address = core::net::IpAddr::from([10, 9, 9, 9]);
    bench.put(segment);
    assert_eq!(count(&bench, Stage::Open), 63);
    assert_eq!(bench.counter("evicted"), 1);
}

#[test]
fn a_flow_whose_bytes_are_owed_makes_room_for_no_other() {
    let mut bench = small(4);
    bench.forward(1, 1);
    for _ in 0..3 {
        bench.mh_port += 1;
        bench.shake_hands(0, 5000);
        assert_eq!(bench.up(1), passed());
    }
    let rows = bench.gateway.flows.iter().map(|row| row.flow.key);
    for key in rows.collect::<Vec<_>>() {
        let id = bench.gateway.flows.find(&key).expect("a flow");
        let row = bench.gateway.flows.at_mut(id).expect("in use");
        row.flow.owed = Some(row.flow.fh.max);
    }
    let mut segment = bench.fh_segment(1, LEN);
    segment.to.address = core::net::IpAddr::from([10, 9, 9, 9]);
    assert_eq!(bench.put(segment), passed());
    assert_eq!(bench.counter("passed.table_full"), 1);
    assert_eq!(bench.counter("evicted"), 0);
}

#[test]
fn a_mobile_makes_room_for_another_that_has_two_flows_less() {
    for (own, evicted) in [(3, 0), (4, 1)] {
        let mut bench = small(own + 2);
        for _ in 1..own {
            bench.mh_port += 1;
            bench.shake_hands(0, 5000);
            assert_eq!(bench.up(1), passed());
        }
        for number in 0..3 {
            begin_another(&mut bench, 9, 700 + number);
        }
        assert_eq!(bench.counter("evicted"), evicted, "{own} flows and 2");
    }
}

#[test]
fn of_two_equally_large_mobiles_the_one_whose_flows_came_first_makes_room() {
    let mut bench = small(7);
    let mut begin = |mobile: u8, port: u16| {
        assert_eq!(begin_another(&mut bench, mobile, port), [true; 2]);
        let views = bench.gateway.mobiles();
        views.map(|view| view.flows).collect::<Vec<_>>()
    };
    for mobile in [8, 9] {
        for port in 700..703 {
            begin(mobile, port);
        }
    }
    assert_eq!(begin(10, 700), [1, 2, 3, 1]);
}

/// The FHs of many connections may give up while the MH is away.
#[test]
fn flows_that_end_in_an_outage_do_not_stay_in_the_queue_for_link_up() {
    for count in [300, 301] {
        let mut bench = bench(Scheme::Hold);
        let ports = bench.mh_port + 1..=bench.mh_port + count;
        for port in ports.clone() {
            bench.mh_port = port;
            bench.shake_hands(0, 5000);
            assert!(bench.up(1).forwarded);
        }
        bench.link_down();
        for port in ports {
            bench.mh_port = port;
            assert_eq!(bench.down(1, LEN), suppressed(&[]));
            let mut reset = bench.fh_segment(1001, 0);
            reset.flags = Flags::RST;
            bench.put(reset);
        }
        let waiting = |bench: &Bench| {
            let mobile = bench.gateway.mobiles.iter().next();
            mobile.expect("a mobile").send_queue.len()
        };
        assert_eq!(waiting(&bench), usize::from(count));
        bench.wait(120_000);
        assert_eq!(bench.gateway.flows().count(), 1);
        assert!(waiting(&bench) <= 2 + STALE_MAX, "{}", waiting(&bench));
    }
}
