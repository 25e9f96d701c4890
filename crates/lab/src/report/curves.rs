// SPDX-License-Identifier: Apache-2.0
//! Figures against time from the series of lines: congestion window, received sequence number and
//! queue. The times with the link down are shaded.

use maud::{Markup, html};

use super::chart::{self, Curve, Panel};
use super::selection::{parameters_text, without};
use crate::results::{ResultLine, Series, grouped, word};

/// The most curves in one figure.
const CURVES_MAX: usize = chart::LOOKS;
/// The axis of time.
const TIME: &str = "time (s)";

/// Lines that differ in `variants` alone, with the series of each.
struct Group<'a> {
    title: String,
    curves: Vec<(String, &'a Series)>,
    /// For each curve the printed goodput, in Mb/s; none: not printed.
    printed: Vec<Option<f64>>,
    end_s: f64,
}

/// The goodput that a paper prints for a run, in Mb/s.
pub(super) type Printed<'a> = &'a dyn Fn(&ResultLine) -> Option<f64>;

/// The figures of all lines with series: one group for each combination of the parameters other
/// than `variants`. Of repetitions only the first is shown. A printed goodput is a straight line
/// beside the received sequence numbers.
pub(super) fn figures(lines: &[&ResultLine], variants: &str, printed: Printed<'_>) -> Vec<Markup> {
    let with_series = lines.iter().copied().filter(|line| line.series.is_some());
    let groups = grouped(with_series, |line| {
        (
            line.scenario.clone(),
            line.substrate.clone(),
            without(&line.parameters, &[variants]),
        )
    });
    let groups = groups.into_iter();
    groups
        .filter_map(|(_, lines)| Group::of(&lines, variants, printed)?.draw())
        .collect()
}

impl<'a> Group<'a> {
    fn of(lines: &[&'a ResultLine], variants: &str, printed: Printed<'_>) -> Option<Self> {
        let first = lines.first()?;
        let seed = lines.iter().map(|line| line.seed).min()?;
        let shown = lines.iter().filter(|line| line.seed == seed);
        let (mut curves, mut printed_of) = (Vec::new(), Vec::new());
        for line in shown.take(CURVES_MAX) {
            let name = line.parameters.get(variants);
            let name = name.map_or_else(|| line.sender.clone(), word);
            curves.push((name, line.series.as_ref()?));
            printed_of.push(printed(line));
        }
        let end_s = curves.iter().map(|(_, series)| end_s(series));
        let end_s = end_s.fold(0.0, f64::max);
        let mut title = parameters_text(&without(&first.parameters, &[variants]));
        if title.is_empty() {
            title.clone_from(&first.scenario);
        }
        title.push_str(&format!(" (seed {seed}, {})", first.substrate));
        (end_s > 0.0).then_some(Self {
            title,
            curves,
            printed: printed_of,
            end_s,
        })
    }

    fn draw(&self) -> Option<Markup> {
        let parts = [self.sequence(), self.windows(), self.queue()];
        let parts: Vec<Markup> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| {
            html! {
                section.group {
                    h4 { (self.title) }
                    @for part in &parts { (part) }
                }
            }
        })
    }

    fn panel(&self, name: &str, height: u32, highest: f64, curves: Vec<Curve>) -> Panel {
        // The longest curve's outages are shaded.
        let by_end =
            |a: &&(String, &Series), b: &&(String, &Series)| end_s(a.1).total_cmp(&end_s(b.1));
        let longest = self.curves.iter().max_by(by_end);
        Panel {
            caption: String::new(),
            height,
            x: [0.0, self.end_s],
            x_name: TIME.to_owned(),
            marks: Vec::new(),
            highest,
            y_name: name.to_owned(),
            shaded: longest
                .map(|(_, series)| outages(series))
                .unwrap_or_default(),
            curves,
        }
    }

    fn figure(&self, name: &str, panels: &[Panel], points: bool, more: &[&str]) -> Markup {
        let parameters_text = format!("{name} against time, {}", self.title);
        let looks = self.curves.iter().enumerate();
        let looks = looks.map(|(index, (name, _))| (name.clone(), index));
        let looks: Vec<(String, usize)> = looks.filter(|_| !points).collect();
        let mut more = more.to_vec();
        if panels.iter().any(|panel| !panel.shaded.is_empty()) {
            more.push("grey: link down");
        }
        html! {
            figure {
                (chart::legend(&looks, false, &more))
                (chart::drawing(&parameters_text, panels))
                figcaption { (parameters_text) "." }
            }
        }
    }

    /// All curves of one column in one panel; none if all values are 0.
    fn overlay(
        &self,
        height: u32,
        name: &str,
        get: &dyn Fn(&Series) -> Vec<(f64, f64)>,
        is_printed: bool,
    ) -> Option<Markup> {
        let lines: Vec<Vec<(f64, f64)>> = self.curves.iter().map(|(_, item)| get(item)).collect();
        let highest = lines.iter().flatten().map(|(_, y)| *y).fold(0.0, f64::max);
        if highest <= 0.0 {
            return None;
        }
        let printed = self.printed.iter().enumerate().filter(|_| is_printed);
        let printed = printed.filter_map(|(look, mbps)| {
            Some(Curve {
                look,
                thin: true,
                line: vec![(0.0, 0.0), straight((*mbps)?, self.end_s, highest)],
                ..Curve::default()
            })
        });
        let printed: Vec<Curve> = printed.collect();
        let more: &[&str] = if printed.is_empty() {
            &[]
        } else {
            &["thin and straight: as printed"]
        };
        let curves = lines.into_iter().enumerate().map(|(look, line)| Curve {
            look,
            line,
            ..Curve::default()
        });
        let curves = curves.chain(printed).collect();
        let panel = self.panel(name, height, highest, curves);
        Some(self.figure(name, &[panel], false, more))
    }

    fn sequence(&self) -> Option<Markup> {
        let get = |series: &Series| points(series, received(series), 1e-6);
        self.overlay(660, "received sequence number (MB)", &get, true)
    }

    fn queue(&self) -> Option<Markup> {
        let get = |series: &Series| {
            let packets = series.queue_packets.iter().copied().map(u64::from);
            points(series, &packets.collect::<Vec<_>>(), 1.0)
        };
        self.overlay(360, "queue (packets)", &get, false)
    }

    /// One panel for each curve: the windows would cover each other.
    fn windows(&self) -> Option<Markup> {
        let has = |(_, (_, series)): &(usize, &(String, &Series))| !series.cwnd.is_empty();
        let with: Vec<_> = self.curves.iter().enumerate().filter(has).collect();
        let windows = with.iter().flat_map(|(_, (_, series))| &series.cwnd);
        let highest = *windows.max()?;
        let panels = with.iter().map(|(look, (name, series))| {
            let line = |line, thin| Curve {
                look: *look,
                thin,
                line,
                ..Curve::default()
            };
            let curves = vec![
                line(known_ssthresh(series, highest), true),
                line(points(series, &series.cwnd, 1e-3), false),
            ];
            Panel {
                caption: name.clone(),
                shaded: outages(series),
                ..self.panel("cwnd (kB)", 300, highest as f64 / 1e3, curves)
            }
        });
        let panels: Vec<Panel> = panels.collect();
        let more = ["thick: cwnd", "thin: ssthresh"];
        Some(self.figure("Congestion window", &panels, true, &more))
    }
}

pub(super) fn end_s(series: &Series) -> f64 {
    series.t_s.last().copied().unwrap_or(0.0)
}

/// The point at which the line of a steady goodput leaves the panel. `end_s` and `highest_mb` are
/// the panel's ends.
fn straight(mbps: f64, end_s: f64, highest_mb: f64) -> (f64, f64) {
    let mb_per_s = mbps / 8.0;
    if mb_per_s * end_s > highest_mb {
        (highest_mb / mb_per_s, highest_mb)
    } else {
        (end_s, mb_per_s * end_s)
    }
}

/// The bytes that arrived; without a series of the receiver, the bytes that the sender knows to be
/// acknowledged.
pub(super) fn received(series: &Series) -> &[u64] {
    if series.rcv_nxt.is_empty() {
        &series.snd_una
    } else {
        &series.rcv_nxt
    }
}

pub(super) fn points(series: &Series, column: &[u64], scale: f64) -> Vec<(f64, f64)> {
    series
        .t_s
        .iter()
        .zip(column)
        .map(|(t_s, value)| (*t_s, *value as f64 * scale))
        .collect()
}

/// The slow start threshold where it is known, cut off at the panel's edge.
fn known_ssthresh(series: &Series, highest: u64) -> Vec<(f64, f64)> {
    let known = series
        .t_s
        .iter()
        .zip(&series.ssthresh)
        .filter(|(_, bytes)| **bytes > 0);
    known
        .map(|(t_s, bytes)| (*t_s, (*bytes).min(highest) as f64 / 1e3))
        .collect()
}

/// The times in which the link was down.
pub(super) fn outages(series: &Series) -> Vec<[f64; 2]> {
    let mut outages = Vec::new();
    let mut since = None;
    for (t_s, up) in series.t_s.iter().zip(&series.link_up) {
        match (since, up) {
            (None, false) => since = Some(*t_s),
            (Some(from), true) => {
                outages.push([from, *t_s]);
                since = None;
            }
            _ => {}
        }
    }
    if let (Some(from), Some(end)) = (since, series.t_s.last()) {
        outages.push([from, *end]);
    }
    outages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_lasts_from_the_first_point_without_link_to_the_next_with() {
        let series = Series {
            t_s: vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0],
            link_up: vec![true, false, false, true, true, false],
            ..Series::default()
        };
        assert_eq!(outages(&series), [[1.0, 3.0], [5.0, 5.0]]);
        assert!(outages(&Series::default()).is_empty());
    }

    #[test]
    fn no_threshold_is_drawn_before_there_is_one() {
        let series = Series {
            t_s: vec![0.0, 1.0, 2.0],
            ssthresh: vec![0, 9_000, 4_000],
            ..Series::default()
        };
        assert_eq!(known_ssthresh(&series, 5_000), [(1.0, 5.0), (2.0, 4.0)]);
    }

    #[test]
    fn a_printed_goodput_ends_where_its_panel_does() {
        assert_eq!(straight(0.8, 50.0, 10.0), (50.0, 5.0));
        assert_eq!(straight(0.8, 500.0, 10.0), (100.0, 10.0));
    }

    #[test]
    fn without_a_series_of_the_receiver_acknowledged_bytes_stand_for_received() {
        let series = Series {
            snd_una: vec![1],
            ..Series::default()
        };
        assert_eq!(received(&series), [1]);
    }
}
