// SPDX-License-Identifier: Apache-2.0
//! Where made frames go if the link-layer address of a flow's next hop has changed since the flow's last
//! segment. After an outage another router may serve the same network.
//!
//! A frame goes to the noted address at once. Then a thread queries the kernel for the route and its
//! neighbour entry, as the MH's own next segment would. If the entry has another address, the frame goes
//! there too. If the entry has an old address or none (the kernel forgets neighbours without a carrier),
//! the thread has the kernel resolve it. For some seconds, each other address that answers or is
//! announced gets the frame too.
//!
//! Source: rtnetlink(7), `neigh_add` in `net/core/neighbour.c`.

use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use holdfast_core::mobile_host::FLOWS_SERVED_MAX;

use super::frame_socket::FrameSocket;
use crate::readiness::{Waker, wait_readable};

mod kernel;
mod waiting;

pub(crate) use kernel::resolve;
use kernel::{Kernel, Neighbour, Trust};
use waiting::Waiting;

/// An address of the link layer.
type Mac = [u8; 6];

/// Limit of frames that wait for the thread, and of frames that wait for an answer. Further frames go
/// to the noted address alone.
///
/// An event makes three frames for each flow that is served, and its first repetition one.
const FRAMES_MAX: usize = 4 * FLOWS_SERVED_MAX;
/// When the thread ends, frames stay unsent after this many tries without room: 0.25 to 0.5 s.
const TRIES_AT_THE_END: usize = 8;
/// A route of the kernel is valid for this time, or until the kernel reports a change.
const VALID_FOR: Duration = Duration::from_millis(20);
/// Limit of routes in use.
const ROUTES_MAX: usize = 64;
/// A wait that the kernel refuses (for want of memory) is tried again after this time.
const WAIT_AGAIN: Duration = Duration::from_secs(1);

/// A frame that went to the noted address.
#[derive(Debug)]
pub(super) struct Sent {
    /// The addresses of the MH and of the FH.
    pub(super) ends: [IpAddr; 2],
    /// The frame, with its Ethernet header.
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
        // Its sockets are those of the calling thread's namespace.
        let follower = Follower::open(frames)?;
        let (sent, received) = sync_channel(FRAMES_MAX);
        let waker = Waker::new()?;
        let woken = waker.clone();
        let thread = std::thread::Builder::new()
            .name("next-hops".into())
            .spawn(move || follower.run(&received, &woken))?;
        Ok(Self {
            sent: Some(sent),
            waker,
            thread: Some(thread),
        })
    }

    /// Sends the frame to the present next hop too, if that is another one.
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
            // An error: it has panicked, and there is nothing to undo.
            let _ = thread.join();
        }
    }
}

/// The kernel's route to an FH: the next hop, and its neighbour entry.
#[derive(Clone, Copy, Debug)]
struct Route {
    ends: [IpAddr; 2],
    queried_at: Instant,
    next_hop: Option<(IpAddr, Neighbour)>,
}

#[derive(Debug)]
struct Follower {
    kernel: Kernel,
    frames: Arc<FrameSocket>,
    /// The newest last.
    routes: Vec<Route>,
    waiting: Waiting,
}

impl Follower {
    fn open(frames: Arc<FrameSocket>) -> io::Result<Self> {
        Ok(Self {
            kernel: Kernel::open(frames.ifindex())?,
            frames,
            routes: Vec::new(),
            waiting: Waiting::new(),
        })
    }

    /// Works until its owner ends it.
    fn run(mut self, received: &Receiver<Sent>, woken: &Waker) {
        loop {
            let due = self.waiting.poll_timeout();
            let timeout = due.map(|at| at.saturating_duration_since(Instant::now()));
            if let Err(error) = wait_readable([woken.as_fd(), self.kernel.as_fd()], timeout) {
                tracing::warn!(%error, "made ACKs may go to a next hop that has changed");
                std::thread::sleep(WAIT_AGAIN);
            }
            // Changes first: the queries below give a newer state.
            self.note_changes();
            woken.reset();
            loop {
                match received.try_recv() {
                    Ok(sent) => self.follow(sent),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => {
                        self.leave();
                        return;
                    }
                }
            }
            self.transmit();
        }
    }

    /// Sends what is due. Returns whether there was room.
    fn transmit(&mut self) -> bool {
        let frames = &self.frames;
        let send = |frame: &[u8], is_v4| frames.send(frame, is_v4);
        self.waiting.transmit(Instant::now(), send)
    }

    /// Sends all that is due before the thread ends, if there is room.
    fn leave(&mut self) {
        let mut tries = TRIES_AT_THE_END;
        loop {
            if !self.transmit() {
                tries -= 1;
            }
            let Some(at) = self.waiting.poll_timeout().filter(|_| tries > 0) else {
                return;
            };
            std::thread::sleep(at.saturating_duration_since(Instant::now()));
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

    /// Sends the frame to `mac`, unless it went there already.
    fn send_now(&self, mut frame: Vec<u8>, mac: Mac, is_v4: bool) {
        if let Some(noted) = frame.first_chunk_mut::<6>()
            && *noted != mac
        {
            *noted = mac;
            // An error: the link may be down, and the maker of the frame makes another one.
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
                self.kernel.resolve(address);
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

    fn note_changes(&mut self) {
        let changes = self.kernel.take_changes().unwrap_or_else(|_| {
            // Reports were lost: the present state is queried instead. Routes may have changed too.
            self.routes.clear();
            let next_hops = self.waiting.next_hops().into_iter();
            let query = |address| (address, self.kernel.neighbour(address));
            next_hops.map(query).collect()
        });
        for (address, neighbour) in changes {
            self.note_change(address, neighbour);
        }
    }
}

#[cfg(test)]
mod tests;
