// SPDX-License-Identifier: Apache-2.0
//! What `holdfast mobile` knows of its link by nl80211, and when.

use std::time::{Duration, Instant};

use super::air::{
    ACCESS_POINTS, ALONE, Air, SENT_DBM, STATION, TOGETHER, address, await_that, load_radios, run,
    set_radio,
};

#[test]
fn the_signal_is_the_access_points_and_a_threshold_is_told_between_two_questions() {
    let test = "the_signal_is_the_access_points_and_a_threshold_is_told_between_two_questions";
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
    await_that("it is far", || (air.dbm() - far).abs() <= 1);
    set_radio(at, "rx_rssi", -50);
    await_that("it is near", || (air.dbm() - near).abs() <= 1);
    assert_eq!(air.wifi()["failures"], 0);
    assert_eq!(air.events(), [], "a signal is no event");
    // Asked once a minute: what comes before is the driver's. Its first word is on which side the
    // signal is.
    air.daemon = None;
    let begun = Instant::now();
    air.start_daemon("poll_ms = 60000\nwifi_threshold_dbm = -50");
    await_that("the first answer", || air.dbm() == near);
    set_radio(at, "rx_rssi", -80);
    let fell = await_that("it has fallen below", || air.dbm() < -50);
    let below = air.dbm();
    set_radio(at, "rx_rssi", -50);
    let rose = await_that("it has risen above", || air.dbm() > -50);
    assert!(begun.elapsed() < Duration::from_secs(60), "asked meanwhile");
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
        air.ask(&["scan"]);
        await_that("it is found", || {
            air.ask(&["scan_results"]).contains(&bssid)
        });
        let (heard, epoch) = (air.events().len(), air.epoch());
        assert!(air.ask(&["roam", &bssid]).contains("OK"));
        let down = air.await_event(heard, "Down");
        let up = air.await_event(heard, "Up");
        await_that("it is there", || air.associated() == Some(next));
        await_that("up", || air.link() == "up");
        let told = air.events().split_off(heard);
        println!("round {round}: down seen after {down:?}, up {up:?} later: {told:?}");
        // A second `up` may come of the driver's: the station has roamed.
        assert_eq!(told[0].1, "Down");
        assert!(told[1..].iter().all(|(_, event)| event == "Up"), "{told:?}");
        assert!(air.epoch() > epoch);
        at = next;
    }
    assert_eq!(air.wifi()["failures"], 0);
}

#[test]
fn a_station_that_is_sent_away_has_no_link_until_it_is_let_in_again() {
    let test = "a_station_that_is_sent_away_has_no_link_until_it_is_let_in_again";
    let Some(mut air) = Air::new(test) else {
        return;
    };
    let at = ACCESS_POINTS[air.await_associated()];
    air.start_daemon("poll_ms = 100");
    await_that("up", || air.link() == "up");
    let (socket, station) = (air.path("hostapd"), address(STATION));
    for way in ["deauthenticate", "disassociate"] {
        // It takes the other one otherwise, perhaps.
        let other = ACCESS_POINTS.iter().find(|name| **name != at).unwrap();
        set_radio(other, "group", ALONE);
        let heard = air.events().len();
        run("hostapd_cli", &["-p", &socket, "-i", at, way, &station]);
        let down = air.await_event(heard, "Down");
        let up = air.await_event(heard, "Up");
        air.await_associated();
        await_that("up", || air.link() == "up");
        let told = air.events().split_off(heard);
        println!("{way}: down after {down:?}, up {up:?} later: {told:?}");
        assert_eq!(told[0].1, "Down");
    }
    assert_eq!(air.wifi()["failures"], 0);
}

#[test]
fn an_access_point_that_falls_silent_is_an_outage_until_it_is_heard_again() {
    let test = "an_access_point_that_falls_silent_is_an_outage_until_it_is_heard_again";
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
    println!(
        "nothing heard of it any more: down after {down:?}; {:?}",
        air.events()
    );
    for name in ACCESS_POINTS {
        set_radio(name, "group", TOGETHER);
    }
    let heard = air.events().len();
    let up = air.await_event(heard, "Up");
    air.await_associated();
    await_that("up", || air.link() == "up");
    println!("it is back: up after {up:?}; {:?}", air.events());
    assert!(air.epoch() > epoch);
}

#[test]
fn a_radio_that_is_taken_away_and_put_back_is_heard_again() {
    let test = "a_radio_that_is_taken_away_and_put_back_is_heard_again";
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
    await_that("it has failed", || air.wifi()["runs"] == false);
    let problem = air.wifi()["problem"].to_string();
    println!("without a radio: {problem}");
    assert!(
        problem.contains("sources.wifi") && !problem.contains("\\n"),
        "{problem}"
    );
    load_radios();
    air.start_radios();
    air.await_associated();
    let heard = await_that("Wi-Fi is heard", || air.wifi()["runs"] == true);
    await_that("up", || air.link() == "up");
    println!(
        "with a radio again: heard after {heard:?}; {:?}",
        air.events()
    );
    await_that("its signal", || air.dbm() < 0);
}
