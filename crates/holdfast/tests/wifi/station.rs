// SPDX-License-Identifier: Apache-2.0
//! What `holdfast mobile` detects by nl80211, and when.

use std::time::{Duration, Instant};

use super::air::{
    ACCESS_POINTS, ALONE, Air, SENT_DBM, STATION, TOGETHER, address, await_that, load_radios, run,
    set_radio,
};

#[test]
fn the_signal_is_that_of_the_access_point_and_a_threshold_is_reported_between_two_polls() {
    let test =
        "the_signal_is_that_of_the_access_point_and_a_threshold_is_reported_between_two_polls";
    let Some(mut air) = Air::new(test) else {
        return;
    };
    let at = ACCESS_POINTS[air.await_associated()];
    air.start_daemon("poll_ms = 50");
    let near = air.dbm();
    let iw = run("iw", &["dev", STATION, "link"]);
    println!("near: {near} dBm; iw: {}", iw.replace('\n', ";"));
    assert!(iw.contains(&format!("signal: {near} dBm")), "{near}: {iw}");
    set_radio(at, "rx_rssi", -80);
    let far = -80 + SENT_DBM;
    // The kernel's average follows slowly.
    await_that("the signal is low", || (air.dbm() - far).abs() <= 1);
    set_radio(at, "rx_rssi", -50);
    await_that("the signal is high", || (air.dbm() - near).abs() <= 1);
    assert_eq!(air.wifi()["failures"], 0);
    assert_eq!(air.events(), [], "a signal is no event");
    // The source polls once a minute, so an earlier report is the driver's. The driver's first report
    // shows on which side of the threshold the signal is.
    air.daemon = None;
    let begun = Instant::now();
    air.start_daemon("poll_ms = 60000\nwifi_threshold_dbm = -50");
    await_that("the first answer", || air.dbm() == near);
    set_radio(at, "rx_rssi", -80);
    let fell = await_that("the signal is below the threshold", || air.dbm() < -50);
    let below = air.dbm();
    set_radio(at, "rx_rssi", -50);
    let rose = await_that("the signal is above the threshold", || air.dbm() > -50);
    assert!(
        begun.elapsed() < Duration::from_secs(60),
        "a poll came before the driver's report"
    );
    println!(
        "threshold of -50 dBm: {below} dBm after {fell:?}, {} after {rose:?}",
        air.dbm()
    );
    assert!(below < -50 && air.dbm() > -50, "{below}, {}", air.dbm());
    assert!(air.wifi()["note"].is_null(), "{}", air.wifi()["note"]);
}

#[test]
fn a_station_that_roams_has_no_link_between_its_access_points() {
    let test = "a_station_that_roams_has_no_link_between_its_access_points";
    let Some(mut air) = Air::new(test) else {
        return;
    };
    let mut at = air.await_associated();
    air.start_daemon("poll_ms = 100");
    await_that("up", || air.link() == "up");
    for round in 0..4 {
        let next = 1 - at;
        let bssid = address(ACCESS_POINTS[next]);
        air.supplicant_command(&["scan"]);
        await_that("the other access point is found", || {
            air.supplicant_command(&["scan_results"]).contains(&bssid)
        });
        let (seen, epoch) = (air.events().len(), air.epoch());
        assert!(air.supplicant_command(&["roam", &bssid]).contains("OK"));
        let down = air.await_event(seen, "Down");
        let up = air.await_event(seen, "Up");
        await_that("the station is associated", || {
            air.associated() == Some(next)
        });
        await_that("up", || air.link() == "up");
        let events = air.events().split_off(seen);
        println!("round {round}: down seen after {down:?}, up {up:?} later: {events:?}");
        // The driver's report of the roam may cause a second `up`.
        assert_eq!(events[0].1, "Down");
        assert!(
            events[1..].iter().all(|(_, event)| event == "Up"),
            "{events:?}"
        );
        assert!(air.epoch() > epoch);
        at = next;
    }
    assert_eq!(air.wifi()["failures"], 0);
}

#[test]
fn a_deauthenticated_station_has_no_link_until_it_is_associated_again() {
    let test = "a_deauthenticated_station_has_no_link_until_it_is_associated_again";
    let Some(mut air) = Air::new(test) else {
        return;
    };
    let at = ACCESS_POINTS[air.await_associated()];
    air.start_daemon("poll_ms = 100");
    await_that("up", || air.link() == "up");
    let (socket, station) = (air.path("hostapd"), address(STATION));
    for command in ["deauthenticate", "disassociate"] {
        // Otherwise the station may choose the other access point.
        let other = ACCESS_POINTS.iter().find(|name| **name != at).unwrap();
        set_radio(other, "group", ALONE);
        let seen = air.events().len();
        run("hostapd_cli", &["-p", &socket, "-i", at, command, &station]);
        let down = air.await_event(seen, "Down");
        let up = air.await_event(seen, "Up");
        air.await_associated();
        await_that("up", || air.link() == "up");
        let events = air.events().split_off(seen);
        println!("{command}: down after {down:?}, up {up:?} later: {events:?}");
        assert_eq!(events[0].1, "Down");
    }
    assert_eq!(air.wifi()["failures"], 0);
}

#[test]
fn a_silent_access_point_is_an_outage_until_its_signal_returns() {
    let test = "a_silent_access_point_is_an_outage_until_its_signal_returns";
    let Some(mut air) = Air::new(test) else {
        return;
    };
    air.await_associated();
    air.start_daemon("poll_ms = 100");
    await_that("up", || air.link() == "up");
    let epoch = air.epoch();
    for name in ACCESS_POINTS {
        set_radio(name, "group", ALONE);
    }
    let down = air.await_event(0, "Down");
    await_that("down", || air.link() == "down");
    println!("without a signal: down after {down:?}; {:?}", air.events());
    for name in ACCESS_POINTS {
        set_radio(name, "group", TOGETHER);
    }
    let seen = air.events().len();
    let up = air.await_event(seen, "Up");
    air.await_associated();
    await_that("up", || air.link() == "up");
    println!("with a signal again: up after {up:?}; {:?}", air.events());
    assert!(air.epoch() > epoch);
}

#[test]
fn a_radio_that_is_removed_and_added_again_is_used_again() {
    let test = "a_radio_that_is_removed_and_added_again_is_used_again";
    let Some(mut air) = Air::new(test) else {
        return;
    };
    air.await_associated();
    air.start_daemon("poll_ms = 100");
    await_that("up", || air.link() == "up");
    air.supplicant = None;
    air.access_points.clear();
    run("modprobe", &["-r", "mac80211_hwsim"]);
    await_that("down", || air.link() == "down");
    await_that("the source has failed", || air.wifi()["runs"] == false);
    let problem = air.wifi()["problem"].to_string();
    println!("without a radio: {problem}");
    assert!(
        problem.contains("sources.wifi") && !problem.contains("\\n"),
        "{problem}"
    );
    load_radios();
    air.start_radios();
    air.await_associated();
    let running = await_that("the source runs", || air.wifi()["runs"] == true);
    await_that("up", || air.link() == "up");
    println!(
        "with a radio again: the source runs after {running:?}; {:?}",
        air.events()
    );
    await_that("there is a signal", || air.dbm() < 0);
}
