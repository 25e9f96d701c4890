// SPDX-License-Identifier: Apache-2.0
//! Today's senders where the gateway's scheme is all that is swept besides them.

use maud::{Markup, html};

use super::{SCHEME, SENDER, median_text, optimum, parameter};
use crate::claims::Paper;
use crate::claims::file::Metric;
use crate::report::selection::{grouped, metric_name};
use crate::results::ResultLine;

/// What was measured where the scheme is all that differs: a row a sender.
pub(super) fn table(paper: &Paper, title: &str, lines: &[&ResultLine]) -> Markup {
    let schemes: Vec<String> = grouped(lines.iter().copied(), |line| parameter(line, SCHEME))
        .into_iter()
        .map(|(scheme, _)| scheme)
        .collect();
    let senders = grouped(lines.iter().copied(), |line| parameter(line, SENDER));
    let metrics = grouped(&paper.claims.table, |table| table.metric);
    let of = |lines: &[&ResultLine], metric: Metric, scheme: &String| {
        let own = lines.iter().copied();
        let own: Vec<&ResultLine> = own
            .filter(|line| parameter(line, SCHEME) == *scheme)
            .collect();
        median_text(metric, &own)
    };
    html! {
        section {
            h3 { (title) }
            table {
                thead { tr {
                    th { "" } th { "sender" }
                    @for scheme in &schemes { th.number { (scheme) } }
                } }
                tbody {
                    @for (metric, _) in &metrics {
                        @for (sender, lines) in &senders {
                            tr {
                                th { (metric_name(*metric)) } th { (sender) }
                                @for scheme in &schemes {
                                    td.cell { (of(lines, *metric, scheme)) }
                                }
                            }
                        }
                        @if *metric == Metric::TransferS {
                            tr {
                                th { (metric_name(*metric)) } th { "no transfer can beat" }
                                @for _ in &schemes { td.cell { (optimum(lines)) } }
                            }
                        }
                    }
                }
            }
        }
    }
}
