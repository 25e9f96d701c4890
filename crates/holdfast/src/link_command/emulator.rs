// SPDX-License-Identifier: Apache-2.0
//! The loop that moves packets between the two devices as the models decide.
//!
//! One thread. It sleeps until a packet comes, one is due, or the link's state changes; it never spins.

mod burst;
mod devices;
mod lane;
mod sampler;
mod start;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::Context as _;
use holdfast_link::{Departure, Enqueue, LinkPlan, MediumState, OutageSchedule, Station, seed_for};
use holdfast_net::datapath::{monotonic_ns, now};
use holdfast_wire::{Instant, dscp};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use devices::Devices;
use lane::{Carried, Lane};
use sampler::Sampler;
use start::Start;

use super::config::LinkConfig;
use super::endpoint::open_endpoint;
use super::event_log::{EventLog, LinkLogEvent};
use super::trace::LinkTrace;
use super::{CarrierArg, LinkArgs, Side, StartArg};

/// The longest time by which the kernel may delay a timer, in nanoseconds.
const TIMER_SLACK_NS: &str = "1000";
/// The nice value of the link's thread: a late link is a wrong link.
const NICE: i32 = -15;

/// Whether a packet is for one receiver. Multicast packets are the kernels' own.
fn is_unicast(packet: &[u8]) -> bool {
    match packet.first().map(|first| first >> 4) {
        Some(4) => packet.get(16).is_some_and(|&first| first < 224),
        Some(6) => packet.get(24).is_some_and(|&first| first != 0xff),
        _ => false,
    }
}

/// Makes the link punctual. By default the kernel may delay each timer by 50 us to save wake-ups, and
/// lets this thread wait for a processor like any other. Without the privilege to change this,
/// the link is exact only on an idle machine.
fn sharpen_timing() {
    drop(std::fs::write("/proc/self/timerslack_ns", TIMER_SLACK_NS));
    // Only for the calling thread.
    let _ = rustix::process::setpriority_process(None, NICE);
}

/// The signals that end a link, as a descriptor to wait for. SIGHUP is one of them: a terminal that
/// closes ends its programs.
pub(super) struct Signals {
    received: UnixStream,
}

impl Signals {
    /// Takes the signals over.
    pub(super) fn register() -> io::Result<Self> {
        let (received, sender) = UnixStream::pair()?;
        for signal in [SIGTERM, SIGINT, SIGQUIT, SIGHUP] {
            signal_hook::low_level::pipe::register(signal, sender.try_clone()?)?;
        }
        Ok(Self { received })
    }
}

/// A running link.
pub(super) struct Emulator {
    devices: Devices,
    downlink: Lane,
    uplink: Lane,
    outages_shared: bool,
    half_duplex: bool,
    frame_overhead_bytes: u32,
    carrier: Option<CarrierArg>,
    trace: Option<LinkTrace>,
    log: EventLog,
    log_packets: bool,
    sampler: Option<Sampler>,
    start: Option<Start>,
    /// Time zero of outages and traces, once they have started.
    origin: Instant,
    input: Option<File>,
    line: Vec<u8>,
}

impl Emulator {
    /// Creates the devices and the models.
    pub(super) fn open(args: &LinkArgs, config: &LinkConfig) -> anyhow::Result<Self> {
        let mut log = EventLog::open(args.log.as_deref())?;
        let fh = open_endpoint(
            "--fh",
            args.fh_ns.as_deref(),
            &args.fh_if,
            &args.fh_address,
            args,
        )?;
        let mh = open_endpoint(
            "--mh",
            args.mh_ns.as_deref(),
            &args.mh_if,
            &args.mh_address,
            args,
        )?;
        // One schedule for both directions if one was given for both.
        let schedule = |plan: &LinkPlan, direction: u64| {
            let part = if config.outages_shared { 0 } else { direction };
            OutageSchedule::new(&plan.outages, seed_for(config.seed, part))
        };
        let lane = |name, plan: &LinkPlan, direction| {
            let seed = seed_for(config.seed, direction);
            Lane::new(name, plan, seed, schedule(plan, direction))
        };
        let start = match (args.start_at, args.start) {
            (Some(ns), _) => Start::At(Instant::from_nanos(ns)),
            (None, StartArg::Now) => Start::At(now()),
            (None, StartArg::FirstPacket) => Start::FirstPacket,
            (None, StartArg::Line) => Start::Line,
        };
        let input = (start == Start::Line)
            .then(|| {
                io::stdin()
                    .as_fd()
                    .try_clone_to_owned()
                    .map(|fd: OwnedFd| File::from(fd))
            })
            .transpose()
            .context("--start line: no standard input")?;
        log.write(&LinkLogEvent::Ready {
            t_ns: monotonic_ns(),
            fh_if: fh.name(),
            fh_ifindex: fh.ifindex(),
            mh_if: mh.name(),
            mh_ifindex: mh.ifindex(),
            seed: config.seed,
        })?;
        Ok(Self {
            downlink: lane("downlink", &config.downlink, 1),
            uplink: lane("uplink", &config.uplink, 2),
            devices: Devices::new(fh, mh),
            outages_shared: config.outages_shared,
            half_duplex: config.half_duplex,
            frame_overhead_bytes: config.frame_overhead_bytes,
            trace: LinkTrace::create(args)?,
            carrier: args.carrier,
            log,
            log_packets: args.log_packets,
            sampler: args.sample_interval.map(Sampler::new),
            start: Some(start),
            origin: Instant::ZERO,
            input,
            line: Vec::new(),
        })
    }

    /// Moves packets until a signal comes.
    pub(super) fn run(&mut self, signals: &Signals) -> anyhow::Result<()> {
        sharpen_timing();
        loop {
            self.start_if_due(now())?;
            self.follow_outages(now())?;
            self.sample_until(now())?;
            self.read_device(Side::Fh)?;
            self.read_device(Side::Mh)?;
            self.deliver(self.model_now())?;
            if self.wait(signals)? {
                return self.finish();
            }
        }
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        if let Some(trace) = self.trace.take() {
            trace.finish()?;
        }
        self.log.write(&LinkLogEvent::End {
            t_ns: monotonic_ns(),
            downlink: &self.downlink.model.counters(),
            uplink: &self.uplink.model.counters(),
            device_drops: self.devices.drops,
        })
    }

    /// Waits for the first event; true if the link must end.
    fn wait(&mut self, signals: &Signals) -> anyhow::Result<bool> {
        let timeout = self.timeout();
        let watched = (
            signals.received.as_fd(),
            self.input.as_ref().map(AsFd::as_fd),
        );
        let [ended, line] = self.devices.wait(watched, timeout)?;
        if line {
            self.read_line()?;
        }
        Ok(ended)
    }

    /// The time until something is due.
    fn timeout(&mut self) -> Option<Duration> {
        let start = match self.start {
            Some(Start::At(at)) => Some(at),
            _ => None,
        };
        let change = self.next_change();
        let sample = self.next_sample();
        let models = [
            self.downlink.model.poll_timeout(),
            self.uplink.model.poll_timeout(),
        ];
        let due = [models[0], models[1], start, change, sample]
            .into_iter()
            .flatten()
            .min()?;
        Some(due.saturating_since(now()))
    }

    /// The next change of either direction for carrier and log.
    fn next_change(&mut self) -> Option<Instant> {
        if self.start.is_some() {
            return None;
        }
        let changes = [self.downlink.next_change(), self.uplink.next_change()];
        let change = changes.into_iter().flatten().min()?;
        Some(self.absolute(change))
    }

    fn absolute(&self, model_time: Instant) -> Instant {
        self.origin + model_time.saturating_since(Instant::ZERO)
    }

    /// The time for the models. It stops at a start that is still to come.
    fn model_now(&self) -> Instant {
        match self.start {
            Some(Start::At(at)) => now().min(at),
            _ => now(),
        }
    }

    /// Lets carrier and log follow the outages up to `now`.
    fn follow_outages(&mut self, now: Instant) -> anyhow::Result<()> {
        if self.start.is_some() {
            return Ok(());
        }
        let model_time = Instant::ZERO + now.saturating_since(self.origin);
        let mut changed = false;
        for side in [Side::Fh, Side::Mh] {
            while let Some((at, state)) = self.lane(side).follow(model_time) {
                changed = true;
                let t = self.absolute(at);
                let lane = self.lane(side);
                lane.returned_at = (state == MediumState::Up).then_some(t);
                let direction = if self.outages_shared {
                    "both"
                } else {
                    self.lane(side).name
                };
                if self.outages_shared && side == Side::Mh {
                    continue;
                }
                let t_ns = t.as_nanos();
                self.log.write(&match state {
                    MediumState::Down => LinkLogEvent::OutageBegin { t_ns, direction },
                    MediumState::Up => LinkLogEvent::OutageEnd { t_ns, direction },
                })?;
            }
        }
        if let Some(devices) = self.carrier.filter(|_| changed) {
            let up = [&self.downlink, &self.uplink]
                .iter()
                .all(|lane| lane.state == MediumState::Up);
            if devices == CarrierArg::Both {
                self.devices.fh.set_carrier(up)?;
            }
            self.devices.mh.set_carrier(up)?;
        }
        Ok(())
    }

    /// The direction that begins at `side`.
    fn lane(&mut self, side: Side) -> &mut Lane {
        match side {
            Side::Fh => &mut self.downlink,
            Side::Mh => &mut self.uplink,
        }
    }

    /// The direction whose model a packet from `side` goes through, and the packet's station there: on a
    /// half-duplex medium the two ends take turns.
    fn medium(&self, side: Side) -> (Side, Station) {
        match side {
            Side::Mh if self.half_duplex => (Side::Fh, Station::Second),
            side => (side, Station::First),
        }
    }

    /// Gives the model the packets that wait in a device.
    fn read_device(&mut self, side: Side) -> anyhow::Result<()> {
        while let Some(bytes) = self.devices.read(side)? {
            let t = self.model_now();
            if self.start == Some(Start::FirstPacket) && is_unicast(&bytes) {
                self.start_at(t)?;
            }
            if let Some(trace) = &mut self.trace {
                trace.entered(side, t, &bytes)?;
            }
            let on_medium = bytes.len() as u64 + u64::from(self.frame_overhead_bytes);
            let (medium, station) = self.medium(side);
            let lane = self.lane(medium);
            let priority = lane.plan.priority_of(dscp(&bytes));
            let packet = Carried { from: side, bytes };
            // The model counts what it drops.
            let _: Enqueue = lane
                .model
                .enqueue_from(station, priority, packet, on_medium, t);
        }
        Ok(())
    }

    /// Writes the packets that are due into the devices.
    fn deliver(&mut self, now: Instant) -> anyhow::Result<()> {
        for side in [Side::Fh, Side::Mh] {
            while let Some(departure) = self.lane(side).model.poll_departure(now) {
                self.log_departure(side, &departure)?;
                self.write_device(departure)?;
            }
        }
        Ok(())
    }

    fn write_device(&mut self, departure: Departure<Carried>) -> anyhow::Result<()> {
        let Carried {
            from,
            bytes: mut packet,
        } = departure.packet;
        let to = match from {
            Side::Fh => Side::Mh,
            Side::Mh => Side::Fh,
        };
        for bit in departure.flipped_bits {
            // The last bits may be in the frame around the packet.
            if let Some(byte) = packet.get_mut(bit as usize / 8) {
                *byte ^= 0x80 >> (bit % 8);
            }
        }
        if let Some(trace) = &mut self.trace {
            trace.left(from, departure.at, &packet)?;
        }
        self.devices.write(to, packet)
    }

    fn log_departure(
        &mut self,
        medium: Side,
        departure: &Departure<Carried>,
    ) -> anyhow::Result<()> {
        let from = departure.packet.from;
        let direction = self.lane(from).name;
        let lane = self.lane(medium);
        if let Some(returned_at) = lane
            .returned_at
            .take_if(|returned| *returned <= departure.at)
        {
            self.log.write(&LinkLogEvent::FirstPacket {
                t_ns: departure.at.as_nanos(),
                direction,
                after_ns: departure.at.saturating_since(returned_at).as_nanos() as u64,
            })?;
        }
        if self.log_packets && from == Side::Fh {
            self.log.write(&LinkLogEvent::Delivered {
                t_ns: departure.at.as_nanos(),
                len_bytes: departure.packet.bytes.len() as u64,
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
