// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::trace::{Trace, TraceFormat};
use proptest::prelude::*;

fn schedule(settings: &OutageSettings, seed: u64) -> OutageSchedule {
    OutageSchedule::new(&OutagePlan::new(settings, None).unwrap(), seed)
}

fn list(outages: &[(f64, f64)]) -> OutageSettings {
    let list = outages
        .iter()
        .map(|&(at_s, for_s)| OutageAt { at_s, for_s })
        .collect();
    OutageSettings::List { list }
}

fn ms(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn seconds(outages: &[Outage]) -> Vec<(f64, f64)> {
    outages
        .iter()
        .map(|o| (o.begin.as_secs_f64(), o.end.as_secs_f64()))
        .collect()
}

fn exponential() -> OutageSettings {
    OutageSettings::Exponential {
        up_mean_s: 5.0,
        down_mean_s: 2.0,
    }
}

fn two_state() -> OutageSettings {
    OutageSettings::TwoState {
        good: Patch {
            length_mean_s: 20.0,
            up_mean_s: None,
            down_mean_s: None,
        },
        bad: Patch {
            length_mean_s: 10.0,
            up_mean_s: Some(1.0),
            down_mean_s: Some(0.5),
        },
    }
}

#[test]
fn a_list_is_down_from_each_begin_to_before_each_end() {
    let mut outages = schedule(&list(&[(4.0, 3.0), (10.0, 0.5)]), 0);
    assert_eq!(
        outages.state_at(Instant::from_nanos(3_999_999_999)),
        MediumState::Up
    );
    assert_eq!(outages.state_at(ms(4000)), MediumState::Down);
    assert_eq!(
        outages.state_at(Instant::from_nanos(6_999_999_999)),
        MediumState::Down
    );
    assert_eq!(outages.state_at(ms(7000)), MediumState::Up);
    assert_eq!(outages.next_change(ms(0)), Some(ms(4000)));
    assert_eq!(outages.next_change(ms(4000)), Some(ms(7000)));
    assert_eq!(outages.next_change(ms(7000)), Some(ms(10_000)));
    assert_eq!(outages.next_change(ms(10_500)), None);
    assert_eq!(
        outages.state_at(ms(1)),
        MediumState::Up,
        "an earlier time may be given again"
    );
}

#[test]
fn periodic_outages_go_on_without_end() {
    let settings = OutageSettings::Periodic {
        first_at_s: 2.0,
        every_s: 10.0,
        for_s: 1.5,
    };
    let mut outages = schedule(&settings, 0);
    assert_eq!(
        seconds(&outages.until(ms(20_000))),
        vec![(2.0, 3.5), (12.0, 13.5)]
    );
    assert_eq!(outages.state_at(ms(1_000_002_000)), MediumState::Down);
    assert_eq!(
        outages.next_change(ms(1_000_002_000)),
        Some(ms(1_000_003_500))
    );
}

#[test]
fn no_more_outages_are_drawn_than_needed() {
    let settings = OutageSettings::Periodic {
        first_at_s: 1.0,
        every_s: 2.0,
        for_s: 1.0,
    };
    // Without the limit these are 9 billion.
    let first = schedule(&settings, 1).first_until(Instant::from_nanos(u64::MAX), 3);
    assert_eq!(seconds(&first), [(1.0, 2.0), (3.0, 4.0), (5.0, 6.0)]);
    let all = schedule(&settings, 1).first_until(ms(4_000), 3);
    assert_eq!(seconds(&all), [(1.0, 2.0), (3.0, 4.0)]);
}

#[test]
fn forgotten_outages_are_drawn_again_equal() {
    let settings = OutageSettings::Exponential {
        up_mean_s: 0.05,
        down_mean_s: 0.02,
    };
    let mut outages = schedule(&settings, 3);
    let early = outages.until(ms(10_000));
    assert_eq!(
        outages.state_at(ms(10_000_000)),
        outages.clone().state_at(ms(10_000_000))
    );
    assert!(
        outages.forgotten_until > ms(10_000),
        "the test must go past the limit"
    );
    assert!(outages.known.len() <= REMEMBERED_MAX);
    assert_eq!(outages.until(ms(10_000)), early);
}

#[test]
fn normal_and_exponential_times_have_their_means() {
    let normal = OutageSettings::Normal {
        up_mean_s: 5.0,
        up_deviation_s: 1.0,
        down_mean_s: 2.0,
        down_deviation_s: 0.5,
    };
    for (settings, tolerance) in [(normal, 0.02), (exponential(), 0.06)] {
        let outages = schedule(&settings, 1).until(ms(70_000_000));
        let count = outages.len() as f64;
        let down = outages
            .iter()
            .map(|o| o.end.as_secs_f64() - o.begin.as_secs_f64())
            .sum::<f64>()
            / count;
        let up = outages.last().unwrap().end.as_secs_f64() / count - down;
        assert!(
            (up / 5.0 - 1.0).abs() < tolerance && (down / 2.0 - 1.0).abs() < tolerance,
            "{up} {down}"
        );
    }
}

#[test]
fn two_state_outages_cluster_in_the_bad_patches() {
    let outages = schedule(&two_state(), 1).until(ms(30_000_000));
    // 1000 rounds of 30 s, in each about 10 s / 1.5 s outages in the bad patch.
    let per_round = outages.len() as f64 / 1000.0;
    assert!((5.5..8.0).contains(&per_round), "{per_round}");
    let long_ups = outages
        .windows(2)
        .filter(|w| w[1].begin.as_secs_f64() - w[0].end.as_secs_f64() > 6.0)
        .count();
    assert!(
        (600..1000).contains(&long_ups),
        "a long time up for most good patches: {long_ups}"
    );
}

#[test]
fn scattered_outages_keep_order_window_and_distance() {
    let settings = OutageSettings::Scattered {
        lengths_s: vec![3.0, 7.0],
        from_s: 2.0,
        to_s: 25.0,
        apart_s: 4.0,
    };
    let mut begins = Vec::new();
    for seed in 0..200 {
        let outages = seconds(&schedule(&settings, seed).until(ms(100_000)));
        let [(a, a_end), (b, b_end)] = outages[..] else {
            panic!("{outages:?}")
        };
        assert!((a_end - a - 3.0).abs() < 1e-6 && (b_end - b - 7.0).abs() < 1e-6);
        assert!(a >= 2.0 && b - a_end >= 4.0 && b_end <= 25.0, "{outages:?}");
        begins.push(a);
    }
    assert!(
        begins.iter().copied().fold(0.0, f64::max) > 6.0,
        "the whole window is used"
    );
}

#[test]
fn gaps_of_a_trace_repeat_and_join_over_its_end() {
    let trace = Trace::parse("1 0\n9 5\n10 0\n", TraceFormat::Steps).unwrap();
    let settings = OutageSettings::Trace {
        file: None,
        gap_min_s: 0.5,
    };
    let mut outages = OutageSchedule::new(&OutagePlan::new(&settings, Some(&trace)).unwrap(), 0);
    assert_eq!(
        seconds(&outages.until(ms(25_000))),
        vec![(0.0, 1.0), (9.0, 11.0), (19.0, 21.0)]
    );
    assert_eq!(outages.next_change(ms(9500)), Some(ms(11_000)));
}

#[test]
fn an_error_names_the_key_and_what_it_takes() {
    let text = |settings: &OutageSettings| OutagePlan::new(settings, None).unwrap_err().to_string();
    assert_eq!(
        text(&list(&[(4.0, 3.0), (6.0, 1.0)])),
        "list[1].at_s: got 6, takes a time after the end of the outage before; outages are listed in order"
    );
    assert!(text(&list(&[(f64::NAN, 3.0)])).starts_with("list[0].at_s: got NaN, takes"));
    assert!(
        text(&OutageSettings::Periodic {
            first_at_s: 0.0,
            every_s: 1.0,
            for_s: 1.0
        })
        .starts_with("for_s: got 1")
    );
    assert!(
        text(&OutageSettings::Trace {
            file: None,
            gap_min_s: 1.0
        })
        .starts_with("file: got nothing")
    );
    let settings = OutageSettings::Scattered {
        lengths_s: vec![3.0],
        from_s: 2.0,
        to_s: 4.0,
        apart_s: 1.0,
    };
    assert!(text(&settings).starts_with("to_s: got 4, takes at least 5 s"));
    let hopeless = Patch {
        length_mean_s: 0.001,
        up_mean_s: Some(1e6),
        down_mean_s: Some(1.0),
    };
    let settings = OutageSettings::TwoState {
        good: hopeless,
        bad: hopeless,
    };
    assert!(text(&settings).starts_with("bad.up_mean_s: got 1000000"));
}

#[test]
fn the_outages_of_seed_1_are_the_same_on_every_machine() {
    let begins = |settings| -> Vec<u64> {
        schedule(&settings, 1)
            .until(ms(1_000_000))
            .iter()
            .take(3)
            .map(|o| o.begin.as_nanos())
            .collect()
    };
    assert_eq!(
        begins(exponential()),
        [9_492_334_103, 25_390_814_807, 28_019_959_319]
    );
    assert_eq!(
        begins(two_state()),
        [40_181_154_605, 40_831_488_567, 42_209_207_157]
    );
}

proptest! {
    #[test]
    fn outages_are_apart_and_the_order_of_questions_does_not_matter(
        seed: u64,
        kind in 0..4usize,
        questions in prop::collection::vec(0u64..200_000, 1..40),
    ) {
        let settings = [
            exponential(),
            two_state(),
            OutageSettings::Normal { up_mean_s: 1.0, up_deviation_s: 3.0, down_mean_s: 1.0, down_deviation_s: 3.0 },
            OutageSettings::Periodic { first_at_s: 0.0, every_s: 1.0, for_s: 0.999 },
        ][kind].clone();
        let all = schedule(&settings, seed).until(ms(3_000_000));
        prop_assert!(all.windows(2).all(|w| w[0].end < w[1].begin));
        prop_assert!(all.iter().all(|o| o.begin < o.end));
        let mut called = schedule(&settings, seed);
        for t in questions.into_iter().map(ms) {
            let inside = all.iter().any(|o| o.begin <= t && t < o.end);
            prop_assert_eq!(called.state_at(t) == MediumState::Down, inside);
            let change = all.iter().flat_map(|o| [o.begin, o.end]).find(|&change| change > t);
            prop_assert_eq!(called.next_change(t), change);
        }
    }
}
