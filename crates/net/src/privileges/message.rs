// SPDX-License-Identifier: Apache-2.0
//! The messages of daemon and broker: one in each datagram, in JSON, with descriptors.
//!
//! Both ends are the same program. But the daemon reads packets from anywhere, so the broker trusts
//! nothing in a request.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::attach_point::{AttachPoint, BpfObject};
use crate::tun::LayerKind;

/// The longest message, bytes: maps' and programs' names, or the settings of programs.
const MESSAGE_BYTES_MAX: usize = 16 << 10;
/// Descriptors of one message at most: the maps of one object.
const DESCRIPTORS_MAX: usize = 64;

/// What the daemon requests.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// A device for taken packets; with its descriptor.
    Device { name: String, kind: LayerKind },
    /// The device whose packets this host routes; with its descriptor.
    RoutedDevice,
    /// An object's programs and maps; with the maps' descriptors.
    Load {
        object: BpfObject,
        settings: Vec<u8>,
        entries: Vec<(String, u32)>,
    },
    /// Loaded programs are not needed any more.
    Unload { number: u64 },
    /// One of the loaded programs is attached.
    Attach {
        number: u64,
        program: String,
        point: AttachPoint,
    },
    /// A filter is removed.
    Detach { number: u64 },
    /// A packet socket; with its descriptor.
    FrameSocket,
    /// The socket whose descriptor comes with it gets a larger buffer.
    ReceiveBuffer,
    /// The driver reports when the signal falls below `dbm`.
    WifiThreshold {
        ifindex: u32,
        dbm: i32,
        hysteresis_db: u32,
    },
    /// Sets these neighbours as if they had just answered. The broker does not reply.
    SetNeighbours {
        ifindex: u32,
        neighbours: Vec<(IpAddr, [u8; 6])>,
    },
    /// The kernel is to resolve these neighbours anew. The broker does not reply.
    ForgetNeighbours {
        ifindex: u32,
        addresses: Vec<IpAddr>,
    },
    /// The kernel resolves the neighbour. The broker does not reply.
    Resolve { ifindex: u32, address: IpAddr },
}

/// What the broker answers.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// It is done. A requested descriptor may come with it.
    Done,
    /// A device.
    Device { name: String, ifindex: u32 },
    /// The programs' number, and the names of the maps, whose descriptors come in this order.
    Loaded { number: u64, maps: Vec<String> },
    /// A filter, which is removed by this number.
    Filter { number: u64 },
    /// It failed.
    Failed { kind: usize, text: String },
}

/// The kinds of errors that callers distinguish.
const KINDS: [io::ErrorKind; 6] = [
    io::ErrorKind::PermissionDenied,
    io::ErrorKind::NotFound,
    io::ErrorKind::InvalidInput,
    io::ErrorKind::InvalidData,
    io::ErrorKind::AlreadyExists,
    io::ErrorKind::Unsupported,
];

impl Answer {
    pub(crate) fn failed(error: &io::Error) -> Self {
        let kind = KINDS.iter().position(|kind| *kind == error.kind());
        Self::Failed {
            kind: kind.unwrap_or(KINDS.len()),
            text: error.to_string(),
        }
    }

    /// The answer, or the error that it is.
    pub(crate) fn into_result(self) -> io::Result<Self> {
        match self {
            Self::Failed { kind, text } => {
                let kind = KINDS.get(kind).copied().unwrap_or(io::ErrorKind::Other);
                Err(io::Error::new(kind, text))
            }
            answer => Ok(answer),
        }
    }
}

/// Sends one message.
///
/// Errors: the other end is closed; it is too long.
pub(crate) fn send(
    socket: impl AsFd,
    message: &impl Serialize,
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    send_with(socket, message, descriptors, SendFlags::NOSIGNAL)
}

/// Sends one message that has no answer, and waits for nothing.
///
/// Errors: as of [`send`]; `WouldBlock` if the other end reads too slowly.
pub(crate) fn send_at_once(socket: impl AsFd, message: &impl Serialize) -> io::Result<()> {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    send_with(socket, message, &[], flags)
}

fn send_with(
    socket: impl AsFd,
    message: &impl Serialize,
    descriptors: &[BorrowedFd<'_>],
    flags: SendFlags,
) -> io::Result<()> {
    let octets = serde_json::to_vec(message)?;
    if octets.len() > MESSAGE_BYTES_MAX || descriptors.len() > DESCRIPTORS_MAX {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let parts = [IoSlice::new(&octets)];
    rustix::io::retry_on_intr(|| sendmsg(&socket, &parts, &mut control, flags))?;
    Ok(())
}

/// Waits for one message; none: the other end is closed.
///
/// Errors: `InvalidData` if it is no such message, and the socket's.
pub(crate) fn receive<T: DeserializeOwned>(
    socket: impl AsFd,
) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut octets = vec![0; MESSAGE_BYTES_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let mut parts = [IoSliceMut::new(&mut octets)];
        match recvmsg(&socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            received => break received?,
        }
    };
    let descriptors: Vec<OwnedFd> = control
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        })
        .flatten()
        .collect();
    if received.bytes == 0 && descriptors.is_empty() {
        return Ok(None);
    }
    if received
        .flags
        .intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC)
    {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let message = serde_json::from_slice(&octets[..received.bytes])?;
    Ok(Some((message, descriptors)))
}
