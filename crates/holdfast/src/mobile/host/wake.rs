// SPDX-License-Identifier: Apache-2.0
//! What `wake` needs of the data path: which flows pause, the packets of a wake-up, and what the
//! programs are to know of flows that are woken.

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

/// The counter of segments that have come.
const SEGMENTS_RECEIVED: &str = "noted_ingress";
/// How often it is looked which flows pause, where the programs have no timers.
const LOOK_FOR_PAUSES: Duration = Duration::from_millis(25);

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
        // Of each waiting: the interface, and with it the ring, comes and goes.
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

    /// Takes the word of flows that pause.
    pub(in crate::mobile) fn handle_pauses(&mut self) {
        let Some(attached) = &self.attached else {
            return;
        };
        let Some(pauses) = &attached.pauses else {
            return;
        };
        let paused = match pauses.take() {
            Ok(paused) => paused,
            Err(error) => {
                tracing::warn!(%error, "pauses");
                return;
            }
        };
        // Else the MH itself has sent a newer ACK.
        let newest = |pause| attached.path.maps().paused(pause).ok().flatten();
        let pausing: Vec<_> = paused.iter().filter_map(newest).collect();
        self.acknowledge(&pausing);
    }

    /// These flows pause: their withheld segments are acknowledged.
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

    /// What the programs do by timers where they can.
    pub(super) fn look_for_pauses(&mut self) {
        let now = now();
        let Some(attached) = &mut self.attached else {
            return;
        };
        if attached.look_at.is_none_or(|at| at > now) {
            return;
        }
        attached.look_at = Some(now + LOOK_FOR_PAUSES);
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
    /// How many segments have come, of all flows; none: that cannot be read.
    pub(super) fn segments_received(&self) -> Option<u64> {
        let counters = self.path.counters().unwrap_or_else(|error| {
            // Tried several times a second.
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

    /// A made ACK has the MH's own number: nothing below leaves any more.
    pub(super) fn release(&self, noted: &NotedFlow) {
        let (key, ack) = (&noted.flow.key, noted.flow.rcv_nxt);
        if let Err(error) = self.path.maps().release(key, ack) {
            tracing::debug!(%error, "what leaves is not changed");
        }
    }

    /// Sends the packets that wake the FH.
    ///
    /// Errors: of the last one.
    pub(super) fn wake_up(&self, wake_up: &WakeUp, noted: &mut NotedFlow) -> io::Result<()> {
        if wake_up.sends_ack {
            self.renew_echo(noted, wake_up.renews_echo_for);
        }
        // They may find no room on the interface; what counts comes after them.
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
        for leaves in withheld.download.boundaries.steps(own, scale, most, most) {
            let mut ack = noted.clone();
            (ack.flow.rcv_nxt, ack.flow.window) = (leaves.ack, leaves.window);
            if self.sender.send(&ack, MadeAck::Last, 1).is_err() {
                return;
            }
        }
    }

    /// Nothing below the MH's own number leaves any more, and echoes are as of now, those of the MH's
    /// own ACKs for this time.
    ///
    /// The ACK has no SACK blocks. The FH would take blocks that are new to it for the proof of a
    /// false alarm; Linux then believes its retransmission of the oldest segment, which the outage has
    /// lost too, to be on the way until its next RTO (`tcp_mark_skb_lost` after `tcp_try_undo_loss`).
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
            // What came last may not have been echoed yet.
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
