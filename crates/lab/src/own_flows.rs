// SPDX-License-Identifier: Apache-2.0
//! What `holdfast mobile` does for the MH's own flows in a transfer, and the reports about the link
//! that it gets. The outages are known from the plan. They can be announced at their times, as a script
//! would with `holdfast mobile signal`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use anyhow::Context as _;
use holdfast_link::OutageAt;
use holdfast_net::datapath::monotonic_ns;

use holdfast_testbed::appointed::{Appointed, sleep_until};
use holdfast_testbed::daemons::{Daemon, announce_leaving, signal_link, status_at};

/// A warning comes at the earliest this long after the outage before it. It also waits until the daemon
/// knows, by netlink, that the link is up.
const AFTER_RETURN_S: f64 = 0.005;
/// The prefix of the daemon's counters for own flows.
const COUNTERS: &str = "host.";
/// The prefix of the counters of its BPF programs.
const PATH_COUNTERS: &str = "path.";
const NS_PER_MS: u64 = 1_000_000;

/// What the MH's daemon does for its own flows.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnFlows {
    /// Lines of its `[mobile]` section: the scheme and its settings.
    pub settings: String,
    /// The reports to the daemon, with their times in seconds since the start of the links' clocks.
    pub reports: Vec<(f64, LinkReport)>,
}

/// A report to the daemon about the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkReport {
    /// The link goes down in this many milliseconds.
    GoingDownSoon(u16),
    /// The link is down.
    Down,
    /// The link is up.
    Up,
}

/// The reports about `outages`. A warning comes `warning_ms` before each, but not before the last
/// outage is over; 0: no warnings. With `states` there are reports of link down and link up.
pub fn reports(outages: &[OutageAt], warning_ms: f64, states: bool) -> Vec<(f64, LinkReport)> {
    let mut reports = Vec::new();
    let mut back_s = 0.0;
    for outage in outages {
        let at_s = (outage.at_s - warning_ms / 1e3).max(back_s);
        // The daemon takes whole milliseconds; 0 means that the time is not known.
        let lead_ms = ((outage.at_s - at_s) * 1e3).round() as u16;
        if warning_ms > 0.0 && lead_ms > 0 {
            reports.push((at_s, LinkReport::GoingDownSoon(lead_ms)));
        }
        let end_s = outage.at_s + outage.for_s;
        if states {
            reports.extend([(outage.at_s, LinkReport::Down), (end_s, LinkReport::Up)]);
        }
        back_s = end_s + AFTER_RETURN_S;
    }
    reports
}

/// How many outages were announced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Announced {
    /// Announced outages: the daemon got a warning.
    pub(crate) given: u64,
    /// Outages without a warning: until they began, the daemon's link was still down.
    pub(crate) not_given: u64,
}

/// Sends the reports at their times. `origin_ns` is the links' start on CLOCK_MONOTONIC, `socket` the
/// daemon's socket.
pub(crate) fn announce(
    reports: &[(f64, LinkReport)],
    socket: &Path,
    origin_ns: u64,
) -> Appointed<Announced> {
    let (reports, socket) = (reports.to_vec(), socket.to_owned());
    Appointed::start(move |over| {
        let mut announced = Announced::default();
        for (at_s, report) in reports {
            let at_ns = origin_ns + (at_s * 1e9) as u64;
            if !sleep_until(at_ns, over) {
                break;
            }
            match report {
                LinkReport::GoingDownSoon(lead_ms) => {
                    let goes_ns = at_ns + u64::from(lead_ms) * NS_PER_MS;
                    match lead_once_up(&socket, (at_ns, goes_ns), over)? {
                        Some(lead_ms) => {
                            announce_leaving(&socket, lead_ms)?;
                            announced.given += 1;
                        }
                        None => announced.not_given += 1,
                    }
                }
                LinkReport::Down => signal_link(&socket, "down")?,
                LinkReport::Up => signal_link(&socket, "up")?,
            }
        }
        Ok(announced)
    })
}

/// Waits while the daemon's link is down: it takes no warning then. Returns the milliseconds that are
/// left of the time from `at_ns` to `goes_ns`. None: no time is left.
fn lead_once_up(
    socket: &Path,
    (at_ns, goes_ns): (u64, u64),
    over: &AtomicBool,
) -> anyhow::Result<Option<u16>> {
    let mut queried_ns = at_ns;
    while status_at(socket)?["link"] == "down" {
        queried_ns = monotonic_ns() + NS_PER_MS;
        if queried_ns >= goes_ns || !sleep_until(queried_ns, over) {
            return Ok(None);
        }
    }
    let lead_ms = goes_ns.saturating_sub(queried_ns) / NS_PER_MS;
    Ok((lead_ms > 0).then_some(lead_ms as u16))
}

/// The daemon's counters for own flows.
pub(crate) fn counters(daemon: &Daemon) -> anyhow::Result<BTreeMap<String, u64>> {
    let status = daemon.status()?;
    let all = status["counters"].as_object();
    let all = all.context("the mobile's daemon has no counters of its own flows")?;
    let own = all.iter().filter_map(|(name, count)| {
        let of_path = name.starts_with(PATH_COUNTERS).then_some(name.as_str());
        let name = name.strip_prefix(COUNTERS).or(of_path)?;
        Some((name.to_owned(), count.as_u64()?))
    });
    Ok(own.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outages_are_announced_ahead_but_not_in_the_one_before() {
        let outages =
            [(2.0, 1.0), (3.1, 1.0), (9.0, 0.5)].map(|(at_s, for_s)| OutageAt { at_s, for_s });
        let planned = reports(&outages, 200.0, true);
        let order: Vec<LinkReport> = planned.iter().map(|(_, report)| *report).collect();
        assert_eq!(
            order,
            [
                LinkReport::GoingDownSoon(200),
                LinkReport::Down,
                LinkReport::Up,
                LinkReport::GoingDownSoon(95),
                LinkReport::Down,
                LinkReport::Up,
                LinkReport::GoingDownSoon(200),
                LinkReport::Down,
                LinkReport::Up
            ]
        );
        assert!(planned.windows(2).all(|pair| pair[0].0 <= pair[1].0));
        assert!((planned[0].0 - 1.8).abs() < 1e-9 && (planned[3].0 - 3.005).abs() < 1e-9);
        assert!(reports(&outages, 0.0, false).is_empty());
    }
}
