// SPDX-License-Identifier: Apache-2.0
//! What a transfer shows while it runs.

use std::sync::atomic::{AtomicU64, Ordering};

use holdfast_net::datapath::monotonic_ns;

use holdfast_testbed::download::DownloadWatch;
use holdfast_testbed::link_process::EmulatedLink;

/// What can be seen of a transfer from another thread.
#[derive(Debug, Default)]
pub struct TransferWatch {
    /// The download.
    pub download: DownloadWatch,
    /// On the monotonic clock; 0 before the start.
    pub(super) started_ns: AtomicU64,
}

/// A moment of a transfer, to be shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    /// Since its start, in seconds.
    pub elapsed_s: f64,
    /// Bytes that have arrived.
    pub bytes: u64,
    /// Whether the link carries anything.
    pub link_up: bool,
    /// Since the link is up and nothing came, in seconds; 0 in an outage.
    pub stall_s: f64,
}

impl TransferWatch {
    /// Time zero of the links, CLOCK_MONOTONIC; none before the start.
    pub fn origin_ns(&self) -> Option<u64> {
        let origin_ns = self.started_ns.load(Ordering::Relaxed);
        (origin_ns > 0).then_some(origin_ns)
    }

    /// The moment that is now; none before the start. The link's state is
    /// `link`'s schedule's.
    pub fn moment(&self, link: &EmulatedLink) -> Option<Moment> {
        let started_ns = self.started_ns.load(Ordering::Relaxed);
        let now_ns = monotonic_ns();
        if started_ns == 0 || now_ns < started_ns {
            return None;
        }
        let seconds = |from_ns: u64| now_ns.saturating_sub(from_ns) as f64 / 1e9;
        let elapsed_s = seconds(started_ns);
        let over = |at_s: f64| started_ns + (at_s * 1e9) as u64;
        let link_up = !link
            .outages
            .iter()
            .any(|outage| (outage.at_s..outage.at_s + outage.for_s).contains(&elapsed_s));
        let returned_ns = link
            .outages
            .iter()
            .map(|outage| over(outage.at_s + outage.for_s))
            .filter(|&end_ns| end_ns <= now_ns)
            .max();
        let last_ns = self
            .download
            .last_ns()
            .max(returned_ns.unwrap_or(0))
            .max(started_ns);
        let stall_s = if link_up { seconds(last_ns) } else { 0.0 };
        Some(Moment {
            elapsed_s,
            bytes: self.download.bytes(),
            link_up,
            stall_s,
        })
    }
}
