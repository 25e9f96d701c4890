// SPDX-License-Identifier: Apache-2.0
//! How the link reads, writes and waits: by io_uring, or by `poll` where the kernel has none for us.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use anyhow::Context as _;
use holdfast_net::readiness::wait_readable;
use holdfast_net::tun::Tun;
use holdfast_net::tun_ring::{PACKET_BYTES_MAX, TunRing};

use super::super::Side;
use super::burst::{Burst, READS_PER_TURN};

/// The descriptors that also end a wait: the signals, and the standard input while the link reads it.
pub(super) type Watched<'a> = (BorrowedFd<'a>, Option<BorrowedFd<'a>>);

/// The devices of both sides.
pub(super) struct Devices {
    pub(super) fh: Tun,
    pub(super) mh: Tun,
    /// Packets that a device did not take.
    pub(super) drops: u64,
    calls: Calls,
}

/// The system calls for packets.
enum Calls {
    Ring(Box<TunRing<2, 2>>),
    Poll(Poll),
}

/// `poll`, `read` and `write`.
struct Poll {
    /// How many packets each device is read for before the next wait.
    bursts: [Burst; 2],
    /// How many packets may still be read in this turn.
    left: [usize; 2],
    /// How many packets were read in this turn.
    reads: [usize; 2],
    buffer: Box<[u8]>,
}

impl Devices {
    /// Uses io_uring if the kernel has it.
    pub(super) fn new(fh: Tun, mh: Tun) -> Self {
        let calls = Calls::of(&fh, &mh);
        Self {
            fh,
            mh,
            drops: 0,
            calls,
        }
    }

    fn device(&self, side: Side) -> &Tun {
        match side {
            Side::Fh => &self.fh,
            Side::Mh => &self.mh,
        }
    }

    /// A packet from the device of `side`. None: no packet waits, or this turn has read enough.
    pub(super) fn read(&mut self, side: Side) -> anyhow::Result<Option<Box<[u8]>>> {
        let device = match side {
            Side::Fh => &self.fh,
            Side::Mh => &self.mh,
        };
        let packet = match &mut self.calls {
            Calls::Ring(ring) => ring.read(side as usize).map(|packet| packet.map(Box::from)),
            Calls::Poll(poll) => poll.read(side, device),
        };
        packet.with_context(|| format!("{}: cannot read", device.name()))
    }

    /// Writes a packet into the device of `side`, at the next wait at the latest.
    pub(super) fn write(&mut self, side: Side, packet: Box<[u8]>) -> anyhow::Result<()> {
        match &mut self.calls {
            Calls::Ring(ring) => Ok(ring.write(side as usize, packet)?),
            Calls::Poll(_) => match self.device(side).write(&packet) {
                Ok(_) => Ok(()),
                Err(error) => self.not_written(side, error),
            },
        }
    }

    /// Waits for a packet, for one of `watched`, or for the end of `timeout`. Returns which of `watched` can
    /// be read.
    pub(super) fn wait(
        &mut self,
        watched: Watched<'_>,
        timeout: Option<Duration>,
    ) -> anyhow::Result<[bool; 2]> {
        let ring = match &mut self.calls {
            Calls::Ring(ring) => ring,
            Calls::Poll(poll) => {
                let devices = [self.fh.as_fd(), self.mh.as_fd()];
                return Ok(poll.wait(devices, watched, timeout)?);
            }
        };
        let readable = ring.wait([Some(watched.0), watched.1], timeout)?;
        for (device, error) in ring.write_errors() {
            self.not_written([Side::Fh, Side::Mh][device], error)?;
        }
        Ok(readable)
    }

    fn not_written(&mut self, side: Side, error: io::Error) -> anyhow::Result<()> {
        // EBADFD: the device does not exist any more. Anything else is about this packet:
        // the device is down (EIO), or the packet is no IP any more (EINVAL).
        if error.raw_os_error() == Some(libc::EBADFD) {
            let name = self.device(side).name();
            return Err(error).with_context(|| format!("{name}: cannot write"));
        }
        self.drops += 1;
        Ok(())
    }
}

impl Calls {
    fn of(fh: &Tun, mh: &Tun) -> Self {
        match TunRing::new([fh.as_fd(), mh.as_fd()]) {
            Ok(ring) => Self::Ring(Box::new(ring)),
            Err(error) => {
                tracing::debug!("no io_uring: {error}");
                Self::Poll(Poll::new())
            }
        }
    }
}

impl Poll {
    fn new() -> Self {
        Self {
            bursts: [Burst::default(); 2],
            left: [0; 2],
            reads: [0; 2],
            buffer: vec![0; PACKET_BYTES_MAX].into_boxed_slice(),
        }
    }

    fn read(&mut self, side: Side, device: &Tun) -> io::Result<Option<Box<[u8]>>> {
        let (burst, left) = (
            &mut self.bursts[side as usize],
            &mut self.left[side as usize],
        );
        if *left == 0 {
            return Ok(None);
        }
        match device.read(&mut self.buffer) {
            Ok(len) => {
                *left -= 1;
                self.reads[side as usize] += 1;
                burst.read();
                Ok(Some(self.buffer[..len].into()))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                *left = 0;
                burst.ended();
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn wait(
        &mut self,
        [fh, mh]: [BorrowedFd<'_>; 2],
        (signal, input): Watched<'_>,
        timeout: Option<Duration>,
    ) -> io::Result<[bool; 2]> {
        // More packets may wait in a device from which this turn has read as many as it may.
        let goes_on = self.reads.contains(&READS_PER_TURN);
        let timeout = if goes_on {
            Some(Duration::ZERO)
        } else {
            timeout
        };
        let (readable, others) = if let Some(input) = input {
            let [fh, mh, signal, input] = wait_readable([fh, mh, signal, input], timeout)?;
            ([fh, mh], [signal, input])
        } else {
            let [fh, mh, signal] = wait_readable([fh, mh, signal], timeout)?;
            ([fh, mh], [signal, false])
        };
        for (burst, readable) in self.bursts.iter_mut().zip(readable) {
            burst.waited(readable);
        }
        self.left = self.bursts.map(|burst| burst.quota());
        self.reads = [0; 2];
        Ok(others)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, UdpSocket};
    use std::os::unix::net::UnixStream;

    use holdfast_net::netns::NetNs;
    use holdfast_net::rtnl::Rtnl;
    use holdfast_net::tun::TunOptions;
    use holdfast_net::virtual_kernel::{goes_on_here, goes_on_in_virtual_time};

    use super::*;

    /// A wait for anything ends in a failure after this.
    const DEADLINE: Duration = Duration::from_secs(60);

    /// Devices with 10.0.0.1 on the FH's side and 10.1.0.1 on the MH's, and a socket on each side that
    /// talks to the address after.
    fn open(calls: fn(&Tun, &Tun) -> Calls) -> (Devices, [UdpSocket; 2], NetNs) {
        let netns = NetNs::new().unwrap();
        let tun = |name: &str| {
            let options = TunOptions {
                name: name.to_owned(),
                up: true,
                ..TunOptions::default()
            };
            Tun::create(&options).unwrap()
        };
        let make = || {
            let tuns = ["fh", "mh"].map(tun);
            let sockets = [0, 1].map(|net: u8| {
                let rtnl = Rtnl::open().unwrap();
                let ifindex = tuns[usize::from(net)].ifindex();
                rtnl.add_address(ifindex, [10, net, 0, 1].into(), 24)
                    .unwrap();
                let socket = UdpSocket::bind((Ipv4Addr::new(10, net, 0, 1), 7000)).unwrap();
                socket
                    .connect((Ipv4Addr::new(10, net, 0, 2), 7000))
                    .unwrap();
                socket.set_read_timeout(Some(DEADLINE)).unwrap();
                socket
            });
            (tuns, sockets)
        };
        let ([fh, mh], sockets) = netns.run(make).unwrap();
        let calls = calls(&fh, &mh);
        let drops = 0;
        let devices = Devices {
            fh,
            mh,
            drops,
            calls,
        };
        (devices, sockets, netns)
    }

    /// What the virtual kernel is to have.
    fn ring(fh: &Tun, mh: &Tun) -> Calls {
        let calls = Calls::of(fh, mh);
        assert!(matches!(calls, Calls::Ring(_)));
        calls
    }

    fn poll(_: &Tun, _: &Tun) -> Calls {
        Calls::Poll(Poll::new())
    }

    /// What its sender sent, sent back to it.
    fn answer(datagram: &[u8]) -> Box<[u8]> {
        let mut answer = datagram.to_vec();
        let (source, destination) = answer[12..20].split_at_mut(4);
        source.swap_with_slice(destination);
        answer.into()
    }

    /// Reads datagrams of both sides, answers them, and checks their order.
    fn answers_both_sides(calls: fn(&Tun, &Tun) -> Calls) {
        let (mut devices, sockets, _netns) = open(calls);
        let (signal, _sender) = UnixStream::pair().unwrap();
        // Bursts that are shorter and longer than a turn's reads.
        for burst in [1, 2, 3 * READS_PER_TURN as u8, 2] {
            for number in 0..burst {
                for socket in &sockets {
                    socket.send(&[number]).unwrap();
                }
            }
            let mut next = [0; 2];
            while next != [burst; 2] {
                devices
                    .wait((signal.as_fd(), None), Some(DEADLINE))
                    .unwrap();
                for side in [Side::Fh, Side::Mh] {
                    while let Some(packet) = devices.read(side).unwrap() {
                        // The kernel's own talk is no UDP over IPv4.
                        if packet[0] == 0x45 && packet[9] == 17 {
                            assert_eq!(packet[28], next[side as usize]);
                            next[side as usize] += 1;
                            devices.write(side, answer(&packet)).unwrap();
                        }
                    }
                }
            }
            devices
                .wait((signal.as_fd(), None), Some(Duration::ZERO))
                .unwrap();
            for socket in &sockets {
                for number in 0..burst {
                    let mut payload = [0; 2];
                    assert_eq!(socket.recv(&mut payload).unwrap(), 1);
                    assert_eq!(payload[0], number);
                }
            }
        }
        assert_eq!(devices.drops, 0);
    }

    #[test]
    fn packets_of_both_sides_keep_their_order_with_io_uring() {
        if goes_on_in_virtual_time() {
            answers_both_sides(ring);
        }
    }

    #[test]
    fn packets_of_both_sides_keep_their_order_with_poll() {
        if goes_on_here() {
            answers_both_sides(poll);
        }
    }

    /// A signal, a line and a packet that no device takes.
    fn other_events(calls: fn(&Tun, &Tun) -> Calls) {
        let (mut devices, _sockets, _netns) = open(calls);
        let (signal, sender) = UnixStream::pair().unwrap();
        let (input, line) = UnixStream::pair().unwrap();
        let wait = |devices: &mut Devices| {
            let watched = (signal.as_fd(), Some(input.as_fd()));
            loop {
                let readable = devices.wait(watched, Some(DEADLINE)).unwrap();
                let packets = [Side::Fh, Side::Mh].map(|side| devices.read(side).unwrap());
                // The kernel's own packets end waits too.
                if readable != [false; 2] || packets.iter().all(Option::is_none) {
                    return readable;
                }
            }
        };
        std::io::Write::write_all(&mut (&line), b"start").unwrap();
        assert_eq!(wait(&mut devices), [false, true]);
        std::io::Read::read_exact(&mut (&input), &mut [0; 5]).unwrap();
        std::io::Write::write_all(&mut (&sender), b"x").unwrap();
        assert_eq!(wait(&mut devices), [true, false]);
        devices.write(Side::Mh, [0xff; 40].into()).unwrap();
        wait(&mut devices);
        assert_eq!(devices.drops, 1);
    }

    #[test]
    fn signals_lines_and_drops_are_noticed_with_io_uring() {
        if goes_on_in_virtual_time() {
            other_events(ring);
        }
    }

    #[test]
    fn signals_lines_and_drops_are_noticed_with_poll() {
        if goes_on_here() {
            other_events(poll);
        }
    }
}
