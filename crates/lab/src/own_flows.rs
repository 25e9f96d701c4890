// SPDX-License-Identifier: Apache-2.0
//! What `holdfast mobile` does for the MH's own flows in a transfer, and who tells it of
//! the link: outages are known from the plan, so they can be announced, at their times, as a
//! script with `holdfast mobile signal` would.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use anyhow::{Context as _, anyhow};
use holdfast_link::OutageAt;

use crate::appointed::sleep_until;
use crate::daemons::{Daemon, announce_leaving, say_link};

/// After an outage the next one is announced no sooner than this: the daemon has to hear
/// first, by netlink, that the link is back.
const AFTER_RETURN_S: f64 = 0.005;
/// The daemon's counters for own flows have this before their name.
const COUNTERS: &str = "host.";

/// What the MH's daemon does for its own flows.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnFlows {
    /// Lines of its `[mobile]` section: the scheme and its settings.
    pub settings: String,
    /// What it is told, when: seconds since the start of the links' clocks.
    pub words: Vec<(f64, Word)>,
}

/// What is said to the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// The link goes in so many milliseconds.
    GoingDownSoon(u16),
    /// It has gone.
    Down,
    /// It is back.
    Up,
}

/// What is to be said of `outages`: each `warning_ms` ahead, or, if the last one ends later
/// than that, as soon as it has; 0: not ahead. With `states` their begins and ends, too.
pub fn words(outages: &[OutageAt], warning_ms: f64, states: bool) -> Vec<(f64, Word)> {
    let mut words = Vec::new();
    let mut back_s = 0.0;
    for outage in outages {
        let at_s = (outage.at_s - warning_ms / 1e3).max(back_s);
        // The daemon takes whole milliseconds, and none for not known.
        let lead_ms = ((outage.at_s - at_s) * 1e3).round() as u16;
        if warning_ms > 0.0 && lead_ms > 0 {
            words.push((at_s, Word::GoingDownSoon(lead_ms)));
        }
        let end_s = outage.at_s + outage.for_s;
        if states {
            words.extend([(outage.at_s, Word::Down), (end_s, Word::Up)]);
        }
        back_s = end_s + AFTER_RETURN_S;
    }
    words
}

/// Somebody who says words at their times; silent when this is dropped.
#[derive(Debug)]
pub(crate) struct Announcer {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<anyhow::Result<u64>>>,
}

impl Announcer {
    /// Begins; `origin_ns` is the links' start on CLOCK_MONOTONIC, `socket` the daemon's.
    pub(crate) fn start(words: &[(f64, Word)], socket: &Path, origin_ns: u64) -> Self {
        let (words, socket) = (words.to_vec(), socket.to_owned());
        let over = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&over);
        let thread = thread::spawn(move || {
            let mut announced = 0;
            for (at_s, word) in words {
                if !sleep_until(origin_ns + (at_s * 1e9) as u64, &is_over) {
                    break;
                }
                match word {
                    Word::GoingDownSoon(lead_ms) => {
                        announce_leaving(&socket, lead_ms)?;
                        announced += 1;
                    }
                    Word::Down => say_link(&socket, "down")?,
                    Word::Up => say_link(&socket, "up")?,
                }
            }
            Ok(announced)
        });
        Self {
            over,
            thread: Some(thread),
        }
    }

    /// Makes it silent; how many outages it has announced.
    ///
    /// # Errors
    /// The daemon did not take a word.
    pub(crate) fn finish(mut self) -> anyhow::Result<u64> {
        self.over.store(true, Ordering::Relaxed);
        let thread = self.thread.take().context("it is silent already")?;
        thread
            .join()
            .map_err(|_| anyhow!("the thread that announces outages is broken"))?
    }
}

impl Drop for Announcer {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // An error was to be had by `finish`.
            let _ = thread.join();
        }
    }
}

/// What the daemon has counted about own flows.
pub(crate) fn counters(daemon: &Daemon) -> anyhow::Result<BTreeMap<String, u64>> {
    let status = daemon.status()?;
    let all = status["counters"].as_object();
    let all = all.context("the mobile's daemon says nothing of its own flows")?;
    let own = all.iter().filter_map(|(name, count)| {
        Some((name.strip_prefix(COUNTERS)?.to_owned(), count.as_u64()?))
    });
    Ok(own.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outages_are_announced_ahead_but_not_in_the_one_before() {
        let outages =
            [(2.0, 1.0), (3.1, 1.0), (9.0, 0.5)].map(|(at_s, for_s)| OutageAt { at_s, for_s });
        let said = words(&outages, 200.0, true);
        let order: Vec<Word> = said.iter().map(|(_, word)| *word).collect();
        assert_eq!(
            order,
            [
                Word::GoingDownSoon(200),
                Word::Down,
                Word::Up,
                Word::GoingDownSoon(95),
                Word::Down,
                Word::Up,
                Word::GoingDownSoon(200),
                Word::Down,
                Word::Up
            ]
        );
        assert!(said.windows(2).all(|pair| pair[0].0 <= pair[1].0));
        assert!((said[0].0 - 1.8).abs() < 1e-9 && (said[3].0 - 3.005).abs() < 1e-9);
        assert!(words(&outages, 0.0, false).is_empty());
    }
}
