// SPDX-License-Identifier: Apache-2.0
//! Maps `[mobile]` to the simulator's settings.

use std::collections::BTreeMap;

use holdfast_core::mobile_host::MobileHostCounters;
use holdfast_settings::mobile::MobileDaemon;
use holdfast_sim::{MobileEnginePlan, MobilePlan};
use holdfast_wire::Duration;

use crate::scenario::{
    Conditions, MobileConditions, MobileSchemeChoice, MobileSignalChoice, seconds,
};

/// The MH's scheme for its own flows, and its reports; none: it has none.
pub(super) fn plan(conditions: &Conditions) -> Option<MobilePlan> {
    let mobile = &conditions.mobile;
    let reported_after = reported_after(mobile);
    Some(MobilePlan {
        settings: mobile.settings(&conditions.gateway)?,
        reported_after,
        warned_before: (mobile.warning_ms > 0.0).then(|| seconds(mobile.warning_ms / 1e3)),
        false_alarm_at: None,
        // The stored results of runs with reports were made without detection of silence.
        detects_silence: reported_after.is_none(),
    })
}

/// The engine at the MH's interface; none: there is none.
pub(super) fn engine(conditions: &MobileConditions) -> Option<MobileEnginePlan> {
    let flows_max = MobileDaemon::default().flows_max as usize;
    (conditions.scheme == MobileSchemeChoice::Auto).then(|| MobileEnginePlan {
        reported_after: reported_after(conditions),
        ..MobileEnginePlan::of_daemon(flows_max)
    })
}

fn reported_after(conditions: &MobileConditions) -> Option<Duration> {
    match conditions.signal {
        MobileSignalChoice::Carrier | MobileSignalChoice::Command => Some(Duration::ZERO),
        MobileSignalChoice::None => None,
    }
}

/// The counters by their names in the daemon's status.
pub(super) fn counters(counters: &MobileHostCounters) -> BTreeMap<String, u64> {
    let named = [
        ("frozen", counters.frozen),
        ("not-covered", counters.not_covered),
        ("false-alarms", counters.false_alarms),
        ("acks-made", counters.acks_made),
    ];
    named
        .into_iter()
        .map(|(name, count)| (name.to_owned(), count))
        .collect()
}
