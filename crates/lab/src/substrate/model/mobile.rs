// SPDX-License-Identifier: Apache-2.0
//! `[mobile]` as the simulator has it.

use std::collections::BTreeMap;

use holdfast_core::mobile_host::MobileHostCounters;
use holdfast_sim::MobilePlan;
use holdfast_wire::Duration;

use crate::scenario::{MobileConditions, MobileSignalChoice, seconds};

/// What the MH does, and its reports; none: it does nothing.
pub(super) fn plan(conditions: &MobileConditions) -> Option<MobilePlan> {
    let reported_after = match conditions.signal {
        MobileSignalChoice::Carrier | MobileSignalChoice::Command => Some(Duration::ZERO),
        MobileSignalChoice::None => None,
    };
    Some(MobilePlan {
        settings: conditions.settings()?,
        reported_after,
        warned_before: (conditions.warning_ms > 0.0).then(|| seconds(conditions.warning_ms / 1e3)),
        false_alarm_at: None,
        // Where every outage is reported the committed runs were made without.
        detects_silence: reported_after.is_none(),
    })
}

/// By the names that the daemon's status has.
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
