// SPDX-License-Identifier: Apache-2.0
//! The packet worker: one thread, one engine, two devices.
//!
//! A frame's path, in the order of the functions: [`Worker::run`] calls `read_batch`
//! (`worker/reading.rs`), which reads from a device. [`Worker::handle`] and [`Worker::judge`] give
//! the segment to the engine, and the frame back to the kernel or not. [`Worker::perform`] does the
//! engine's actions. A frame that only passes costs one read and one write. The kernel alone copies
//! its payload, and nothing is allocated. While there is more to read the worker does not poll.

use std::io;
use std::time::Duration;

use holdfast_core::{Action, Actions, Direction, FlowKey, FlowRecord, Gateway, Settings, Verdict};
use holdfast_net::datapath::{DataPath, monotonic_ns, now};
use holdfast_net::frame::{BufferPool, Frame};
use holdfast_net::tun::LayerKind;
use holdfast_wire::{Instant, SackBlocks, SeqNum};

use super::emit::{self, Bounds};
use super::packet::{Content, Packet, classify};
use super::records::Records;
use super::station::{Fate, Station};
use crate::command::Inbox;
use crate::contain::contain;
use crate::outages::OutageSender;

mod attach;
mod handoff;
mod panics;
mod quarantine;
mod reading;
mod report;

pub(super) use attach::{attachment, path_name};
use panics::new_engine;
use quarantine::Quarantine;

/// Frames of one direction that are read in a row before the other has its turn.
const BATCH_FRAMES: usize = 64;

/// Actions for which room is kept from the start.
const ACTIONS_ROOM: usize = 1024;

/// Buffers beside those for the cache: for what is on its way.
const POOL_SPARE_BYTES: usize = 16 << 20;

/// The longest that giving back what was taken may take.
const LEAVE_MAX: Duration = Duration::from_secs(1);

/// How often the flows that owe bytes are looked for, once ordered to stop.
const OWED_LOOK: Duration = Duration::from_millis(20);

/// A worker that never waits reads its neighbours' messages once in this number of turns.
const NEIGHBOURS_EVERY: u32 = 16;

/// The uplink is read first. With copies at the mobile the FH is a local socket: it answers within
/// microseconds. So if both wait, the MH's segment came first.
const DIRECTIONS: [Direction; 2] = [Direction::Uplink, Direction::Downlink];

holdfast_core::counters! {
    /// What the worker counts.
    pub(in crate::gateway) struct WorkerCounters {
        /// Segments given back, all but those below as they came.
        forwarded = "forwarded",
        /// Of the forwarded, those with other SACK blocks.
        sack_replaced = "sack_replaced",
        /// Of the forwarded, those that were to have other SACK blocks, and could not.
        sack_not_replaced = "sack_not_replaced",
        /// Of the forwarded, those with another ACK.
        ack_replaced = "ack_replaced",
        /// Of the forwarded, those that were to have another ACK, and could not.
        ack_not_replaced = "ack_not_replaced",
        /// Segments not given back at once: cached for later, or answered.
        suppressed = "suppressed",
        /// Pieces sent from the cache.
        resent = "resent",
        /// ACKs and RSTs made.
        made = "made",
        /// ICMP messages sent to senders at MHs.
        unreachables = "unreachables",
        /// Segments with a wrong checksum, which passed.
        wrong_checksum = "wrong_checksum",
        /// Frames that were not understood, and passed.
        not_understood = "not_understood",
        /// ICMP messages that a packet was too big.
        too_big = "too_big",
        /// Segments that could not have been cached: no buffer was free.
        no_buffer = "no_buffer",
        /// Reads that had not even a buffer for a frame that only passes.
        starved = "starved",
        /// Frames that the kernel did not take.
        write_errors = "write_errors",
        /// Defects of Holdfast that were contained.
        panics = "panics",
    }
}

holdfast_core::counters! {
    gauge
    /// What the worker has at present.
    pub(in crate::gateway) struct WorkerGauges {
        /// Memory of the buffers in use.
        buffer_bytes = "buffer_bytes",
        /// Flows that pass because one of their packets caused a defect.
        quarantined = "quarantined",
        /// Flows with a dictionary for compression.
        dictionaries = "dictionaries",
    }
}

/// What a worker runs with.
#[derive(Clone, Debug)]
pub(super) struct WorkerSettings {
    /// Those of the mechanisms.
    pub(super) core: Settings,
    /// How long leaving waits for the MHs' ACKs of what is owed.
    pub(super) drain: Duration,
    /// The largest IP packet that the wired interface takes, where it was named, bytes.
    pub(super) wired_mtu: Option<u32>,
    /// The DSCP of retransmissions ahead of ordinary traffic, 0 to 63; none: its
    /// sender's.
    pub(super) resend_dscp: Option<u8>,
    /// Where outages are reported.
    pub(super) outages: OutageSender,
}

/// The state of the thread.
pub(super) struct Worker {
    path: DataPath,
    pool: BufferPool,
    engine: Gateway<Packet>,
    actions: Actions<Packet>,
    records: Records,
    inbox: Inbox,
    counters: WorkerCounters,
    settings: Settings,
    outages: OutageSender,
    /// Where the IP header starts, bytes.
    ip: usize,
    /// What frames of our own keep to.
    bounds: Bounds,
    /// How long leaving waits for the MHs' ACKs of what is owed.
    drain: Duration,
    /// When to stop at the latest, once ordered to.
    leave_by: Option<Instant>,
    /// When the flows that owe bytes are looked for next.
    owed_look_at: Instant,
    /// Frames to read of each direction in the next turn. One that was silent in the
    /// last turn is read once before it is waited for again: frames far between cost
    /// no call in vain.
    quota: [usize; 2],
    /// The last read found no buffer.
    starved: bool,
    /// The part of a base station, where there are neighbours.
    station: Option<Station>,
    /// The wireless interface has a carrier, as far as is known.
    has_carrier: bool,
    /// The frame that is handled was given back, or is to go nowhere.
    is_given: bool,
    /// The frame that is handled is a copy: it has passed.
    is_copy: bool,
    quarantine: Quarantine,
    /// Until when everything passes by, after too many defects.
    rests_until: Option<Instant>,
    /// A test's: a segment to or from this port is a defect.
    #[cfg(test)]
    defect: tests::PlantedDefect,
}

/// Where the IP header starts in a frame, bytes.
const fn ip_offset(kind: LayerKind) -> usize {
    match kind {
        LayerKind::Ethernet => 14,
        LayerKind::RawIp => 0,
    }
}

/// Slots are larger than what they hold.
const fn pool_bytes_max(settings: &Settings) -> usize {
    settings.cache_bytes_max * 2 + POOL_SPARE_BYTES
}

impl Worker {
    /// A worker for the data path; `found` is what a predecessor left.
    pub(super) fn new(
        path: DataPath,
        settings: WorkerSettings,
        records: Records,
        found: &[FlowRecord],
        inbox: Inbox,
        station: Option<Station>,
    ) -> Self {
        let WorkerSettings {
            core: settings,
            drain,
            wired_mtu,
            resend_dscp,
            outages,
        } = settings;
        let engine = new_engine(&settings, found);
        let interface = path.interface();
        let mut worker = Self {
            ip: ip_offset(interface.kind),
            bounds: Bounds {
                wireless_mtu: interface.mtu,
                wired_mtu,
                resend_dscp,
            },
            pool: BufferPool::new(pool_bytes_max(&settings)),
            engine,
            actions: Actions::with_capacity(ACTIONS_ROOM),
            records,
            inbox,
            counters: WorkerCounters::default(),
            settings,
            outages,
            drain,
            leave_by: None,
            owed_look_at: Instant::ZERO,
            quota: [BATCH_FRAMES; 2],
            starved: false,
            station,
            has_carrier: true,
            is_given: false,
            is_copy: false,
            quarantine: Quarantine::default(),
            rests_until: None,
            #[cfg(test)]
            defect: tests::PlantedDefect::default(),
            path,
        };
        if !worker.may_owe() {
            worker.engine.stop_acknowledging();
        }
        worker
    }

    /// Works until ordered to stop and all owed bytes are delivered.
    ///
    /// Errors: the devices or the wait for them broke.
    pub(super) fn run(mut self) -> io::Result<()> {
        let mut busy_turns: u32 = 0;
        loop {
            self.inbox.note_turn();
            // Without a beat the kernel passes everything on by itself.
            if !self.starved && self.rests_until.is_none() {
                self.path.beat(monotonic_ns());
            }
            let more = self.read_batches()?;
            while let Ok(command) = self.inbox.commands.try_recv() {
                self.obey(command);
            }
            self.run_deadlines();
            self.run_station()?;
            self.report_outages();
            if self.is_done() {
                return self.leave();
            }
            let more_of_station = self.station.as_ref().is_some_and(|one| one.is_readable);
            if more || more_of_station {
                self.quota = [BATCH_FRAMES; 2];
                busy_turns = busy_turns.wrapping_add(1);
                // Nothing is waited for, so what the neighbours have sent is not noticed.
                if busy_turns.is_multiple_of(NEIGHBOURS_EVERY)
                    && let Some(station) = &mut self.station
                {
                    station.is_readable = true;
                    station.drain_device();
                }
            } else {
                self.wait()?;
            }
        }
    }

    /// Judges one frame. A panic ends in this function, and the frame then passes.
    fn handle(&mut self, direction: Direction, frame: &Frame) {
        if self.rests_until.is_some() {
            self.pass(direction, frame);
            return;
        }
        self.is_given = false;
        if let Err(defect) = contain(|| self.judge(direction, frame)) {
            let key = contain(|| self.key_of(direction, frame)).ok().flatten();
            if !self.is_given {
                self.forward(direction, frame);
            }
            self.recover("packet", key, &defect);
        }
    }

    /// One frame as it came; a copy of a message is on its way already.
    fn pass(&mut self, direction: Direction, frame: &Frame) {
        let content = contain(|| classify(frame, direction, self.ip));
        if !matches!(content, Ok(Content::TooBig(_) | Content::Icmp)) {
            self.forward(direction, frame);
        }
    }

    /// Classifies a frame, gives its segment to the engine, and carries out the verdict.
    fn judge(&mut self, direction: Direction, frame: &Frame) {
        let now = now();
        match classify(frame, direction, self.ip) {
            Content::Segment(segment, _)
                if self.quarantine.holds(&FlowKey::of(&segment, direction)) =>
            {
                self.forward(direction, frame);
            }
            Content::Segment(segment, packet) => {
                #[cfg(test)]
                self.defect.meet(&segment);
                self.counters.no_buffer += u64::from(!frame.is_cacheable());
                if direction == Direction::Downlink
                    && let Some(station) = &mut self.station
                    && station.arrive(&segment, &packet, now) == Fate::Taken
                {
                    self.counters.suppressed += 1;
                    return;
                }
                let engine = &mut self.engine;
                match engine.handle_segment(direction, &segment, &packet, now, &mut self.actions) {
                    // Whatever the verdict, it has passed.
                    _ if self.is_copy => {}
                    Verdict::Forward => self.forward(direction, frame),
                    Verdict::ForwardWithSack(sack) => self.forward_with_sack(&packet, &sack),
                    Verdict::ForwardWithAck { ack, window } => {
                        self.forward_with_ack(&packet, ack, window);
                    }
                    Verdict::Suppress => self.counters.suppressed += 1,
                }
                if direction == Direction::Uplink
                    && let Some(station) = &mut self.station
                {
                    station.handle_uplink(&segment);
                }
            }
            Content::TooBig(too_big) => {
                // It was a copy: the message itself is on its way already.
                self.is_given = true;
                self.counters.too_big += 1;
                let key = FlowKey {
                    fh: too_big.from,
                    mh: too_big.to,
                };
                if !self.quarantine.holds(&key) {
                    self.engine
                        .handle_packet_too_big(&too_big, now, &mut self.actions);
                }
            }
            Content::Icmp => return,
            Content::WrongChecksum => {
                self.counters.wrong_checksum += 1;
                self.forward(direction, frame);
            }
            Content::Unknown => {
                self.counters.not_understood += 1;
                self.forward(direction, frame);
            }
        }
        self.perform();
    }

    /// One frame given back as it came.
    fn forward(&mut self, direction: Direction, frame: &Frame) {
        self.is_given = true;
        if self.is_copy {
            return;
        }
        self.counters.forwarded += 1;
        let written = self.path.forward(direction, frame);
        self.count_error(written);
    }

    /// One segment given back with other SACK blocks.
    fn forward_with_sack(&mut self, packet: &Packet, sack: &SackBlocks) {
        self.counters.forwarded += 1;
        self.is_given = true;
        let written = emit::forward_with_sack(&self.path, packet, sack).map(|is_replaced| {
            self.counters.sack_replaced += u64::from(is_replaced);
            self.counters.sack_not_replaced += u64::from(!is_replaced);
        });
        self.count_error(written);
    }

    /// One segment given back with another ACK.
    fn forward_with_ack(&mut self, packet: &Packet, ack: SeqNum, window: u16) {
        self.counters.forwarded += 1;
        self.is_given = true;
        let written = emit::forward_with_ack(&self.path, packet, ack, window).map(|is_replaced| {
            self.counters.ack_replaced += u64::from(is_replaced);
            self.counters.ack_not_replaced += u64::from(!is_replaced);
        });
        self.count_error(written);
    }

    /// What the engine wants done, in its order.
    fn perform(&mut self) {
        while let Some((peer, takes)) = self.engine.poll_peer() {
            let done = self.path.take_peer(peer, takes);
            self.count_error(done);
        }
        if self.actions.is_empty() {
            return;
        }
        let mut actions = std::mem::take(&mut self.actions);
        for action in actions.drain(..) {
            let written = match &action {
                Action::Resend(piece) => {
                    self.counters.resent += 1;
                    emit::resend(&self.path, piece, &self.bounds, &mut self.engine, now)
                }
                Action::Send(made) => {
                    self.counters.made += 1;
                    emit::send_made(&self.path, made, &self.engine)
                }
                Action::Repeat(packet) => {
                    self.counters.forwarded += 1;
                    emit::repeat(&self.path, packet, &self.engine)
                }
                Action::Notify(unreachable) => {
                    self.counters.unreachables += u64::from(unreachable.copies);
                    emit::send_unreachable(&self.path, unreachable, &self.engine)
                }
                Action::Record(record) => {
                    self.records.note(record);
                    Ok(())
                }
            };
            self.count_error(written);
        }
        // Back with its room, so that nothing is allocated next time.
        self.actions = actions;
    }

    fn count_error(&mut self, written: io::Result<()>) {
        if let Err(error) = written {
            self.counters.write_errors += 1;
            tracing::debug!(%error, "write");
        }
    }

    fn handle_deadlines(&mut self) {
        #[cfg(test)]
        self.defect.meet_deadline();
        let now = now();
        if self.engine.poll_timeout().is_some_and(|at| at <= now) {
            self.engine.handle_timeout(now, &mut self.actions);
            self.perform();
        }
    }

    /// Ordered to stop, and nothing is owed any more or the time for it is over.
    fn is_done(&mut self) -> bool {
        let Some(by) = self.leave_by else {
            return false;
        };
        let now = now();
        if by <= now {
            return true;
        }
        // The sum is over all flows: not in each turn.
        if now < self.owed_look_at {
            return false;
        }
        self.owed_look_at = now + OWED_LOOK;
        self.engine.owed_bytes() == 0
    }

    /// Gives back what was taken; the rest goes with the data path.
    fn leave(mut self) -> io::Result<()> {
        self.path.stop_taking();
        self.quota = [BATCH_FRAMES; 2];
        let give_up = now() + LEAVE_MAX;
        while now() < give_up && self.read_batches()? {}
        // A batch that was not full may have raced with the last frame taken.
        self.read_batches()?;
        // No other process can deliver what is owed now: both ends must know, also where the interface has
        // another name.
        self.path.end_silence();
        self.abandon_owed();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
