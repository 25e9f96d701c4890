// SPDX-License-Identifier: Apache-2.0
//! The time that no transfer over a link can beat.

use holdfast_wire::{Duration, Instant};

use crate::capacity::need;
use crate::outage::OutageSchedule;
use crate::settings::LinkPlan;

/// When a link that always sends while it is up has delivered `wire_bytes`. The first bit
/// is sent at `start`. An outage stops the sending, and also the propagation of the last
/// bit. None: this is beyond the end of time.
///
/// `schedule` and the rate trace have the same time zero: for a link that started at
/// another time, all times are since its start. Jitter and losses are left out: they only
/// make a transfer longer.
pub fn optimal_transfer(
    plan: &LinkPlan,
    schedule: &mut OutageSchedule,
    start: Instant,
    wire_bytes: u64,
) -> Option<Instant> {
    let mut remaining = need(wire_bytes);
    let mut at = start;
    let sent_at = loop {
        let outage = schedule.outage_ending_after(at);
        if let Some(outage) = outage.filter(|outage| outage.begin <= at) {
            at = outage.end;
            continue;
        }
        let carried = plan.capacity.units_by(at);
        let finish = plan.capacity.time_of(carried + remaining).max(at);
        match outage {
            Some(outage) if finish > outage.begin => {
                remaining -= plan.capacity.units_by(outage.begin) - carried;
                at = outage.end;
            }
            _ => break finish,
        }
    };
    let arrives = standing_still(schedule, sent_at, plan.delay);
    (arrives < Instant::from_nanos(u64::MAX)).then_some(arrives)
}

/// The time at which the link has been up for `time_up` since `from`.
fn standing_still(schedule: &mut OutageSchedule, from: Instant, mut time_up: Duration) -> Instant {
    let mut at = from;
    loop {
        let outage = schedule.outage_ending_after(at);
        match outage {
            Some(outage) if at + time_up > outage.begin => {
                time_up -= outage.begin.saturating_since(at);
                at = outage.end;
            }
            _ => return at + time_up,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Enqueue, LinkModel};
    use crate::outage::{OutageAt, OutageEffect, OutageSettings};
    use crate::settings::LinkSettings;
    use proptest::prelude::*;

    fn settings(outages: &[(f64, f64)]) -> LinkSettings {
        let list = outages
            .iter()
            .map(|&(at_s, for_s)| OutageAt { at_s, for_s })
            .collect();
        LinkSettings {
            rate_mbit_per_s: Some(20.0),
            delay_ms: 25.0,
            queue_packets_max: Some(100_000),
            outages: OutageSettings::List { list },
            outage_effect: OutageEffect::Keep,
            ..LinkSettings::default()
        }
    }

    fn optimal(plan: &LinkPlan, start_ms: u64, wire_bytes: u64) -> Instant {
        let mut schedule = OutageSchedule::new(&plan.outages, 0);
        optimal_transfer(
            plan,
            &mut schedule,
            Instant::from_millis(start_ms),
            wire_bytes,
        )
        .unwrap()
    }

    #[test]
    fn outages_that_a_transfer_meets_make_it_longer_by_their_length() {
        let plan = settings(&[(4.0, 3.0), (10.0, 7.0)]).plan().unwrap();
        let second = 2_500_000;
        assert_eq!(optimal(&plan, 0, 3 * second), Instant::from_millis(3_025));
        assert_eq!(optimal(&plan, 0, 5 * second), Instant::from_millis(8_025));
        assert_eq!(optimal(&plan, 0, 8 * second), Instant::from_millis(18_025));
        assert_eq!(optimal(&plan, 5_000, second), Instant::from_millis(8_025));
    }

    #[test]
    fn an_outage_on_the_last_bytes_way_counts() {
        let plan = settings(&[(4.0, 3.0)]).plan().unwrap();
        // Sent at 3.990 s; 10 ms of propagation, then 15 ms more after the outage.
        assert_eq!(optimal(&plan, 0, 9_975_000), Instant::from_millis(7_015));
    }

    #[test]
    fn what_would_take_longer_than_time_lasts_has_no_optimum() {
        let mut settings = settings(&[]);
        settings.rate_mbit_per_s = Some(0.000_001);
        let plan = settings.plan().unwrap();
        let mut schedule = OutageSchedule::new(&plan.outages, 0);
        assert_eq!(
            optimal_transfer(&plan, &mut schedule, Instant::ZERO, u64::MAX),
            None
        );
    }

    proptest! {
        #[test]
        fn a_model_with_a_full_queue_that_keeps_packets_is_as_fast_as_the_optimum(
            packets in 1u64..300,
            outages in prop::collection::vec((1u32..400, 1u32..400), 0..4),
            by_trace: bool,
        ) {
            let mut end = 0.0;
            let outages: Vec<(f64, f64)> = outages.into_iter().map(|(up, down)| {
                let begin = end + f64::from(up) / 1e3;
                end = begin + f64::from(down) / 1e3;
                (begin, f64::from(down) / 1e3)
            }).collect();
            let mut settings = settings(&outages);
            if by_trace {
                settings.rate_mbit_per_s = None;
                settings.rate_trace = Some("steps.txt".to_owned());
            }
            let plan = settings.plan_with(|_| Ok("0.05 10\n0.1 0\n0.2 33.3\n".to_owned())).unwrap();
            let mut link = LinkModel::from_plan(&plan, 0);
            for n in 0..packets {
                prop_assert_eq!(link.enqueue(n, 1500, Instant::ZERO), Enqueue::Enqueued);
            }
            let last = std::iter::from_fn(|| link.poll_departure(Instant::from_nanos(u64::MAX))).last().unwrap();
            prop_assert_eq!(last.at, optimal(&plan, 0, 1500 * packets));
        }
    }
}
