// SPDX-License-Identifier: Apache-2.0
//! `[snoop]`, `[mtcp]` and `[bandwidth]`.

use super::*;

#[test]
fn each_set_of_snoop_has_its_own_values_and_keys_are_laid_over_them() {
    let snoop = |flags: &[&str], text: &str| {
        let flags = [&["--wireless", "wlan0"], flags].concat();
        settings_with(&flags, text).expect("all right").core
    };
    let of_file = "[gateway]\nscheme = \"snoop\"\n[snoop]\nset = \"1995\"\n";
    for (flags, text, expected) in [
        (&["--scheme", "snoop"][..], "", SnoopSettings::today()),
        (
            &["--scheme", "snoop", "--snoop-set", "1995"],
            "",
            SnoopSettings::paper_1995(),
        ),
        (&[], of_file, SnoopSettings::paper_1995()),
        (&["--snoop-set", "today"], of_file, SnoopSettings::today()),
    ] {
        let core = snoop(flags, text);
        assert_eq!(format!("{:?}", core.snoop), format!("{expected:?}"));
        assert_eq!(core.scheme, Scheme::Snoop);
    }
    let all = "alpha = 0.5\nretransmit_srtts = 3\nretransmit_interval_min_ms = 7.5\n\
        persist_ms = 100\nhigh_water_mark_bytes = \"32 KiB\"\nnack_threshold_packets = 4\n\
        nack_wait_ms = 50\nhide_rtos = 2\ncongested_rtts = 0.125\n";
    let expected = SnoopSettings {
        set: SnoopSet::Paper1995,
        alpha: 0.5,
        retransmit_srtts: 3,
        retransmit_interval_min: Duration::from_micros(7_500),
        persist: Duration::from_millis(100),
        high_water_mark_bytes: 32 << 10,
        nack_threshold_packets: 4,
        nack_wait: Duration::from_millis(50),
        hide_rtos: 2.0,
        congested_rtts: 0.125,
    };
    let given = snoop(&[], &format!("{of_file}{all}")).snoop;
    assert_eq!(format!("{given:?}"), format!("{expected:?}"));
    let keys = all.lines().count() + 1;
    assert_eq!(keys, keys_of("snoop").len(), "a key is not tested");
}

pub(super) fn bandwidth_of_the_example() -> BandwidthSettings {
    let cell = |mobiles: Option<&str>, bytes_per_s| CellSettings {
        mobiles: mobiles.map(|text| text.parse().expect("a prefix")),
        bytes_per_s,
    };
    BandwidthSettings {
        cells: vec![cell(Some("10.2.1.0/24"), Some(2_500_000)), cell(None, None)],
        weights: vec![("10.2.1.7".parse().expect("an address"), 3)],
    }
}

#[test]
fn cells_and_weights_go_to_the_engine_and_nonsense_is_refused() {
    let text = "cells = [\"10.2.1.0/24 20000\", \"* estimate\"]\nweights = [\"10.2.1.7 3\"]";
    let given = settings(&format!("[bandwidth]\n{text}"))
        .expect("all right")
        .core;
    let expected = bandwidth_of_the_example();
    assert_eq!(format!("{:?}", given.bandwidth), format!("{expected:?}"));
    for text in [
        "cells = []",
        "cells = [\"*\"]",
        "cells = [\"* 0\"]",
        "cells = [\"* 20000 1\"]",
        "cells = [\"10.2.1 20000\"]",
        "cells = 20000",
        "weights = [\"* 3\"]",
        "weights = [\"10.2.1.7 0\"]",
    ] {
        let error = error(&format!("[bandwidth]\n{text}"));
        assert!(
            error.contains("key `bandwidth.") && error.contains("takes a list"),
            "{error}"
        );
    }
}

#[test]
fn the_parameters_of_m_tcp_go_to_the_engine() {
    let defaults = settings("[gateway]\nscheme = \"mtcp\"")
        .expect("all right")
        .core;
    assert_eq!(defaults.scheme, Scheme::Mtcp);
    assert_eq!(
        format!("{:?}", defaults.mtcp),
        format!("{:?}", Settings::default().mtcp)
    );
    let all = "set = \"published\"\nshrink = \"late\"\npersist = \"round-trip\"\nrelease = \"at-once\"\n\
        slow_start = false\ninitial_window_segments = 4\nrto_variation_min_ms = 7.5\n\
        window_bytes = \"32 KiB\"\n\
        handoff = \"forward\"\nset_up = \"early\"\n\
        compression = \"zstd\"\ncompression_level = 5\n";
    let given = settings(&format!("[mtcp]\n{all}")).expect("all right").core;
    assert_eq!(
        format!("{:?}", given.mtcp),
        "MtcpSettings { shrink: Late, persist: RoundTrip, release: AtOnce, slow_start: false, \
         initial_window_segments: 4, rto_variation_min: 7.5ms, window_bytes: 32768, \
         handoff: Forward, set_up: Early }"
    );
    assert_eq!(
        format!("{:?}", given.compression),
        "Some(CompressionSettings { method: Zstd, level: 5 })"
    );
    assert_eq!(
        all.lines().count(),
        keys_of("mtcp").len(),
        "a key is not tested"
    );
    for (text, expected) in [
        ("persist = \"never\"", "takes one of published, round-trip"),
        ("set = \"1997\"", "takes one of today, published"),
        ("release = \"late\"", "takes one of wintimer, at-once"),
        ("slow_start = 1", "key `mtcp.slow_start`: got 1"),
        ("rto_variation_min_ms = 0", "takes a number of milliseconds"),
        ("window_bytes = 1000", "takes a number of bytes from 2 KiB"),
        ("cell_kbps = 20000", "cell_kbps"),
        ("handoff = \"late\"", "takes one of published, forward"),
        ("set_up = \"late\"", "takes one of lock-step, early"),
        ("compression = \"gzip\"", "takes one of off, deflate, zstd"),
    ] {
        let error = error(&format!("[mtcp]\n{text}"));
        assert!(error.contains(expected) && !error.contains('\n'), "{error}");
    }
}

#[test]
fn parameters_of_snoop_out_of_range_are_refused_in_one_line() {
    for (text, expected) in [
        (
            "alpha = 0",
            "got 0, takes a number from 0.001 to 1, for example 0.25",
        ),
        (
            "alpha = \"1/4\"",
            "got \"1/4\", takes a number from 0.001 to 1",
        ),
        ("alpha = nan", "takes a number from 0.001 to 1"),
        (
            "retransmit_srtts = 0",
            "got 0, takes a whole number from 1 to 100",
        ),
        (
            "retransmit_interval_min_ms = 0",
            "takes a number of milliseconds from 1 to 10000",
        ),
        (
            "persist_ms = -1",
            "got -1, takes a number of milliseconds from 1 to 60000",
        ),
        (
            "high_water_mark_bytes = 1000",
            "takes a number of bytes from 1 KiB to 1 GiB",
        ),
        (
            "nack_threshold_packets = 1001",
            "takes a whole number from 1 to 1000",
        ),
        (
            "nack_wait_ms = inf",
            "takes a number of milliseconds from 1 to 10000",
        ),
        ("hide_rtos = 101", "got 101, takes a number from 0 to 100"),
        ("congested_rtts = -0.1", "takes a number from 0 to 1000"),
        ("set = \"1996\"", "got \"1996\", takes one of today, 1995"),
        ("set = 1995", "got 1995, takes one of today, 1995"),
    ] {
        let error = error(&format!("[snoop]\n{text}"));
        let key = text.split(' ').next().expect("a key");
        let start = format!("hf.toml: key `snoop.{key}`: got ");
        assert!(error.starts_with(&start), "{text}: {error}");
        assert!(
            error.contains(expected) && !error.contains('\n'),
            "{text}: {error}"
        );
    }
}
