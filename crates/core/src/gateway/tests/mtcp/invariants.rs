// SPDX-License-Identifier: Apache-2.0
//! What must always hold: adopted flows, gateways that are stopped, full caches.

use super::super::bench::{LEN, WINDOW, bench_with, lines, not_adopted, passed, suppressed};
use super::{ack_at_fh, ack_line, counts, mtcp, one_of_three_acknowledged, shrunk, unpaced, with};
use crate::gateway::tests::first_flow;
use crate::{MtcpHandoff, MtcpSettings, Settings};

#[test]
fn without_the_window_scale_it_acts_as_hold() {
    let mut bench = not_adopted(with(unpaced()));
    assert!(bench.down(1, LEN).forwarded);
    assert!(bench.up(1).forwarded);
    assert!(bench.down(1001, LEN).forwarded);
    assert_eq!(bench.state(), "open");
    assert_eq!(bench.up(2001), passed());
    bench.forward(2001, 1);
    assert_eq!(bench.link_down(), [] as [&str; 0]);
    assert_eq!(bench.down(3001, LEN), suppressed(&[]));
    bench.wait(3000);
    let lines = bench.recovers();
    assert_eq!(counts(&lines, "DATA"), 2, "{lines:?}");
}

#[test]
fn a_successor_continues_from_the_mhs_acks_and_saves_no_byte_of_them() {
    let mut bench = shrunk();
    let mut actions = Vec::new();
    let record = first_flow(&bench.gateway).record();
    bench.gateway = crate::Gateway::new(with(unpaced()));
    bench.gateway.import(&record, bench.now);
    bench.gateway.handle_timeout(bench.now, &mut actions);
    bench.wait(100);
    // The FH probes, as its window is 0; the MH answers, and the window opens.
    assert!(bench.down(1000, 0).forwarded);
    // Adopted with this answer, which passes whole.
    assert_eq!(ack_at_fh(&mut bench, 1001), (1001, WINDOW));
    assert_eq!(bench.state(), "split");
    bench.wait(10);
    assert!(bench.down(1001, LEN).forwarded);
    assert_eq!(ack_at_fh(&mut bench, 2001), (2000, WINDOW));
}

#[test]
fn a_gateway_that_leaves_gives_back_byte_and_window() {
    let mut bench = shrunk();
    let mut actions = Vec::new();
    bench.gateway.stop_acknowledging();
    bench.gateway.abandon_owed(&mut actions);
    let lines = lines(actions);
    assert_eq!(lines, [ack_line(1001, WINDOW.into(), 1000, &bench)]);
    assert_eq!(bench.gateway.owed_bytes(), 0);
}

#[test]
fn a_gateway_that_releases_a_mobile_gives_its_fhs_back_byte_and_window() {
    let mut bench = shrunk();
    let (mut pieces, mut actions) = (Vec::new(), Vec::new());
    let addresses = [crate::testing::MH.address];
    bench.gateway.release(&addresses, &mut pieces, &mut actions);
    let lines = lines(actions);
    assert_eq!(lines, [ack_line(1001, WINDOW.into(), 1000, &bench)]);
}

#[test]
fn with_the_cache_full_segments_pass_and_none_is_dropped() {
    let mut bench = bench_with(Settings {
        flow_cache_bytes_max: 2500,
        ..with(unpaced())
    });
    bench.forward(1, 5);
    bench.link_down();
    assert!(bench.down(5001, LEN).forwarded);
    assert_eq!(bench.cached(), 2000);
}

#[test]
fn the_state_for_another_station_has_whether_the_window_of_the_fh_is_closed() {
    for is_closed in [false, true] {
        let mut bench = bench_with(with(MtcpSettings {
            handoff: MtcpHandoff::Forward,
            ..unpaced()
        }));
        bench.forward(1, 3);
        assert_eq!(ack_at_fh(&mut bench, 1001), (1000, WINDOW));
        if is_closed {
            bench.link_down();
        }
        let addresses = [crate::testing::MH.address];
        let states = bench.gateway.export(&addresses, bench.now, &mut Vec::new());
        let split = states[0].split.expect("a split connection");
        assert_eq!(split.is_shrunk, is_closed);
    }
}

#[test]
fn a_handoff_as_published_closes_the_window_of_the_fh_and_what_was_cached_is_discarded() {
    let mut bench = one_of_three_acknowledged();
    let addresses = [crate::testing::MH.address];
    let (mut pieces, mut actions) = (Vec::new(), Vec::new());
    let states = bench.gateway.export(&addresses, bench.now, &mut actions);
    let closed = ack_line(1001, 0, 1000, &bench);
    assert_eq!(lines(core::mem::take(&mut actions)), [closed]);
    assert!(states[0].split.expect("a split connection").is_shrunk);
    bench.gateway.release(&addresses, &mut pieces, &mut actions);
    // The window stays closed until the other station opens it.
    assert_eq!(lines(actions), [] as [&str; 0]);
    assert!(pieces.is_empty());
}

#[test]
fn a_handoff_as_published_does_not_close_the_window_of_an_fh_that_has_every_ack() {
    let mut bench = mtcp();
    bench.forward(1, 1);
    assert_eq!(ack_at_fh(&mut bench, 1001), (1000, WINDOW));
    assert_eq!(bench.wait(300).len(), 1, "the saved byte");
    let (addresses, mut actions) = ([crate::testing::MH.address], Vec::new());
    let states = bench.gateway.export(&addresses, bench.now, &mut actions);
    assert_eq!(lines(actions), [] as [&str; 0]);
    assert!(!states[0].split.expect("a split connection").is_shrunk);
}
