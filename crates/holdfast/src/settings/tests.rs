// SPDX-License-Identifier: Apache-2.0
//! Every class of error in settings, word by word, and what a good file gives.

mod handoff;

use std::path::Path;
use std::time::Duration;

use clap::Parser as _;
use holdfast_core::{BandwidthSettings, CellSettings, Scheme, Settings, SnoopSet, SnoopSettings};

use super::file::SettingsFile;
use super::gateway::{
    BANDWIDTH_KEYS, GATEWAY_FILE, GATEWAY_KEYS, HANDOFF_KEYS, MOBILE_ENTRY_KEYS, MTCP_KEYS,
    SIGNAL_KEYS, SNOOP_KEYS, SchemeName,
};
use super::keys::{Kind, parse_size, size_text};
use super::mobile::MOBILE_DAEMON_KEYS;
use super::*;

#[derive(clap::Parser)]
struct Flags {
    #[command(flatten)]
    gateway: GatewayArgs,
}

const KEY: &str = "hf1:0000000a:1111111111111111111111111111111111111111111111111111111111111111";
const OTHER_KEY: &str =
    "hf1:0000000b:2222222222222222222222222222222222222222222222222222222222222222";

fn settings_with(flags: &[&str], text: &str) -> Result<GatewaySettings, SettingsError> {
    let flags = Flags::try_parse_from([&["holdfast"], flags].concat()).expect("good flags");
    flags.gateway.over(&SettingsFile::parse(
        Path::new("hf.toml"),
        text,
        GATEWAY_FILE,
    )?)
}

fn settings(text: &str) -> Result<GatewaySettings, SettingsError> {
    settings_with(&["--wireless", "wlan0"], text)
}

fn error(text: &str) -> String {
    settings(text)
        .expect_err("the settings are wrong")
        .to_string()
}

#[test]
fn defaults_are_those_of_the_mechanisms() {
    let defaults = settings("").expect("flags are enough");
    assert_eq!(
        format!("{:?}", defaults.core),
        format!("{:?}", Settings::default())
    );
    assert_eq!(defaults.scheme, SchemeName::Hold);
    assert_eq!(defaults.control_socket, Path::new(GATEWAY_SOCKET));
    assert_eq!(
        defaults.signals.listen.port(),
        holdfast_core::signal::PORT_DEFAULT
    );
    assert!(defaults.signals.mobiles.is_empty());
}

#[test]
fn a_full_file_is_understood() {
    let text = format!(
        r#"
        [gateway]
        scheme = "mtcp-plus"
        wireless = "wlan1"
        wired = "eth0"
        flows_max = 100
        cache_bytes_max = "64 MiB"
        flow_cache_bytes_max = 1048576
        silence_min_ms = 150.5
        owed_wait_s = 60
        drain_s = 0.5
        control_socket = "/tmp/x.sock"
        [signals]
        listen = "192.0.2.1:99"
        registration_lifetime_s = 10
        [[mobile]]
        name = "train-7"
        key = "{KEY}"
        addresses = ["10.9.0.2", "2001:db8::/32"]
        "#
    );
    let settings = settings_with(&[], &text).expect("all of it is right");
    assert_eq!(settings.core.scheme, Scheme::MtcpPlus);
    assert_eq!(
        (settings.wireless.as_str(), settings.wired.as_deref()),
        ("wlan1", Some("eth0"))
    );
    assert_eq!(
        (settings.core.flows_max, settings.core.cache_bytes_max),
        (100, 64 << 20)
    );
    assert_eq!(settings.core.flow_cache_bytes_max, 1 << 20);
    assert_eq!(settings.core.silence_min, Duration::from_micros(150_500));
    assert_eq!(settings.core.owed_wait_max, Duration::from_mins(1));
    assert_eq!(settings.drain, Duration::from_millis(500));
    assert_eq!(settings.signals.listen.to_string(), "192.0.2.1:99");
    let mobile = &settings.signals.mobiles[0];
    assert_eq!((mobile.name.as_str(), mobile.allowed.len()), ("train-7", 2));
    assert_eq!(mobile.key.to_secret_text(), KEY);
}

#[test]
fn flags_override_the_file() {
    let text = "[gateway]\nscheme = \"hold\"\nwireless = \"wlan1\"\nwired = \"eth1\"";
    let flags = [
        "--wireless",
        "wlan0",
        "--scheme",
        "mtcp-plus",
        "--wired",
        "eth0",
    ];
    let settings = settings_with(&flags, text).expect("both are right");
    assert_eq!(settings.scheme, SchemeName::MtcpPlus);
    assert_eq!(
        (settings.wireless.as_str(), settings.wired.as_deref()),
        ("wlan0", Some("eth0"))
    );
}

#[test]
fn a_value_of_the_wrong_kind_is_refused_with_what_the_key_takes() {
    assert_eq!(
        error("[gateway]\ncache_bytes_max = \"abc\""),
        "hf.toml: key `gateway.cache_bytes_max`: got \"abc\", takes a number of bytes from 1 MiB \
         to 64 GiB, for example \"256 MiB\""
    );
    for (text, expected) in [
        (
            "flows_max = \"many\"",
            "key `gateway.flows_max`: got \"many\", takes a whole number from 1 to 1048576, for example 65536",
        ),
        ("flows_max = 1.5", "got 1.5, takes a whole number"),
        (
            "scheme = \"snop\"",
            "got \"snop\", takes one of hold, mtcp-plus, mtcp, snoop",
        ),
        ("scheme = 1", "got 1, takes one of hold, mtcp-plus"),
        ("wired = \"eth 0\"", "takes the name of a network interface"),
        (
            "control_socket = \"x.sock\"",
            "got \"x.sock\", takes an absolute path",
        ),
        (
            "drain_s = \"10 s\"",
            "takes a number of seconds from 0 to 3600",
        ),
        (
            "silence_min_ms = true",
            "got true, takes a number of milliseconds from 10 to 60000",
        ),
    ] {
        let error = error(&format!("[gateway]\n{text}"));
        assert!(
            error.starts_with("hf.toml: key `gateway.") && error.contains(expected),
            "{error}"
        );
    }
    let listen = error("[signals]\nlisten = \"4848\"");
    assert!(
        listen.contains("key `signals.listen`: got \"4848\", takes an address and a port"),
        "{listen}"
    );
}

#[test]
fn a_value_out_of_range_is_refused() {
    for text in [
        "flows_max = 0",
        "flows_max = 1048577",
        "flows_max = -1",
        "cache_bytes_max = \"1023 KiB\"",
        "cache_bytes_max = \"65 GiB\"",
        "cache_bytes_max = \"99999999999 GiB\"",
        "silence_min_ms = 9.9",
        "drain_s = nan",
        "owed_wait_s = inf",
        "wireless = \"\"",
        "wired = \"sixteen-letters-\"",
    ] {
        // The flag hides `wireless` of the file.
        let error = settings_with(&[], &format!("[gateway]\n{text}\n"))
            .expect_err(text)
            .to_string();
        let named = text.split(' ').next().expect("a key");
        let hidden = error.contains("wireless") && error.contains("missing");
        assert!(
            error.contains(&format!("`gateway.{named}`: got ")) || hidden,
            "{text}: {error}"
        );
    }
    for text in [
        "flows_max = 1",
        "flows_max = 1048576",
        "cache_bytes_max = \"64 GiB\"",
        "drain_s = 0",
    ] {
        settings(&format!("[gateway]\n{text}")).expect("the ends are in the range");
    }
}

#[test]
fn an_unknown_key_is_refused_with_the_nearest_right_one() {
    for (text, bad, nearest) in [
        (
            "[gateway]\ncache_byte_max = 1",
            "gateway.cache_byte_max",
            "gateway.cache_bytes_max",
        ),
        (
            "[gateway]\nflow_max = 1",
            "gateway.flow_max",
            "gateway.flows_max",
        ),
        ("[gateway]\nlisten = 1", "gateway.listen", "signals.listen"),
        (
            "[signal]\nlisten = \"[::]:1\"",
            "signal.listen",
            "signals.listen",
        ),
        ("shceme = \"hold\"", "shceme", "gateway.scheme"),
        (
            "[[mobile]]\nadresses = []",
            "mobile.adresses",
            "mobile.addresses",
        ),
    ] {
        assert_eq!(
            error(text),
            format!("hf.toml: key `{bad}`: there is no such key; did you mean `{nearest}`?")
        );
    }
    assert!(error("[empty]").contains("key `empty`: there is no such key"));
}

#[test]
fn a_section_written_as_a_value_is_refused() {
    assert_eq!(
        error("gateway = 3"),
        "hf.toml: key `gateway`: got 3, takes a section: write [gateway]"
    );
    assert!(error("[[gateway]]\nflows_max = 3").contains("key `gateway`: got [{ "));
    let one = error("[mobile]\nname = \"x\"");
    assert!(
        one.contains("key `mobile`: got {") && one.ends_with("write [[mobile]]"),
        "{one}"
    );
}

#[test]
fn what_is_no_toml_is_refused_with_its_line() {
    let error = error("[gateway]\nflows_max = 3\nflows_max = \n");
    assert!(error.starts_with("hf.toml: line 3: not TOML: "), "{error}");
    assert!(!error.contains('\n'), "{error}");
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let error =
        SettingsFile::read(Path::new("/nonexistent/hf.toml"), GATEWAY_FILE).expect_err("absent");
    let error = error.to_string();
    assert!(
        error.starts_with("/nonexistent/hf.toml: cannot be read: "),
        "{error}"
    );
    assert!(error.ends_with("name another with --config"), "{error}");
}

#[test]
fn the_wireless_interface_has_to_be_named() {
    let error = settings_with(&[], "")
        .expect_err("none is named")
        .to_string();
    assert!(
        error.contains("`gateway.wireless`: missing;") && error.contains("--wireless"),
        "{error}"
    );
    let same = settings_with(&["--wireless", "eth0", "--wired", "eth0"], "");
    assert!(
        same.expect_err("one for both")
            .to_string()
            .contains("which is the wireless interface")
    );
}

#[test]
fn limits_that_contradict_each_other_are_refused() {
    let text = "[gateway]\ncache_bytes_max = \"4 MiB\"\n";
    assert_eq!(
        error(text),
        "hf.toml: key `gateway.flow_cache_bytes_max`: got 8 MiB, more than all flows together may \
         keep; takes at most gateway.cache_bytes_max, 4 MiB"
    );
    let text = "[gateway]\nprobe_interval_min_ms = 2000";
    assert!(error(text).contains("takes at most gateway.probe_interval_max_ms, 1000 ms"));
}

#[test]
fn a_mobile_in_error_is_named_by_its_number() {
    let good = format!("[[mobile]]\nname = \"a\"\nkey = \"{KEY}\"\naddresses = [\"10.0.0.1\"]\n");
    for (text, expected) in [
        ("", "key `mobile[2].name`: missing;"),
        ("name = \"\"", "key `mobile[2].name`: got \"\""),
        ("name = \"b\"", "key `mobile[2].key`: missing;"),
        (
            "name = \"b\"\nkey = \"hf1:00\"",
            "key `mobile[2].key`: got something else, takes a key made by",
        ),
        (
            &format!("name = \"b\"\nkey = \"{OTHER_KEY}\""),
            "key `mobile[2].addresses`: missing;",
        ),
        (
            &format!("name = \"b\"\nkey = \"{OTHER_KEY}\"\naddresses = []"),
            "key `mobile[2].addresses`: got []",
        ),
        (
            &format!("name = \"b\"\nkey = \"{OTHER_KEY}\"\naddresses = [\"10.0.0.0/33\"]"),
            "takes a list of 1 to 64",
        ),
        (
            &format!("name = \"a\"\nkey = \"{OTHER_KEY}\"\naddresses = [\"10.0.0.2\"]"),
            "which another mobile has",
        ),
        (
            &format!("name = \"b\"\nkey = \"{KEY}\"\naddresses = [\"10.0.0.2\"]"),
            "the key of \"a\" too",
        ),
        (
            &format!("name = \"b\"\nkey = \"{KEY}\"\nkey_file = \"/x\""),
            "takes one of them",
        ),
        (
            "name = \"b\"\nkey_file = \"/nonexistent/key\"",
            "`mobile[2].key_file`: /nonexistent/key cannot be read",
        ),
    ] {
        let error = error(&format!("{good}[[mobile]]\n{text}\n"));
        assert!(error.contains(expected), "{text}: {error}");
        assert!(
            !error.contains(&KEY[13..]) && !error.contains(&OTHER_KEY[13..]),
            "a secret: {error}"
        );
    }
}

#[test]
fn an_error_is_one_line() {
    let long = format!("[gateway]\nscheme = \"{}\"", "x\\n".repeat(500));
    let error = error(&long);
    assert!(error.len() < 300 && !error.contains('\n'), "{error}");
}

#[test]
fn sizes_are_read_with_their_units() {
    for (text, bytes) in [
        ("0", 0),
        ("4096", 4096),
        ("1 KiB", 1024),
        ("256MiB", 256 << 20),
        ("3 GiB", 3 << 30),
        ("64 kB", 64_000),
        ("2GB", 2_000_000_000),
        ("7 B", 7),
    ] {
        assert_eq!(parse_size(text), Some(bytes), "{text:?}");
    }
    for text in [
        "",
        "MiB",
        "1.5 MiB",
        "-1",
        "1 TiB",
        "1 mib",
        "0x10",
        "99999999999999999999",
    ] {
        assert_eq!(parse_size(text), None, "{text:?}");
    }
    assert_eq!(size_text(256 << 20), "256 MiB");
    assert_eq!(size_text(1000), "1000 B");
}

#[test]
fn every_default_is_one_that_its_key_takes() {
    let all = [
        GATEWAY_KEYS,
        BANDWIDTH_KEYS,
        MTCP_KEYS,
        SNOOP_KEYS,
        SIGNAL_KEYS,
        HANDOFF_KEYS,
        MOBILE_ENTRY_KEYS,
        MOBILE_DAEMON_KEYS,
    ];
    for key in all.into_iter().flatten() {
        assert!(
            !key.meaning.is_empty() && !key.cost.is_empty(),
            "{} is not documented",
            key.path
        );
        let Some(default) = key.default else { continue };
        let table: toml::Table = format!("value = {default}").parse().expect(key.path);
        let value = &table["value"];
        let taken = match key.kind {
            Kind::Bytes { .. } => key.kind.bytes(value).is_some(),
            Kind::Count { .. } => key.kind.count(value).is_some(),
            Kind::Factor { .. } => key.kind.factor(value).is_some(),
            Kind::Seconds { .. } | Kind::Millis { .. } => key.kind.duration(value).is_some(),
            Kind::Flag => key.kind.flag(value).is_some(),
            _ => key.kind.text(value).is_some(),
        };
        assert!(taken, "{} does not take its default {default}", key.path);
    }
}

#[test]
fn the_documentation_is_that_of_the_keys() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |name: &str| std::fs::read_to_string(root.join(name)).expect(name);
    let remedy = "run `holdfast generate settings docs && holdfast generate examples etc`";
    assert!(
        read("docs/settings.md") == settings_page(),
        "docs/settings.md is old: {remedy}"
    );
    for (name, text) in example_files() {
        assert!(
            read(&format!("etc/{name}")) == text,
            "etc/{name} is old: {remedy}"
        );
    }
}

#[test]
fn the_example_file_is_understood_as_it_is_and_with_every_line_in_force() {
    let [(_, gateway), _] = example_files();
    settings_with(&[], &gateway).expect("as it is");
    // The key of a mobile is given itself, that of the stations by a file.
    let key_file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(&key_file, KEY).expect("written");
    let stations = key_file.path().to_str().expect("a path");
    let in_force: String = gateway
        .lines()
        .map(|line| line.strip_prefix("# ").unwrap_or(line))
        .filter(|line| line.starts_with('[') || line.contains(" = "))
        .filter(|line| !line.contains("train-7.key"))
        .map(|line| line.replace("hf1:...", KEY) + "\n")
        .map(|line| line.replace("/etc/holdfast/stations.key", stations))
        .collect();
    let settings = settings_with(&[], &in_force).expect("with every line in force");
    assert_eq!(settings.signals.mobiles.len(), 1);
    assert_eq!(settings.station.expect("one").name, "west");
    // Some lines have no default to be an example of.
    let mut expected = Settings::default();
    expected.mtcp.window_bytes = 128 << 10;
    expected.bandwidth = bandwidth_of_the_example();
    assert_eq!(format!("{:?}", settings.core), format!("{expected:?}"));
    assert_eq!(settings.resend_dscp, Some(40));
}

#[test]
fn each_set_of_snoop_has_its_own_values_and_keys_are_laid_over_them() {
    let snoop = |flags: &[&str], text: &str| {
        let flags = [&["--wireless", "wlan0"], flags].concat();
        settings_with(&flags, text).expect("all right").core
    };
    let of_file = "[gateway]\nscheme = \"snoop\"\n[snoop]\nset = \"1995\"\n";
    for (flags, text, expected) in [
        (&["--scheme", "snoop"][..], "", SnoopSettings::today()),
        (&["--snoop-set", "1995"], "", SnoopSettings::paper_1995()),
        (&[], of_file, SnoopSettings::paper_1995()),
        (&["--snoop-set", "today"], of_file, SnoopSettings::today()),
    ] {
        let core = snoop(flags, text);
        assert_eq!(format!("{:?}", core.snoop), format!("{expected:?}"));
        let named = flags.contains(&"--scheme") || text == of_file;
        assert_eq!(core.scheme == Scheme::Snoop, named);
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
    assert_eq!(keys, SNOOP_KEYS.len(), "a key is not tested");
}

fn bandwidth_of_the_example() -> BandwidthSettings {
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
    assert_eq!(all.lines().count(), MTCP_KEYS.len(), "a key is not tested");
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
fn the_page_tells_where_the_sets_of_snoop_differ() {
    let (paper, today) = (SnoopSettings::paper_1995(), SnoopSettings::today());
    let page = settings_page();
    for (name, differs, text) in [
        (
            "retransmit_interval_min_ms",
            paper.retransmit_interval_min != today.retransmit_interval_min,
            format!("`1995`: {}.", paper.retransmit_interval_min.as_millis()),
        ),
        (
            "high_water_mark_bytes",
            paper.high_water_mark_bytes != today.high_water_mark_bytes,
            format!("`1995`: {}.", size_text(paper.high_water_mark_bytes as u64)),
        ),
        (
            "nack_wait_ms",
            paper.nack_wait != today.nack_wait,
            format!("`1995`: {}.", paper.nack_wait.as_millis()),
        ),
        (
            "alpha",
            paper.alpha.to_bits() != today.alpha.to_bits(),
            String::new(),
        ),
        ("persist_ms", paper.persist != today.persist, String::new()),
    ] {
        let line = page
            .lines()
            .find(|line| line.starts_with(&format!("| `{name}`")));
        let told = line.expect(name).contains("`1995`");
        assert_eq!(told, differs, "{name}");
        assert!(line.expect(name).contains(&text), "{name}: {text}");
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

#[test]
fn a_dscp_is_read_by_name_and_by_number() {
    for (text, dscp) in [
        ("\"ef\"", 46),
        ("\"EF\"", 46),
        ("\"va\"", 44),
        ("\"le\"", 1),
        ("\"cs0\"", 0),
        ("\"CS7\"", 56),
        ("\"af11\"", 10),
        ("\"af43\"", 38),
        ("\"63\"", 63),
        ("0", 0),
        ("63", 63),
    ] {
        let settings = settings(&format!("[gateway]\nresend_dscp = {text}")).expect(text);
        assert_eq!(settings.resend_dscp, Some(dscp), "{text}");
    }
    assert_eq!(settings("").expect("flags are enough").resend_dscp, None);
    for text in [
        "64", "-1", "1.5", "\"cs8\"", "\"af14\"", "\"af51\"", "\"af1\"", "\"\"", "\"64\"", "true",
    ] {
        let error = error(&format!("[gateway]\nresend_dscp = {text}"));
        assert!(
            error.contains("key `gateway.resend_dscp`: got ")
                && error.contains("takes a DSCP, by number from 0 to 63 or by name"),
            "{text}: {error}"
        );
    }
}

#[test]
fn a_gateway_is_found_with_and_without_a_port() {
    for (text, expected) in [
        ("192.0.2.1", "192.0.2.1:4848"),
        ("192.0.2.1:99", "192.0.2.1:99"),
        ("2001:db8::1", "[2001:db8::1]:4848"),
        ("[2001:db8::1]", "[2001:db8::1]:4848"),
        ("[2001:db8::1]:99", "[2001:db8::1]:99"),
    ] {
        assert_eq!(resolve(text).expect(text).to_string(), expected);
    }
}

/// What the page says of buffers is what the pool does.
#[test]
fn the_page_tells_what_a_small_segment_pins_and_where_the_pool_ends() {
    use holdfast_net::frame::{BufferPool, FRAME_BYTES_MAX};
    use holdfast_net::tun::VNET_HDR_BYTES;

    let page = settings_page();
    let says = |bytes: usize| {
        let digits = bytes.to_string();
        let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().collect();
        let text = String::from_utf8(groups.join(&b","[..])).unwrap();
        assert!(page.contains(&text), "docs/settings.md does not say {text}");
    };
    says(BufferPool::new(usize::MAX).bytes_max());
    says(FRAME_BYTES_MAX);
    for packet_bytes in [52, 2_000, 9_000] {
        let mut pool = BufferPool::new(1 << 24);
        let frame = pool.read(|_| Ok(VNET_HDR_BYTES + packet_bytes)).unwrap();
        // One of the largest stands ready for the next read.
        says(pool.in_use_bytes() - FRAME_BYTES_MAX);
        drop(frame);
    }
}
