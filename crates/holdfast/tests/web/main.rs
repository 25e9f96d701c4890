// SPDX-License-Identifier: Apache-2.0
//! The live page in a browser, at the widths of a desk and of a phone: it shows what the daemon
//! reports, loads nothing from elsewhere, and its export needs nothing.

mod browser;

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use holdfast_net::netns::{ChildGuard, NetNs};
use holdfast_testbed::daemons::report_link;
use holdfast_testbed::harness::{Flow, Harness, accept, connect, listen};
use holdfast_testbed::stop::StopFlag;
use holdfast_testbed::topology::{FH, MH, TopologySettings, Wireless};
use serde_json::Value;

use browser::{Browser, can_browse};

const HOLDFAST: &str = env!("CARGO_BIN_EXE_holdfast");

/// No condition is waited for longer than this.
const LIMIT: Duration = Duration::from_secs(120);

const ORIGIN: &str = "http://127.0.0.1:8484/";

/// Nothing is wider than the screen.
const FITS: &str = "document.documentElement.scrollWidth <= window.innerWidth";

/// Saves a picture of the page where `HOLDFAST_PICTURES` names a folder.
fn take_picture(browser: &mut Browser, name: &str) {
    if let Some(folder) = std::env::var_os("HOLDFAST_PICTURES") {
        let picture = browser.call(
            "Page.captureScreenshot",
            serde_json::json!({"captureBeyondViewport": true}),
        );
        let path = std::path::Path::new(&folder).join(format!("{name}.base64"));
        fs::write(path, picture["data"].as_str().unwrap()).unwrap();
    }
}

/// The page has loaded all from its own origin, and the browser has found nothing wrong.
fn assert_clean(browser: &Browser) {
    assert_eq!(browser.complaints, Vec::<String>::new());
    let foreign = |address: &&String| !address.starts_with(ORIGIN) && *address != "about:blank";
    let foreign: Vec<_> = browser.loaded.iter().filter(foreign).collect();
    assert!(foreign.is_empty(), "{foreign:?}");
    assert!(
        browser
            .loaded
            .iter()
            .any(|one| one.ends_with("status.json"))
    );
}

#[test]
fn a_browser_shows_a_running_gateway_and_its_export_needs_nothing() {
    let test = "a_browser_shows_a_running_gateway_and_its_export_needs_nothing";
    if !can_browse(test) {
        return;
    }
    let settings = TopologySettings::new(HOLDFAST, Wireless::Veth { mtu: 1500 });
    let Some(mut harness) = Harness::new(test, &settings, None).unwrap() else {
        return;
    };
    harness.set_gateway_settings("[web]\nlisten = \"127.0.0.1:8484\"");
    harness.start_gateway().unwrap();
    let socket = harness.gateway.as_ref().unwrap().socket().to_owned();
    let listener = listen(&harness.topology.fh, FH.v4.into(), 700).unwrap();
    let at_mh = connect(&harness.topology.mh, FH.v4.into(), 700).unwrap();
    let (at_fh, _) = accept(&listener).unwrap();
    // Half open: the gateway knows the flow, and with it the mobile, all the time.
    let _open = at_mh.try_clone().unwrap();
    let flow = Flow::start(at_fh, at_mh, 20_000_000, 1);
    flow.finish().unwrap();
    let mh = MH.v4.to_string();
    let mut browser = Browser::start(harness.topology.gateway());
    for width in [1280, 390] {
        browser.open(ORIGIN, width);
        browser.await_that("document.getElementById('state')?.textContent === 'Live'");
        // Two looks make a rate.
        browser.await_that("measured.downlink.length > 1");
        let row =
            format!("document.querySelector('#mobiles tbody tr')?.innerText.includes('{mh}')");
        browser.await_that(&row);
        report_link(&socket, MH.v4.into(), "down").unwrap();
        browser.await_that("document.querySelector('#mobiles td .word-down') !== null");
        browser.await_that("document.querySelector('#mobiles svg rect.down') !== null");
        browser.await_that("document.querySelector('#path line.down') !== null");
        take_picture(&mut browser, &format!("gateway-{width}"));
        report_link(&socket, MH.v4.into(), "up").unwrap();
        browser.await_that("document.querySelector('#mobiles td .word-up') !== null");
        let row = row.replace("mobiles", "outages");
        browser.await_that(&row);
        assert_eq!(browser.value(FITS), true, "{width}");
    }
    assert_pauses(&mut browser);
    assert_unknown_is_not_up(&mut browser);
    assert_clean(&browser);
    let file = harness.folder().join("export.html");
    let export = browser.value("exported()");
    fs::write(&file, export.as_str().unwrap()).unwrap();
    harness.stop_gateway().unwrap();
    let mut colleague = Browser::start(&NetNs::new().unwrap());
    let address = format!("file://{}", file.display());
    colleague.open(&address, 1280);
    colleague.await_that(&format!(
        "document.querySelector('#mobiles td')?.innerText === '{mh}'"
    ));
    colleague
        .await_that("getComputedStyle(document.querySelector('rect.up')).fill !== 'rgb(0, 0, 0)'");
    assert_eq!(colleague.complaints, Vec::<String>::new());
    assert_eq!(colleague.loaded, [address]);
}

/// An answer that arrives after the page was paused changes nothing.
fn assert_pauses(browser: &mut Browser) {
    let state = "document.getElementById('state').textContent";
    browser.value(
        "const trueFetch = fetch, held = {}, looked = { over: false };
        window.fetch = async (...of) => {
          const answer = await trueFetch(...of);
          await new Promise((release) => { held.release = release; });
          return answer;
        };
        look().finally(() => { looked.over = true; });",
    );
    browser.await_that("held.release !== undefined");
    browser.value("window.fetch = trueFetch; document.getElementById('pause').click();");
    let paused = browser.value(state);
    assert!(paused.as_str().unwrap().starts_with("Paused"), "{paused}");
    browser.value("held.release()");
    browser.await_that("looked.over");
    assert_eq!(browser.value(state), paused);
}

/// A mobile from which nothing was ever received is grey all the time; on the paused page.
fn assert_unknown_is_not_up(browser: &mut Browser) {
    browser.value(
        "mobileTable({ ...last, mobiles: [{ ...last.mobiles[0], link: 'unknown' }] }, null, [], \
         lastMs / 1000, 0)",
    );
    let width = "document.querySelector('#mobiles rect.unknown').getAttribute('width')";
    assert_eq!(browser.value(width), "1000");
    browser.value("mobileTable(last, null, [], lastMs / 1000, 0)");
    browser.await_that("document.querySelector('#mobiles td .word-up') !== null");
}

/// A demo, which is interrupted at the end.
fn start_demo(ns: &NetNs, report: &std::path::Path) -> ChildGuard {
    let mut command = ns.command(HOLDFAST);
    command.args(["demo", "--web", "--scheme", "auto"]);
    command.args(["--megabytes", "12", "--outages", "0.5", "--json"]);
    command.arg(report);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(Stdio::null());
    ns.spawn_guarded(command).unwrap()
}

#[test]
fn a_browser_shows_the_demos_downloads_side_by_side() {
    if !can_browse("a_browser_shows_the_demos_downloads_side_by_side") {
        return;
    }
    let (ns, folder) = (NetNs::new().unwrap(), tempfile::tempdir().unwrap());
    let report = folder.path().join("report.json");
    let mut demo = start_demo(&ns, &report);
    let listens = || ns.run(|| std::net::TcpStream::connect("127.0.0.1:8484"));
    StopFlag::default()
        .wait_for("the demo serves its page", LIMIT, || {
            Ok(listens()?.ok().map(|_| ()))
        })
        .unwrap();
    let mut browser = Browser::start(&ns);
    browser.open(ORIGIN, 1280);
    browser.await_that("document.querySelectorAll('#TCP-download article').length === 2");
    browser.await_that("document.getElementById('state').textContent === 'The demo is over'");
    browser.await_that("document.querySelectorAll('#TCP-download svg rect.down').length === 2");
    take_picture(&mut browser, "demo-1280");
    // It is written before the page reports the end.
    let text = StopFlag::default().wait_for("the report", LIMIT, || {
        let text = fs::read_to_string(&report).unwrap_or_default();
        Ok(serde_json::from_str::<Value>(&text).ok())
    });
    let report = text.unwrap();
    for (number, run) in [(0, &report["runs"][0]), (1, &report["runs"][1])] {
        let share = run["link_share"].as_f64().unwrap() * 100.0;
        let shown = format!("document.querySelectorAll('.share')[{number}].textContent");
        assert_eq!(browser.value(&shown), format!("{share:.1} %"), "{run}");
    }
    browser.open(ORIGIN, 390);
    browser.await_that("document.querySelectorAll('#TCP-download article').length === 2");
    take_picture(&mut browser, "demo-390");
    assert_eq!(browser.value(FITS), true);
    assert_clean(&browser);
    demo.signal(libc::SIGINT).unwrap();
    let status = demo.wait_at_most(LIMIT).unwrap();
    assert!(status.unwrap().success(), "{status:?}");
}
