// SPDX-License-Identifier: Apache-2.0
//! Drawings of a user's own results: a measure over a parameter, the distribution of a measure, and
//! the time series of runs.

use anyhow::{bail, ensure};
use serde_json::Value as Json;

use super::chart::{self, Curve, LOOKS, Panel};
use super::curves::{end_s, outages, points, received};
use super::selection::{parameters_text, without};
use crate::export::flat;
use crate::results::{ResultLine, Series, grouped, same, word};
use crate::statistics::median_with_interval;

/// The height of a panel, in the chart's units.
const HEIGHT: u32 = 660;
/// The height of each of several panels.
const HEIGHT_OF_SEVERAL: u32 = 420;
/// The y axis ends at the greatest value times this.
const HEADROOM: f64 = 1.08;

/// The default parameter of a sweep's x axis: the last one with several numbers, or else the last
/// one with several values.
///
/// # Errors
/// No parameter has several values.
pub fn parameter(lines: &[ResultLine]) -> anyhow::Result<String> {
    let varied = names(lines)
        .into_iter()
        .filter(|name| values(lines, name).len() > 1);
    let varied: Vec<String> = varied.collect();
    let is_number = |name: &&String| values(lines, name).iter().all(Json::is_number);
    let found = varied.iter().rfind(is_number).or(varied.last());
    match found {
        Some(name) => Ok(name.clone()),
        None => bail!("--over: no parameter has two values; take --kind cdf or --kind series"),
    }
}

/// The lines whose parameters have these values. A value is given as text: `1995` may be a number
/// or a name.
///
/// # Errors
/// No line has one of these parameters, or no line has all of the values.
pub fn selected(
    lines: Vec<ResultLine>,
    selections: &[(String, String)],
) -> anyhow::Result<Vec<ResultLine>> {
    let parameters = names(&lines);
    for (parameter, value) in selections {
        ensure!(
            !parameters.is_empty(),
            "--where: got {parameter}, but no run has a parameter; leave it out"
        );
        ensure!(
            parameters.contains(parameter),
            "--where: got {parameter}, takes one of {}",
            parameters.join(", ")
        );
        let known = values(&lines, parameter);
        ensure!(
            known.iter().any(|own| is_written(own, value)),
            "--where: got {parameter}={value}, takes one of {}",
            known.iter().map(word).collect::<Vec<_>>().join(", ")
        );
    }
    let has = |line: &ResultLine, (parameter, value): &(String, String)| {
        let own = line.parameters.get(parameter);
        own.is_some_and(|own| is_written(own, value))
    };
    let is_selected = |line: &ResultLine| selections.iter().all(|selection| has(line, selection));
    let selected: Vec<ResultLine> = lines.into_iter().filter(is_selected).collect();
    ensure!(
        !selected.is_empty(),
        "--where: no run has all of these values"
    );
    Ok(selected)
}

/// Whether a parameter's value can be written as this text.
fn is_written(value: &Json, text: &str) -> bool {
    let as_json = serde_json::from_str::<Json>(text);
    word(value) == text || as_json.is_ok_and(|given| same(value, &given))
}

/// The lines with this parameter: lines of another file may not sweep it.
fn sweeping(lines: &[ResultLine], over: &str) -> Vec<ResultLine> {
    let lines = lines
        .iter()
        .filter(|line| line.parameters.contains_key(over));
    lines.cloned().collect()
}

/// The median of a measure over a parameter. Each combination of the other parameters is a curve.
///
/// # Errors
/// No line has the measure or the parameter, or there are too many curves.
pub fn sweep(lines: &[ResultLine], measure: &str, over: &str) -> anyhow::Result<String> {
    let xs = values(lines, over);
    ensure!(
        !xs.is_empty(),
        "--over: got {over}, takes one of {}",
        names(lines).join(", ")
    );
    let lines = &sweeping(lines, over)[..];
    let measured = Measure::of(lines, measure)?;
    let is_number = xs.iter().all(Json::is_number);
    let position = |value: &Json| {
        let position = xs.iter().position(|x| same(x, value)).unwrap_or(0) as f64;
        let number = value.as_f64().filter(|_| is_number);
        number.unwrap_or(position)
    };
    let groups = variants(lines, Some(over))?;
    let (mut curves, mut with_interval) = (Vec::new(), false);
    for (look, (_, lines)) in groups.iter().enumerate() {
        let mut curve = Curve {
            look,
            ..Curve::default()
        };
        let x_of = |line: &ResultLine| line.parameters.get(over).map(position);
        let by_x = grouped(lines.iter().copied(), |line| {
            x_of(line).unwrap_or_default().to_bits()
        });
        for (x, lines) in by_x {
            let x = f64::from_bits(x);
            match median_with_interval(measured.samples(&lines)?) {
                None => {}
                Some((y, _)) if y.is_infinite() => curve.crosses.push(x),
                Some((y, interval)) => {
                    curve.points.push((x, y));
                    if let Some([low, high]) = interval.filter(|ends| ends[1].is_finite()) {
                        with_interval = true;
                        curve.bars.push((x, [low, y, high]));
                    }
                }
            }
        }
        curve.points.sort_by(|a, b| a.0.total_cmp(&b.0));
        curve.line.clone_from(&curve.points);
        curves.push(curve);
    }
    let all: Vec<f64> = xs.iter().map(position).collect();
    let (least, most) = ends(&all);
    let space = if most > least {
        (most - least) * 0.05
    } else {
        1.0
    };
    let marks = xs.iter().filter(|_| !is_number || xs.len() <= 8);
    let mut marks: Vec<(f64, String)> = marks.map(|x| (position(x), word(x))).collect();
    marks.sort_by(|a, b| a.0.total_cmp(&b.0));
    let tops = curves.iter().flat_map(|curve| {
        let bars = curve.bars.iter().map(|(_, [_, _, high])| *high);
        curve.points.iter().map(|(_, y)| *y).chain(bars)
    });
    let panel = Panel {
        x: [least - space, most + space],
        marks,
        ..panel(
            over,
            measure,
            tops.fold(0.0, f64::max) * HEADROOM,
            HEIGHT,
            curves,
        )
    };
    let mut more = String::from("medians");
    if with_interval {
        more.push_str(" with their 95% intervals");
    }
    if panel.curves.iter().any(|curve| !curve.crosses.is_empty()) {
        more.push_str("; a cross at the top: the median run has no value");
    }
    Ok(chart::file(&legend(&groups), &more, &[panel]))
}

/// The distribution of a measure. Each combination of parameters is a curve. If a run has several
/// values of the measure, such as `stalls_s`, each value counts.
///
/// # Errors
/// No line has the measure, or there are too many curves.
pub fn distribution(lines: &[ResultLine], measure: &str) -> anyhow::Result<String> {
    let measured = Measure::of(lines, measure)?;
    let groups = variants(lines, None)?;
    let (mut curves, mut never) = (Vec::new(), false);
    for (look, (_, lines)) in groups.iter().enumerate() {
        let mut samples = measured.samples(lines)?;
        samples.sort_by(f64::total_cmp);
        never |= samples.last().is_some_and(|last| last.is_infinite());
        let line = steps(&samples);
        curves.push(Curve {
            look,
            line,
            ..Curve::default()
        });
    }
    let all = curves.iter().flat_map(|curve| &curve.line).map(|(x, _)| *x);
    let (least, most) = ends(&all.collect::<Vec<_>>());
    let space = if most > least {
        (most - least) * 0.02
    } else {
        1.0
    };
    let panel = Panel {
        x: [least - space, most + space],
        ..panel(measure, "share of values at most x", 1.0, HEIGHT, curves)
    };
    let more = if never {
        "a curve that ends below 1: the other runs have no value"
    } else {
        ""
    };
    Ok(chart::file(&legend(&groups), more, &[panel]))
}

/// The time series of runs, below each other: received bytes, congestion window and queue. Of
/// repetitions the run with the least seed is shown.
///
/// # Errors
/// No line has a series, or there are too many runs.
pub fn series(lines: &[ResultLine]) -> anyhow::Result<String> {
    let with_series = lines.iter().filter(|line| line.series.is_some());
    let with_series: Vec<ResultLine> = with_series.cloned().collect();
    ensure!(
        !with_series.is_empty(),
        "no result has a time series; give the scenario record = [\"cwnd\", \"sequence\", \"queue\", \"link-state\"]"
    );
    let groups = variants(&with_series, None)?;
    let shown = groups.iter().filter_map(|(_, lines)| {
        let first = lines.iter().min_by_key(|line| line.seed)?;
        first.series.as_ref()
    });
    let shown: Vec<&Series> = shown.collect();
    let end = shown.iter().map(|series| end_s(series)).fold(0.0, f64::max);
    let longest = shown.iter().max_by(|a, b| end_s(a).total_cmp(&end_s(b)));
    let shaded = longest.map(|series| outages(series)).unwrap_or_default();
    let column = |name: &str, get: &dyn Fn(&Series) -> Vec<(f64, f64)>| {
        let curves = shown.iter().enumerate().map(|(look, series)| Curve {
            look,
            line: get(series),
            ..Curve::default()
        });
        let curves: Vec<Curve> = curves.collect();
        let ys = curves.iter().flat_map(|curve| &curve.line).map(|(_, y)| *y);
        let highest = ys.fold(0.0, f64::max) * HEADROOM;
        (highest > 0.0).then(|| Panel {
            x: [0.0, end],
            shaded: shaded.clone(),
            ..panel("time (s)", name, highest, HEIGHT_OF_SEVERAL, curves)
        })
    };
    let panels = [
        column("received (MB)", &|series| {
            points(series, received(series), 1e-6)
        }),
        column("cwnd (kB)", &|series| points(series, &series.cwnd, 1e-3)),
        column("receiver's window (kB)", &|series| {
            points(series, &series.rwnd, 1e-3)
        }),
        column("queue (packets)", &|series| {
            let packets = series.queue_packets.iter().copied().map(u64::from);
            points(series, &packets.collect::<Vec<_>>(), 1.0)
        }),
    ];
    let panels: Vec<Panel> = panels.into_iter().flatten().collect();
    let more = if shaded.is_empty() {
        ""
    } else {
        "grey: link down"
    };
    Ok(chart::file(&legend(&groups), more, &panels))
}

fn panel(x: &str, y: &str, highest: f64, height: u32, curves: Vec<Curve>) -> Panel {
    Panel {
        caption: String::new(),
        height,
        x: [0.0, 1.0],
        x_name: x.to_owned(),
        marks: Vec::new(),
        highest,
        y_name: y.to_owned(),
        shaded: Vec::new(),
        curves,
    }
}

fn ends(values: &[f64]) -> (f64, f64) {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if least <= most {
        (least, most)
    } else {
        (0.0, 1.0)
    }
}

/// The names of all parameters.
fn names(lines: &[ResultLine]) -> Vec<String> {
    let names = lines.iter().flat_map(|line| line.parameters.keys());
    let groups = grouped(names, |name| (*name).clone());
    groups.into_iter().map(|(name, _)| name).collect()
}

/// The values of a parameter, in the order of the lines.
fn values(lines: &[ResultLine], parameter: &str) -> Vec<Json> {
    let mut values: Vec<Json> = Vec::new();
    for value in lines
        .iter()
        .filter_map(|line| line.parameters.get(parameter))
    {
        if !values.iter().any(|other| same(other, value)) {
            values.push(value.clone());
        }
    }
    values
}

/// The name of a curve, and its lines.
type Group<'a> = (String, Vec<&'a ResultLine>);

/// The lines, grouped by their parameters other than `over`.
fn variants<'a>(lines: &'a [ResultLine], over: Option<&str>) -> anyhow::Result<Vec<Group<'a>>> {
    let over: Vec<&str> = over.into_iter().collect();
    let differs =
        |get: fn(&ResultLine) -> &String| lines.iter().any(|line| get(line) != get(&lines[0]));
    let scenarios = differs(|line| &line.scenario);
    let substrates = differs(|line| &line.substrate);
    let groups = grouped(lines, |line| {
        let mut parts = vec![parameters_text(&without(&line.parameters, &over))];
        parts.extend(scenarios.then(|| line.scenario.clone()));
        parts.extend(substrates.then(|| line.substrate.clone()));
        parts.retain(|part| !part.is_empty());
        parts.join(", ")
    });
    ensure!(
        groups.len() <= LOOKS,
        "{} curves, at most {LOOKS} are in one drawing; select some with --where PARAMETER=VALUE",
        groups.len()
    );
    Ok(groups)
}

fn legend(groups: &[Group<'_>]) -> Vec<(String, usize)> {
    let names = groups.iter().enumerate();
    names
        .map(|(look, (name, lines))| {
            let name = if name.is_empty() {
                &lines[0].scenario
            } else {
                name
            };
            (name.clone(), look)
        })
        .collect()
}

/// A measure that lines have.
struct Measure<'a> {
    name: &'a str,
    /// Whether a line has a list of values.
    is_list: bool,
}

impl<'a> Measure<'a> {
    /// The measure of this name. Error: no line has a value of it; the error lists the known
    /// measures.
    fn of(lines: &[ResultLine], name: &'a str) -> anyhow::Result<Self> {
        let mut known: Vec<String> = Vec::new();
        let (mut is_there, mut is_list) = (false, false);
        for line in lines {
            for (key, value) in flat(line)? {
                if key == name {
                    is_there |= value.is_null() || value.is_array();
                    is_list |= value.is_array();
                }
                let is_result = !key.starts_with("parameters.") && !key.starts_with("conditions.");
                if is_result && has_number(&value) && !known.contains(&key) {
                    known.push(key);
                }
            }
        }
        let without = if is_there {
            " which has no value in any run;"
        } else {
            ""
        };
        ensure!(
            known.iter().any(|key| key == name),
            "--measure: got {name},{without} takes one of {}",
            known.join(", ")
        );
        Ok(Self { name, is_list })
    }

    /// The measure's values in these lines. A null or missing value counts as infinite: the event
    /// never came. A missing list has no values.
    fn samples(&self, lines: &[&ResultLine]) -> anyhow::Result<Vec<f64>> {
        let mut samples = Vec::new();
        for line in lines {
            match flat(line)?.get(self.name) {
                Some(Json::Array(values)) => samples.extend(values.iter().filter_map(sample)),
                Some(value) => samples.extend(sample(value)),
                None if self.is_list => {}
                None => samples.push(f64::INFINITY),
            }
        }
        Ok(samples)
    }
}

fn sample(value: &Json) -> Option<f64> {
    match value {
        Json::Null => Some(f64::INFINITY),
        value => value.as_f64(),
    }
}

fn has_number(value: &Json) -> bool {
    match value {
        Json::Array(values) => values.iter().any(Json::is_number),
        value => value.is_number(),
    }
}

/// The distribution of sorted values as steps; infinite values are not drawn.
fn steps(sorted: &[f64]) -> Vec<(f64, f64)> {
    let count = sorted.len() as f64;
    let finite = sorted.iter().filter(|value| value.is_finite());
    let steps = finite.enumerate().flat_map(|(number, value)| {
        let share = |number: usize| number as f64 / count;
        [(*value, share(number)), (*value, share(number + 1))]
    });
    steps.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Latency;

    fn line(scheme: &str, delay_ms: u64, seed: u64, goodput_mbps: f64) -> ResultLine {
        let parameters = [
            ("scheme".to_owned(), Json::from(scheme)),
            ("delay_ms".to_owned(), Json::from(delay_ms)),
        ];
        ResultLine {
            scenario: "a/b".into(),
            parameters: parameters.into_iter().collect(),
            seed,
            goodput_mbps,
            stalls_s: vec![Some(goodput_mbps / 10.0), None],
            ..ResultLine::default()
        }
    }

    fn lines() -> Vec<ResultLine> {
        let mut lines = Vec::new();
        for seed in 1..=7 {
            for delay_ms in [10, 20, 40] {
                lines.push(line("none", delay_ms, seed, 1.0 + seed as f64 / 10.0));
                lines.push(line("hold", delay_ms, seed, 3.0));
            }
        }
        lines
    }

    #[test]
    fn a_sweep_has_a_curve_for_each_variant_and_its_medians_with_intervals() {
        let lines = lines();
        assert_eq!(parameter(&lines).unwrap(), "delay_ms");
        let svg = sweep(&lines, "goodput_mbps", "delay_ms").unwrap();
        assert!(
            svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"),
            "{svg}"
        );
        for text in [
            "scheme none",
            "scheme hold",
            "delay_ms",
            "goodput_mbps",
            "95% intervals",
        ] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
        // The same values give the same drawing, other values another one.
        assert_eq!(sweep(&lines, "goodput_mbps", "delay_ms").unwrap(), svg);
        let mut other = lines.clone();
        other[0].goodput_mbps = 2.9;
        other[2].goodput_mbps = 2.9;
        other[8].goodput_mbps = 2.9;
        other[14].goodput_mbps = 2.9;
        other[20].goodput_mbps = 2.9;
        assert_ne!(sweep(&other, "goodput_mbps", "delay_ms").unwrap(), svg);
        // The x axis may have names.
        let svg = sweep(&lines, "goodput_mbps", "scheme").unwrap();
        assert!(svg.contains("delay 40 ms") && svg.contains("hold"), "{svg}");
    }

    #[test]
    fn a_run_without_a_value_is_greater_than_any_other() {
        let one = [line("none", 1, 1, 5.0)];
        let measure = Measure::of(&one, "stalls_s").unwrap();
        let samples = measure.samples(&[&one[0]]).unwrap();
        assert_eq!(samples, [0.5, f64::INFINITY]);
        assert_eq!(steps(&samples), [(0.5, 0.0), (0.5, 0.5)]);
        let mut many = lines();
        many.push(line("none", 80, 1, 1.0));
        let error = distribution(&many, "stalls_s").unwrap_err().to_string();
        assert!(error.contains("select some with --where"), "{error}");
        let few: Vec<ResultLine> = lines()
            .into_iter()
            .filter(|l| l.is("delay_ms", &10.into()))
            .collect();
        let svg = distribution(&few, "stalls_s").unwrap();
        assert!(svg.contains("ends below 1"), "{svg}");
        let svg = distribution(&few, "goodput_mbps").unwrap();
        assert!(
            !svg.contains("ends below 1") && svg.contains("share of values"),
            "{svg}"
        );
        let all_never = vec![
            ResultLine {
                transfer_s: None,
                ..line("none", 1, 1, 0.0)
            },
            line("none", 2, 1, 0.0),
        ];
        let mut with = all_never.clone();
        with[1].transfer_s = Some(2.0);
        let svg = sweep(&with, "transfer_s", "delay_ms").unwrap();
        assert!(svg.contains("a cross at the top"), "{svg}");
    }

    #[test]
    fn a_known_measure_that_a_run_lacks_never_came() {
        let mut two = [1, 2].map(|delay_ms| line("none", delay_ms, 1, 1.0));
        two[0].latency = Latency::of(vec![1_000_000, 2_000_000]);
        assert!(two[0].latency.is_some());
        let svg = sweep(&two, "latency.p50_ms", "delay_ms").unwrap();
        assert!(svg.contains("a cross at the top"), "{svg}");
        for line in &mut two {
            line.parameters.clear();
        }
        let svg = distribution(&two, "latency.p50_ms").unwrap();
        assert!(svg.contains("ends below 1"), "{svg}");
        // An empty list is left out of the line: there was no outage.
        two[0].full_rate_s = vec![Some(1.0)];
        let svg = distribution(&two, "full_rate_s").unwrap();
        assert!(!svg.contains("ends below 1"), "{svg}");
    }

    #[test]
    fn a_measure_without_any_value_is_named_as_such() {
        let never = [1, 2].map(|delay_ms| line("none", delay_ms, 1, 1.0));
        let errors = [
            sweep(&never, "transfer_s", "delay_ms"),
            distribution(&never, "transfer_s"),
        ];
        for error in errors {
            let error = error.unwrap_err().to_string();
            let begin = "--measure: got transfer_s, which has no value in any run; takes one of ";
            assert!(error.starts_with(begin), "{error}");
            assert!(error.contains("goodput_mbps"), "{error}");
        }
    }

    #[test]
    fn what_is_not_there_is_refused_with_what_is() {
        let lines = lines();
        let error = sweep(&lines, "goodput", "delay_ms")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("--measure: got goodput, takes one of"),
            "{error}"
        );
        assert!(
            error.contains("goodput_mbps") && !error.contains("parameters."),
            "{error}"
        );
        let error = sweep(&lines, "goodput_mbps", "delay")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("--over: got delay, takes one of delay_ms, scheme"),
            "{error}"
        );
        let error = series(&lines).unwrap_err().to_string();
        assert!(error.contains("record = "), "{error}");
        let error = parameter(&lines[..1]).unwrap_err().to_string();
        assert!(error.contains("--kind cdf"), "{error}");
    }

    #[test]
    fn series_have_a_panel_for_each_column_that_was_recorded() {
        let mut line = line("none", 10, 1, 1.0);
        line.series = Some(Series {
            t_s: vec![0.0, 1.0, 2.0, 3.0],
            rcv_nxt: vec![0, 1_000_000, 1_000_000, 2_000_000],
            queue_packets: vec![0, 4, 9, 1],
            link_up: vec![true, false, true, true],
            ..Series::default()
        });
        let svg = series(&[line]).unwrap();
        for text in [
            "received (MB)",
            "queue (packets)",
            "grey: link down",
            "time (s)",
        ] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
        assert!(!svg.contains("cwnd"), "{svg}");
    }
}
