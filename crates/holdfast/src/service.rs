// SPDX-License-Identifier: Apache-2.0
//! The daemon's reports to the service manager that has started it (`sd_notify(3)`). Without a service
//! manager nothing is sent.

use std::time::Duration;

use sd_notify::NotifyState;
use tokio::time::{Interval, MissedTickBehavior, interval};

/// The longest time between two checks of the workers.
const PULSE_MAX: Duration = Duration::from_secs(5);

/// The daemon is ready, at the start or after a reload; `status` is what it does.
pub(crate) fn ready(status: &str) {
    send(&[NotifyState::Ready, NotifyState::Status(&one_line(status))]);
}

/// The daemon's status has changed.
pub(crate) fn status(status: &str) {
    send(&[NotifyState::Status(&one_line(status))]);
}

/// The daemon reads its settings again; [`ready`] ends that.
pub(crate) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => send(&[NotifyState::Reloading, now]),
        Err(_) => send(&[NotifyState::Reloading]),
    }
}

/// The daemon leaves.
pub(crate) fn stopping() {
    send(&[NotifyState::Stopping]);
}

/// A sign of life for the watchdog; `status` is what the daemon does.
pub(crate) fn alive(status: &str) {
    send(&[
        NotifyState::Watchdog,
        NotifyState::Status(&one_line(status)),
    ]);
}

/// Ticks for the sign of life: at least two within the watchdog's limit.
pub(crate) fn pulse() -> Interval {
    let watchdog = sd_notify::watchdog_enabled().filter(|limit| !limit.is_zero());
    let period = watchdog.map_or(PULSE_MAX, |limit| (limit / 2).min(PULSE_MAX));
    let mut pulse = interval(period);
    pulse.set_missed_tick_behavior(MissedTickBehavior::Delay);
    pulse
}

/// A line break would begin another report.
fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

fn send(states: &[NotifyState<'_>]) {
    // Nothing depends on it but the service manager itself.
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "the service manager");
    }
}
