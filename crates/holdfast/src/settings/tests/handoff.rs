// SPDX-License-Identifier: Apache-2.0
//! `[handoff]`, and the cells of a mobile.

use super::*;
use crate::settings::mobile::MobileDaemonArgs;

/// A file with a group key in it, and the settings of a base station that name it.
fn with_key(lines: &str) -> (tempfile::NamedTempFile, String) {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(&file, KEY).expect("written");
    let text = format!("[handoff]\nkey_file = {:?}\n{lines}", file.path());
    (file, text)
}

fn refused(lines: &str) -> String {
    let (_file, text) = with_key(lines);
    error(&text)
}

#[test]
fn a_base_station_has_a_name_neighbours_and_a_key_and_the_rest_by_default() {
    let lines =
        "name = \"west\"\nneighbours = [\"10.0.0.2\", \"10.0.0.3:99\"]\ninterface = \"eth7\"";
    let (_file, text) = with_key(lines);
    let station = settings(&text).expect("all is right").station.expect("one");
    let peers: Vec<_> = station.peers.iter().collect();
    let addresses = peers.iter().filter_map(|peer| station.peers.address(*peer));
    let shown: Vec<String> = addresses.map(|address| address.to_string()).collect();
    assert_eq!(shown, ["10.0.0.2:4849", "10.0.0.3:99"]);
    assert_eq!(station.interface, "eth7");
    assert_eq!(station.group_address(3).to_string(), "239.195.72.3");
    let defaults = holdfast_core::handoff::HandoffSettings {
        station: holdfast_core::handoff::StationId::of_name("west"),
        ..Default::default()
    };
    assert_eq!(format!("{:?}", station.core), format!("{defaults:?}"));
    assert!(settings("").expect("none is given").station.is_none());
}

#[test]
fn every_mistake_in_it_is_named_in_one_line_with_what_it_takes() {
    let good = "name = \"west\"\nneighbours = [\"10.0.0.2\"]\ninterface = \"eth7\"\n";
    let cases = [
        (
            "interface = \"eth7\"",
            "key `handoff.key_file`: is given without `handoff.name`",
        ),
        (
            "name = \"west\"\ninterface = \"eth7\"",
            "key `handoff.neighbours`: missing; takes a list",
        ),
        (
            "name = \"west\"\nneighbours = []",
            "takes a list of 1 to 64 addresses",
        ),
        (
            "name = \"west\"\nneighbours = [\"east\"]",
            "takes a list of 1 to 64 addresses",
        ),
        (
            "name = \"west\"\nneighbours = [\"10.0.0.2\", \"10.0.0.2:4849\"]",
            "got 10.0.0.2:4849 twice; takes each of the other base stations once",
        ),
        (
            "name = \"west\"\nneighbours = [\"10.0.0.2\"]",
            "key `handoff.interface`: missing; takes",
        ),
        (
            &format!("{good}group = \"10.0.0.1\""),
            "takes a multicast address",
        ),
        (
            &format!("{good}group = \"ff15::1\""),
            "not of the family of handoff.group",
        ),
        (
            &format!("{good}group = \"239.255.255.250\""),
            "takes fewer groups",
        ),
        (&format!("{good}always = 1"), "takes true or false"),
        (
            &format!("{good}mobile_buffer_bytes_max = \"1 GiB\""),
            "at most handoff.buffer_bytes_max",
        ),
    ];
    for (lines, expected) in cases {
        let shown = refused(lines);
        assert!(shown.contains(expected), "{lines}\n{shown}");
        assert!(!shown.contains('\n'), "{shown}");
    }
    let missing = error(&format!("[handoff]\n{good}key_file = \"/nonexistent/key\""));
    assert!(
        missing.contains("make it with `holdfast mobile keygen"),
        "{missing}"
    );
    let (_file, text) = with_key(good);
    for scheme in ["mtcp-plus", "mtcp-2007", "keep", "observe"] {
        let unfit = error(&format!("[gateway]\nscheme = \"{scheme}\"\n{text}"));
        let problem = format!("the scheme {scheme} ");
        assert!(unfit.contains(&problem), "{unfit}");
        assert!(unfit.contains("takes the scheme auto, hold, snoop or mtcp"));
    }
    let split = format!("[gateway]\nscheme = \"mtcp\"\n{text}");
    assert!(settings(&split).expect("all right").station.is_some());
}

#[derive(clap::Parser)]
struct MobileFlags {
    #[command(flatten)]
    mobile: MobileDaemonArgs,
}

/// The settings of a mobile's file with these lines.
fn mobile(lines: &str) -> Result<MobileSettings, SettingsError> {
    let folder = tempfile::tempdir().expect("a folder");
    let (key, config) = (folder.path().join("key"), folder.path().join("mobile.toml"));
    std::fs::write(&key, KEY).expect("written");
    let text = format!("[mobile]\ninterface = \"lo\"\nkey_file = {key:?}\n{lines}");
    std::fs::write(&config, text).expect("written");
    let arguments = ["holdfast", "--config", config.to_str().expect("a path")];
    let flags = MobileFlags::try_parse_from(arguments).expect("good flags");
    flags.mobile.settings()
}

#[test]
fn a_mobile_has_one_gateway_or_several_cells() {
    let one = mobile("gateway = \"192.0.2.1\"").expect("as ever");
    let cell = |interface: &str, gateway: &str| Cell {
        interface: interface.into(),
        gateway: Some(gateway.into()),
    };
    assert_eq!(one.cells, [cell("lo", "192.0.2.1")]);
    let two = mobile("cells = [\"wlan0 10.2.0.1\", \"wlan1 [2001:db8::1]:99\"]").expect("two");
    let expected = [cell("wlan0", "10.2.0.1"), cell("wlan1", "[2001:db8::1]:99")];
    assert_eq!(two.cells, expected);
    let shown = |lines: &str| mobile(lines).expect_err("wrong").to_string();
    for bad in [
        "[]",
        "[\"10.2.0.1\"]",
        "[\"wlan0 10.2.0.1 x\"]",
        "\"wlan0 10.2.0.1\"",
    ] {
        let shown = shown(&format!("cells = {bad}"));
        assert!(
            shown.contains("each an interface and an address"),
            "{shown}"
        );
    }
    let both = shown("gateway = \"192.0.2.1\"\ncells = [\"wlan0 10.2.0.1\"]");
    assert!(both.contains("takes one of them"), "{both}");
    // Without a gateway there are the schemes of the mobile itself.
    assert!(mobile("").is_ok());
    let without_gateway = shown("scheme = \"none\"");
    assert!(
        without_gateway.contains("key `mobile.gateway`: missing"),
        "{without_gateway}"
    );
}
