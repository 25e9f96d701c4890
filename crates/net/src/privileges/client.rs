// SPDX-License-Identifier: Apache-2.0
//! The daemon's side: each function requests one step of the broker.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::message::{Answer, Request, receive, send, send_at_once};
use crate::attach_point::{AttachPoint, BpfObject};
use crate::syscall::at;
use crate::tun::{LayerKind, Tun};

/// The report of a daemon that has lost its broker.
pub const LOST: &str =
    "the broker process has ended, and no interface can be attached to; restart the daemon";

/// Neighbours in one message, so that it is not longer than allowed.
const NEIGHBOURS_AT_ONCE: usize = 128;

/// What the broker has loaded: the number of the programs, which stay there, and the maps by their names.
pub(crate) struct Loaded {
    pub(crate) number: u64,
    pub(crate) maps: Vec<(String, OwnedFd)>,
}

/// How the broker has attached a program.
pub(crate) enum Attached {
    /// By a link, which is the daemon's.
    Link(OwnedFd),
    /// By a filter, which the broker removes by this number.
    Filter(u64),
}

/// The socket to the broker.
#[derive(Debug)]
pub(crate) struct Client {
    socket: OwnedFd,
    /// Locked from a request to its answer.
    turn: Mutex<()>,
    is_lost: AtomicBool,
}

impl Client {
    pub(crate) const fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            turn: Mutex::new(()),
            is_lost: AtomicBool::new(false),
        }
    }

    pub(super) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed)
    }

    fn request(
        &self,
        request: &Request,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<(Answer, Vec<OwnedFd>)> {
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = send(&self.socket, request, descriptors).and_then(|()| receive(&self.socket));
        drop(turn);
        match answer {
            Ok(Some((answer, descriptors))) => {
                Answer::into_result(answer).map(|answer| (answer, descriptors))
            }
            Err(error) if !is_end(&error) => Err(at("the broker process", &error)),
            Ok(None) | Err(_) => {
                self.is_lost.store(true, Ordering::Relaxed);
                Err(io::Error::new(io::ErrorKind::BrokenPipe, LOST))
            }
        }
    }

    /// Loads an object's programs and maps.
    pub(crate) fn load(
        &self,
        object: BpfObject,
        settings: &[u8],
        entries: &[(&str, u32)],
    ) -> io::Result<Loaded> {
        let entries = entries.iter();
        let request = Request::Load {
            object,
            settings: settings.to_vec(),
            entries: entries
                .map(|(name, count)| ((*name).into(), *count))
                .collect(),
        };
        let (Answer::Loaded { number, maps }, descriptors) = self.request(&request, &[])? else {
            return Err(another_answer());
        };
        if descriptors.len() != maps.len() {
            return Err(another_answer());
        }
        let maps = maps.into_iter().zip(descriptors).collect();
        Ok(Loaded { number, maps })
    }

    /// Unloads the programs with this number. Attached programs stay attached.
    pub(crate) fn unload(&self, number: u64) -> io::Result<()> {
        self.request(&Request::Unload { number }, &[]).map(drop)
    }

    /// Attaches one of the loaded programs with this number.
    pub(crate) fn attach(
        &self,
        number: u64,
        program: &str,
        point: AttachPoint,
    ) -> io::Result<Attached> {
        let request = Request::Attach {
            number,
            program: program.into(),
            point,
        };
        match self.request(&request, &[])? {
            (Answer::Filter { number }, _) => Ok(Attached::Filter(number)),
            (Answer::Done, descriptors) => Ok(Attached::Link(only(descriptors)?)),
            _ => Err(another_answer()),
        }
    }

    /// Removes a filter that the broker has attached.
    pub(crate) fn detach(&self, number: u64) -> io::Result<()> {
        self.request(&Request::Detach { number }, &[]).map(drop)
    }

    /// Sets the threshold of [`crate::nl80211::WifiMonitor::set_threshold`].
    pub(crate) fn set_wifi_threshold(
        &self,
        ifindex: u32,
        dbm: i32,
        hysteresis_db: u32,
    ) -> io::Result<()> {
        let request = Request::WifiThreshold {
            ifindex,
            dbm,
            hysteresis_db,
        };
        self.request(&request, &[]).map(drop)
    }

    /// Makes a device for taken packets.
    pub(crate) fn device(&self, name: &str, kind: LayerKind) -> io::Result<Tun> {
        let name = name.into();
        self.request_device(&Request::Device { name, kind }, kind)
    }

    /// Makes a device whose packets this host routes.
    pub(crate) fn routed_device(&self) -> io::Result<Tun> {
        self.request_device(&Request::RoutedDevice, LayerKind::RawIp)
    }

    fn request_device(&self, request: &Request, kind: LayerKind) -> io::Result<Tun> {
        let (Answer::Device { name, ifindex }, descriptors) = self.request(request, &[])? else {
            return Err(another_answer());
        };
        Ok(Tun::of_descriptor(only(descriptors)?, name, ifindex, kind))
    }

    /// A packet socket that only sends.
    pub(crate) fn frame_socket(&self) -> io::Result<OwnedFd> {
        only(self.request(&Request::FrameSocket, &[])?.1)
    }

    /// Gives a socket a larger buffer for received datagrams.
    pub(crate) fn force_receive_buffer(&self, socket: impl AsFd) -> io::Result<()> {
        self.request(&Request::ReceiveBuffer, &[socket.as_fd()])
            .map(drop)
    }

    /// Sets these neighbours as if they had just answered.
    ///
    /// Errors: some were not sent.
    pub(crate) fn set_neighbours(
        &self,
        ifindex: u32,
        neighbours: &[(IpAddr, [u8; 6])],
    ) -> io::Result<()> {
        for neighbours in neighbours.chunks(NEIGHBOURS_AT_ONCE) {
            let neighbours = neighbours.to_vec();
            send_at_once(
                &self.socket,
                &Request::SetNeighbours {
                    ifindex,
                    neighbours,
                },
            )?;
        }
        Ok(())
    }

    /// The kernel is to resolve these neighbours anew.
    ///
    /// Errors: some were not sent.
    pub(crate) fn forget_neighbours(&self, ifindex: u32, addresses: &[IpAddr]) -> io::Result<()> {
        for addresses in addresses.chunks(NEIGHBOURS_AT_ONCE) {
            let addresses = addresses.to_vec();
            send_at_once(
                &self.socket,
                &Request::ForgetNeighbours { ifindex, addresses },
            )?;
        }
        Ok(())
    }

    /// Has the kernel resolve a neighbour.
    pub(crate) fn resolve(&self, ifindex: u32, address: IpAddr) -> io::Result<()> {
        send_at_once(&self.socket, &Request::Resolve { ifindex, address })
    }
}

/// Whether the error means that the other end is closed.
pub(crate) fn is_end(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
    )
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn only(descriptors: Vec<OwnedFd>) -> io::Result<OwnedFd> {
    let [descriptor] = <[OwnedFd; 1]>::try_from(descriptors).map_err(|_| another_answer())?;
    Ok(descriptor)
}

fn another_answer() -> io::Error {
    io::Error::other("the broker process gave an unexpected answer")
}
