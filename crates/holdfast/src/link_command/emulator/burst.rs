// SPDX-License-Identifier: Apache-2.0
//! How many packets are read from a device before the next wait.
//!
//! Packets come in bursts whose length seldom changes: two of data for each ACK, one ACK for
//! two of data. A burst is read as often as the last burst was long. Then the link waits for the
//! device: no read finds nothing, and a burst costs one wait. In a virtual kernel each of these calls
//! costs as much as carrying the packet.

/// Packets that are read from one device before the other one and the clock have a turn.
pub(super) const READS_PER_TURN: usize = 32;

/// The packets that come from one device without a pause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Burst {
    /// A packet may wait.
    may_read: bool,
    /// Packets read of this burst.
    len: usize,
    /// The length of the last burst.
    last_len: usize,
}

impl Burst {
    /// How many packets to read in this turn.
    pub(super) fn quota(&self) -> usize {
        match (self.may_read, self.len) {
            (false, _) => 0,
            (true, 0) => self.last_len.clamp(1, READS_PER_TURN),
            // The burst is longer than the last one: its length is unknown.
            (true, _) => READS_PER_TURN,
        }
    }

    /// A packet was read.
    pub(super) fn read(&mut self) {
        self.len += 1;
    }

    /// A read found nothing.
    pub(super) fn ended(&mut self) {
        self.last_len = std::mem::take(&mut self.len);
        self.may_read = false;
    }

    /// A wait for the device is over; `readable`: the device has a packet.
    pub(super) fn waited(&mut self, readable: bool) {
        if !readable && self.len > 0 {
            self.ended();
        }
        self.may_read = readable;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls (waits and reads) for bursts of these lengths, each with the wait that ends
    /// it.
    fn calls(lengths: &[usize]) -> Vec<usize> {
        let mut burst = Burst::default();
        let mut counts = Vec::new();
        for &length in lengths {
            let (mut left, mut count) = (length, 0);
            loop {
                burst.waited(left > 0);
                count += 1;
                if left == 0 {
                    break;
                }
                for _ in 0..burst.quota() {
                    count += 1;
                    if left == 0 {
                        burst.ended();
                        break;
                    }
                    left -= 1;
                    burst.read();
                }
            }
            counts.push(count);
        }
        counts
    }

    #[test]
    fn bursts_of_one_length_cost_a_read_for_each_packet_and_two_waits() {
        // The first one of its length is found out.
        assert_eq!(calls(&[1, 1, 1]), [3, 3, 3]);
        assert_eq!(calls(&[2, 2, 2])[1..], [4, 4]);
        assert_eq!(calls(&[7, 7, 2, 2])[1..], [9, 5, 4]);
    }

    #[test]
    fn every_packet_is_read_whatever_came_before() {
        for lengths in [[3, 40, 1, 100], [64, 1, 33, 2]] {
            // At least a read for each packet; the loop ends only when all are read.
            let all: usize = lengths.iter().sum();
            assert!(calls(&lengths).into_iter().sum::<usize>() > all);
        }
    }

    #[test]
    fn a_device_that_is_silent_is_not_read() {
        let mut burst = Burst::default();
        burst.waited(true);
        burst.read();
        burst.waited(false);
        assert_eq!(burst.quota(), 0);
        burst.waited(true);
        assert_eq!(burst.quota(), 1);
    }
}
