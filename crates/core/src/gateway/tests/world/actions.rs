// SPDX-License-Identifier: Apache-2.0
//! What the engine orders: each action is checked, and done.

use holdfast_wire::Segment;

use super::{Event, World};
use crate::compression::marked;
use crate::schemes::serves_uploads;
use crate::testing::{MH, Packet};
use crate::{Action, Direction, Resend, Scheme};

/// Actions for one input, at most; made ACKs among them.
const ACTIONS_MAX: usize = 400;
const MADE_MAX: usize = 4;
/// Reports to the MH among them, and a made ACK that replaces an ACK.
const REPORTS_MAX: usize = 5;
/// ACKs below the newest that wake a sender at the MH.
const STEPS_MAX: usize = 64;

impl World {
    pub(super) fn act(&mut self, actions: Vec<Action<Packet>>) {
        assert!(
            actions.len() <= ACTIONS_MAX,
            "{} actions for one input",
            actions.len()
        );
        let wakes = serves_uploads(&self.settings);
        let reports_max = REPORTS_MAX + if wakes { STEPS_MAX } else { 0 };
        for (direction, most) in [
            (Direction::Uplink, MADE_MAX),
            (Direction::Downlink, reports_max),
        ] {
            let made = actions.iter().filter(
                |action| matches!(action, Action::Send(made) if made.direction == direction),
            );
            assert!(
                made.count() <= most,
                "made ACKs for one input, {direction:?}"
            );
        }
        for action in actions {
            match action {
                Action::Resend(resend) => {
                    let packet = Packet::of_resend(&resend);
                    if resend.direction == Direction::Uplink {
                        self.resent_uplink += 1;
                        self.check_uplink_resend(&packet);
                    } else {
                        self.resent += 1;
                        self.check_resend(&packet);
                    }
                    if resend.compress.is_some() {
                        self.send_compressed(&resend, &packet);
                        continue;
                    }
                    self.send_out(resend.direction, packet);
                }
                Action::Send(made) => {
                    let reports = [Scheme::Hold, Scheme::Snoop, Scheme::Auto];
                    if reports.contains(&self.settings.scheme)
                        && made.direction == Direction::Downlink
                    {
                        self.reported += 1;
                    } else {
                        self.made += 1;
                    }
                    let packet = Packet::of_made(&made);
                    if made.direction == Direction::Uplink {
                        self.seen_at = self.now;
                    }
                    if self.trace {
                        eprintln!("           made {}", self.brief(&packet));
                    }
                    self.check_made(&packet);
                    self.send_out(made.direction, packet);
                }
                Action::Repeat(packet) => {
                    assert!(packet.segment.is_empty() && packet.segment.to == MH);
                    self.send_out(Direction::Downlink, packet);
                }
                Action::Notify(report) => {
                    self.check_notice(&report);
                    for _ in 0..report.copies {
                        if self.link_is_up {
                            self.travel(self.wireless, Event::Unreachable(report.seq));
                        }
                    }
                }
                Action::Record(record) => {
                    self.records = (!record.gone).then_some(record);
                }
            }
        }
        self.check_engine();
    }

    /// Sends a piece segment by segment, each compressed if the engine decides so.
    pub(super) fn send_compressed(&mut self, resend: &Resend<Packet>, packet: &Packet) {
        let mut sent = 0;
        for mut plain in packet.split() {
            let len = plain.segment.payload_len;
            let flags = plain.segment.flags;
            let payload = self.gateway.compress(resend, sent, len, flags, self.now);
            if let Some(payload) = payload {
                assert!(payload.len() < plain.bytes.len(), "larger than plain");
                plain.segment.flags = marked(flags);
                plain = Packet::new(
                    Segment {
                        payload_len: payload.len() as u32,
                        ..plain.segment
                    },
                    payload,
                    plain.segment_len,
                );
                self.daemon.damage(&mut plain, &mut self.rng);
            }
            sent += len;
            self.send_out(Direction::Downlink, plain);
        }
    }
}
