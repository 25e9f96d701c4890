// SPDX-License-Identifier: Apache-2.0
//! A connection's links in the network, and what is noted about it.

use holdfast_link::MediumState;
use holdfast_wire::{Duration, Instant};

use super::{ConnectionId, Event, Network};
use crate::content::ContentKind;
use crate::observe::LinkId;
use crate::outcome::{Sample, Stall};
use crate::packet::NodeId;
use crate::tcp::{Connection, Ending};

/// A connection's end, and what is noted about it.
#[derive(Debug)]
pub(super) struct Slot {
    pub connection: Connection,
    pub node: NodeId,
    pub scheduled: Option<Instant>,
    pub opened: bool,
    /// The kind of payload that it sends.
    pub content: ContentKind,
    pub sender: Option<ConnectionId>,
    /// The end that its bytes are for.
    pub receiver: Option<ConnectionId>,
    /// The other half of a connection that is split here.
    pub relays_to: Option<u32>,
    pub watches: Option<LinkId>,
    pub series: Vec<Sample>,
    pub done_at: Option<Instant>,
    pub progressed_at: Instant,
    /// Most bytes acknowledged to this end that its receiver did not have yet.
    acknowledged_ahead_max: u64,
    expects: u64,
    settled: bool,
    delivered: u64,
    /// The link is up since this time, and no new byte has arrived in order.
    stalled_since: Option<Instant>,
    stalls: Vec<Stall>,
    /// None: not requested.
    arrivals: Option<Vec<(Instant, u64)>>,
}

/// Most arrivals that are noted.
const ARRIVALS_MAX: usize = 1_000_000;

impl Slot {
    pub(super) fn new(
        connection: Connection,
        node: NodeId,
        expects: u64,
        watches: Option<LinkId>,
    ) -> Self {
        Self {
            connection,
            node,
            scheduled: None,
            opened: false,
            content: ContentKind::Bulk,
            sender: None,
            receiver: None,
            relays_to: None,
            watches,
            series: Vec::new(),
            done_at: None,
            progressed_at: Instant::ZERO,
            acknowledged_ahead_max: 0,
            expects,
            settled: expects == 0,
            delivered: 0,
            stalled_since: None,
            stalls: Vec::new(),
            arrivals: None,
        }
    }

    /// A half of a connection that is split at `node`; `other` is the other half.
    pub(super) fn half(
        connection: Connection,
        node: NodeId,
        content: ContentKind,
        other: u32,
    ) -> Self {
        Self {
            content,
            opened: true,
            relays_to: Some(other),
            ..Self::new(connection, node, 0, None)
        }
    }

    /// Called after each input. True, once, when nothing more is expected.
    pub(super) fn note_progress(&mut self, now: Instant) -> bool {
        let delivered = self.connection.delivered();
        if delivered > self.delivered {
            self.delivered = delivered;
            self.end_stall(now, true);
            if let Some(noted) = &mut self.arrivals
                && noted.len() < ARRIVALS_MAX
            {
                noted.push((now, delivered));
            }
            self.progressed_at = now;
            if self.expects > 0 && delivered >= self.expects && self.done_at.is_none() {
                self.done_at = Some(now);
            }
        }
        (self.done_at.is_some() || self.is_dead()) && self.settle()
    }

    /// The connection was given up or reset.
    pub(super) fn is_dead(&self) -> bool {
        matches!(self.connection.ending(), Ending::GaveUp | Ending::Reset)
    }

    /// Nothing more is expected. True the first time.
    pub(super) fn settle(&mut self) -> bool {
        !core::mem::replace(&mut self.settled, true)
    }

    /// A link has changed its state; `begun`: one of the two ends has opened.
    pub(super) fn note_link(
        &mut self,
        link: LinkId,
        state: MediumState,
        begun: bool,
        now: Instant,
    ) {
        if self.watches != Some(link) || !begun || self.done_at.is_some() {
            return;
        }
        match state {
            MediumState::Down => self.end_stall(now, false),
            MediumState::Up => self.stalled_since = Some(now),
        }
    }

    fn end_stall(&mut self, now: Instant, ended: bool) {
        if let Some(since) = self.stalled_since.take() {
            self.stalls.push(Stall {
                link_up_at: since,
                length: now.saturating_since(since),
                ended,
            });
        }
    }

    /// All stalls; the present one is counted until `now`.
    pub(super) fn stalls_until(&self, now: Instant) -> Vec<Stall> {
        let mut stalls = self.stalls.clone();
        if let Some(since) = self.stalled_since {
            stalls.push(Stall {
                link_up_at: since,
                length: now.saturating_since(since),
                ended: false,
            });
        }
        stalls
    }
}

/// A point of the series; `link` is the queue and the state of the watched link.
fn sample(sender: &Slot, receiver: &Slot, link: Option<(u32, bool)>, now: Instant) -> Sample {
    let view = sender.connection.view();
    let (queue_packets, link_up) = link.unwrap_or((0, true));
    Sample {
        at: now,
        cwnd: view.cwnd,
        ssthresh: view.ssthresh,
        rwnd: view.rwnd,
        snd_una: view.snd_una,
        snd_nxt: view.snd_nxt,
        rcv_nxt: receiver.connection.delivered(),
        rto: view.rto,
        queue_packets,
        link_up,
    }
}

impl Network {
    /// Sets the interval of the points of time series.
    pub fn set_series_interval(&mut self, interval: Duration) {
        self.series_interval = Some(interval.max(Duration::from_micros(1)));
    }

    /// When the last byte expected arrived in order.
    pub fn delivered_at(&self, id: ConnectionId) -> Option<Instant> {
        self.slots[id.0 as usize].done_at
    }

    /// When anything last arrived in order.
    pub fn progressed_at(&self, id: ConnectionId) -> Instant {
        self.slots[id.0 as usize].progressed_at
    }

    /// From now on the arrivals of bytes in order at `receiver` are noted.
    pub fn note_arrivals(&mut self, receiver: ConnectionId) {
        self.slots[receiver.0 as usize].arrivals = Some(Vec::new());
    }

    /// When bytes reached it in order, with the total at each time.
    pub fn arrivals(&self, receiver: ConnectionId) -> &[(Instant, u64)] {
        let noted = self.slots[receiver.0 as usize].arrivals.as_deref();
        noted.unwrap_or_default()
    }

    /// The stalls after outages, so far.
    pub fn stalls(&self, id: ConnectionId) -> Vec<Stall> {
        self.slots[id.0 as usize].stalls_until(self.now)
    }

    /// The points of the time series of a receiver of bytes, seen with its sender.
    pub fn series(&self, receiver: ConnectionId) -> &[Sample] {
        &self.slots[receiver.0 as usize].series
    }

    /// Makes `sender` the other end of `receiver`, for its time series. If `sender` gives up, nothing
    /// more is expected at `receiver`.
    pub fn pair(&mut self, receiver: ConnectionId, sender: ConnectionId) {
        self.slots[receiver.0 as usize].sender = Some(sender);
        self.slots[sender.0 as usize].receiver = Some(receiver);
    }

    /// Links have changed: the hosts at their ends that watch their hardware get a report. A host is
    /// connected as long as any link toward it is up.
    pub(super) fn notify_mobiles(&mut self, links: &[LinkId]) {
        let now = self.now;
        for index in 0..self.slots.len() {
            let node = self.slots[index].node;
            let is_at_end = |link: &LinkId| self.links[link.0 as usize].to == node;
            if !self.slots[index].connection.watches_link() || !links.iter().any(is_at_end) {
                continue;
            }
            let media: Vec<u32> = self
                .links
                .iter()
                .filter(|link| link.to == node)
                .map(|link| link.medium)
                .collect();
            let mut up = false;
            for medium in media {
                let medium = &mut self.media[medium as usize];
                up |= medium.schedule.state_at(now) == MediumState::Up;
            }
            let mut out = core::mem::take(&mut self.scratch);
            let connection = &mut self.slots[index].connection;
            connection.handle_link(up, now, &mut out);
            self.send_all(index as u32, out);
        }
    }

    /// After an input of a sender: notes how far its ACKs are ahead of its receiver.
    pub(super) fn note_acknowledged(&mut self, id: u32) {
        let slot = &self.slots[id as usize];
        let Some(receiver) = slot.receiver else {
            return;
        };
        let acknowledged = slot.connection.acknowledged();
        let delivered = self.slots[receiver.0 as usize].connection.delivered();
        let slot = &mut self.slots[id as usize];
        let ahead = acknowledged.saturating_sub(delivered);
        slot.acknowledged_ahead_max = slot.acknowledged_ahead_max.max(ahead);
    }

    /// Most bytes that were acknowledged to `sender` before its receiver had them.
    pub fn acknowledged_ahead_max(&self, sender: ConnectionId) -> u64 {
        self.slots[sender.0 as usize].acknowledged_ahead_max
    }

    /// Adds a point to the series of each receiver that has a sender.
    pub(super) fn take_samples(&mut self) {
        for receiver in 0..self.slots.len() {
            if let Some(sender) = self.slots[receiver].sender {
                let queue = self.slots[receiver].watches.map(|link| {
                    let medium = self.links[link.0 as usize].medium;
                    let medium = &mut self.media[medium as usize];
                    let station = medium.station_of(link);
                    (
                        medium.model.queue_len_of(station) as u32,
                        // The model's own state is that at its last packet.
                        medium.schedule.state_at(self.now) == MediumState::Up,
                    )
                });
                let sample = sample(
                    &self.slots[sender.0 as usize],
                    &self.slots[receiver],
                    queue,
                    self.now,
                );
                self.slots[receiver].series.push(sample);
            }
        }
        if let Some(interval) = self.series_interval {
            self.queue.push(self.now + interval, Event::Sample);
        }
    }
}
