// SPDX-License-Identifier: Apache-2.0
//! Outage settings, checked, and the outages that follow from them one by one.

use holdfast_wire::Instant;

use super::{Outage, OutageAt, OutageSettings, Patch};
use crate::limits::{SettingsError, in_range};
use crate::random::Stream;
use crate::trace::Trace;

/// The shortest time up or down, in seconds.
const LENGTH_MIN_S: f64 = 0.001;
/// The shortest outage in a list, in seconds.
const LISTED_MIN_S: f64 = 0.0001;
/// The longest time in any outage setting, in seconds: a year.
const TIME_MAX_S: f64 = 31_536_000.0;
/// The most outages in a list.
const LIST_MAX: usize = 100_000;

/// When there are outages: checked, and in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct OutagePlan(Kind);

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    /// (begin, end), repeated after `period_ns` if there is one.
    Fixed {
        outages_ns: Vec<(u64, u64)>,
        period_ns: Option<u64>,
    },
    Periodic {
        first_ns: u64,
        every_ns: u64,
        for_ns: u64,
    },
    Normal {
        up: (f64, f64),
        down: (f64, f64),
    },
    Exponential {
        up_mean_s: f64,
        down_mean_s: f64,
    },
    TwoState {
        good: CheckedPatch,
        bad: CheckedPatch,
    },
    Scattered {
        lengths_ns: Vec<u64>,
        from_ns: u64,
        apart_ns: u64,
        slack_ns: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct CheckedPatch {
    length_mean_s: f64,
    /// Mean time up and down.
    outages: Option<(f64, f64)>,
}

/// The state of drawing the outages of a plan.
#[derive(Clone, Debug)]
pub(super) struct Cursor {
    stream: Stream,
    /// End of the last outage, in ns.
    at_ns: u64,
    /// Outages drawn.
    index: u64,
    /// Two-state: the number of the patch, from 1; odd ones are good.
    patch: u64,
    /// Two-state: its end, in ns.
    patch_end_ns: u64,
    /// Scattered: the random points within the slack, sorted.
    points_ns: Option<Vec<u64>>,
}

impl Cursor {
    pub(super) fn new(stream: Stream) -> Self {
        Self {
            stream,
            at_ns: 0,
            index: 0,
            patch: 0,
            patch_end_ns: 0,
            points_ns: None,
        }
    }
}

fn nanos(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

/// A time drawn at random, at least 1 ms.
fn drawn_nanos(seconds: f64) -> u64 {
    nanos(seconds.clamp(LENGTH_MIN_S, TIME_MAX_S))
}

fn length(key: &str, seconds: f64) -> Result<f64, SettingsError> {
    in_range(key, seconds, LENGTH_MIN_S, TIME_MAX_S, "s")
}

fn point(key: &str, seconds: f64) -> Result<u64, SettingsError> {
    in_range(key, seconds, 0.0, TIME_MAX_S, "s").map(nanos)
}

fn checked_list(list: &[OutageAt]) -> Result<Kind, SettingsError> {
    if list.len() > LIST_MAX {
        return Err(SettingsError::new(
            "list",
            list.len(),
            format!("at most {LIST_MAX} outages"),
        ));
    }
    let mut outages_ns: Vec<(u64, u64)> = Vec::with_capacity(list.len());
    for (i, outage) in list.iter().enumerate() {
        let begin = point(&format!("list[{i}].at_s"), outage.at_s)?;
        let key = format!("list[{i}].for_s");
        let for_s = in_range(&key, outage.for_s, LISTED_MIN_S, TIME_MAX_S, "s")?;
        let end = begin + nanos(for_s);
        if outages_ns.last().is_some_and(|last| begin <= last.1) {
            let takes = "a time after the end of the outage before; outages are listed in order";
            return Err(SettingsError::new(
                &format!("list[{i}].at_s"),
                outage.at_s,
                takes,
            ));
        }
        outages_ns.push((begin, end));
    }
    Ok(Kind::Fixed {
        outages_ns,
        period_ns: None,
    })
}

fn checked_scattered(
    lengths_s: &[f64],
    from_s: f64,
    to_s: f64,
    apart_s: f64,
) -> Result<Kind, SettingsError> {
    if lengths_s.len() > LIST_MAX {
        let takes = format!("at most {LIST_MAX} outages");
        return Err(SettingsError::new("lengths_s", lengths_s.len(), takes));
    }
    let lengths_ns = lengths_s
        .iter()
        .map(|&s| length("lengths_s", s).map(nanos))
        .collect::<Result<Vec<u64>, _>>()?;
    let (from_ns, to_ns) = (point("from_s", from_s)?, point("to_s", to_s)?);
    let apart_ns = nanos(length("apart_s", apart_s)?);
    let taken =
        lengths_ns.iter().sum::<u64>() + apart_ns * (lengths_ns.len() as u64).saturating_sub(1);
    let slack_ns = to_ns
        .checked_sub(from_ns)
        .and_then(|room| room.checked_sub(taken));
    let slack_ns = slack_ns.ok_or_else(|| {
        let takes = format!(
            "at least {} s: from_s and all lengths and distances",
            (from_ns + taken) as f64 / 1e9
        );
        SettingsError::new("to_s", to_s, takes)
    })?;
    Ok(Kind::Scattered {
        lengths_ns,
        from_ns,
        apart_ns,
        slack_ns,
    })
}

fn checked_patch(name: &str, patch: &Patch) -> Result<CheckedPatch, SettingsError> {
    let key = |field: &str| format!("{name}.{field}");
    let length_mean_s = length(&key("length_mean_s"), patch.length_mean_s)?;
    let outages = match (patch.up_mean_s, patch.down_mean_s) {
        (None, None) => None,
        (Some(up), Some(down)) => Some((
            length(&key("up_mean_s"), up)?,
            length(&key("down_mean_s"), down)?,
        )),
        (Some(_), None) => {
            return Err(SettingsError::new(
                &key("down_mean_s"),
                "nothing",
                "seconds, as up_mean_s is given",
            ));
        }
        (None, Some(_)) => {
            return Err(SettingsError::new(
                &key("up_mean_s"),
                "nothing",
                "seconds, as down_mean_s is given",
            ));
        }
    };
    Ok(CheckedPatch {
        length_mean_s,
        outages,
    })
}

/// A bad patch must have outages, and it must usually last long enough for one. Otherwise
/// the search for the next outage would not end.
fn checked_bad_patch(patch: &Patch) -> Result<CheckedPatch, SettingsError> {
    let bad = checked_patch("bad", patch)?;
    let (up, _) = bad
        .outages
        .ok_or_else(|| SettingsError::new("bad.up_mean_s", "nothing", "seconds between outages"))?;
    in_range(
        "bad.up_mean_s",
        up,
        LENGTH_MIN_S,
        bad.length_mean_s * 100.0,
        "s (100 patches)",
    )?;
    Ok(bad)
}

impl OutagePlan {
    /// No outages.
    pub fn none() -> Self {
        Self(Kind::Fixed {
            outages_ns: Vec::new(),
            period_ns: None,
        })
    }

    /// Checks settings. `trace` is the trace that [`OutageSettings::Trace`] names.
    ///
    /// # Errors
    /// Names the key, what it got and what it takes.
    pub fn new(settings: &OutageSettings, trace: Option<&Trace>) -> Result<Self, SettingsError> {
        Ok(Self(match settings {
            OutageSettings::None => return Ok(Self::none()),
            OutageSettings::List { list } => checked_list(list)?,
            &OutageSettings::Periodic {
                first_at_s,
                every_s,
                for_s,
            } => {
                let every_s = length("every_s", every_s)?;
                let for_s = in_range(
                    "for_s",
                    for_s,
                    LENGTH_MIN_S,
                    every_s - LENGTH_MIN_S,
                    "s (below every_s)",
                )?;
                Kind::Periodic {
                    first_ns: point("first_at_s", first_at_s)?,
                    every_ns: nanos(every_s),
                    for_ns: nanos(for_s),
                }
            }
            &OutageSettings::Normal {
                up_mean_s,
                up_deviation_s,
                down_mean_s,
                down_deviation_s,
            } => {
                let deviation = |key: &str, s: f64| in_range(key, s, 0.0, TIME_MAX_S, "s");
                Kind::Normal {
                    up: (
                        length("up_mean_s", up_mean_s)?,
                        deviation("up_deviation_s", up_deviation_s)?,
                    ),
                    down: (
                        length("down_mean_s", down_mean_s)?,
                        deviation("down_deviation_s", down_deviation_s)?,
                    ),
                }
            }
            &OutageSettings::Exponential {
                up_mean_s,
                down_mean_s,
            } => Kind::Exponential {
                up_mean_s: length("up_mean_s", up_mean_s)?,
                down_mean_s: length("down_mean_s", down_mean_s)?,
            },
            OutageSettings::TwoState { good, bad } => Kind::TwoState {
                good: checked_patch("good", good)?,
                bad: checked_bad_patch(bad)?,
            },
            OutageSettings::Scattered {
                lengths_s,
                from_s,
                to_s,
                apart_s,
            } => checked_scattered(lengths_s, *from_s, *to_s, *apart_s)?,
            OutageSettings::Trace { file, gap_min_s } => {
                let gap_min_s = in_range("gap_min_s", *gap_min_s, 0.01, TIME_MAX_S, "s")?;
                let trace = trace.ok_or_else(|| {
                    let got = file.clone().unwrap_or_else(|| "nothing".to_owned());
                    SettingsError::new("file", got, "a trace's file, here or as rate_trace")
                })?;
                let (outages_ns, period_ns) = trace.gaps_ns(nanos(gap_min_s));
                Kind::Fixed {
                    outages_ns,
                    period_ns: Some(period_ns),
                }
            }
        }))
    }

    /// The outage after those that `cursor` has passed; none if there are no more.
    pub(super) fn next_outage(&self, cursor: &mut Cursor) -> Option<Outage> {
        let (begin_ns, end_ns) = match &self.0 {
            Kind::Fixed {
                outages_ns,
                period_ns,
            } => fixed(outages_ns, *period_ns, cursor.index)?,
            Kind::Periodic {
                first_ns,
                every_ns,
                for_ns,
            } => {
                let begin = first_ns.checked_add(every_ns.checked_mul(cursor.index)?)?;
                (begin, begin.checked_add(*for_ns)?)
            }
            &Kind::Normal { up, down } => {
                let up_s = cursor.stream.normal(up.0, up.1);
                let down_s = cursor.stream.normal(down.0, down.1);
                follow(cursor.at_ns, up_s, down_s)?
            }
            &Kind::Exponential {
                up_mean_s,
                down_mean_s,
            } => {
                let up_s = cursor.stream.exponential(up_mean_s);
                let down_s = cursor.stream.exponential(down_mean_s);
                follow(cursor.at_ns, up_s, down_s)?
            }
            Kind::TwoState { good, bad } => two_state(good, bad, cursor)?,
            Kind::Scattered {
                lengths_ns,
                from_ns,
                apart_ns,
                slack_ns,
            } => {
                let i = usize::try_from(cursor.index).ok()?;
                let length_ns = *lengths_ns.get(i)?;
                let before: u64 = lengths_ns[..i].iter().map(|length| length + apart_ns).sum();
                let begin = from_ns + before + scatter(cursor, lengths_ns.len(), *slack_ns)[i];
                (begin, begin + length_ns)
            }
        };
        cursor.index += 1;
        cursor.at_ns = end_ns;
        Some(Outage {
            begin: Instant::from_nanos(begin_ns),
            end: Instant::from_nanos(end_ns),
        })
    }
}

fn fixed(outages_ns: &[(u64, u64)], period_ns: Option<u64>, index: u64) -> Option<(u64, u64)> {
    let count = outages_ns.len() as u64;
    let (round, i) = (index.checked_div(count)?, index % count);
    let offset = match period_ns {
        Some(period) => period.checked_mul(round)?,
        None if round == 0 => 0,
        None => return None,
    };
    let (begin, end) = outages_ns[i as usize];
    Some((begin.checked_add(offset)?, end.checked_add(offset)?))
}

fn follow(at_ns: u64, up_s: f64, down_s: f64) -> Option<(u64, u64)> {
    let begin = at_ns.checked_add(drawn_nanos(up_s))?;
    Some((begin, begin.checked_add(drawn_nanos(down_s))?))
}

/// The random points of scattered outages within the slack, sorted.
fn scatter(cursor: &mut Cursor, count: usize, slack_ns: u64) -> &[u64] {
    let stream = &mut cursor.stream;
    cursor.points_ns.get_or_insert_with(|| {
        let mut points: Vec<u64> = (0..count)
            .map(|_| (stream.unit() * slack_ns as f64) as u64)
            .collect();
        points.sort_unstable();
        points
    })
}

/// Within a patch the time to the next outage is exponential, so that it can be
/// drawn afresh where a new patch begins.
fn two_state(good: &CheckedPatch, bad: &CheckedPatch, cursor: &mut Cursor) -> Option<(u64, u64)> {
    let mut at_ns = cursor.at_ns;
    loop {
        while at_ns >= cursor.patch_end_ns {
            cursor.patch += 1;
            let patch = if cursor.patch % 2 == 1 { good } else { bad };
            let length_ns = drawn_nanos(cursor.stream.exponential(patch.length_mean_s));
            cursor.patch_end_ns = cursor.patch_end_ns.checked_add(length_ns)?;
        }
        let patch = if cursor.patch % 2 == 1 { good } else { bad };
        if let Some((up_mean_s, down_mean_s)) = patch.outages {
            let up_s = cursor.stream.exponential(up_mean_s);
            let begin = at_ns.checked_add(drawn_nanos(up_s))?;
            if begin < cursor.patch_end_ns {
                let down_s = cursor.stream.exponential(down_mean_s);
                return follow(at_ns, up_s, down_s);
            }
        }
        at_ns = cursor.patch_end_ns;
    }
}
