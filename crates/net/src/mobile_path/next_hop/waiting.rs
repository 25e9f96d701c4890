// SPDX-License-Identifier: Apache-2.0
//! Frames that went to the noted address, and may have to go to another one. They leave a few at a time,
//! in the order in which they came.
//!
//! After an outage of many flows there are up to [`FRAMES_MAX`] frames, and one report of the kernel makes
//! all of them due. Sent at once they would fill the queues of socket and device. The rest would be lost,
//! and also what the owner of the socket sends at that moment.

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::kernel::{Neighbour, Trust};
use super::{FRAMES_MAX, Mac};

/// The destination address in an Ethernet frame.
const DESTINATION: std::ops::Range<usize> = 0..6;
/// After this time no answer comes any more: the kernel sends three requests, a second apart.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Frames that leave at once: an eighth of a device's smallest usual queue (256 frames).
pub(super) const BURST: usize = 32;
/// The time between two bursts. So 16,000 frames leave in a second, or 8 Mb/s of IPv4 ACKs, and
/// [`FRAMES_MAX`] frames leave in a quarter of a second.
pub(super) const PAUSE: Duration = Duration::from_millis(2);
/// A frame that finds no room is tried again after this time. Each further wait is twice as long.
const FULL_PAUSE: Duration = Duration::from_millis(4);
/// The longest such wait.
const FULL_PAUSE_MAX: Duration = Duration::from_millis(64);
/// A frame follows at most this many announcements of another address: any host can forge them.
const TURNS_MAX: u8 = 4;

#[derive(Debug)]
struct Frame {
    next_hop: IpAddr,
    since: Instant,
    sent_to: Mac,
    send_to: Mac,
    /// `send_to` is final: the frame waits for no further report.
    is_final: bool,
    turns: u8,
    octets: Vec<u8>,
}

impl Frame {
    fn is_due(&self) -> bool {
        self.send_to != self.sent_to
    }

    /// Handles a report of the kernel about the frame's next hop.
    fn on_neighbour(&mut self, neighbour: Neighbour) {
        if let Some(mac) = neighbour.mac
            && self.turns < TURNS_MAX
        {
            self.turns += u8::from(mac != self.send_to);
            self.send_to = mac;
            self.is_final = neighbour.trust != Trust::None;
        }
    }
}

/// The frames, the oldest first.
#[derive(Debug)]
pub(super) struct Waiting {
    frames: VecDeque<Frame>,
    /// Frames that may leave before `next_at`.
    room: usize,
    next_at: Option<Instant>,
    full_pause: Duration,
}

impl Waiting {
    pub(super) const fn new() -> Self {
        Self {
            frames: VecDeque::new(),
            room: BURST,
            next_at: None,
            full_pause: FULL_PAUSE,
        }
    }

    /// Adds a frame that went to the address in its header. `neighbour` is the kernel's entry for its next hop.
    ///
    /// If there is no room, it replaces the oldest frame that waits for a report: a frame of an earlier outage
    /// is useless. If none waits, it replaces the oldest frame.
    pub(super) fn add(
        &mut self,
        next_hop: IpAddr,
        neighbour: Neighbour,
        octets: Vec<u8>,
        now: Instant,
    ) {
        let Some(sent_to) = octets.first_chunk().copied() else {
            return;
        };
        let mut frame = Frame {
            next_hop,
            since: now,
            sent_to,
            send_to: sent_to,
            is_final: false,
            turns: 0,
            octets,
        };
        frame.on_neighbour(neighbour);
        // A neighbour that has answered lately may be away by now. A newer one announces itself.
        frame.is_final = neighbour.trust == Trust::Fixed;
        if frame.is_final && !frame.is_due() {
            return;
        }
        self.forget_old(now);
        if self.frames.len() >= FRAMES_MAX {
            let of_no_use = self.frames.iter().position(|frame| !frame.is_due());
            self.frames.remove(of_no_use.unwrap_or(0));
        }
        self.frames.push_back(frame);
    }

    /// Handles a report of the kernel that a next hop has changed.
    pub(super) fn note_change(&mut self, next_hop: IpAddr, neighbour: Neighbour, now: Instant) {
        self.forget_old(now);
        self.frames.retain_mut(|frame| {
            if frame.next_hop == next_hop {
                frame.on_neighbour(neighbour);
            }
            frame.is_due() || !frame.is_final
        });
    }

    /// The next hops of all frames.
    pub(super) fn next_hops(&self) -> Vec<IpAddr> {
        let mut next_hops: Vec<_> = self.frames.iter().map(|frame| frame.next_hop).collect();
        next_hops.sort_unstable();
        next_hops.dedup();
        next_hops
    }

    /// When [`transmit`](Self::transmit) is due.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.next_at
            .filter(|_| self.frames.iter().any(Frame::is_due))
    }

    /// Sends the frames that may leave now. `send` gets a frame, and whether it is IPv4. Returns whether there
    /// was room.
    pub(super) fn transmit(
        &mut self,
        now: Instant,
        mut send: impl FnMut(&[u8], bool) -> io::Result<()>,
    ) -> bool {
        self.forget_old(now);
        if !self.frames.iter().any(Frame::is_due) {
            return true;
        }
        if self.next_at.is_none_or(|at| at <= now) {
            self.room = BURST;
            self.next_at = Some(now + PAUSE);
        }
        let room = &mut self.room;
        let (mut leave, mut finds_none) = (0_usize, false);
        self.frames.retain_mut(|frame| {
            if *room == 0 || !frame.is_due() {
                return true;
            }
            frame.octets[DESTINATION].copy_from_slice(&frame.send_to);
            match send(&frame.octets, frame.next_hop.is_ipv4()) {
                Err(error) if is_full(&error) => {
                    *room = 0;
                    finds_none = true;
                    return true;
                }
                // The link may be down again: the maker of the frame makes another one.
                Ok(()) | Err(_) => {}
            }
            *room -= 1;
            leave += 1;
            frame.sent_to = frame.send_to;
            !frame.is_final
        });
        if finds_none {
            self.next_at = Some(now + self.full_pause);
            self.full_pause = (self.full_pause * 2).min(FULL_PAUSE_MAX);
        } else if leave > 0 {
            self.full_pause = FULL_PAUSE;
        }
        !finds_none
    }

    fn forget_old(&mut self, now: Instant) {
        let is_old = |frame: &Frame| now.saturating_duration_since(frame.since) > ANSWER_WITHIN;
        while self.frames.front().is_some_and(is_old) {
            self.frames.pop_front();
        }
    }
}

/// The socket's buffer is full, or the device's queue: packet(7), send(2).
fn is_full(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock || error.raw_os_error() == Some(libc::ENOBUFS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: Mac = [2, 0, 0, 0, 0, 1];
    const NEW: Mac = [2, 0, 0, 0, 0, 2];

    fn hop(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    fn known(mac: Mac, trust: Trust) -> Neighbour {
        Neighbour {
            mac: Some(mac),
            trust,
        }
    }

    fn frame(number: usize) -> Vec<u8> {
        [&OLD[..], &number.to_be_bytes()].concat()
    }

    /// Frames whose next hop is not known.
    fn waiting(count: usize, now: Instant) -> Waiting {
        let mut waiting = Waiting::new();
        for number in 0..count {
            waiting.add(hop(1), Neighbour::default(), frame(number), now);
        }
        waiting
    }

    /// What leaves at that time: to whom, and its number.
    fn left(waiting: &mut Waiting, now: Instant) -> Vec<(Mac, usize)> {
        let mut left = Vec::new();
        waiting.transmit(now, |octets, is_v4| {
            assert!(is_v4);
            let number = usize::from_be_bytes(octets[6..].try_into().unwrap());
            left.push((*octets.first_chunk().unwrap(), number));
            Ok(())
        });
        left
    }

    #[test]
    fn of_more_frames_than_there_is_room_for_the_newest_wait() {
        let now = Instant::now();
        let mut waiting = waiting(FRAMES_MAX + 1, now);
        assert_eq!(waiting.frames.len(), FRAMES_MAX);
        waiting.note_change(hop(1), known(NEW, Trust::Answered), now);
        assert_eq!(left(&mut waiting, now)[0], (NEW, 1));
    }

    #[test]
    fn what_is_due_makes_no_room_for_what_waits_for_a_word() {
        let now = Instant::now();
        let mut waiting = Waiting::new();
        waiting.add(hop(1), known(NEW, Trust::Answered), frame(0), now);
        for number in 1..2 * FRAMES_MAX {
            waiting.add(hop(2), Neighbour::default(), frame(number), now);
        }
        assert_eq!(waiting.frames.len(), FRAMES_MAX);
        assert_eq!(left(&mut waiting, now), [(NEW, 0)]);
        assert_eq!(
            waiting.frames.back().unwrap().octets[..],
            frame(2 * FRAMES_MAX - 1)
        );
    }

    #[test]
    fn frames_that_are_due_all_at_once_leave_a_few_at_a_time_in_their_order() {
        let mut now = Instant::now();
        let mut waiting = waiting(FRAMES_MAX, now);
        assert_eq!(left(&mut waiting, now), []);
        assert_eq!(waiting.poll_timeout(), None);
        waiting.note_change(hop(1), known(NEW, Trust::Answered), now);
        let mut all = Vec::new();
        while all.len() < FRAMES_MAX {
            let some = left(&mut waiting, now);
            assert_eq!(some.len(), BURST);
            assert_eq!(left(&mut waiting, now), [], "no more of them now");
            all.extend(some);
            if all.len() < FRAMES_MAX {
                assert_eq!(waiting.poll_timeout(), Some(now + PAUSE));
            }
            now += PAUSE;
        }
        let expected: Vec<_> = (0..FRAMES_MAX).map(|number| (NEW, number)).collect();
        assert_eq!(all, expected);
        assert_eq!(waiting.poll_timeout(), None);
        assert!(waiting.frames.is_empty(), "who has answered is known");
    }

    #[test]
    fn one_after_another_they_leave_at_once() {
        let now = Instant::now();
        let mut waiting = Waiting::new();
        for number in 0..BURST {
            waiting.add(hop(1), known(NEW, Trust::Fixed), frame(number), now);
            assert_eq!(left(&mut waiting, now), [(NEW, number)]);
        }
        waiting.add(hop(1), known(NEW, Trust::Fixed), frame(77), now);
        assert_eq!(left(&mut waiting, now), []);
        assert_eq!(left(&mut waiting, now + PAUSE), [(NEW, 77)]);
    }

    #[test]
    fn what_finds_no_room_on_the_interface_leaves_later_and_what_cannot_leave_does_not() {
        let mut now = Instant::now();
        for (errno, leaves_later) in [
            (libc::EAGAIN, true),
            (libc::ENOBUFS, true),
            (libc::ENETDOWN, false),
        ] {
            let mut waiting = waiting(3, now);
            waiting.note_change(hop(1), known(NEW, Trust::Answered), now);
            let mut tries = 0;
            waiting.transmit(now, |_, _| {
                tries += 1;
                Err(io::Error::from_raw_os_error(errno))
            });
            assert_eq!(tries, if leaves_later { 1 } else { 3 });
            now += FULL_PAUSE;
            let later = left(&mut waiting, now);
            assert_eq!(later.len(), if leaves_later { 3 } else { 0 }, "{errno}");
        }
    }

    #[test]
    fn a_frame_goes_to_each_announced_address_but_not_for_ever() {
        let now = Instant::now();
        let mut waiting = waiting(1, now);
        let at = |turn: u32| now + PAUSE * turn;
        let mac = |turn: u32| [2, 0, 0, 0, 1, turn as u8];
        let went = (0..10_u32).map(|turn| {
            waiting.note_change(hop(1), known(mac(turn), Trust::None), at(turn));
            left(&mut waiting, at(turn)).len()
        });
        let went: Vec<_> = went.collect();
        assert_eq!(went, [1, 1, 1, 1, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn a_report_of_another_next_hop_or_a_late_one_moves_nothing() {
        let now = Instant::now();
        let mut waiting = waiting(1, now);
        waiting.add(hop(2), known(OLD, Trust::Fixed), frame(1), now);
        assert_eq!(waiting.next_hops(), [hop(1)], "it is where it belongs");
        waiting.note_change(hop(3), known(NEW, Trust::Answered), now);
        assert_eq!(left(&mut waiting, now), []);
        let late = now + ANSWER_WITHIN + PAUSE;
        waiting.note_change(hop(1), known(NEW, Trust::Answered), late);
        assert_eq!(left(&mut waiting, late), []);
    }

    #[test]
    fn an_address_that_is_not_certain_is_followed_by_the_one_that_is() {
        let now = Instant::now();
        let mut waiting = waiting(1, now);
        waiting.note_change(hop(1), known(OLD, Trust::None), now);
        assert_eq!(left(&mut waiting, now), [], "it went there");
        waiting.note_change(hop(1), known(NEW, Trust::Answered), now);
        assert_eq!(left(&mut waiting, now), [(NEW, 0)]);
        waiting.note_change(hop(1), known(OLD, Trust::Answered), now + PAUSE);
        assert_eq!(left(&mut waiting, now + PAUSE), []);
    }
}
