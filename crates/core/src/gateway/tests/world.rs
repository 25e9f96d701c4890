// SPDX-License-Identifier: Apache-2.0
//! FH, wired half, gateway, wireless half and MH on a virtual clock, with checks at every moment.

use core::time::Duration;

use holdfast_wire::{Flags, Instant, Segment, SeqNum};
use rand_chacha::ChaCha8Rng;
use rand_core::Rng;

use super::agenda::Agenda;
use super::compression::Daemon;
use super::host::Host;
use crate::gateway::flows::Row;
use crate::link_state::{LinkEvent, LinkSource};
use crate::testing::{FH, MH, Packet, direction_of};
use crate::{Action, Direction, FlowRecord, Gateway, Settings, Side, Stage, Verdict};

mod actions;
mod checks;
pub(super) mod forger;
pub(super) mod own_engine;
mod path;
mod trace;

use forger::{Forger, Watch};
use own_engine::{OwnEngine, Site};

/// Loss and duplication are in 1/1000.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Half {
    pub delay: Duration,
    pub jitter: Duration,
    pub loss: u64,
    pub duplication: u64,
    /// Bytes a second; 0 for no limit.
    pub rate: u64,
    pub queue_max: Duration,
}

/// What happens.
#[derive(Clone, Debug)]
pub(super) enum Event {
    ToGateway(Direction, Packet),
    ToHost(Side, Packet),
    /// ICMP about this number reaches the MH.
    Unreachable(SeqNum),
    /// A segment of an attacker reaches an end.
    ForgedToHost(Side, Packet),
    /// The wireless half goes up or down.
    Link(bool),
    /// A link source reports this to the gateway.
    Signal(LinkEvent, LinkSource),
    /// A new engine replaces the old one.
    Restart,
    /// Segments pass the engine by: it hangs, or is not there.
    Bypass(bool),
    Read(Side, usize),
    /// The MH's daemon starts or dies; and registers its abilities.
    Daemon(bool),
    Register,
    /// The link source at the mobile reports to its daemon; the daemon's engine is replaced, or it hangs.
    OwnLink(LinkEvent),
    OwnRestart,
    OwnHang(bool),
    /// The wired half goes up or down.
    Wired(bool),
    /// The end of all faults.
    Heal,
    /// An end resets the connection, vanishes, or sends its FIN again.
    Abort(Side),
    Vanish(Side),
    RepeatFin(Side),
}

/// What the engine was given.
#[derive(Clone, Debug)]
pub(super) enum Input {
    Segment(Direction, Packet),
    Timeout,
    Link(LinkEvent, LinkSource),
}

/// An input, and what the engine did, as text.
pub(super) struct Tapped {
    pub at: Instant,
    pub input: Input,
    pub output: String,
}

/// Inputs of one case, at most: a loop of ACKs would exceed it.
const INPUTS_MAX: u64 = 400_000;

pub(super) struct World {
    pub now: Instant,
    pub fh: Host,
    pub mh: Host,
    pub wired: Half,
    pub wireless: Half,
    pub link_is_up: bool,
    wired_is_up: bool,
    /// Packets on the link in an outage are queued, not lost.
    pub queues_in_outage: bool,
    queued: Vec<(Direction, Packet)>,
    pub gateway: Gateway<Packet>,
    /// The engine of the mobile's own daemon, if it has one.
    own_engine: Option<OwnEngine>,
    /// What that one has retransmitted.
    pub own_resent: u64,
    /// Segments without data that it has made.
    pub own_made: u64,
    /// Restores compressed segments at the MH.
    pub daemon: Daemon,
    settings: Settings,
    records: Option<FlowRecord>,
    /// When the engine last received a segment or sent one to the FH.
    pub seen_at: Instant,
    /// The segment that the engine received last.
    judged: Option<Segment>,
    pub bypass: bool,
    carrier_down: bool,
    pub uncacheable: u64,
    /// Super-segments come in pieces.
    pub splits: u64,
    rng: ChaCha8Rng,
    agenda: Agenda<Event>,
    busy_until: [Instant; 2],
    /// The FH's bytes that have passed this engine, and where the first hole is.
    arrived: Vec<bool>,
    arrived_end: i64,
    /// The highest of the MH's ACKs, window edges and timestamps that have passed.
    mh_acked: i64,
    mh_tsval: Option<u32>,
    /// The MH's bytes, and its FIN, that have passed this engine; the highest of the FH's ACKs and
    /// window edges that have.
    mh_passed: Vec<bool>,
    fh_acked: i64,
    fh_edge: i64,
    /// Both ends may be reset: bytes were owed when the engine died.
    pub may_reset: bool,
    /// The engine dies, or segments go round it.
    pub interrupted: bool,
    pub trace: bool,
    pub made: u64,
    pub resent: u64,
    /// Bytes of the FH that passed more than once.
    pub fh_retransmitted: u64,
    /// ACKs made for the MH, and retransmissions to the FH.
    pub reported: u64,
    pub resent_uplink: u64,
    /// What the gateway sends is not checked, only what the ends receive.
    pub lenient: bool,
    /// An attacker, if there is one.
    pub forger: Option<Forger>,
    /// All inputs of the engine, if they are wanted.
    pub tap: Option<Vec<Tapped>>,
    /// Whether idle flows are packed before each segment; and how often one was.
    pub packs: bool,
    pub packed: usize,
    /// How the flow was tracked each time that the link went down.
    pub watch: Watch,
}

impl World {
    pub(super) fn new(fh: Host, mh: Host, settings: Settings, rng: ChaCha8Rng) -> Self {
        let arrived = vec![false; fh.sending.len() + 1];
        let mh_passed = vec![false; mh.sending.len() + 1];
        Self {
            now: Instant::from_millis(1000),
            fh,
            mh,
            wired: Half::default(),
            wireless: Half::default(),
            link_is_up: true,
            wired_is_up: true,
            queues_in_outage: false,
            queued: Vec::new(),
            gateway: Gateway::new(settings.clone()),
            own_engine: None,
            own_resent: 0,
            own_made: 0,
            daemon: Daemon::default(),
            settings,
            records: None,
            seen_at: Instant::ZERO,
            judged: None,
            bypass: false,
            carrier_down: false,
            uncacheable: 0,
            splits: 0,
            rng,
            agenda: Agenda::of_inputs(INPUTS_MAX),
            busy_until: [Instant::ZERO; 2],
            arrived,
            arrived_end: 0,
            mh_acked: 0,
            mh_tsval: None,
            mh_passed,
            fh_acked: 0,
            fh_edge: 0,
            may_reset: false,
            interrupted: false,
            trace: false,
            made: 0,
            resent: 0,
            fh_retransmitted: 0,
            reported: 0,
            resent_uplink: 0,
            lenient: false,
            forger: None,
            tap: None,
            packs: false,
            packed: 0,
            watch: Watch::default(),
        }
    }

    /// Notes an input and what comes of it.
    fn note(&mut self, input: Input, verdict: Verdict, actions: &[Action<Packet>]) {
        if let Some(tap) = &mut self.tap {
            let (at, output) = (self.now, format!("{verdict:?} {actions:?}"));
            tap.push(Tapped { at, input, output });
        }
    }

    fn chance(&mut self, thousandths: u64) -> bool {
        thousandths > 0 && u64::from(self.rng.next_u32()) % 1000 < thousandths
    }

    pub(super) fn at(&mut self, at: Instant, event: Event) {
        self.interrupted |= matches!(event, Event::Restart | Event::Bypass(true));
        self.agenda.at(at, event);
    }

    fn host(&mut self, side: Side) -> &mut Host {
        match side {
            Side::Fh => &mut self.fh,
            Side::Mh => &mut self.mh,
        }
    }

    /// Runs until both ends are done (or reset), or until `deadline`.
    pub(super) fn run_until(&mut self, deadline: Instant, stop_when_done: bool) {
        loop {
            if stop_when_done && self.is_settled() {
                return;
            }
            let timers = [
                self.fh.deadline(),
                self.mh.deadline(),
                self.gateway.poll_timeout().filter(|_| !self.bypass),
                self.own_timeout(),
            ];
            let next = timers
                .into_iter()
                .flatten()
                .chain(self.agenda.next_at())
                .min();
            let Some(next) = next.filter(|next| *next <= deadline) else {
                self.now = self.now.max(deadline);
                return;
            };
            self.now = self.now.max(next);
            match self.agenda.take(next) {
                Some(event) => self.handle(event),
                None => self.handle_timeouts(),
            }
        }
    }

    fn is_settled(&self) -> bool {
        (self.fh.is_done() && self.mh.is_done()) || (self.fh.reset && self.mh.reset)
    }

    fn handle_timeouts(&mut self) {
        let now = self.now;
        for side in [Side::Fh, Side::Mh] {
            if self.host(side).deadline().is_some_and(|at| at <= now) {
                let mut out = Vec::new();
                self.host(side).handle_timeout(now, &mut out);
                self.transmit(side, out);
            }
        }
        self.run_own_engine();
        let due = self.gateway.poll_timeout().is_some_and(|at| at <= now);
        if due && !self.bypass {
            let mut actions = Vec::new();
            self.gateway.handle_timeout(now, &mut actions);
            self.note(Input::Timeout, Verdict::Forward, &actions);
            let next = self.gateway.poll_timeout();
            assert!(
                next.is_none_or(|at| at > now),
                "a timer runs hot: {next:?} at {now:?}"
            );
            self.act(actions);
        }
    }

    fn handle(&mut self, event: Event) {
        if self.trace {
            self.print_event(&event);
        }
        match event {
            Event::ToGateway(direction, packet) => {
                if self.packs {
                    self.gateway.flows.shrink_all();
                    let rows = self.gateway.flows.rows();
                    self.packed += rows.filter(|row| matches!(row, Row::Idle(_))).count();
                }
                if direction == Direction::Downlink && self.has_own_engine(Site::Gateway) {
                    self.pass_own_engine(false, packet);
                } else {
                    self.arrive(direction, &packet);
                }
            }
            Event::ToHost(Side::Fh, packet) => self.reach(Side::Fh, &packet),
            Event::ToHost(Side::Mh, packet) if self.has_own_engine(Site::Mobile) => {
                self.pass_own_engine(false, packet);
            }
            Event::ToHost(Side::Mh, packet) => self.reach_mh(packet),
            Event::Unreachable(seq) => self.mh.on_unreachable(seq),
            Event::Read(side, bytes) => {
                let (now, mut out) = (self.now, Vec::new());
                self.host(side).read(bytes, now, &mut out);
                self.transmit(side, out);
            }
            Event::ForgedToHost(side, packet) => self.refuse_forged(side, packet),
            Event::Link(link_is_up) => {
                if !link_is_up {
                    self.note_whether_tracked();
                }
                self.link_is_up = link_is_up;
                if link_is_up {
                    for (direction, packet) in core::mem::take(&mut self.queued) {
                        self.over_wireless(direction, packet);
                    }
                }
            }
            Event::Signal(event, source) => self.signal(event, source),
            Event::Restart => self.restart(),
            Event::Bypass(bypass) => self.bypass = bypass,
            Event::OwnLink(event) => self.report_to_own_engine(event),
            Event::OwnRestart => self.renew_own_engine(None),
            Event::Wired(is_up) => self.wired_is_up = is_up,
            Event::OwnHang(hangs) => {
                if let Some(own) = &mut self.own_engine {
                    own.hangs = hangs;
                }
            }
            Event::Daemon(lives) => self.daemon.set_alive(lives),
            Event::Register => self.register(),
            Event::Heal => self.heal(),
            Event::Abort(side) => {
                self.may_reset = true;
                self.let_end(side, Host::abort);
            }
            Event::Vanish(side) => {
                // The bytes owed to a vanished MH are given up.
                self.may_reset = true;
                self.host(side).gone = true;
            }
            Event::RepeatFin(side) => self.let_end(side, Host::repeat_fin),
        }
    }

    /// A segment reaches the MH.
    fn reach_mh(&mut self, packet: Packet) {
        if let Some(packet) = self.daemon.restore(packet, self.now) {
            self.reach(Side::Mh, &packet);
        }
    }

    /// A segment reaches an end.
    fn reach(&mut self, side: Side, packet: &Packet) {
        let (now, mut out) = (self.now, Vec::new());
        self.host(side).receive(packet, now, &mut out);
        assert!(
            !self.host(side).reset || self.may_reset,
            "{side:?} was reset"
        );
        self.fh.check_received(&self.mh);
        self.mh.check_received(&self.fh);
        self.transmit(side, out);
    }

    fn signal(&mut self, event: LinkEvent, source: LinkSource) {
        let (now, mut actions) = (self.now, Vec::new());
        if source == LinkSource::Carrier {
            self.carrier_down = event == LinkEvent::Down;
            self.gateway
                .handle_all_links(event, source, now, &mut actions);
        } else {
            self.gateway
                .handle_link(&[MH.address], event, source, now, &mut actions);
        }
        self.note(Input::Link(event, source), Verdict::Forward, &actions);
        self.act(actions);
    }

    fn heal(&mut self) {
        for half in [&mut self.wired, &mut self.wireless] {
            (half.loss, half.duplication, half.jitter) = (0, 0, Duration::ZERO);
        }
        (self.bypass, self.uncacheable) = (false, 0);
        self.wired_is_up = true;
        self.handle(Event::OwnHang(false));
        self.handle(Event::Link(true));
        self.report_to_own_engine(LinkEvent::Up);
        if self.carrier_down {
            self.signal(LinkEvent::Up, LinkSource::Carrier);
        }
    }

    fn restart(&mut self) {
        let owed = self.records.and_then(|record| record.owed);
        self.may_reset |= owed.is_some();
        self.gateway = Gateway::new(self.settings.clone());
        if let Some(record) = self.records {
            self.gateway.import(&record, self.now);
        }
        if self.carrier_down {
            self.signal(LinkEvent::Down, LinkSource::Carrier);
        }
        self.arrived.fill(false);
        self.mh_passed.fill(false);
        (self.watch.followed, self.watch.closed) = (false, false);
        self.arrived_end = self.mh_acked;
        self.mh_tsval = None;
    }

    /// A segment reaches the gateway.
    fn arrive(&mut self, direction: Direction, packet: &Packet) {
        if self.bypass {
            let input = Input::Segment(direction, packet.clone());
            self.note(input, Verdict::Forward, &[]);
            self.send_out(direction, packet.clone());
            return;
        }
        self.seen_at = self.now;
        self.forge(direction, packet);
        let segment = &packet.segment;
        match direction {
            Direction::Downlink => {
                let from = self.mh.peer_offset(segment.seq);
                for offset in from.max(0)..from + i64::from(packet.segment.payload_len) {
                    let before = core::mem::replace(&mut self.arrived[offset as usize], true);
                    self.fh_retransmitted += u64::from(before);
                }
                let ack = self.mh.sent_offset(segment.ack);
                let window = i64::from(segment.window) << self.fh.profile.window_scale;
                self.fh_acked = self.fh_acked.max(ack);
                self.fh_edge = self.fh_edge.max(ack + window);
            }
            Direction::Uplink => {
                self.mh_acked = self.mh_acked.max(self.fh.sent_offset(segment.ack));
                let from = self.fh.peer_offset(segment.seq);
                for offset in from.max(0)..from + i64::from(segment.len()) {
                    self.mh_passed[offset as usize] = true;
                }
            }
        }
        self.arrived_end = self.arrived_end.max(self.mh_acked);
        while self.arrived.get(self.arrived_end as usize) == Some(&true) {
            self.arrived_end += 1;
        }
        let mut actions = Vec::new();
        self.judged = Some(*segment);
        let verdict =
            self.gateway
                .handle_segment(direction, segment, packet, self.now, &mut actions);
        self.note(Input::Segment(direction, packet.clone()), verdict, &actions);
        if direction == Direction::Uplink {
            self.note_mh_tsval(segment);
        }
        let judged = packet.judged(verdict);
        self.check_judged(verdict, judged.as_ref());
        if let Some(packet) = judged {
            self.send_out(direction, packet);
        }
        self.act(actions);
        self.note_followed(direction);
    }

    /// The newest of the MH's timestamps that an engine knew whose flow was open.
    fn note_mh_tsval(&mut self, segment: &Segment) {
        let tsval = segment.options.timestamps.map(|ts| ts.tsval);
        let newer = |new: u32| {
            self.mh_tsval
                .is_none_or(|old| (new.wrapping_sub(old) as i32) > 0)
        };
        let open = self
            .gateway
            .flows
            .iter()
            .map(|row| &row.flow)
            .any(|flow| flow.stage == Stage::Open);
        if open && tsval.is_some_and(newer) {
            self.mh_tsval = tsval;
        }
    }

    /// The MH's word of what it can do reaches the gateway.
    fn register(&mut self) {
        if let Some((abilities, session)) = self.daemon.abilities() {
            let until = self.now + Duration::from_secs(90);
            self.gateway
                .handle_abilities(&[MH.address], abilities, session, until);
        }
    }

    /// The SYNs pass.
    pub(super) fn shake_hands(&mut self, opener: Side) {
        self.watch.opener = Some(opener);
        let (opens, answers) = match opener {
            Side::Fh => (&self.fh, &self.mh),
            Side::Mh => (&self.mh, &self.fh),
        };
        let syn = opens.syn(Flags::SYN, 0);
        let next = opens.profile.iss.wrapping_add(1);
        let syn_ack = answers.syn(Flags::SYN.with(Flags::ACK), next);
        if opener == Side::Fh {
            self.mh_tsval = syn_ack.segment.options.timestamps.map(|ts| ts.tsval);
        }
        for packet in [syn, syn_ack] {
            let direction = direction_of(&packet.segment);
            let verdict = self.gateway.handle_segment(
                direction,
                &packet.segment,
                &packet,
                self.now,
                &mut Vec::new(),
            );
            assert_eq!(verdict, Verdict::Forward);
        }
        assert_eq!(self.fh.profile.me, FH);
    }

    /// The farthest byte of this end has come by the engine.
    pub(super) fn saw_all_of(&self, side: Side) -> bool {
        let (passed, max) = match side {
            Side::Fh => (&self.arrived, self.fh.max),
            Side::Mh => (&self.mh_passed, self.mh.max),
        };
        max == 0 || passed[max as usize - 1]
    }

    /// An end does something.
    fn let_end(&mut self, side: Side, act: fn(&mut Host, Instant, &mut Vec<Packet>)) {
        let (now, mut out) = (self.now, Vec::new());
        act(self.host(side), now, &mut out);
        self.transmit(side, out);
    }

    /// Both ends send a keep-alive.
    pub(super) fn keep_alive(&mut self) {
        for side in [Side::Fh, Side::Mh] {
            self.let_end(side, Host::keep_alive);
        }
    }

    /// The same ports are used again, by other ends: the SYNs pass. Nothing of the old
    /// connection is on its direction any more.
    pub(super) fn reconnect(&mut self, fh: Host, mh: Host) {
        self.agenda
            .forget(|event| matches!(event, Event::ToGateway(..) | Event::ToHost(..)));
        self.arrived = vec![false; fh.sending.len() + 1];
        self.mh_passed = vec![false; mh.sending.len() + 1];
        (self.arrived_end, self.mh_acked, self.fh_acked, self.fh_edge) = (0, 0, 0, 0);
        self.mh_tsval = None;
        (self.fh, self.mh) = (fh, mh);
        self.shake_hands(self.watch.opener.unwrap_or(Side::Mh));
    }

    /// Both ends begin.
    pub(super) fn begin(&mut self) {
        let opener = self.watch.opener.unwrap_or(Side::Mh);
        // The third segment of the handshake.
        self.let_end(opener, Host::send_ack);
        self.let_end(opener, Host::pump);
        self.let_end(opener.sends().toward(), Host::pump);
    }
}
