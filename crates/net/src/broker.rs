// SPDX-License-Identifier: Apache-2.0
//! The broker process: it does what its daemon requests, if that is for one of its interfaces. See
//! [`crate::privileges`].

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, FromRawFd as _, OwnedFd};

use crate::attach_point::{AttachPoint, BpfObject};
use crate::bpf::{Hook, Programs};
use crate::datapath::create_device;
use crate::group::force_receive_buffer;
use crate::inject::Injector;
use crate::mobile_path::{open_frame_socket, resolve};
use crate::nl80211::set_threshold;
use crate::privileges::{Answer, Request, is_end, keep_needed, receive, send};
use crate::rtnl::Rtnl;
use crate::tun::{Tun, interface_name, query_ifindex};

#[cfg(test)]
mod tests;

/// Limits of attached filters, of devices and of loaded objects. An interface has seven devices and three
/// objects.
const FILTERS_MAX: usize = 256;
const DEVICES_MAX: usize = 256;
const OBJECTS_MAX: usize = 64;
/// The prefix of our devices' names.
const DEVICE_PREFIX: &str = "hf";

/// The daemon whose broker it is.
#[derive(Clone, Debug)]
pub struct BrokerOptions {
    /// The daemon's interfaces.
    pub interfaces: Vec<String>,
    /// Whether the daemon sends frames.
    pub opens_packet_sockets: bool,
}

/// Runs the broker, with the socket to the daemon as standard input, until that end is closed. It drops
/// the capabilities that it does not need.
///
/// Errors: standard input is no socket of the daemon; capabilities cannot be dropped.
pub fn run(options: &BrokerOptions) -> io::Result<()> {
    // It is executed as /proc/self/exe: `ps` would show it as `exe`.
    rustix::thread::set_name(c"holdfast-broker")?;
    keep_needed(options.opens_packet_sockets)?;
    // SAFETY: standard input is open, or the kernel refuses its first use; nothing else reads it.
    let socket = unsafe { OwnedFd::from_raw_fd(0) };
    serve(&socket, options)
}

/// Does what the daemon at the other end of `socket` requests, until that end is closed.
///
/// Errors: the socket's.
fn serve(socket: impl AsFd, options: &BrokerOptions) -> io::Result<()> {
    let mut broker = Broker {
        options,
        devices: BTreeSet::new(),
        objects: BTreeMap::new(),
        filters: ManuallyDrop::default(),
        numbers: 0,
        rtnl: None,
    };
    loop {
        let answer = match receive(&socket) {
            Ok(None) => return Ok(()),
            Ok(Some((request, descriptors))) => broker.obey(request, descriptors),
            Err(error) if is_end(&error) => return Ok(()),
            Err(error) if is_about_message(&error) => Err(error),
            Err(error) => return Err(error),
        };
        let (answer, descriptors) = match answer {
            Ok(None) => continue,
            Ok(Some(answer)) => answer,
            Err(error) => (Answer::failed(&error), Vec::new()),
        };
        let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
        match send(&socket, &answer, &borrowed) {
            Err(error) if is_end(&error) => return Ok(()),
            sent => sent?,
        }
    }
}

/// Whether the error is about the message: this program sends no such message.
fn is_about_message(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof
    )
}

/// An answer, and the descriptors that come with it.
type AnswerWith = (Answer, Vec<OwnedFd>);

struct Broker<'a> {
    options: &'a BrokerOptions,
    /// The indices of devices that it has made.
    devices: BTreeSet<u32>,
    /// Loaded programs by their numbers.
    objects: BTreeMap<u64, Programs>,
    /// Attached filters by their numbers. When the daemon has ended they stay: a successor replaces them, or
    /// has done so already.
    filters: ManuallyDrop<BTreeMap<u64, Hook>>,
    /// The last number of a filter or of loaded programs.
    numbers: u64,
    rtnl: Option<Rtnl>,
}

impl Broker<'_> {
    /// The answer; none: the request has none.
    ///
    /// Errors: what failed, or what is refused.
    fn obey(
        &mut self,
        request: Request,
        mut descriptors: Vec<OwnedFd>,
    ) -> io::Result<Option<AnswerWith>> {
        let answer = match request {
            Request::Device { name, kind } => {
                if !name.starts_with(DEVICE_PREFIX) {
                    return Err(refused("a device of this name"));
                }
                self.made(create_device(&name, kind)?)?
            }
            Request::RoutedDevice => self.made(Injector::create()?.into_device())?,
            Request::Load {
                object,
                settings,
                entries,
            } => self.load(object, &settings, &entries)?,
            Request::Unload { number } => {
                let programs = self.objects.remove(&number);
                programs.ok_or(io::ErrorKind::NotFound)?;
                done()
            }
            Request::Attach {
                number,
                program,
                point,
            } => self.attach(number, &program, point)?,
            Request::Detach { number } => {
                let filter = self.filters.remove(&number);
                filter.ok_or(io::ErrorKind::NotFound)?;
                done()
            }
            Request::FrameSocket => (Answer::Done, vec![open_frame_socket()?]),
            Request::ReceiveBuffer => {
                let socket = descriptors.pop();
                force_receive_buffer(&socket.ok_or(io::ErrorKind::InvalidInput)?)?;
                done()
            }
            Request::WifiThreshold {
                ifindex,
                dbm,
                hysteresis_db,
            } => {
                if !self.is_served(ifindex) {
                    return Err(refused("another interface"));
                }
                set_threshold(ifindex, dbm, hysteresis_db)?;
                done()
            }
            // If one cannot be set or forgotten, the kernel resolves it with the next packet.
            Request::SetNeighbours {
                ifindex,
                neighbours,
            } => {
                if let Some(rtnl) = self.rtnl_for(ifindex) {
                    for (address, mac) in neighbours {
                        let _ = rtnl.set_neighbour(ifindex, address, mac);
                    }
                }
                return Ok(None);
            }
            Request::ForgetNeighbours { ifindex, addresses } => {
                if let Some(rtnl) = self.rtnl_for(ifindex) {
                    for address in addresses {
                        let _ = rtnl.forget_neighbour(ifindex, address);
                    }
                }
                return Ok(None);
            }
            Request::Resolve { ifindex, address } => {
                if self.is_served(ifindex) {
                    let _ = resolve(ifindex, address);
                }
                return Ok(None);
            }
        };
        Ok(Some(answer))
    }

    /// A device, to be handed over.
    fn made(&mut self, device: Tun) -> io::Result<AnswerWith> {
        let (name, ifindex) = (device.name().to_owned(), device.ifindex());
        self.devices.retain(|known| interface_name(*known).is_ok());
        if self.devices.len() >= DEVICES_MAX {
            return Err(refused("one more device"));
        }
        self.devices.insert(ifindex);
        let answer = Answer::Device { name, ifindex };
        Ok((answer, vec![device.into_descriptor()]))
    }

    fn load(
        &mut self,
        object: BpfObject,
        settings: &[u8],
        entries: &[(String, u32)],
    ) -> io::Result<AnswerWith> {
        let is_known =
            |ifindex| ifindex == 0 || self.devices.contains(&ifindex) || self.is_served(ifindex);
        if !object.ifindices(settings).all(is_known) {
            return Err(refused("programs for another interface"));
        }
        if self.objects.len() >= OBJECTS_MAX {
            return Err(refused("one more object"));
        }
        let entries = entries.iter();
        let entries: Vec<_> = entries.map(|(name, count)| (&**name, *count)).collect();
        let programs = Programs::load(object, settings, &entries)?;
        let (maps, descriptors) = programs.map_descriptors()?.into_iter().unzip();
        let number = self.next_number();
        self.objects.insert(number, programs);
        Ok((Answer::Loaded { number, maps }, descriptors))
    }

    fn attach(&mut self, number: u64, program: &str, point: AttachPoint) -> io::Result<AnswerWith> {
        if !self.devices.contains(&point.ifindex) && !self.is_served(point.ifindex) {
            return Err(refused("another interface"));
        }
        if self.filters.len() >= FILTERS_MAX {
            return Err(refused("one more filter"));
        }
        let programs = self.objects.get(&number);
        let programs = programs.ok_or(io::ErrorKind::NotFound)?;
        let hook = programs.attach_at(program, point)?;
        if let Some(link) = hook.link()? {
            return Ok((Answer::Done, vec![link]));
        }
        let number = self.next_number();
        self.filters.insert(number, hook);
        Ok((Answer::Filter { number }, Vec::new()))
    }

    const fn next_number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Whether the interface is one of the daemon's.
    fn is_served(&self, ifindex: u32) -> bool {
        let mut names = self.options.interfaces.iter();
        names.any(|name| query_ifindex(name).is_ok_and(|index| index == ifindex))
    }

    /// None: the interface is none of the daemon's, or there is no socket.
    fn rtnl_for(&mut self, ifindex: u32) -> Option<&Rtnl> {
        if !self.is_served(ifindex) {
            return None;
        }
        if self.rtnl.is_none() {
            self.rtnl = Rtnl::open().ok();
        }
        self.rtnl.as_ref()
    }
}

const fn done() -> AnswerWith {
    (Answer::Done, Vec::new())
}

fn refused(what: &str) -> io::Error {
    let text = format!("the broker process refuses {what}");
    io::Error::new(io::ErrorKind::PermissionDenied, text)
}
