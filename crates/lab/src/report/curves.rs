// SPDX-License-Identifier: Apache-2.0
//! Figures against time, from the series of lines: congestion window, received sequence
//! number and queue, with the times shaded in which the link was down.

use maud::{Markup, html};

use super::chart::{self, Look, Panel};
use super::selection::{grouped, without, word, words};
use crate::results::{ResultLine, Series};

/// The height of one window panel.
const WINDOW_PANEL: f64 = 104.0;
/// Between two of them.
const GAP: f64 = 18.0;
/// Below the last one: marks and the axis' name.
const FOOT: f64 = 44.0;
/// The height of the panels for sequence numbers.
const SEQUENCE_PANEL: f64 = 280.0;
/// And of queues.
const QUEUE_PANEL: f64 = 130.0;
/// Curves in one figure at most.
const CURVES_MAX: usize = 6;
/// The axis of time.
const TIME: &str = "time (s)";

/// Lines that differ in `variants` alone, with the series of each.
struct Group<'a> {
    title: String,
    curves: Vec<(String, Look, &'a Series)>,
    /// The goodput that is printed for some of them, in Mb/s.
    printed: Vec<(Look, f64)>,
    end_s: f64,
}

/// The goodput that a paper prints for a run, in Mb/s.
pub(super) type Printed<'a> = &'a dyn Fn(&ResultLine) -> Option<f64>;

/// The figures of all lines with series, one group for each combination of the
/// parameters other than `variants`; of repetitions the first stands for all. A printed
/// goodput is a straight line beside the received sequence numbers.
pub(super) fn figures(lines: &[&ResultLine], variants: &str, printed: Printed<'_>) -> Vec<Markup> {
    let with_series = lines.iter().copied().filter(|line| line.series.is_some());
    let groups = grouped(with_series, |line| {
        (
            line.scenario.clone(),
            line.substrate.clone(),
            without(&line.parameters, &[variants]),
        )
    });
    groups
        .into_iter()
        .filter_map(|(_, lines)| Group::of(&lines, variants, printed)?.draw())
        .collect()
}

impl<'a> Group<'a> {
    fn of(lines: &[&'a ResultLine], variants: &str, printed: Printed<'_>) -> Option<Self> {
        let first = lines.first()?;
        let others = without(&first.parameters, &[variants]);
        let seed = lines.iter().map(|line| line.seed).min()?;
        let shown = lines.iter().filter(|line| line.seed == seed);
        let shown: Vec<(&ResultLine, &Series, Look)> = shown
            .filter_map(|line| Some((*line, line.series.as_ref()?)))
            .take(CURVES_MAX)
            .enumerate()
            .map(|(index, (line, series))| (line, series, chart::look(index)))
            .collect();
        let curves = shown.iter().map(|(line, series, look)| {
            let name = line.parameters.get(variants);
            let name = name.map_or_else(|| line.sender.clone(), word);
            (name, *look, *series)
        });
        let curves: Vec<(String, Look, &Series)> = curves.collect();
        let printed = shown
            .iter()
            .filter_map(|(line, _, look)| Some((*look, printed(line)?)))
            .collect();
        let ends = curves
            .iter()
            .filter_map(|(_, _, series)| series.t_s.last().copied());
        let end_s = ends.fold(0.0, f64::max);
        let mut title = words(&others);
        if title.is_empty() {
            title.clone_from(&first.scenario);
        }
        title.push_str(&format!(" (seed {seed}, {})", first.substrate));
        (end_s > 0.0).then_some(Self {
            title,
            curves,
            printed,
            end_s,
        })
    }

    fn draw(&self) -> Option<Markup> {
        let parts: Vec<Markup> = [self.sequence(), self.windows(), self.queue()]
            .into_iter()
            .flatten()
            .collect();
        (!parts.is_empty()).then(|| {
            html! {
                section.group {
                    h4 { (self.title) }
                    @for part in &parts { (part) }
                }
            }
        })
    }

    fn panel(&self, top: f64, height: f64, highest: f64) -> Panel {
        Panel::new(top, top + height, [0.0, self.end_s], highest)
    }

    /// The stretches in which the link of the curve that took longest was down.
    fn outages(&self) -> Vec<[f64; 2]> {
        let end = |series: &Series| series.t_s.last().copied().unwrap_or(0.0);
        let longest = self.curves.iter().map(|(_, _, series)| *series);
        longest
            .max_by(|a, b| end(a).total_cmp(&end(b)))
            .map(outages)
            .unwrap_or_default()
    }

    fn sequence(&self) -> Option<Markup> {
        let of = |series: &Series| received(series).to_vec();
        self.overlay(
            SEQUENCE_PANEL,
            "received sequence number (MB)",
            1e-6,
            &of,
            &self.printed,
        )
    }

    fn queue(&self) -> Option<Markup> {
        let of = |series: &Series| {
            series
                .queue_packets
                .iter()
                .copied()
                .map(u64::from)
                .collect()
        };
        self.overlay(QUEUE_PANEL, "queue (packets)", 1.0, &of, &[])
    }

    /// All curves of one column in one panel, with straight lines for what is printed; none
    /// if all of them are nought.
    fn overlay(
        &self,
        height: f64,
        name: &str,
        scale: f64,
        of: &dyn Fn(&Series) -> Vec<u64>,
        printed: &[(Look, f64)],
    ) -> Option<Markup> {
        let columns: Vec<Vec<u64>> = self
            .curves
            .iter()
            .map(|(_, _, series)| of(series))
            .collect();
        let highest = columns
            .iter()
            .flatten()
            .copied()
            .max()
            .filter(|highest| *highest > 0)?;
        let panel = self.panel(6.0, height, highest as f64 * scale);
        let outages = self.outages();
        let content = html! {
            @for outage in &outages { (panel.shade(*outage)) }
            (panel.frame(name))
            (panel.time_axis(TIME))
            @for ((_, look, series), column) in self.curves.iter().zip(&columns) {
                (panel.curve(&points(series, column, scale), *look, "curve"))
            }
            @for (look, mbps) in printed {
                @let end = straight(*mbps, self.end_s, highest as f64 * scale);
                (panel.curve(&[(0.0, 0.0), end], *look, "curve thin"))
            }
        };
        let looks: Vec<(String, Look)> = self
            .curves
            .iter()
            .map(|(name, look, _)| (name.clone(), *look))
            .collect();
        let words = format!("{name} against time, {}", self.title);
        Some(html! {
            figure {
                (chart::legend(&looks, false, html! {
                    @if !printed.is_empty() { span { "thin and straight: as printed" } }
                    (outage_legend(&outages))
                }))
                (chart::drawing(6.0 + height + FOOT, &words, content))
                figcaption { (words) "." }
            }
        })
    }

    /// One panel a curve: windows lie over each other too closely to be told apart.
    fn windows(&self) -> Option<Markup> {
        let with: Vec<_> = self
            .curves
            .iter()
            .filter(|(_, _, series)| !series.cwnd.is_empty())
            .collect();
        let highest = with
            .iter()
            .flat_map(|(_, _, series)| series.cwnd.iter().copied())
            .max()?;
        let panels: Vec<Panel> = (0..with.len())
            .map(|index| {
                let top = 6.0 + index as f64 * (WINDOW_PANEL + GAP);
                self.panel(top, WINDOW_PANEL, highest as f64 / 1e3)
            })
            .collect();
        let last = panels.last()?;
        let content = html! {
            @for (panel, (name, look, series)) in panels.iter().zip(&with) {
                @for outage in outages(series) { (panel.shade(outage)) }
                (panel.frame("cwnd (kB)"))
                @let ssthresh = known_ssthresh(series, highest);
                @if ssthresh.len() > 1 { (panel.curve(&ssthresh, *look, "curve thin")) }
                (panel.curve(&points(series, &series.cwnd, 1e-3), *look, "curve solid"))
                (panel.caption(name))
            }
            (last.time_axis(TIME))
        };
        let words = format!("Congestion window against time, {}", self.title);
        let height = 6.0 + with.len() as f64 * (WINDOW_PANEL + GAP) - GAP + FOOT;
        let all_outages = self.outages();
        Some(html! {
            figure {
                (chart::legend(&[], false, html! {
                    span { "thick: cwnd" }
                    span { "thin: ssthresh" }
                    (outage_legend(&all_outages))
                }))
                (chart::drawing(height, &words, content))
                figcaption { (words) "." }
            }
        })
    }
}

/// Where a steady goodput in Mb/s leaves a panel of so many seconds and megabytes.
fn straight(mbps: f64, end_s: f64, highest_mb: f64) -> (f64, f64) {
    let mb_per_s = mbps / 8.0;
    if mb_per_s * end_s > highest_mb {
        (highest_mb / mb_per_s, highest_mb)
    } else {
        (end_s, mb_per_s * end_s)
    }
}

fn outage_legend(outages: &[[f64; 2]]) -> Markup {
    if outages.is_empty() {
        html! {}
    } else {
        chart::outage_legend()
    }
}

/// What has arrived; where the receiver was not asked, what the sender knows of it.
fn received(series: &Series) -> &[u64] {
    if series.rcv_nxt.is_empty() {
        &series.snd_una
    } else {
        &series.rcv_nxt
    }
}

fn points(series: &Series, column: &[u64], scale: f64) -> Vec<(f64, f64)> {
    series
        .t_s
        .iter()
        .zip(column)
        .map(|(t_s, value)| (*t_s, *value as f64 * scale))
        .collect()
}

/// The slow start threshold where there is one, cut at the panel's edge.
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

/// The stretches of a series in which the link did not carry.
fn outages(series: &Series) -> Vec<[f64; 2]> {
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
    fn where_the_receiver_was_not_asked_acknowledged_bytes_stand_for_received() {
        let series = Series {
            snd_una: vec![1],
            ..Series::default()
        };
        assert_eq!(received(&series), [1]);
    }
}
