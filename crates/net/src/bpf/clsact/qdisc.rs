// SPDX-License-Identifier: Apache-2.0
//! The qdisc of an interface at `ffff:`: what it is, and whether there are filters at it.
//!
//! Messages are read no further than is needed here. A filter of a kind that is not known counts as any other.
//!
//! Source: `struct tcmsg` in `include/uapi/linux/rtnetlink.h`.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;

use netlink_packet_core::{
    NLM_F_CREATE, NLM_F_DUMP, NLM_F_ECHO, NLM_F_EXCL, NetlinkDeserializable, NetlinkHeader,
    NetlinkPayload, NetlinkSerializable,
};
use netlink_sys::protocols::NETLINK_ROUTE;

use crate::netlink::Netlink;

/// The kind of qdisc that has a hook for each way.
pub(super) const CLSACT: &str = "clsact";

const NEW_QDISC: u16 = 36;
const DELETE_QDISC: u16 = 37;
const GET_QDISC: u16 = 38;
const GET_FILTER: u16 = 46;
/// `ffff:`, the qdisc's number.
const HANDLE: u32 = 0xffff_0000;
/// `TC_H_CLSACT`, where it stands.
const PARENT: u32 = 0xffff_fff1;
/// Its hooks, ingress and egress.
const HOOKS: [u32; 2] = [0xffff_fff2, 0xffff_fff3];
/// `TCA_KIND`.
const KIND: u16 = 1;
/// The length of `struct tcmsg`.
const HEADER_BYTES: usize = 20;

/// Where such a qdisc may be, in the network namespace of the thread that made this.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Qdisc {
    pub(super) ifindex: u32,
    /// The namespace's inode: two of them may have the same indices.
    namespace: u64,
}

impl Qdisc {
    pub(super) fn at(ifindex: u32) -> io::Result<Self> {
        let namespace = fs::metadata("/proc/thread-self/ns/net")?.ino();
        Ok(Self { ifindex, namespace })
    }

    /// Makes it as clsact.
    ///
    /// Errors: `AlreadyExists` if there is one, of whichever kind.
    pub(super) fn make(&self) -> io::Result<()> {
        let message = self.message(NEW_QDISC, PARENT).of_kind(CLSACT);
        request(message, NLM_F_CREATE | NLM_F_EXCL).map(drop)
    }

    /// The kind that it has.
    pub(super) fn kind(&self) -> io::Result<String> {
        // Without this flag the kernel sends the answer to a multicast group alone.
        let answers = request(self.message(GET_QDISC, PARENT), NLM_F_ECHO)?;
        let kind = answers.iter().find_map(Message::kind);
        kind.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Whether any filter stands at it.
    pub(super) fn has_filters(&self) -> io::Result<bool> {
        for hook in HOOKS {
            if !request(self.message(GET_FILTER, hook), NLM_F_DUMP)?.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Removes it, with all filters.
    pub(super) fn remove(&self) -> io::Result<()> {
        request(self.message(DELETE_QDISC, PARENT).of_kind(CLSACT), 0).map(drop)
    }

    /// `parent`: at which part of the interface.
    fn message(&self, message_type: u16, parent: u32) -> Message {
        let handle = if message_type == GET_FILTER {
            0
        } else {
            HANDLE
        };
        // The family and the last field are 0.
        let fields = [0, self.ifindex, handle, parent, 0];
        Message {
            message_type,
            octets: fields
                .iter()
                .flat_map(|field| field.to_ne_bytes())
                .collect(),
        }
    }
}

fn request(message: Message, flags: u16) -> io::Result<Vec<Message>> {
    Netlink::open(NETLINK_ROUTE, 0)?.request(message, flags)
}

/// A message about a qdisc or a filter.
#[derive(Debug)]
struct Message {
    message_type: u16,
    octets: Vec<u8>,
}

impl Message {
    /// With the kind of the qdisc, which is shorter than 8 octets.
    fn of_kind(mut self, kind: &str) -> Self {
        let length = 4 + kind.len() as u16 + 1;
        self.octets.extend(length.to_ne_bytes());
        self.octets.extend(KIND.to_ne_bytes());
        self.octets.extend(kind.as_bytes());
        // The 0 at the text's end, and padding.
        self.octets.resize(HEADER_BYTES + 12, 0);
        self
    }

    /// The kind, if it is the first attribute, as in the kernel's messages.
    fn kind(&self) -> Option<String> {
        let attribute = self.octets.get(HEADER_BYTES..)?;
        let (header, value) = attribute.split_first_chunk::<4>()?;
        let length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let is_kind = u16::from_ne_bytes([header[2], header[3]]) == KIND;
        let value = value.get(..length.checked_sub(4)?)?;
        let end = value.iter().position(|octet| *octet == 0)?;
        let text = String::from_utf8_lossy(&value[..end]);
        is_kind.then(|| text.into_owned())
    }
}

impl From<Message> for NetlinkPayload<Message> {
    fn from(message: Message) -> Self {
        Self::InnerMessage(message)
    }
}

impl NetlinkSerializable for Message {
    fn message_type(&self) -> u16 {
        self.message_type
    }

    fn buffer_len(&self) -> usize {
        self.octets.len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        buffer.copy_from_slice(&self.octets);
    }
}

impl NetlinkDeserializable for Message {
    type Error = std::convert::Infallible;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Self, Self::Error> {
        Ok(Self {
            message_type: header.message_type,
            octets: payload.to_vec(),
        })
    }
}
