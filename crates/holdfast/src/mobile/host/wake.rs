// SPDX-License-Identifier: Apache-2.0
//! The use of the data path by `wake`: which flows pause, the packets of a wake-up, and what the
//! programs must know of woken flows.

use std::io;
use std::os::fd::AsFd as _;
use std::time::Duration;

use holdfast_core::mobile_host::withheld::AckAndWindow;
use holdfast_core::mobile_host::{MadeAck, WakeUp};
use holdfast_net::datapath::now;
use holdfast_net::mobile_path::{NotedFlow, NotedWithheldSegment, Woken, boottime};
use holdfast_wire::SackBlocks;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::{Attached, Host};

/// The counter of received segments.
const SEGMENTS_RECEIVED: &str = "noted_ingress";
/// The daemon looks for flows that pause at this interval, if the programs have no timers.
const PAUSE_CHECK_INTERVAL: Duration = Duration::from_millis(25);

impl Host {
    /// Returns when flows pause: then [`handle_pauses`](Self::handle_pauses) is due.
    #[expect(
        deprecated,
        reason = "its replacement is unsafe; the ring's descriptor never changes"
    )]
    pub(in crate::mobile) async fn paused(&self) {
        let pauses = self
            .attached
            .as_ref()
            .and_then(|attached| attached.pauses.as_ref());
        let Some(pauses) = pauses else {
            return std::future::pending().await;
        };
        // Registered for each wait: the ring exists only while the interface does.
        match AsyncFd::with_interest(pauses.as_fd(), Interest::READABLE) {
            Ok(ring) => match ring.readable().await {
                Ok(mut ready) => ready.clear_ready(),
                Err(error) => tracing::warn!(%error, "pauses"),
            },
            Err(error) => {
                tracing::warn!(%error, "pauses cannot be read");
                std::future::pending::<()>().await;
            }
        }
    }

    /// Handles the programs' reports of flows that pause.
    pub(in crate::mobile) fn handle_pauses(&mut self) {
        let Some(attached) = &self.attached else {
            return;
        };
        let Some(pauses) = &attached.pauses else {
            return;
        };
        let paused = match pauses.drain() {
            Ok(paused) => paused,
            Err(error) => {
                tracing::warn!(%error, "pauses");
                return;
            }
        };
        // None if the MH itself has sent a newer ACK.
        let newest = |pause| attached.path.maps().paused(pause).ok().flatten();
        let pausing: Vec<_> = paused.iter().filter_map(newest).collect();
        self.acknowledge(&pausing);
    }

    /// Acknowledges the withheld segments of these flows, which pause.
    fn acknowledge(&mut self, pausing: &[NotedFlow]) {
        if pausing.is_empty() {
            return;
        }
        let now = now();
        let flows: Vec<_> = pausing.iter().map(|noted| self.observed(noted)).collect();
        let mut actions = Vec::new();
        self.machine.handle_pauses(&flows, now, &mut actions);
        self.perform_all(actions);
    }

    /// Finds flows that pause, if the programs have no timers for that.
    pub(super) fn look_for_pauses(&mut self) {
        let now = now();
        let Some(attached) = &mut self.attached else {
            return;
        };
        if attached.pause_check_at.is_none_or(|at| at > now) {
            return;
        }
        attached.pause_check_at = Some(now + PAUSE_CHECK_INTERVAL);
        let mut pausing = match attached.path.maps().pausing(now) {
            Ok(pausing) => pausing,
            Err(error) => {
                tracing::warn!(%error, "pauses");
                return;
            }
        };
        let known = core::mem::take(&mut attached.released);
        let number = |noted: &NotedFlow| (noted.flow.key, noted.flow.rcv_nxt);
        attached.released = pausing.iter().map(number).collect();
        pausing.retain(|noted| known.get(&noted.flow.key) != Some(&noted.flow.rcv_nxt));
        self.acknowledge(&pausing);
    }
}

impl Attached {
    /// The number of received segments of all flows; none if it cannot be read.
    pub(super) fn segments_received(&self) -> Option<u64> {
        let counters = self.path.counters().unwrap_or_else(|error| {
            // Only a debug line: this is tried several times a second.
            tracing::debug!(%error, "the counters cannot be read");
            Vec::default()
        });
        let segments = counters
            .into_iter()
            .find(|(name, _)| *name == SEGMENTS_RECEIVED);
        segments.map(|(_, count)| count)
    }

    pub(super) fn withheld(&self, noted: &NotedFlow) -> Option<NotedWithheldSegment> {
        let withheld = self.path.maps().withheld(&noted.flow.key);
        withheld.unwrap_or_else(|error| {
            tracing::debug!(%error, "the withheld segment cannot be read");
            None
        })
    }

    /// A made ACK has the MH's own number: no ACK below it leaves any more.
    pub(super) fn release(&self, noted: &NotedFlow) {
        let (key, ack) = (&noted.flow.key, noted.flow.rcv_nxt);
        if let Err(error) = self.path.maps().release(key, ack) {
            tracing::debug!(%error, "what leaves is not changed");
        }
    }

    /// Sends the packets that wake the FH.
    ///
    /// Errors: that of the last packet.
    pub(super) fn wake_up(&self, wake_up: &WakeUp, noted: &mut NotedFlow) -> io::Result<()> {
        if wake_up.sends_ack {
            self.renew_echo(noted, wake_up.renews_echo_for);
        }
        // These may find no room on the interface: the ACK that counts is sent after them.
        let sent = self.sender.send_unreachable(noted, wake_up.unreachables);
        if sent.is_ok() && wake_up.boundary_acks > 0 {
            self.send_boundary_acks(noted, wake_up.boundary_acks);
        }
        if !wake_up.sends_ack {
            return Ok(());
        }
        self.sender.send(noted, MadeAck::Last, 1)
    }

    /// ACKs at the newest segment boundaries below the MH's own number.
    fn send_boundary_acks(&self, noted: &NotedFlow, most: u32) {
        let (Some(scale), Some(withheld)) = (noted.flow.window_shift, self.withheld(noted)) else {
            return;
        };
        let own = AckAndWindow {
            ack: noted.flow.rcv_nxt,
            window: noted.flow.window,
        };
        for leaves in withheld
            .download
            .boundaries
            .acks_below(own, scale, most, most)
        {
            let mut ack = noted.clone();
            (ack.flow.rcv_nxt, ack.flow.window) = (leaves.ack, leaves.window);
            if self.sender.send(&ack, MadeAck::Last, 1).is_err() {
                return;
            }
        }
    }

    /// From now on no ACK below the MH's own number leaves. Echoes are as of now, for the time `lasts` also
    /// in the MH's own ACKs.
    ///
    /// The ACK has no SACK blocks: the FH would take new blocks for the proof of a false alarm. The outage has
    /// lost the FH's retransmission of the oldest segment too. But Linux would then believe it to be in flight
    /// until the next RTO (`tcp_mark_skb_lost` after `tcp_try_undo_loss`).
    pub(super) fn renew_echo(&self, noted: &mut NotedFlow, lasts: Duration) {
        let clock = self.withheld(noted).map(|withheld| withheld.clock);
        noted.flow.sack = SackBlocks::default();
        let at = boottime();
        let mut woken = Woken {
            released: noted.flow.rcv_nxt,
            stale: None,
            echo: 0,
            at,
            ticks_per_s: 0,
            until: now() + lasts,
        };
        if let (Some(timestamps), Some(clock)) = (&mut noted.flow.timestamps, clock) {
            // The TSval of the newest segment may not have been echoed yet.
            let is_newer = (noted.fh_tsval.wrapping_sub(timestamps.tsecr) as i32) > 0;
            woken.stale = Some(if is_newer {
                noted.fh_tsval
            } else {
                timestamps.tsecr
            });
            woken.echo = clock.echo(at);
            woken.ticks_per_s = clock.ticks_per_s();
            timestamps.tsecr = woken.echo;
        }
        if let Err(error) = self.path.maps().wake(&noted.flow.key, &woken) {
            tracing::debug!(%error, "what leaves is not changed");
        }
    }
}
