// SPDX-License-Identifier: Apache-2.0
//! The look of a verdict: a colour, and a mark for readers who cannot see colours.

use maud::{Markup, html};

use crate::claims::{Entry, Verdict};

/// All verdicts, in the order of the page's key.
pub(super) const ALL: [Verdict; 3] = [Verdict::Holds, Verdict::Differs, Verdict::NotComparable];

/// The CSS class with the verdict's colour.
pub(super) fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "holds",
        Verdict::Differs => "differs",
        Verdict::NotComparable => "incomparable",
    }
}

fn sign(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "✓",
        Verdict::Differs => "✗",
        Verdict::NotComparable => "–",
    }
}

/// The mark; the verdict's name is there too for screen readers.
pub(super) fn mark(verdict: Verdict) -> Markup {
    html! {
        span.mark aria-hidden="true" { (sign(verdict)) }
        span.hidden { (verdict.name()) }
    }
}

/// The mark with the visible name.
pub(super) fn mark_and_name(verdict: Verdict) -> Markup {
    html! { span.mark aria-hidden="true" { (sign(verdict)) } " " (verdict.name()) }
}

/// The key of colours and marks.
pub(super) fn key() -> Markup {
    html! {
        p {
            @for verdict in ALL {
                span class={ "key " (class(verdict)) } { (mark_and_name(verdict)) }
            }
        }
    }
}

/// Reasons under a table, each once, by number.
pub(super) struct Notes {
    prefix: String,
    /// A verdict with its reason, and the entries that it is about.
    notes: Vec<((Verdict, String), Vec<String>)>,
}

/// The most entries that a note names; more are counted.
const NAMED_MAX: usize = 4;

impl Notes {
    /// Empty notes for a part of the page; `prefix` makes their numbers unique.
    pub(super) fn new(prefix: &str) -> Self {
        Self {
            prefix: prefix.to_owned(),
            notes: Vec::new(),
        }
    }

    /// A reference to the reason of an entry about `what`; empty if the claim holds.
    pub(super) fn refer(&mut self, entry: &Entry, what: String) -> Markup {
        if entry.verdict == Verdict::Holds {
            return html! {};
        }
        let key = (entry.verdict, entry.reason.clone());
        let known = self.notes.iter().position(|(other, _)| *other == key);
        let index = known.unwrap_or_else(|| {
            self.notes.push((key, Vec::new()));
            self.notes.len() - 1
        });
        self.notes[index].1.push(what);
        html! { sup { a href={ "#" (self.prefix) "-" (index + 1) } { (index + 1) } } }
    }

    /// The list.
    pub(super) fn list(&self) -> Markup {
        html! {
            @if !self.notes.is_empty() {
                ol.notes {
                    @for (index, ((verdict, reason), what)) in self.notes.iter().enumerate() {
                        li id={ (self.prefix) "-" (index + 1) } {
                            @if what.len() <= NAMED_MAX { (what.join("; ")) }
                            @else { (what.len()) " cells, of them " (what[0]) }
                            ": " (verdict.name()) ", " (reason)
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn entry(verdict: Verdict, reason: &str) -> Entry {
        Entry {
            paper: "p".into(),
            id: "id".into(),
            printed: json!(1),
            model: None,
            linux: None,
            live: None,
            verdict,
            assumption: None,
            verdict_as_printed: None,
            verdicts_beside: std::collections::BTreeMap::new(),
            reason: reason.into(),
        }
    }

    #[test]
    fn a_reason_stands_once_however_many_cells_have_it() {
        let mut notes = Notes::new("t");
        let refer = |notes: &mut Notes, verdict, reason: &str, what: &str| {
            notes
                .refer(&entry(verdict, reason), what.into())
                .into_string()
        };
        assert_eq!(refer(&mut notes, Verdict::Holds, "x", "a"), "");
        assert!(refer(&mut notes, Verdict::Differs, "+9% < 5", "b").contains("href=\"#t-1\""));
        assert!(refer(&mut notes, Verdict::NotComparable, "no run", "c").contains("#t-2"));
        assert!(refer(&mut notes, Verdict::NotComparable, "no run", "d").contains("#t-2"));
        let list = notes.list().into_string();
        assert!(list.contains("b: differs, +9% &lt; 5"), "{list}");
        assert!(list.contains("c; d: not comparable, no run"), "{list}");
        assert_eq!(list.matches("<li").count(), 2);
    }

    #[test]
    fn each_verdict_has_a_class_and_a_sign_of_its_own() {
        for (index, one) in ALL.iter().enumerate() {
            for other in &ALL[..index] {
                assert!(class(*one) != class(*other) && sign(*one) != sign(*other));
            }
        }
    }
}
