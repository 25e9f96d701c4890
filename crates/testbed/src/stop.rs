// SPDX-License-Identifier: Apache-2.0
//! A flag that SIGINT, SIGTERM and SIGHUP raise. Every loop watches it, so that
//! guards clean up at the end.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::bail;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// The time between two checks of a condition that no event reports.
const POLL: Duration = Duration::from_millis(5);

/// A flag that is raised when the program is to stop; clones share it.
#[derive(Clone, Debug, Default)]
pub struct StopFlag {
    own: Arc<AtomicBool>,
    /// Another flag, which counts for this one too.
    outer: Option<Arc<Self>>,
}

/// The error of work that ended because of a [`StopFlag`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted;

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

impl StopFlag {
    /// A flag that the process's signals raise.
    pub fn on_signals() -> io::Result<Self> {
        let flag = Self::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&flag.own))?;
        }
        Ok(flag)
    }

    /// A flag for a part of the work: raised by itself, and at once whenever this one is.
    #[must_use]
    pub fn within(&self) -> Self {
        Self {
            own: Arc::default(),
            outer: Some(Arc::new(self.clone())),
        }
    }

    /// Raises the flag.
    pub fn raise(&self) {
        self.own.store(true, Ordering::Relaxed);
    }

    /// Whether it is raised.
    pub fn is_raised(&self) -> bool {
        self.own.load(Ordering::Relaxed)
            || self.outer.as_ref().is_some_and(|outer| outer.is_raised())
    }

    /// [`Interrupted`] if it is raised.
    pub fn check(&self) -> Result<(), Interrupted> {
        if self.is_raised() {
            Err(Interrupted)
        } else {
            Ok(())
        }
    }

    /// Waits until it is raised.
    pub fn wait(&self) {
        while !self.is_raised() {
            thread::sleep(POLL);
        }
    }

    /// Waits until `condition` gives a value. Errors: the flag was raised, or
    /// `limit` has passed ("`what`: not within 5 s").
    pub fn wait_for<T>(
        &self,
        what: &str,
        limit: Duration,
        mut condition: impl FnMut() -> anyhow::Result<Option<T>>,
    ) -> anyhow::Result<T> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(value) = condition()? {
                return Ok(value);
            }
            self.check()?;
            if Instant::now() >= deadline {
                bail!("{what}: not within {} s", limit.as_secs_f64());
            }
            thread::sleep(POLL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_within_another_is_raised_with_it_but_not_the_other_way() {
        let outer = StopFlag::default();
        let (one, other) = (outer.within(), outer.within());
        one.raise();
        assert!(one.is_raised() && !other.is_raised() && !outer.is_raised());
        outer.raise();
        assert!(other.is_raised());
    }

    #[test]
    fn a_raised_flag_ends_a_wait_and_a_limit_does_too() {
        let stop = StopFlag::default();
        let never = || Ok(None::<()>);
        let late = stop.wait_for("rain", Duration::ZERO, never).unwrap_err();
        assert_eq!(late.to_string(), "rain: not within 0 s");
        stop.raise();
        let error = stop
            .wait_for("rain", Duration::from_secs(60), never)
            .unwrap_err();
        assert!(error.is::<Interrupted>());
        assert_eq!(
            stop.wait_for("sun", Duration::ZERO, || Ok(Some(1)))
                .unwrap(),
            1
        );
    }
}
