// SPDX-License-Identifier: Apache-2.0
//! The statements of a paper, and our results.

use maud::{Markup, html};
use serde_json::Value as Json;

use super::command;
use super::verdict_mark::{class, mark_and_name};
use crate::claims::{Entry, Paper};
use crate::results::word;

/// A table of all statements, with the command that judges them.
pub(super) fn section(paper: &Paper, entries: &[Entry]) -> Markup {
    let get = |id: &str| entries.iter().find(|entry| entry.id == id);
    let shown = |value: &Option<Json>| value.as_ref().map_or_else(|| "–".to_owned(), word);
    html! {
        @if !paper.claims.statement.is_empty() {
            section {
                h3 { "Statements" }
                table {
                    thead { tr {
                        th { "statement of the paper" } th { "printed" } th { "model" } th { "linux" } th { "live" }
                        th { "verdict" } th { "why" }
                    } }
                    tbody {
                        @for statement in &paper.claims.statement {
                            @if let Some(entry) = get(&statement.id) {
                                tr {
                                    td { (statement.text) }
                                    td { (word(&entry.printed)) }
                                    td { (shown(&entry.model)) }
                                    td { (shown(&entry.linux)) }
                                    td { (shown(&entry.live)) }
                                    td class={ "verdict " (class(entry.verdict)) } { (mark_and_name(entry.verdict)) }
                                    td { (entry.reason) }
                                }
                            }
                        }
                    }
                }
                pre.command { (command::claims(paper)) }
            }
        }
    }
}
