// SPDX-License-Identifier: Apache-2.0
//! The limits of the maps.

use super::*;
use crate::bpf::for_each_entry_of;

#[test]
fn a_new_flow_finds_a_slot_before_the_flow_that_it_replaces_is_removed() {
    let test = "a_new_flow_finds_a_slot_before_the_flow_that_it_replaces_is_removed";
    let Some(loaded) = Loaded::with_daemon(test) else {
        return;
    };
    for port in 0..=FOLLOWED_MAX as u16 {
        loaded.follow(&flow(false, 4_000 + port)).unwrap();
    }
    let one_more = loaded.follow(&flow(false, 5_000));
    assert!(one_more.is_err(), "one flow too many");
}

#[test]
fn what_a_daemon_that_hangs_is_to_decompress_passes_to_the_host() {
    let test = "what_a_daemon_that_hangs_is_to_decompress_passes_to_the_host";
    let Some(loaded) = Loaded::with_daemon(test) else {
        return;
    };
    let key = flow(false, 4_000);
    loaded.egress(&Spec::uplink(key).frame());
    loaded.follow(&key).unwrap();
    let followed = Spec::downlink(key);
    let compressed = Spec {
        flags: Flags::PSH,
        ..followed
    };
    let max_ns = HEARTBEAT_AGE_MAX.as_nanos() as u64;
    let old = monotonic_ns() - max_ns - 1;
    let in_an_hour = monotonic_ns() + 3_600_000_000_000;
    for (beat_ns, is_taken) in [(in_an_hour, true), (old, false), (in_an_hour, true)] {
        loaded.beat(beat_ns);
        for spec in [followed, compressed] {
            assert_eq!(loaded.is_taken(&spec), is_taken, "{beat_ns} {spec:?}");
        }
    }
    assert_eq!(loaded.counted("passed_stale_heartbeat"), 2);
    // A daemon that has ended.
    loaded.beat(0);
    assert!(!loaded.is_taken(&followed));
}

#[test]
fn the_flow_map_has_a_limit_and_keeps_the_newest() {
    let test = "the_flow_map_has_a_limit_and_keeps_the_newest";
    let Some(loaded) = Loaded::new(test) else {
        return;
    };
    for port in 1_000..9_000 {
        loaded.egress(&Spec::uplink(flow(false, port)).frame());
    }
    let flows = loaded.maps.flows().unwrap();
    assert!(
        !flows.is_empty() && flows.len() <= FLOWS as usize,
        "{}",
        flows.len()
    );
    assert!(loaded.maps.flow(&flow(false, 8_999)).unwrap().is_some());
    for port in 1_000..9_000 {
        loaded.maps.close(&flow(false, port)).unwrap();
    }
    let closed: Vec<_> = loaded.maps.closed.keys().collect();
    assert!(
        (1..=FLOWS as usize).contains(&closed.len()),
        "{}",
        closed.len()
    );
    // The window of an evicted flow is open again.
    let until = monotonic_ns() + 3_600_000_000_000;
    loaded.maps.set_orders_until(Instant::from_nanos(until));
    for port in [1_000, 8_999] {
        let frame = Spec::uplink(flow(false, port)).frame();
        let is_closed = closed.contains(&record::key(&flow(false, port)).to_vec());
        assert_eq!(is_closed, port == 8_999);
        assert_eq!(loaded.egress(&frame) != frame, is_closed, "{port}");
    }
}

#[test]
fn all_of_thousands_of_flows_are_read() {
    let test = "all_of_thousands_of_flows_are_read";
    if !available_or_skip(test) {
        return;
    }
    let interface = interface();
    let programs = load_withholding(&interface, FLOWS_MAX, false).unwrap();
    let maps = FlowMaps::of(&programs, &interface).unwrap();
    let loaded = Loaded { programs, maps };
    let ports = 1_000..4_000;
    for port in ports.clone() {
        let key = flow(false, port);
        loaded.egress(&Spec::uplink(key).frame());
        loaded.put_bulk_from(key, 70_000, 1_000);
    }
    let expected: Vec<_> = ports.map(|port| flow(false, port)).collect();
    let all = loaded.maps.withheld_where(|_| true).unwrap();
    let all = all.into_iter().map(|(noted, _)| noted).collect();
    for found in [loaded.maps.flows().unwrap(), all] {
        let mut found: Vec<_> = found.iter().map(|noted| noted.flow.key).collect();
        found.sort_unstable();
        assert_eq!(found.len(), expected.len());
        assert_eq!(found, expected);
    }
    // Some buckets have more entries than one batch has room for.
    let mut found = Vec::new();
    for_each_entry_of(
        &loaded.maps.flows,
        1,
        |key, _: &[u8; record::VALUE_BYTES]| {
            found.push(*key);
            Ok(())
        },
    )
    .unwrap();
    found.sort_unstable();
    let mut keys: Vec<_> = expected.iter().map(record::key).collect();
    keys.sort_unstable();
    assert_eq!(found, keys);
}

#[test]
fn withheld_segments_and_woken_flows_have_a_limit_and_keep_the_newest() {
    let test = "withheld_segments_and_woken_flows_have_a_limit_and_keep_the_newest";
    let Some(loaded) = held::wake(test) else {
        return;
    };
    let now = Instant::from_nanos(monotonic_ns());
    for port in 1_000..5_000 {
        let key = flow(false, port);
        loaded.egress(&Spec::uplink(key).frame());
        loaded.ingress(&Spec::downlink(key).frame());
        let woken = Woken::nothing_renewed(SeqNum::new(1), now);
        loaded.maps.wake(&key, &woken).unwrap();
    }
    let newest = flow(false, 4_999);
    for map in [&loaded.maps.withheld, &loaded.maps.woken] {
        let kept = map.keys().count();
        assert!((1..=FLOWS as usize).contains(&kept), "{kept}");
        let newest = map.lookup(&record::key(&newest), MapFlags::ANY);
        assert!(newest.unwrap().is_some());
    }
}

#[test]
fn a_full_ring_loses_reports_of_pauses_but_every_segment_is_released() {
    const AT_ONCE: u16 = 200;
    /// Each report has a header of eight bytes (Documentation/bpf/ringbuf.rst).
    const REPORTS_MAX: usize = (1 << 16) / (8 + 40);
    /// An emulated processor is slow.
    const LATE_NS: u64 = 180_000_000_000;

    let test = "a_full_ring_loses_reports_of_pauses_but_every_segment_is_released";
    let Some(loaded) = held::wake(test) else {
        return;
    };
    let pauses = Pauses::open(&loaded.programs.map("pauses").unwrap()).unwrap();
    let counters = Counters::of(&loaded.programs, MOBILE_PATH).unwrap();
    let released = || {
        let all = counters.read().unwrap();
        all.iter().find(|(name, _)| *name == "released").unwrap().1
    };
    let began = monotonic_ns();
    let mut held = 0;
    let is_late = || monotonic_ns() - began > LATE_NS;
    while held < REPORTS_MAX as u64 + 100 {
        assert!(!is_late(), "{held} withheld");
        for port in 0..AT_ONCE {
            let key = flow(false, 1_000 + port);
            held::bulk(&loaded, key);
            // Without a free timer the kernel's program withholds nothing.
            let frame = held::last(key).frame();
            held += u64::from(loaded.egress(&frame) != frame);
        }
        while released() < held {
            assert!(!is_late(), "{} of {held}", released());
            std::thread::yield_now();
        }
    }
    assert!(loaded.maps.withholding_flows().unwrap().is_empty());
    let reports = pauses.drain().unwrap().len();
    assert!(
        (REPORTS_MAX - 10..=REPORTS_MAX).contains(&reports),
        "{reports}"
    );
}
