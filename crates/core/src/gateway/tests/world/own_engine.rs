// SPDX-License-Identifier: Apache-2.0
//! The engine of a mobile's own daemon. What leaves the mobile is its downlink, and the server is
//! its MH. Segments pass by themselves while the link is up, and it gets copies.

use holdfast_wire::Instant;

use super::{Event, World};
use crate::link_state::{LinkEvent, LinkSource};
use crate::testing::{FH, Packet};
use crate::{Action, Direction, Gateway, Scheme, Settings, Side, Verdict};

/// Where the engine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Site {
    /// At the MH, on the link that the gateway serves.
    Mobile,
    /// Beside the gateway, which moves too: on the half toward the FH.
    Gateway,
}

/// The engine, and whether it takes the segments.
pub(in super::super) struct OwnEngine {
    engine: Gateway<Packet>,
    site: Site,
    takes: bool,
    /// The daemon hangs: segments pass it by.
    pub hangs: bool,
}

impl OwnEngine {
    pub(in super::super) fn new(settings: &Settings, site: Site) -> Self {
        let settings = Settings {
            scheme: Scheme::Auto,
            takes_in_outages: true,
            ..settings.clone()
        };
        Self {
            engine: Gateway::new(settings),
            site,
            takes: false,
            hangs: false,
        }
    }
}

impl World {
    /// An engine at that site from now on; none: it is replaced.
    pub(in super::super) fn renew_own_engine(&mut self, site: Option<Site>) {
        let before = self.own_engine.as_ref().map(|own| own.site);
        let site = site.or(before);
        self.own_engine = site.map(|site| OwnEngine::new(&self.settings, site));
    }

    /// Whether there is one at that site.
    pub(super) fn has_own_engine(&self, site: Site) -> bool {
        self.own_engine.as_ref().is_some_and(|own| own.site == site)
    }

    /// A segment reaches the engine, from the MH or to it.
    pub(super) fn pass_own_engine(&mut self, from_mh: bool, packet: Packet) {
        let (passed, actions) = self.judged_by_own_engine(from_mh, packet);
        if let Some(packet) = passed {
            self.leave_own_engine(packet);
        }
        self.act_of_own_engine(actions);
    }

    /// What is left of a forged segment on its way to that end. The attacker is between the engine and the
    /// gateway, or beyond both.
    pub(super) fn forged_past_own_engine(&mut self, side: Side, packet: Packet) -> Option<Packet> {
        let site = match side {
            Side::Fh => Site::Gateway,
            Side::Mh => Site::Mobile,
        };
        if !self.has_own_engine(site) {
            return Some(packet);
        }
        let (passed, actions) = self.judged_by_own_engine(side == Side::Fh, packet);
        self.act_of_own_engine(actions);
        passed
    }

    fn judged_by_own_engine(
        &mut self,
        from_mh: bool,
        packet: Packet,
    ) -> (Option<Packet>, Vec<Action<Packet>>) {
        let now = self.now;
        let Some(own) = self.own_engine.as_mut().filter(|own| !own.hangs) else {
            return (Some(packet), Vec::new());
        };
        let direction = if from_mh {
            Direction::Downlink
        } else {
            Direction::Uplink
        };
        let mut actions = Vec::new();
        let segment = &packet.segment;
        let verdict = own
            .engine
            .handle_segment(direction, segment, &packet, now, &mut actions);
        let verdict = if own.takes { verdict } else { Verdict::Forward };
        (packet.judged(verdict), actions)
    }

    /// When its next deadline is.
    pub(super) fn own_timeout(&self) -> Option<Instant> {
        let own = self.own_engine.as_ref().filter(|own| !own.hangs)?;
        own.engine.poll_timeout()
    }

    /// Time has come for something.
    pub(super) fn run_own_engine(&mut self) {
        let now = self.now;
        let Some(own) = self.own_engine.as_mut().filter(|own| !own.hangs) else {
            return;
        };
        if own.engine.poll_timeout().is_some_and(|at| at <= now) {
            let mut actions = Vec::new();
            own.engine.handle_timeout(now, &mut actions);
            let next = own.engine.poll_timeout();
            assert!(next.is_none_or(|at| at > now), "a timer runs hot");
            self.act_of_own_engine(actions);
        }
    }

    /// The interface's link.
    pub(super) fn report_to_own_engine(&mut self, event: LinkEvent) {
        let now = self.now;
        let Some(own) = self.own_engine.as_mut().filter(|own| !own.hangs) else {
            return;
        };
        let mut actions = Vec::new();
        own.engine
            .handle_all_links(event, LinkSource::Carrier, now, &mut actions);
        self.act_of_own_engine(actions);
    }

    fn act_of_own_engine(&mut self, actions: Vec<Action<Packet>>) {
        for action in actions {
            match action {
                Action::Resend(piece) => {
                    let packet = Packet::of_resend(&piece);
                    if !self.lenient {
                        let from = self.fh.peer_offset(packet.segment.seq) as usize;
                        let sent = &self.mh.sending[from..from + packet.bytes.len()];
                        assert_eq!(&packet.bytes[..], sent, "other bytes at {from}");
                    }
                    self.own_resent += 1;
                    self.leave_own_engine(packet);
                }
                Action::Send(mut made) => {
                    made.direction = made.direction.back();
                    let packet = Packet::of_made(&made);
                    self.check_own_made(&packet);
                    self.own_made += 1;
                    self.leave_own_engine(packet);
                }
                Action::Repeat(packet) => self.leave_own_engine(packet),
                Action::Notify(_) => panic!("the mobile's daemon wakes no server by ICMP"),
                Action::Record(_) => {}
            }
        }
        if let Some(own) = &mut self.own_engine {
            while let Some((_, takes)) = own.engine.poll_peer() {
                own.takes = takes;
            }
        }
    }

    /// A segment that the engine made acknowledges and reports no more than what the end has in whose
    /// name it is.
    fn check_own_made(&self, packet: &Packet) {
        if self.lenient {
            return;
        }
        let segment = &packet.segment;
        let end = if segment.from == FH {
            &self.fh
        } else {
            &self.mh
        };
        assert!(
            end.peer_offset(segment.ack) <= end.rcv_nxt,
            "an ACK ahead of the end"
        );
        for (left, right) in segment.options.sack.iter() {
            let (left, right) = (end.peer_offset(left), end.peer_offset(right));
            assert!(end.has(left, right), "a report of what the end lacks");
        }
    }

    fn leave_own_engine(&mut self, packet: Packet) {
        let at_mobile = self.has_own_engine(Site::Mobile);
        match (packet.segment.to == FH, at_mobile) {
            (true, true) => self.over_wireless(Direction::Uplink, packet),
            (true, false) => self.over_wired(Event::ToHost(Side::Fh, packet)),
            (false, true) => self.reach_mh(packet),
            (false, false) => self.arrive(Direction::Downlink, &packet),
        }
    }
}
