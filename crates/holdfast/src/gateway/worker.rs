// SPDX-License-Identifier: Apache-2.0
//! The packet worker: one thread, one engine, two devices.
//!
//! A frame's path, in the order of the functions: [`Worker::run`] calls `read_batch`
//! (`worker/reading.rs`), which reads from a device. [`Worker::handle`] and [`Worker::judge`] give
//! the segment to the engine, and carry out its verdict. [`Worker::perform`] does the engine's actions.
//! A frame that only passes costs one read, one write and no allocation. Only the kernel copies
//! its payload. While there is more to read the worker does not poll.

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

/// The limit of frames that are read in one direction before the other direction has its turn.
const BATCH_FRAMES: usize = 64;

/// The initial capacity for actions.
const ACTIONS_ROOM: usize = 1024;

/// Buffers besides those for the cache: for frames that only pass.
const POOL_SPARE_BYTES: usize = 16 << 20;

/// The limit of the time in which a leaving worker sends the frames that it has taken.
const LEAVE_MAX: Duration = Duration::from_secs(1);

/// A leaving worker checks at this interval whether bytes are still owed.
const OWED_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// A worker that never waits reads its neighbours' messages once in this number of turns.
const NEIGHBOURS_EVERY: u32 = 16;

/// The uplink is read first. At a mobile the FH is a local socket and answers within microseconds.
/// If both directions have a frame, the MH's segment came first.
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

/// The settings of a worker.
#[derive(Clone, Debug)]
pub(super) struct WorkerSettings {
    /// The settings of the mechanisms.
    pub(super) core: Settings,
    /// The longest that a leaving worker waits for the MHs' ACKs of owed bytes.
    pub(super) drain: Duration,
    /// The largest IP packet that the wired interface takes, bytes; none if the settings do not name it.
    pub(super) wired_mtu: Option<u32>,
    /// The DSCP of retransmissions that overtake ordinary traffic, 0 to 63. None: the
    /// sender's DSCP.
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
    /// The limits and marks of the frames that the worker builds.
    bounds: Bounds,
    /// The longest that a leaving worker waits for the MHs' ACKs of owed bytes.
    drain: Duration,
    /// The latest time to stop, once ordered to.
    leave_by: Option<Instant>,
    /// When the worker next checks whether bytes are owed.
    owed_check_at: Instant,
    /// Frames to read of each direction in the next turn. A direction that was silent in
    /// the last turn is read once before the next wait. If frames are far between, a second
    /// read would find nothing.
    quota: [usize; 2],
    /// The last read found no buffer.
    starved: bool,
    /// The part of a base station, if there are neighbours.
    station: Option<Station>,
    /// The last reported carrier of the wireless interface.
    has_carrier: bool,
    /// The frame in hand was forwarded, or must not be: a panic does not forward it once more.
    is_given: bool,
    /// The frame in hand is a copy of a frame that has passed.
    is_copy: bool,
    quarantine: Quarantine,
    /// Until this time all packets pass, after too many panics.
    rests_until: Option<Instant>,
    /// Only for tests: a segment to or from this port panics.
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

/// A buffer's slot is larger than its content, so the pool gets twice the cache's size.
const fn pool_bytes_max(settings: &Settings) -> usize {
    settings.cache_bytes_max * 2 + POOL_SPARE_BYTES
}

impl Worker {
    /// A worker for the data path; `found` are the records that a predecessor left.
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
            owed_check_at: Instant::ZERO,
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
            // Without a beat the kernel passes all packets.
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
                // Without a wait the worker does not notice what the neighbours have sent.
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

    /// Judges one frame. A panic does not leave this function: the frame then passes.
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

    /// Forwards one frame unchanged. A copy of an ICMP message is not forwarded: the original has passed.
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
                    // The original of a copy has passed, whatever the verdict.
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
                // The frame was a copy: the message itself has passed.
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

    /// Forwards one frame unchanged.
    fn forward(&mut self, direction: Direction, frame: &Frame) {
        self.is_given = true;
        if self.is_copy {
            return;
        }
        self.counters.forwarded += 1;
        let written = self.path.forward(direction, frame);
        self.count_error(written);
    }

    /// Forwards one segment with other SACK blocks.
    fn forward_with_sack(&mut self, packet: &Packet, sack: &SackBlocks) {
        self.counters.forwarded += 1;
        self.is_given = true;
        let written = emit::forward_with_sack(&self.path, packet, sack).map(|is_replaced| {
            self.counters.sack_replaced += u64::from(is_replaced);
            self.counters.sack_not_replaced += u64::from(!is_replaced);
        });
        self.count_error(written);
    }

    /// Forwards one segment with another ACK.
    fn forward_with_ack(&mut self, packet: &Packet, ack: SeqNum, window: u16) {
        self.counters.forwarded += 1;
        self.is_given = true;
        let written = emit::forward_with_ack(&self.path, packet, ack, window).map(|is_replaced| {
            self.counters.ack_replaced += u64::from(is_replaced);
            self.counters.ack_not_replaced += u64::from(!is_replaced);
        });
        self.count_error(written);
    }

    /// Does the engine's actions, in their order.
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
                    self.records.update(record);
                    Ok(())
                }
            };
            self.count_error(written);
        }
        // Reuse the buffer: the next turn allocates nothing.
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

    /// True if the worker was ordered to stop, and owes nothing or has waited for long enough.
    fn is_done(&mut self) -> bool {
        let Some(by) = self.leave_by else {
            return false;
        };
        let now = now();
        if by <= now {
            return true;
        }
        // The sum goes over all flows: too slow for each turn.
        if now < self.owed_check_at {
            return false;
        }
        self.owed_check_at = now + OWED_CHECK_INTERVAL;
        self.engine.owed_bytes() == 0
    }

    /// Sends the frames that were taken. Programs and devices are removed with the data path.
    fn leave(mut self) -> io::Result<()> {
        self.path.stop_taking();
        self.quota = [BATCH_FRAMES; 2];
        let give_up = now() + LEAVE_MAX;
        while now() < give_up && self.read_batches()? {}
        // A frame may have been taken while the last batch, which was not full, was read.
        self.read_batches()?;
        // No other process delivers the owed bytes now: both ends must be notified, even if the interface was
        // renamed.
        self.path.end_silence();
        self.abandon_owed();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
