// SPDX-License-Identifier: Apache-2.0
//! Work at appointed times beside a transfer, by a thread that can be ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use holdfast_net::datapath::monotonic_ns;

/// The longest sleep between two checks of the flag.
const SLEEP_MAX: Duration = Duration::from_millis(20);

/// Sleeps until `at_ns` of CLOCK_MONOTONIC. False: the flag `over` was raised before.
pub fn sleep_until(at_ns: u64, over: &AtomicBool) -> bool {
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

/// A thread that does something at appointed times; it ends when this is dropped.
#[derive(Debug)]
pub struct Appointed<T> {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<anyhow::Result<T>>>,
}

impl<T: Send + 'static> Appointed<T> {
    /// Starts the thread. `work` gets the flag, and waits with [`sleep_until`].
    pub fn start(work: impl FnOnce(&AtomicBool) -> anyhow::Result<T> + Send + 'static) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&over);
        Self {
            over,
            thread: Some(thread::spawn(move || work(&is_over))),
        }
    }
}

impl<T> Appointed<T> {
    /// Ends the thread, whatever is still to come. Returns the result of its work.
    ///
    /// # Errors
    /// The errors of its work.
    pub fn finish(mut self) -> anyhow::Result<T> {
        self.over.store(true, Ordering::Relaxed);
        let thread = self.thread.take().context("it is over already")?;
        thread
            .join()
            .map_err(|_| anyhow!("a thread of appointed times is broken"))?
    }
}

impl<T> Drop for Appointed<T> {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // `finish` would have returned an error.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_over_does_nothing_that_was_to_come() {
        let far_ns = monotonic_ns() + 3_600_000_000_000;
        let (reached, is_reached) = std::sync::mpsc::channel();
        let appointed = Appointed::start(move |over| {
            let first = sleep_until(0, over);
            reached.send(())?;
            Ok([first, sleep_until(far_ns, over)])
        });
        is_reached.recv().unwrap();
        assert_eq!(appointed.finish().unwrap(), [true, false]);
    }

    #[test]
    fn an_error_of_the_work_is_returned() {
        let appointed = Appointed::<()>::start(|_| anyhow::bail!("no route"));
        let message = appointed.finish().unwrap_err().to_string();
        assert_eq!(message, "no route");
    }
}
