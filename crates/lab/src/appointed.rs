// SPDX-License-Identifier: Apache-2.0
//! Waiting for an appointed time in a thread that may be told that it is over before.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use holdfast_net::datapath::monotonic_ns;

/// A sleep ends at the latest after this, to see whether it is over.
const SLEEP_MAX: Duration = Duration::from_millis(20);

/// Sleeps until that time of the monotonic clock. False: it is over before.
pub(crate) fn sleep_until(at_ns: u64, over: &AtomicBool) -> bool {
    loop {
        if over.load(Ordering::Relaxed) {
            return false;
        }
        let left = Duration::from_nanos(at_ns.saturating_sub(monotonic_ns()));
        if left.is_zero() {
            return true;
        }
        thread::sleep(left.min(SLEEP_MAX));
    }
}
