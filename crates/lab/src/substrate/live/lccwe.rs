// SPDX-License-Identifier: Apache-2.0
//! LC and CWE at a Linux MH. The congestion control is registered for one run. It gets a report at
//! the begin and the end of each outage of the link: these are the MH's handoffs.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use holdfast_link::OutageAt;
use holdfast_net::lccwe::{CongestionControl, NAME};
use holdfast_net::netns::NetNs;
use holdfast_net::rtnl::Rtnl;
use holdfast_testbed::appointed::sleep_until;
use holdfast_testbed::link_process::MH_IF;

use crate::scenario::Conditions;
use crate::transfer::TransferWatch;

/// The time between two checks whether the links have started.
const START_LOOK: Duration = Duration::from_millis(1);

/// The number of runs of this process so far.
static RUNS: AtomicU32 = AtomicU32::new(0);

/// Registers the congestion control if the MH uses it. Its name is unique, because a registration
/// is valid in the whole kernel.
pub(super) fn register(conditions: &Conditions) -> anyhow::Result<Option<CongestionControl>> {
    if conditions.mh.congestion_control() != NAME {
        return Ok(None);
    }
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    let name = format!("hl{}x{run}", std::process::id() % 1_000_000);
    let control = CongestionControl::register(&name).context("mh.congestion_control")?;
    Ok(Some(control))
}

/// Reports each outage at its time, until `over` is set. Runs in a thread of its own, which enters
/// the MH's namespace.
pub(super) fn feed(
    control: &CongestionControl,
    mh: &NetNs,
    outages: &[OutageAt],
    watch: &TransferWatch,
    over: &AtomicBool,
) -> anyhow::Result<()> {
    mh.enter()?;
    let ifindex = Rtnl::open()?.link_index(MH_IF)?;
    let origin_ns = loop {
        match watch.origin_ns() {
            Some(origin_ns) => break origin_ns,
            None if over.load(Ordering::Relaxed) => return Ok(()),
            None => thread::sleep(START_LOOK),
        }
    };
    let at_ns = |s: f64| origin_ns + (s * 1e9) as u64;
    for outage in outages {
        if !sleep_until(at_ns(outage.at_s), over) {
            break;
        }
        control.handoff_started(ifindex)?;
        if !sleep_until(at_ns(outage.at_s + outage.for_s), over) {
            break;
        }
        control.handoff_finished(ifindex)?;
    }
    Ok(())
}
