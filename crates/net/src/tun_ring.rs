// SPDX-License-Identifier: Apache-2.0
//! Reads and writes devices by io_uring: one system call writes all that is due and waits for the
//! next packet. With `poll`, `read` and `write` each packet takes four system calls.
//!
//! Source: io_uring(7), io_uring_enter(2), io_uring_setup(2).

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, opcode, squeue};

/// How many requests fit before they go to the kernel.
const ENTRIES: u32 = 256;
/// The longest packet that a device gives.
pub const PACKET_BYTES_MAX: usize = 65_536;
/// A longer wait ends after this: the kernel adds it to the present time, which must not overflow.
const WAIT_MAX: Duration = Duration::from_secs(3600);
/// Kinds of requests, in the upper half of `user_data`. The lower half has the number of the device
/// or of the watched descriptor.
const READ: u64 = 0;
const WRITE: u64 = 1 << 32;
const WATCH: u64 = 2 << 32;

/// One device.
#[derive(Debug)]
struct Port {
    device: OwnedFd,
    /// The kernel writes the next packet here while `state` is `Reading`.
    buffer: Box<[u8]>,
    state: PortState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PortState {
    Idle,
    Reading,
    /// The buffer has a packet with this number of bytes.
    Full(usize),
    /// It cannot be read; `errno`.
    Failed(i32),
}

/// `N` devices that give and take one packet a call, and `W` other descriptors, in one io_uring.
///
/// Only the thread that made it may use it.
pub struct TunRing<const N: usize, const W: usize> {
    ring: IoUring,
    ports: [Port; N],
    /// Which of the watched descriptors the kernel looks at.
    watching: [bool; W],
    /// The kernel reads these packets when the requests are submitted.
    writes: Vec<Box<[u8]>>,
    /// Which devices did not take a packet, and why.
    write_errors: Vec<(usize, io::Error)>,
    not_send: PhantomData<*const ()>,
}

impl<const N: usize, const W: usize> TunRing<N, W> {
    /// Takes non-blocking devices.
    ///
    /// Errors: the kernel is older than 6.6, or forbids io_uring (`kernel.io_uring_disabled`,
    /// seccomp).
    pub fn new(devices: [BorrowedFd<'_>; N]) -> io::Result<Self> {
        // A child gets no copy of the ring's memory: User Mode Linux counts its pages wrongly then.
        let ring = IoUring::builder()
            .dontfork()
            // Linux 6.6 has it. TUN takes the requests below from 6.4 on.
            .setup_no_sqarray()
            .setup_submit_all()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .build(ENTRIES)?;
        let mut ports = Vec::with_capacity(N);
        for device in devices {
            ports.push(Port {
                device: device.try_clone_to_owned()?,
                buffer: vec![0; PACKET_BYTES_MAX].into_boxed_slice(),
                state: PortState::Idle,
            });
        }
        Ok(Self {
            ring,
            ports: ports.try_into().expect("one port for each device"),
            watching: [false; W],
            writes: Vec::new(),
            write_errors: Vec::new(),
            not_send: PhantomData,
        })
    }

    /// Writes a packet with the next [`TunRing::wait`]; [`TunRing::write_errors`] has the failures.
    ///
    /// Errors: the kernel takes no requests.
    pub fn write(&mut self, device: usize, packet: Box<[u8]>) -> io::Result<()> {
        let fd = Fd(self.ports[device].device.as_raw_fd());
        // With NOWAIT the kernel completes the request while it takes it.
        let entry = opcode::Write::new(fd, packet.as_ptr(), packet.len() as u32)
            .rw_flags(libc::RWF_NOWAIT)
            .build()
            .flags(squeue::Flags::SKIP_SUCCESS)
            .user_data(WRITE | device as u64);
        self.writes.push(packet);
        // SAFETY: `writes` has the packet until the kernel has taken the request.
        unsafe { self.push(&entry) }
    }

    /// Writes what is due and waits until a device has a packet, one of `watched` can be read, or
    /// `timeout` is over; returns which of `watched` can. They are the same ones in each call, but
    /// one may be left out from some time on. A wait may end early.
    pub fn wait(
        &mut self,
        watched: [Option<BorrowedFd<'_>>; W],
        timeout: Option<Duration>,
    ) -> io::Result<[bool; W]> {
        self.request(watched)?;
        let time = timeout.map(|timeout| Timespec::from(timeout.min(WAIT_MAX)));
        let mut arguments = SubmitArgs::new();
        if let Some(time) = &time {
            arguments = arguments.timespec(time);
        }
        match self.ring.submitter().submit_with_args(1, &arguments) {
            Ok(_) => {}
            // The time is over, or a signal has come.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR)) => {}
            Err(error) => return Err(error),
        }
        if self.ring.submission().is_empty() {
            self.writes.clear();
        }
        let readable = self.complete()?;
        Ok(std::array::from_fn(|number| {
            readable[number] && watched[number].is_some()
        }))
    }

    /// The packet that came from `device` in the last wait. The next one comes after this one was
    /// taken.
    ///
    /// Errors: the device cannot be read any more.
    pub fn read(&mut self, device: usize) -> io::Result<Option<&[u8]>> {
        let port = &mut self.ports[device];
        match port.state {
            PortState::Full(len) => {
                port.state = PortState::Idle;
                Ok(Some(&port.buffer[..len]))
            }
            PortState::Failed(errno) => Err(io::Error::from_raw_os_error(errno)),
            PortState::Idle | PortState::Reading => Ok(None),
        }
    }

    /// The devices that did not take a packet since the last call, and why.
    pub fn write_errors(&mut self) -> Vec<(usize, io::Error)> {
        std::mem::take(&mut self.write_errors)
    }

    /// Requests reads and watches that the kernel is not doing already.
    fn request(&mut self, watched: [Option<BorrowedFd<'_>>; W]) -> io::Result<()> {
        for device in 0..N {
            let port = &mut self.ports[device];
            if port.state != PortState::Idle {
                continue;
            }
            let fd = Fd(port.device.as_raw_fd());
            let entry = opcode::Read::new(fd, port.buffer.as_mut_ptr(), PACKET_BYTES_MAX as u32)
                .build()
                .user_data(READ | device as u64);
            // SAFETY: the buffer is not touched while the state is `Reading`, and lives as long
            // as the request: `drop` cancels it first.
            unsafe { self.push(&entry)? };
            self.ports[device].state = PortState::Reading;
        }
        for (number, fd) in watched.iter().enumerate() {
            let Some(fd) = fd.filter(|_| !self.watching[number]) else {
                continue;
            };
            let entry = opcode::PollAdd::new(Fd(fd.as_raw_fd()), libc::POLLIN as u32)
                .build()
                .user_data(WATCH | number as u64);
            // SAFETY: the request has no memory of ours.
            unsafe { self.push(&entry)? };
            self.watching[number] = true;
        }
        Ok(())
    }

    /// Gives a request to the ring.
    ///
    /// # Safety
    /// The memory that the request names lives until the kernel has completed it.
    unsafe fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        // SAFETY: the caller keeps the request's memory.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            // It is full.
            self.ring.submit()?;
        }
        Ok(())
    }

    /// Notes what the kernel has completed. Returns which of the watched descriptors can be read.
    fn complete(&mut self) -> io::Result<[bool; W]> {
        let mut readable = [false; W];
        for entry in self.ring.completion() {
            let number = (entry.user_data() & u64::from(u32::MAX)) as usize;
            let errno = -entry.result();
            match entry.user_data() & !u64::from(u32::MAX) {
                READ => {
                    self.ports[number].state = match usize::try_from(entry.result()) {
                        Ok(len) => PortState::Full(len),
                        Err(_) if errno == libc::EAGAIN || errno == libc::EINTR => PortState::Idle,
                        Err(_) => PortState::Failed(errno),
                    }
                }
                WRITE => {
                    let error = io::Error::from_raw_os_error(errno);
                    self.write_errors.push((number, error));
                }
                _ => {
                    self.watching[number] = false;
                    if errno > 0 {
                        return Err(io::Error::from_raw_os_error(errno));
                    }
                    readable[number] = true;
                }
            }
        }
        Ok(readable)
    }

    /// Ends all requests, so that the kernel uses no device and no buffer any more.
    fn cancel(&mut self) -> io::Result<()> {
        let submitter = self.ring.submitter();
        match submitter.register_sync_cancel(None, CancelBuilder::any()) {
            // There is no request.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
            cancelled => cancelled?,
        }
        while self.is_requesting() {
            let flags = EnterFlags::GETEVENTS.bits();
            // SAFETY: nothing is submitted, and there is no argument.
            let entered = unsafe { self.ring.submitter().enter::<()>(0, 1, flags, None) };
            match entered {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            // Errors are of watched descriptors: their requests are cancelled too.
            let _ = self.complete();
        }
        Ok(())
    }

    /// Whether the kernel has a request that is not completed.
    fn is_requesting(&self) -> bool {
        let reads = |port: &Port| port.state == PortState::Reading;
        self.ports.iter().any(reads) || self.watching.contains(&true)
    }
}

impl<const N: usize, const W: usize> Drop for TunRing<N, W> {
    fn drop(&mut self) {
        // Closing the ring cancels requests too, but the devices would go some time later.
        if self.ring.submit().is_err() || self.cancel().is_err() {
            // The kernel may still write into these buffers.
            for port in &mut self.ports {
                std::mem::forget(std::mem::take(&mut port.buffer));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;
    use std::time::Instant;

    use rustix::net::sockopt::set_socket_recv_buffer_size;

    use super::*;
    use crate::netns::NetNs;
    use crate::readiness::Waker;
    use crate::rtnl::Rtnl;
    use crate::tun::{Tun, TunOptions, query_ifindex};
    use crate::virtual_kernel::goes_on_in_virtual_time;

    /// A test that waits longer fails.
    const DEADLINE: Duration = Duration::from_secs(60);

    /// Enough for all answers that are sent at once.
    const RECEIVE_BYTES: usize = 200_000;

    /// A device with 10.0.0.1, and a socket that talks to 10.0.0.2 behind it.
    struct Host {
        netns: NetNs,
        tun: Tun,
        socket: UdpSocket,
    }

    impl Host {
        fn new() -> Self {
            let netns = NetNs::new().unwrap();
            let open = || {
                let options = TunOptions {
                    name: "ring".into(),
                    up: true,
                    ..TunOptions::default()
                };
                let tun = Tun::create(&options).unwrap();
                let rtnl = Rtnl::open().unwrap();
                rtnl.add_address(tun.ifindex(), [10, 0, 0, 1].into(), 24)
                    .unwrap();
                let socket = UdpSocket::bind("10.0.0.1:7000").unwrap();
                socket.connect("10.0.0.2:7000").unwrap();
                socket.set_read_timeout(Some(DEADLINE)).unwrap();
                set_socket_recv_buffer_size(&socket, RECEIVE_BYTES).unwrap();
                (tun, socket)
            };
            let (tun, socket) = netns.run(open).unwrap();
            Self { netns, tun, socket }
        }
    }

    /// The next IPv4 packet with UDP; the kernel's own packets are skipped.
    fn next_datagram(ring: &mut TunRing<1, 2>) -> Option<Vec<u8>> {
        loop {
            if let Some(packet) = ring.read(0).unwrap() {
                if packet[0] == 0x45 && packet[9] == 17 {
                    return Some(packet.to_vec());
                }
                continue;
            }
            ring.wait([None; 2], Some(Duration::from_secs(1))).unwrap();
            if ring.ports[0].state == PortState::Reading {
                return None;
            }
        }
    }

    /// A datagram turned around.
    fn answer(datagram: &[u8]) -> Box<[u8]> {
        let mut answer = datagram.to_vec();
        let (source, destination) = answer[12..20].split_at_mut(4);
        source.swap_with_slice(destination);
        answer.into()
    }

    #[test]
    fn all_that_waits_is_read_in_order_and_all_answers_arrive() {
        if !goes_on_in_virtual_time() {
            return;
        }
        let host = Host::new();
        let mut ring = TunRing::new([host.tun.as_fd()]).unwrap();
        // More answers than the ring has entries.
        let count = 2 * ENTRIES + 10;
        let mut answers = Vec::new();
        for numbers in (0..count).collect::<Vec<_>>().chunks(50) {
            for number in numbers {
                host.socket.send(&number.to_be_bytes()).unwrap();
            }
            for number in numbers {
                let datagram = next_datagram(&mut ring).expect("a datagram");
                assert_eq!(datagram[28..], number.to_be_bytes());
                answers.push(answer(&datagram));
            }
        }
        for chunk in answers.chunks(ENTRIES as usize + 10) {
            for answer in chunk {
                ring.write(0, answer.clone()).unwrap();
            }
            ring.wait([None; 2], Some(Duration::ZERO)).unwrap();
            for answer in chunk {
                let mut payload = [0; 8];
                assert_eq!(host.socket.recv(&mut payload).unwrap(), 4);
                assert_eq!(payload[..4], answer[28..]);
            }
        }
        assert!(ring.write_errors().is_empty());
    }

    #[test]
    fn a_wait_ends_with_a_watched_descriptor_or_its_time() {
        if !goes_on_in_virtual_time() {
            return;
        }
        let host = Host::new();
        let mut ring = TunRing::new([host.tun.as_fd()]).unwrap();
        while next_datagram(&mut ring).is_some() {}
        let [first, second] = [(); 2].map(|()| Waker::new().unwrap());
        let both = [Some(first.as_fd()), Some(second.as_fd())];
        let mut wait = |watched, time: Duration| {
            let began = Instant::now();
            let readable = ring.wait(watched, Some(time)).unwrap();
            (readable, began.elapsed())
        };
        let time = Duration::from_millis(50);
        let (readable, took) = wait(both, time);
        assert_eq!(readable, [false, false]);
        assert!(took >= time, "{took:?}");
        for _ in 0..2 {
            second.wake();
            assert_eq!(wait(both, DEADLINE).0, [false, true]);
            second.reset();
        }
        // One that is left out is not reported.
        first.wake();
        second.wake();
        assert_eq!(wait([None, both[1]], DEADLINE).0, [false, true]);
        second.reset();
        let (readable, took) = wait([None, both[1]], time);
        assert_eq!(readable, [false, false]);
        assert!(took >= time, "{took:?}");
    }

    #[test]
    fn the_longest_wait_lasts() {
        if !goes_on_in_virtual_time() {
            return;
        }
        let host = Host::new();
        let waker = Waker::new().unwrap();
        let (remote, later) = (waker.clone(), Duration::from_secs(5));
        let began = Instant::now();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(later);
            remote.wake();
        });
        let mut ring = TunRing::new([host.tun.as_fd()]).unwrap();
        let watched = [Some(waker.as_fd())];
        let mut waits = 0;
        while ring.wait(watched, Some(Duration::MAX)).unwrap() == [false] {
            drop(ring.read(0));
            waits += 1;
        }
        assert!(began.elapsed() >= later);
        // The kernel's own packets end some.
        assert!(waits < 100, "{waits} waits");
        thread.join().unwrap();
    }

    #[test]
    fn a_packet_that_is_not_taken_is_an_error_of_its_device() {
        if !goes_on_in_virtual_time() {
            return;
        }
        let hosts = [Host::new(), Host::new()];
        let mut ring = TunRing::new([hosts[0].tun.as_fd(), hosts[1].tun.as_fd()]).unwrap();
        ring.write(1, vec![0xff; 40].into()).unwrap();
        ring.wait([], Some(Duration::ZERO)).unwrap();
        let errors = ring.write_errors();
        let errors: Vec<_> = errors
            .iter()
            .map(|(device, error)| (*device, error.raw_os_error()))
            .collect();
        assert_eq!(errors, [(1, Some(libc::EINVAL))], "it is no IP packet");
        assert!(ring.write_errors().is_empty());
    }

    #[test]
    fn a_device_ends_with_its_owner_and_the_ring() {
        if !goes_on_in_virtual_time() {
            return;
        }
        let Host { netns, tun, socket } = Host::new();
        let waker = Waker::new().unwrap();
        let mut ring = TunRing::new([tun.as_fd()]).unwrap();
        let watched = [Some(waker.as_fd())];
        ring.wait(watched, Some(Duration::ZERO)).unwrap();
        drop(socket);
        drop(tun);
        let is_there = || netns.run(|| query_ifindex("ring").is_ok()).unwrap();
        assert!(is_there());
        drop(ring);
        assert!(!is_there());
    }
}
