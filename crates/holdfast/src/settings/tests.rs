// SPDX-License-Identifier: Apache-2.0
//! Every class of error in settings, word by word, and what a good file gives.

mod handoff;
mod pages;
mod reload;
mod schemes;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;
use std::time::Duration;

use clap::Parser as _;
use holdfast_core::{BandwidthSettings, CellSettings, Scheme, Settings, SnoopSet, SnoopSettings};
use holdfast_settings::{parse_size, size_text};

use super::file::SettingsFile;
use super::keys::{GATEWAY_FILE, Key, MOBILE_FILE};
use super::*;

#[derive(clap::Parser)]
struct Flags {
    #[command(flatten)]
    gateway: GatewayArgs,
}

#[derive(clap::Parser)]
struct MobileFlags {
    #[command(flatten)]
    mobile: MobileDaemonArgs,
}

const KEY: &str = "hf1:0000000a:1111111111111111111111111111111111111111111111111111111111111111";
const OTHER_KEY: &str =
    "hf1:0000000b:2222222222222222222222222222222222222222222222222222222222222222";

fn settings_with(flags: &[&str], text: &str) -> Result<GatewaySettings, SettingsError> {
    let flags = Flags::try_parse_from([&["holdfast"], flags].concat()).expect("good flags");
    flags.gateway.over(&SettingsFile::parse(
        Path::new("hf.toml"),
        text,
        &GATEWAY_FILE,
    )?)
}

fn settings(text: &str) -> Result<GatewaySettings, SettingsError> {
    settings_with(&["--wireless", "wlan0"], text)
}

/// The keys of a section of the gateway's file.
fn keys_of(section: &str) -> &'static [Key] {
    let mut sections = GATEWAY_FILE.iter();
    let named = sections.find(|known| known.name == section);
    &named.expect("a section").keys
}

fn error(text: &str) -> String {
    settings(text)
        .expect_err("the settings are wrong")
        .to_string()
}

#[test]
fn the_page_and_the_metrics_have_an_address_each() {
    let metrics = "[metrics]\nlisten = \"127.0.0.1:9848\"\n";
    settings(&format!("{metrics}[web]\nlisten = \"127.0.0.1:9849\"")).unwrap();
    let shared = error(&format!("{metrics}[web]\nlisten = \"127.0.0.1:9848\""));
    assert_eq!(
        shared,
        "hf.toml: key `web.listen`: got \"127.0.0.1:9848\", which metrics.listen has too; takes \
         another port or path"
    );
    // Linux refuses the second socket of each pair, too.
    for (page, own) in [
        ("0.0.0.0:9848", "127.0.0.1:9848"),
        ("127.0.0.1:9848", "0.0.0.0:9848"),
        ("[::]:9848", "127.0.0.1:9848"),
        ("[::1]:9848", "[::]:9848"),
        ("[::ffff:127.0.0.1]:9848", "0.0.0.0:9848"),
    ] {
        let both = format!("[metrics]\nlisten = \"{own}\"\n[web]\nlisten = \"{page}\"");
        assert_eq!(
            error(&both),
            format!(
                "hf.toml: key `web.listen`: got \"{page}\", at the port of metrics.listen (\"{own}\"); \
                 takes another port"
            )
        );
    }
    for apart in ["0.0.0.0:9849", "[::1]:9848", "127.0.0.2:9848"] {
        settings(&format!("{metrics}[web]\nlisten = \"{apart}\"")).unwrap();
    }
    let flags = ["--wireless", "wlan0", "--web", "127.0.0.1:9848"];
    let by_flag = settings_with(&flags, metrics).unwrap_err().to_string();
    assert!(by_flag.starts_with("key `--web`: got"), "{by_flag}");
}

#[test]
fn defaults_are_those_of_the_mechanisms() {
    let defaults = settings("").expect("flags are enough");
    assert_eq!(
        format!("{:?}", defaults.core),
        format!("{:?}", Settings::default())
    );
    assert_eq!(defaults.daemon.scheme, SchemeName::Auto);
    assert_eq!(defaults.daemon.control_socket, GATEWAY_SOCKET);
    assert_eq!(
        defaults.signals.listen.port(),
        holdfast_core::signal::PORT_DEFAULT
    );
    assert!(defaults.mobiles.is_empty());
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
        (
            settings.wireless.join(" ").as_str(),
            settings.daemon.wired.as_deref()
        ),
        ("wlan1", Some("eth0"))
    );
    assert_eq!(
        (settings.core.flows_max, settings.core.cache_bytes_max),
        (100, 64 << 20)
    );
    assert_eq!(settings.core.flow_cache_bytes_max, 1 << 20);
    assert_eq!(settings.core.silence_min, Duration::from_micros(150_500));
    assert_eq!(settings.core.owed_wait_max, Duration::from_mins(1));
    assert_eq!(settings.daemon.drain, Duration::from_millis(500));
    assert_eq!(settings.signals.listen.to_string(), "192.0.2.1:99");
    let mobile = &settings.mobiles[0];
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
    assert_eq!(settings.daemon.scheme, SchemeName::MtcpPlus);
    assert_eq!(
        (
            settings.wireless.join(" ").as_str(),
            settings.daemon.wired.as_deref()
        ),
        ("wlan0", Some("eth0"))
    );
}

#[test]
fn a_gateway_has_one_wireless_interface_or_several() {
    let names = |flags: &[&str], text: &str| settings_with(flags, text).map(|one| one.wireless);
    let file = "[gateway]\nwireless = [\"wlan0\", \"wlan1\"]";
    assert_eq!(names(&[], file).unwrap(), ["wlan0", "wlan1"]);
    let flags = ["--wireless", "wlan2", "--wireless", "wlan3"];
    assert_eq!(names(&flags, file).unwrap(), ["wlan2", "wlan3"]);
    let state = |wireless: &str| {
        let text = format!("[gateway]\nwireless = {wireless}\nstate_file = \"/tmp/state\"");
        let settings = settings_with(&[], &text).unwrap();
        settings.state_file("wlan0").display().to_string()
    };
    assert_eq!(state("\"wlan0\""), "/tmp/state");
    assert_eq!(state("[\"wlan0\", \"wlan1\"]"), "/tmp/state.wlan0");
    for wrong in ["[\"wlan0\", \"wlan0\"]", "[]", "[\"a/b\"]", "\"\""] {
        let text = format!("[gateway]\nwireless = {wrong}");
        let shown = names(&[], &text).unwrap_err().to_string();
        assert!(shown.contains("a list of up to 16"), "{shown}");
    }
    let early = "mtcp and set_up = \"early\"";
    for (scheme, section, named) in [
        ("mtcp-plus", "", "mtcp-plus"),
        ("mtcp", "[mtcp]\nset_up = \"early\"", early),
    ] {
        let several = format!("{file}\nscheme = \"{scheme}\"\n{section}");
        let shown = names(&[], &several).unwrap_err().to_string();
        let expected = format!("key `gateway.wireless`: got 2 interfaces with {named}, whose");
        assert!(shown.contains(&expected), "{shown}");
        let one = several.replace("[\"wlan0\", \"wlan1\"]", "\"wlan0\"");
        assert_eq!(names(&[], &one).unwrap(), ["wlan0"]);
    }
    for scheme in ["hold", "mtcp"] {
        let several = format!("{file}\nscheme = \"{scheme}\"");
        assert_eq!(names(&[], &several).unwrap().len(), 2);
    }
    let twice = names(&["--wireless", "wlan0", "--wireless", "wlan0"], "");
    assert!(twice.unwrap_err().to_string().contains("each once"));
    let wired = names(&["--wired", "wlan1"], file).unwrap_err().to_string();
    assert!(wired.contains("which is the wireless interface"), "{wired}");
}

#[test]
fn auto_takes_no_set_of_snoop_that_retransmits_nothing() {
    let text = "[gateway]\nscheme = \"auto\"\n[snoop]\nset = \"1995\"";
    assert_eq!(
        error(text),
        "hf.toml: key `snoop.set`: got 1995, with which `auto` retransmits nothing; takes today, or \
         the scheme snoop"
    );
    let flags = ["--wireless", "wlan0", "--snoop-set", "1995"];
    let error = settings_with(&flags, "").expect_err("auto is the default");
    assert!(error.to_string().contains("--snoop-set"), "{error}");
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
            "got \"snop\", takes one of hold, auto, mtcp-plus, mtcp, snoop, observe, mtcp-2007, keep",
        ),
        ("scheme = 1", "got 1, takes one of hold, auto, mtcp-plus"),
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
        (
            "[gateway]\nregistration_lifetime_s = 1",
            "gateway.registration_lifetime_s",
            "signals.registration_lifetime_s",
        ),
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
    for text in ["[empty]", "[[empty]]"] {
        let error = error(text);
        assert!(
            error.contains("key `empty`: there is no such section; takes one of [gateway], "),
            "{error}"
        );
    }
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
    let absent = Path::new("/nonexistent/hf.toml");
    let error = SettingsFile::of(Some(absent), &GATEWAY_FILE).expect_err("absent");
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
        "hf.toml: key `gateway.cache_bytes_max`: got 4 MiB, less than one flow may keep; takes at \
         least gateway.flow_cache_bytes_max, 8 MiB"
    );
    let text = "[gateway]\nprobe_interval_min_ms = 2000";
    assert!(error(text).contains("takes at most gateway.probe_interval_max_ms, 1000 ms"));
    let text = "[gateway]
probe_interval_max_ms = 10";
    assert_eq!(
        error(text),
        "hf.toml: key `gateway.probe_interval_max_ms`: got 10 ms, takes at least \
         gateway.probe_interval_min_ms, 20 ms"
    );
}

#[test]
fn a_flag_with_a_path_that_is_not_utf_8_is_refused_in_one_line() {
    let path = OsString::from_vec(b"/run/\xff".to_vec());
    let flags = ["holdfast", "--wireless", "wlan0", "--state-file"].map(OsString::from);
    let flags = Flags::try_parse_from(flags.into_iter().chain([path])).expect("good flags");
    let file = SettingsFile::parse(Path::new("hf.toml"), "", &GATEWAY_FILE).expect("empty");
    let error = flags.gateway.over(&file).expect_err("no text").to_string();
    assert_eq!(
        error,
        "key `--state-file`: got /run/\u{fffd}, takes a path in UTF-8"
    );
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
        assert_eq!(settings.core.resend_dscp, Some(dscp), "{text}");
    }
    assert_eq!(
        settings("").expect("flags are enough").core.resend_dscp,
        None
    );
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
        assert_eq!(resolve(text).expect(text), [expected.parse().unwrap()]);
    }
}
