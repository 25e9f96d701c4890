// SPDX-License-Identifier: Apache-2.0
//! Where made frames go if a flow's next hop has another address of the link layer than at its last
//! segment: after an outage another router may answer for the same network.
//!
//! A frame goes to the address that was noted, at once. Then a thread queries the kernel for the route
//! and its neighbour entry, as the MH's own next segment would. If the entry has another address, the
//! frame goes there too. If it has none (the kernel forgets neighbours with the carrier), or an old
//! one, the kernel is ordered to resolve it; and each that answers, or announces itself, within some
//! seconds gets the frame, if that is another one.
//!
//! Source: rtnetlink(7), `neigh_add` in `net/core/neighbour.c`.

use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use holdfast_core::mobile_host::FLOWS_SERVED_MAX;

use super::frame_socket::FrameSocket;
use crate::readiness::{Waker, wait_readable};

mod kernel;
mod waiting;

use kernel::{Changes, Kernel, Neighbour, Trust};
use waiting::Waiting;

/// An address of the link layer.
type Mac = [u8; 6];

/// Frames that wait for the thread; more go to the noted address alone. And those that wait for an
/// answer.
///
/// Three for each flow that is served at one event, and one at its first repetition.
const FRAMES_MAX: usize = 4 * FLOWS_SERVED_MAX;
/// The thread's owner waits this long for what is due.
const LEAVES_WITHIN: Duration = Duration::from_millis(300);
/// A route of the kernel is valid for this time, or until the kernel reports a change.
const VALID_FOR: Duration = Duration::from_millis(20);
/// Limit of routes in use.
const ROUTES_MAX: usize = 64;
/// If the thread fails it begins anew after this time, and twice as long each time...
const AGAIN_MIN: Duration = Duration::from_secs(1);
/// ... up to this.
const AGAIN_MAX: Duration = Duration::from_secs(60);

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
        let mut opened = Some(Follower::open(&frames)?);
        let (sent, received) = sync_channel(FRAMES_MAX);
        let waker = Waker::new()?;
        let woken = waker.clone();
        let follow = move |received: &Receiver<Sent>| {
            // A thread has the network namespace of the one that has started it.
            let follower = opened.take().map_or_else(|| Follower::open(&frames), Ok);
            follower?.run(received, &woken)
        };
        let thread = std::thread::Builder::new()
            .name("next-hops".into())
            .spawn(move || keep(follow, &received, rest))?;
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

/// The thread's whole life: `follow` until that ends well, again if it fails. `rest` between gets
/// the reason, and returns whether there is anything left to do.
fn keep<T>(
    mut follow: impl FnMut(&Receiver<T>) -> io::Result<()>,
    received: &Receiver<T>,
    mut rest: impl FnMut(&Receiver<T>, &io::Error, Duration) -> bool,
) {
    let mut again = AGAIN_MIN;
    loop {
        let begun = Instant::now();
        let Err(error) = follow(received) else {
            return;
        };
        if begun.elapsed() >= AGAIN_MAX {
            again = AGAIN_MIN;
        }
        if !rest(received, &error, again) {
            return;
        }
        again = (again * 2).min(AGAIN_MAX);
    }
}

/// Made frames go to the noted addresses alone for this time.
fn rest<T>(received: &Receiver<T>, error: &io::Error, length: Duration) -> bool {
    tracing::warn!(%error, "no other next hops for made ACKs; trying again in {length:?}");
    let end = Instant::now() + length;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        match received.recv_timeout(left) {
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout) => return true,
            Err(RecvTimeoutError::Disconnected) => return false,
        }
    }
}

/// The route to an FH, by the kernel: the next hop, and what is known of it.
#[derive(Clone, Copy, Debug)]
struct Route {
    ends: [IpAddr; 2],
    queried_at: Instant,
    next_hop: Option<(IpAddr, Neighbour)>,
}

#[derive(Debug)]
struct Follower {
    kernel: Kernel,
    changes: Changes,
    frames: Arc<FrameSocket>,
    /// The newest last.
    routes: Vec<Route>,
    waiting: Waiting,
}

impl Follower {
    fn open(frames: &Arc<FrameSocket>) -> io::Result<Self> {
        Ok(Self {
            // Changes from now on are received; the present state is queried.
            changes: Changes::open()?,
            kernel: Kernel::open(frames.ifindex())?,
            frames: Arc::clone(frames),
            routes: Vec::new(),
            waiting: Waiting::new(),
        })
    }

    /// Errors: it can wait for nothing any more.
    fn run(mut self, received: &Receiver<Sent>, woken: &Waker) -> io::Result<()> {
        loop {
            let due = self.waiting.poll_timeout();
            let timeout = due.map(|at| at.saturating_duration_since(Instant::now()));
            wait_readable([woken.as_fd(), self.changes.as_fd()], timeout)?;
            // What has changed by now is what is asked for below.
            for (address, neighbour) in self.changes.take(self.kernel.ifindex()) {
                self.note_change(address, neighbour);
            }
            if self.changes.were_lost() {
                self.look_again();
            }
            woken.reset();
            loop {
                match received.try_recv() {
                    Ok(sent) => self.follow(sent),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => {
                        self.leave();
                        return Ok(());
                    }
                }
            }
            self.transmit();
        }
    }

    fn transmit(&mut self) {
        let frames = &self.frames;
        let send = |frame: &[u8], is_v4| frames.send(frame, is_v4);
        self.waiting.transmit(Instant::now(), send);
    }

    /// What is due leaves before the thread does.
    fn leave(&mut self) {
        let end = Instant::now() + LEAVES_WITHIN;
        loop {
            self.transmit();
            match self.waiting.poll_timeout() {
                Some(at) if at < end => {
                    std::thread::sleep(at.saturating_duration_since(Instant::now()));
                }
                _ => return,
            }
        }
    }

    fn follow(&mut self, sent: Sent) {
        let Some((next_hop, neighbour)) = self.route(sent.ends) else {
            return;
        };
        if sent.may_be_late {
            let now = Instant::now();
            self.waiting.add(next_hop, neighbour, sent.frame, now);
        } else if let Some(mac) = neighbour.mac {
            self.send_now(sent.frame, mac, next_hop.is_ipv4());
        }
    }

    /// Unless it went there already.
    fn send_now(&self, mut frame: Vec<u8>, mac: Mac, is_v4: bool) {
        if let Some(noted) = frame.first_chunk_mut::<6>()
            && *noted != mac
        {
            *noted = mac;
            // The link may be down: the maker of the frame knows.
            let _ = self.frames.send(&frame, is_v4);
        }
    }

    fn route(&mut self, ends: [IpAddr; 2]) -> Option<(IpAddr, Neighbour)> {
        let now = Instant::now();
        self.routes
            .retain(|route| route.queried_at + VALID_FOR > now);
        if let Some(route) = self.routes.iter().find(|route| route.ends == ends) {
            return route.next_hop;
        }
        let next_hop = self.kernel.next_hop(ends).map(|address| {
            let neighbour = self.kernel.neighbour(address);
            if neighbour.trust == Trust::None {
                self.kernel.find_out(address);
            }
            (address, neighbour)
        });
        if self.routes.len() == ROUTES_MAX {
            self.routes.remove(0);
        }
        self.routes.push(Route {
            ends,
            queried_at: now,
            next_hop,
        });
        next_hop
    }

    fn note_change(&mut self, address: IpAddr, neighbour: Neighbour) {
        self.routes.clear();
        self.waiting.note_change(address, neighbour, Instant::now());
    }

    /// Changes were lost.
    fn look_again(&mut self) {
        for address in self.waiting.next_hops() {
            let neighbour = self.kernel.neighbour(address);
            self.note_change(address, neighbour);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_thread_that_fails_gives_the_reason_and_begins_anew_until_it_ends_well() {
        let (_sent, received) = channel::<()>();
        let mut begun = 0;
        let follow = |_: &Receiver<()>| {
            begun += 1;
            if begun < 9 {
                return Err(io::Error::from_raw_os_error(libc::ENOMEM));
            }
            Ok(())
        };
        let mut lengths = Vec::new();
        let rest = |_: &Receiver<()>, error: &io::Error, length: Duration| {
            assert_eq!(error.raw_os_error(), Some(libc::ENOMEM));
            lengths.push(length.as_secs());
            true
        };
        keep(follow, &received, rest);
        assert_eq!(lengths, [1, 2, 4, 8, 16, 32, 60, 60]);
    }

    #[test]
    fn a_thread_that_rests_ends_with_its_owner_and_keeps_no_frame() {
        let (sent, received) = channel();
        let error = io::Error::from_raw_os_error(libc::ENOMEM);
        sent.send(1).unwrap();
        assert!(rest(&received, &error, Duration::from_millis(1)));
        assert!(received.try_recv().is_err(), "it went to its noted address");
        drop(sent);
        assert!(!rest(&received, &error, AGAIN_MAX));
    }
}
