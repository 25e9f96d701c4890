// SPDX-License-Identifier: Apache-2.0
//! How the worker reads frames: in batches, the directions in turn; and how it waits for frames.

use std::io;
use std::os::fd::AsFd as _;

use holdfast_core::Direction;
use holdfast_net::datapath::{HEARTBEAT_INTERVAL, now};
use holdfast_net::readiness::wait_readable;
use holdfast_net::tun::Tun;

use super::{BATCH_FRAMES, DIRECTIONS, Station, Worker};

impl Worker {
    /// Reads a batch of each direction; true if there may be more.
    pub(super) fn read_batches(&mut self) -> io::Result<bool> {
        let mut more = false;
        self.starved = false;
        for (direction, quota) in DIRECTIONS.into_iter().zip(self.quota) {
            let read = self.read_batch(direction, quota)?;
            more |= read == quota && quota == BATCH_FRAMES;
        }
        Ok(more)
    }

    /// Reads up to `quota` frames of one direction; returns their number.
    pub(super) fn read_batch(&mut self, direction: Direction, quota: usize) -> io::Result<usize> {
        let mut read = 0;
        while read < quota {
            // Copies come first: they passed before the first segment of their peer was taken.
            self.is_copy = true;
            let next = match self.path.read_copy(direction, &mut self.pool) {
                Ok(None) => {
                    self.is_copy = false;
                    self.path.read(direction, &mut self.pool)
                }
                copy => copy,
            };
            match next {
                Ok(Some(frame)) => self.handle(direction, &frame),
                Ok(None) => break,
                // Too short or too long for a frame: nothing to forward.
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {}
                // No buffer is free: frames wait in the device, or the kernel passes them.
                Err(error) if error.kind() == io::ErrorKind::OutOfMemory => {
                    self.counters.starved += 1;
                    self.starved = true;
                    break;
                }
                Err(error) => return Err(error),
            }
            read += 1;
        }
        Ok(read)
    }

    /// Sleeps until there is something to do, at most until the next heartbeat.
    pub(super) fn wait(&mut self) -> io::Result<()> {
        let now = now();
        let station = self.station.as_ref();
        let due = [
            self.rests_until.or_else(|| self.engine.poll_timeout()),
            station.and_then(Station::poll_timeout),
        ];
        let deadline = due
            .into_iter()
            .flatten()
            .min()
            .map_or(HEARTBEAT_INTERVAL, |at| at.saturating_since(now));
        let waker = self.inbox.waker.as_fd();
        let [taken, copies] = if self.starved {
            // The devices are readable, but no buffer is free to read them.
            [[waker; 2]; 2]
        } else {
            let taken = DIRECTIONS.map(|direction| self.path.device_fd(direction));
            let copies = DIRECTIONS.map(|direction| self.path.copies_device(direction));
            [taken, copies.map(|tun| tun.map_or(waker, Tun::as_fd))]
        };
        let neighbours = station.map_or(waker, Station::fd);
        let fds = [taken[0], taken[1], copies[0], copies[1], waker, neighbours];
        let [
            first,
            second,
            first_copies,
            second_copies,
            woken,
            neighbours,
        ] = wait_readable(fds, Some(deadline.min(HEARTBEAT_INTERVAL)))?;
        if let Some(station) = &mut self.station {
            station.is_readable = neighbours;
            station.drain_device();
        }
        self.quota = if self.starved {
            [BATCH_FRAMES; 2]
        } else {
            let frames = |readable, last| match (readable, last) {
                (false, _) => 0,
                (true, 0) => 1,
                (true, _) => BATCH_FRAMES,
            };
            // The order of DIRECTIONS.
            [
                frames(first || first_copies, self.quota[0]),
                frames(second || second_copies, self.quota[1]),
            ]
        };
        if woken {
            self.inbox.waker.reset();
        }
        Ok(())
    }
}
