// SPDX-License-Identifier: Apache-2.0
//! A handoff that a stronger signal begins (Snoop, 1995, section 3.3).

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use super::air::{ACCESS_POINTS, Air, address, await_that, set_radio};

/// The program that lets the interface roam: its arguments are the interface and the access point.
fn roam_program(air: &Air) -> String {
    let (program, socket) = (air.path("roam"), air.path("supplicant"));
    let text = format!("#!/bin/sh\nexec wpa_cli -p {socket} -i \"$1\" roam \"$2\"\n");
    std::fs::write(&program, text).unwrap();
    std::fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    program
}

/// The daemon's log.
fn log(air: &Air) -> String {
    std::fs::read_to_string(air.path("mobile.log")).unwrap()
}

#[test]
fn a_stronger_access_point_is_warned_of_and_taken() {
    let test = "a_stronger_access_point_is_warned_of_and_taken";
    let Some(mut air) = Air::new(test) else {
        return;
    };
    let mut at = air.await_associated();
    let program = roam_program(&air);
    air.start_daemon(&format!(
        "poll_ms = 100\nwifi_stronger_db = 10\nwifi_roam_command = \"{program}\""
    ));
    await_that("up", || air.link() == "up");
    for round in 0..3 {
        let next = 1 - at;
        let (seen, epoch) = (air.events().len(), air.epoch());
        let log_before = log(&air).len();
        set_radio(ACCESS_POINTS[at], "rx_rssi", -70);
        set_radio(ACCESS_POINTS[next], "rx_rssi", -50);
        let taken = await_that("the station is at the stronger access point", || {
            // A scan for its results alone: the supplicant does not roam by itself.
            air.supplicant_command(&["scan", "TYPE=ONLY"]);
            air.associated() == Some(next)
        });
        await_that("a warning, an outage, and its end", || {
            let events = air.events().split_off(seen);
            // The last roam may cause a second `up`.
            let mut names = events
                .iter()
                .map(|(_, name)| name)
                .skip_while(|name| *name == "Up");
            let mut is_next = |event| names.next().is_some_and(|name| name.starts_with(event));
            is_next("GoingDownSoon") && is_next("Down") && is_next("Up")
        });
        await_that("up", || air.link() == "up");
        println!(
            "round {round}: at the stronger access point after {taken:?}: {:?}",
            air.events()
        );
        assert!(air.epoch() > epoch);
        let begun = format!("{} is stronger", address(ACCESS_POINTS[next]));
        assert!(log(&air)[log_before..].contains(&begun), "{begun}");
        at = next;
    }
    assert_eq!(air.wifi()["failures"], 0);
}
