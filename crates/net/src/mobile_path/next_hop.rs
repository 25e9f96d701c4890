// SPDX-License-Identifier: Apache-2.0
//! Where made frames go if a flow's next hop has another address of the link layer than at its last
//! segment: after an outage another router may answer for the same network.
//!
//! A frame goes to the address that was noted, at once. Then a thread asks the kernel for the route
//! and its neighbour entry, as the MH's own next segment would. If the entry has another address, the
//! frame goes there too. If it has none (the kernel forgets neighbours with the carrier), or an old
//! one, the kernel is told to find out; and whoever answers, or announces itself, within some
//! seconds gets the frame, if that is another one.
//!
//! Source: rtnetlink(7), `neigh_add` in `net/core/neighbour.c`.

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::frame_socket::FrameSocket;
use crate::readiness::{Waker, wait_readable};

mod kernel;

use kernel::{Changes, Kernel, Neighbour, Trust};

/// An address of the link layer, and where its destination stands in a frame of Ethernet.
type Mac = [u8; 6];
const DESTINATION: std::ops::Range<usize> = 0..6;

/// Frames that wait for the thread; more go to the noted address alone. And those that wait for an
/// answer.
const FRAMES_MAX: usize = 2048;
/// Nobody answers any more: the kernel asks three times, a second apart.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// What the kernel said of a way is so for so long, or until it tells of a change.
const SAID_FOR: Duration = Duration::from_millis(20);
/// Ways kept for so long.
const WAYS_MAX: usize = 64;

/// A frame that went to the noted address.
#[derive(Debug)]
pub(super) struct Sent {
    /// Of the MH and of the FH.
    pub(super) ends: [IpAddr; 2],
    /// With its header of Ethernet.
    pub(super) frame: Vec<u8>,
    /// It may come late: it does no harm after a newer one.
    pub(super) may_be_late: bool,
}

/// The thread; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct NextHops {
    sent: Option<SyncSender<Sent>>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl NextHops {
    /// Starts it for an interface of the calling thread's network namespace.
    pub(super) fn start(frames: Arc<FrameSocket>) -> io::Result<Self> {
        let changes = Changes::open()?;
        let follower = Follower {
            kernel: Kernel::open(frames.ifindex())?,
            frames,
            ways: Vec::new(),
            waiting: VecDeque::new(),
        };
        let (sent, received) = sync_channel(FRAMES_MAX);
        let waker = Waker::new()?;
        let woken = waker.clone();
        let thread = std::thread::Builder::new()
            .name("next-hops".into())
            .spawn(move || run(follower, changes, &received, &woken))?;
        Ok(Self {
            sent: Some(sent),
            waker,
            thread: Some(thread),
        })
    }

    /// Sees to it that the frame also goes to the next hop of now, if that is another one.
    pub(super) fn follow(&self, sent: Sent) {
        if let Some(sender) = &self.sent
            && sender.try_send(sent).is_ok()
        {
            self.waker.wake();
        }
    }
}

impl Drop for NextHops {
    fn drop(&mut self) {
        self.sent = None;
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // It has panicked: there is nothing to be undone.
            let _ = thread.join();
        }
    }
}

/// The thread's whole life.
fn run(mut follower: Follower, mut changes: Changes, received: &Receiver<Sent>, woken: &Waker) {
    loop {
        if wait_readable([woken.as_fd(), changes.as_fd()], None).is_err() {
            // Without news: what is known when a frame is sent still counts.
            return received.iter().for_each(|sent| follower.follow(sent));
        }
        // What has changed by now is what is asked for below.
        for (address, neighbour) in changes.take(follower.kernel.ifindex()) {
            follower.note_change(address, neighbour);
        }
        if changes.were_lost() {
            follower.look_again();
        }
        woken.reset();
        loop {
            match received.try_recv() {
                Ok(sent) => follower.follow(sent),
                Err(std::sync::mpsc::TryRecvError::Empty) => break,
                Err(std::sync::mpsc::TryRecvError::Disconnected) => return,
            }
        }
    }
}

/// The way to an FH, as the kernel said: the next hop, and what is known of it.
#[derive(Clone, Copy, Debug)]
struct Way {
    ends: [IpAddr; 2],
    said_at: Instant,
    next_hop: Option<(IpAddr, Neighbour)>,
}

/// A frame of whose next hop there may be news.
#[derive(Debug)]
struct Waiting {
    next_hop: IpAddr,
    since: Instant,
    sent_to: Mac,
    frame: Vec<u8>,
}

#[derive(Debug)]
struct Follower {
    kernel: Kernel,
    frames: Arc<FrameSocket>,
    /// The newest last.
    ways: Vec<Way>,
    waiting: VecDeque<Waiting>,
}

impl Follower {
    fn follow(&mut self, sent: Sent) {
        let Some((next_hop, neighbour)) = self.way(sent.ends) else {
            return;
        };
        let Some(noted) = sent.frame.first_chunk().copied() else {
            return;
        };
        let mut waiting = Waiting {
            next_hop,
            since: Instant::now(),
            sent_to: noted,
            frame: sent.frame,
        };
        if let Some(mac) = neighbour.mac {
            waiting.send_to(mac, &self.frames);
        }
        if neighbour.trust == Trust::Fixed || !sent.may_be_late {
            return;
        }
        self.forget_old();
        keep_newest(&mut self.waiting, waiting);
    }

    fn way(&mut self, ends: [IpAddr; 2]) -> Option<(IpAddr, Neighbour)> {
        let now = Instant::now();
        self.ways.retain(|way| way.said_at + SAID_FOR > now);
        if let Some(way) = self.ways.iter().find(|way| way.ends == ends) {
            return way.next_hop;
        }
        let next_hop = self.kernel.next_hop(ends).map(|address| {
            let neighbour = self.kernel.neighbour(address);
            if neighbour.trust == Trust::None {
                self.kernel.find_out(address);
            }
            (address, neighbour)
        });
        if self.ways.len() == WAYS_MAX {
            self.ways.remove(0);
        }
        self.ways.push(Way {
            ends,
            said_at: now,
            next_hop,
        });
        next_hop
    }

    fn note_change(&mut self, address: IpAddr, neighbour: Neighbour) {
        self.ways.clear();
        let Some(mac) = neighbour.mac else {
            return;
        };
        self.forget_old();
        let frames = &self.frames;
        self.waiting.retain_mut(|waiting| {
            if waiting.next_hop != address {
                return true;
            }
            waiting.send_to(mac, frames);
            neighbour.trust == Trust::None
        });
    }

    /// Changes were lost.
    fn look_again(&mut self) {
        let mut addresses: Vec<_> = self.waiting.iter().map(|of| of.next_hop).collect();
        addresses.sort_unstable();
        addresses.dedup();
        for address in addresses {
            let neighbour = self.kernel.neighbour(address);
            self.note_change(address, neighbour);
        }
    }

    fn forget_old(&mut self) {
        while (self.waiting.front()).is_some_and(|oldest| oldest.since.elapsed() > ANSWER_WITHIN) {
            self.waiting.pop_front();
        }
    }
}

/// The oldest goes for the newest if there is no room: of an outage before nobody needs it.
fn keep_newest<T>(all: &mut VecDeque<T>, one: T) {
    if all.len() >= FRAMES_MAX {
        all.pop_front();
    }
    all.push_back(one);
}

impl Waiting {
    /// Unless it went there already.
    fn send_to(&mut self, mac: Mac, frames: &FrameSocket) {
        if mac == self.sent_to {
            return;
        }
        self.sent_to = mac;
        self.frame[DESTINATION].copy_from_slice(&mac);
        // The link may have gone again: whoever sends tries again.
        let _ = frames.send(&self.frame, self.next_hop.is_ipv4());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_more_frames_than_there_is_room_for_the_newest_wait() {
        let mut waiting = VecDeque::new();
        for number in 0..=FRAMES_MAX {
            keep_newest(&mut waiting, number);
        }
        assert_eq!(waiting.len(), FRAMES_MAX);
        assert_eq!(waiting.front(), Some(&1));
        assert_eq!(waiting.back(), Some(&FRAMES_MAX));
    }
}
