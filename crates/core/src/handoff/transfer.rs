// SPDX-License-Identifier: Apache-2.0
//! Records of any kind from one station to another. A datagram contains as many as fit, and is
//! retransmitted until it is acknowledged or the tries are used up.
//!
//! This does not depend on the rest of the handoff: the caller defines the records.

use core::time::Duration;

use holdfast_wire::Instant;

use crate::bytes::Reader;

/// Bytes of records in one datagram, at most: with all headers and the seal it is below IPv6's
/// smallest MTU (1280).
pub const DATAGRAM_RECORDS_BYTES_MAX: usize = 1100;

/// Datagrams of one transfer at most: 65,535 hold some 400,000 records of 180 bytes.
const DATAGRAMS_MAX: usize = u16::MAX as usize;

/// Datagrams unacknowledged at the same time, at most.
const WINDOW: usize = 64;

/// One datagram's records.
#[derive(Clone, Debug)]
struct Part {
    bytes: Vec<u8>,
    acknowledged: bool,
}

/// The sending half.
#[derive(Clone, Debug)]
pub struct Sending {
    parts: Vec<Part>,
    /// All parts before this one are acknowledged.
    first: usize,
    /// Parts from here on were not sent yet.
    next: usize,
    tries: u32,
    due: Instant,
    retry: Duration,
    tries_max: u32,
}

impl Sending {
    /// Sends these records, each of 1 to 65,535 bytes (others are left out), at once. Datagrams without
    /// an acknowledgement are retransmitted each `retry`, `tries_max` times in all.
    pub fn new(
        records: impl IntoIterator<Item = Vec<u8>>,
        retry: Duration,
        tries_max: u32,
        now: Instant,
    ) -> Self {
        let mut parts: Vec<Part> = Vec::new();
        for record in records {
            let Ok(len) = u16::try_from(record.len()) else {
                continue;
            };
            let full = parts.last().is_none_or(|last| {
                last.bytes.len() + 2 + record.len() > DATAGRAM_RECORDS_BYTES_MAX
            });
            if full {
                if parts.len() == DATAGRAMS_MAX {
                    break;
                }
                parts.push(Part {
                    bytes: Vec::new(),
                    acknowledged: false,
                });
            }
            let Some(last) = parts.last_mut() else { break };
            last.bytes.extend_from_slice(&len.to_be_bytes());
            last.bytes.extend_from_slice(&record);
        }
        Self {
            parts,
            first: 0,
            next: 0,
            tries: 0,
            due: now,
            retry,
            tries_max,
        }
    }

    /// Datagrams in all.
    pub fn count(&self) -> u16 {
        self.parts.len() as u16
    }

    /// Bytes of all records.
    pub fn bytes(&self) -> usize {
        self.parts.iter().map(|part| part.bytes.len()).sum()
    }

    /// True if everything is acknowledged or the tries are used up.
    pub fn is_over(&self) -> bool {
        self.first >= self.parts.len() || self.tries > self.tries_max
    }

    /// When to call [`poll_transmit`](Self::poll_transmit).
    pub fn poll_timeout(&self) -> Option<Instant> {
        (!self.is_over()).then_some(self.due)
    }

    /// The datagrams that are due, each with its number.
    pub fn poll_transmit(&mut self, now: Instant) -> Vec<(u16, Vec<u8>)> {
        if self.is_over() {
            return Vec::new();
        }
        let to = (self.first + WINDOW).min(self.parts.len());
        let from = if self.due <= now {
            self.tries += 1;
            if self.tries > self.tries_max {
                return Vec::new();
            }
            self.due = now + self.retry;
            self.first
        } else {
            self.next
        };
        self.next = self.next.max(to);
        let parts = self.parts.iter().enumerate();
        parts
            .take(to)
            .skip(from)
            .filter(|(_, part)| !part.acknowledged)
            .map(|(number, part)| (number as u16, part.bytes.clone()))
            .collect()
    }

    /// Sends everything again, to another station, at once.
    pub fn restart(&mut self, now: Instant) {
        for part in &mut self.parts {
            part.acknowledged = false;
        }
        (self.first, self.next, self.tries, self.due) = (0, 0, 0, now);
    }

    /// The other station has acknowledged this datagram. Call [`poll_transmit`](Self::poll_transmit)
    /// then: more may be due.
    pub fn acknowledge(&mut self, number: u16) {
        let Some(part) = self.parts.get_mut(usize::from(number)) else {
            return;
        };
        if core::mem::replace(&mut part.acknowledged, true) {
            return;
        }
        // The station answers: the tries begin again.
        self.tries = self.tries.min(1);
        while self
            .parts
            .get(self.first)
            .is_some_and(|part| part.acknowledged)
        {
            self.first += 1;
        }
    }
}

/// The receiving half: which datagrams have arrived.
#[derive(Clone, Debug, Default)]
pub struct Receiving {
    /// One bit for each datagram; empty before the first has arrived.
    arrived: Vec<u64>,
    count: u16,
    missing: u16,
}

impl Receiving {
    /// Handles the datagram `number` of `count`. Returns its records if it is new. Acknowledge it in
    /// both cases.
    pub fn handle_datagram(&mut self, number: u16, count: u16, bytes: &[u8]) -> Vec<Vec<u8>> {
        if number >= count {
            return Vec::new();
        }
        if self.count != count {
            *self = Self {
                arrived: vec![0; usize::from(count).div_ceil(64)],
                count,
                missing: count,
            };
        }
        let (word, bit) = (usize::from(number / 64), 1_u64 << (number % 64));
        if self.arrived[word] & bit != 0 {
            return Vec::new();
        }
        self.arrived[word] |= bit;
        self.missing -= 1;
        let mut r = Reader(bytes);
        let mut records = Vec::new();
        while let Some(record) = r.u16().and_then(|len| r.take(len.into())) {
            records.push(record.to_vec());
        }
        records
    }

    /// True if all datagrams have arrived.
    pub const fn is_complete(&self) -> bool {
        self.count > 0 && self.missing == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn records(count: usize) -> Vec<Vec<u8>> {
        (0..count).map(|i| vec![i as u8; 100 + i % 300]).collect()
    }

    /// Sends over a line that loses and duplicates as `fate` decides.
    fn transfer(count: usize, mut fate: impl FnMut() -> usize) -> (Vec<Vec<u8>>, bool) {
        let mut now = Instant::ZERO;
        let mut sending = Sending::new(records(count), MS * 20, 50, now);
        let (mut receiving, mut got) = (Receiving::default(), Vec::new());
        while let Some(due) = sending.poll_timeout() {
            now = now.max(due);
            for (number, bytes) in sending.poll_transmit(now) {
                for _ in 0..fate() {
                    got.extend(receiving.handle_datagram(number, sending.count(), &bytes));
                    for _ in 0..fate() {
                        sending.acknowledge(number);
                    }
                }
            }
        }
        (got, receiving.is_complete())
    }

    #[test]
    fn a_thousand_records_arrive_once_each_whatever_datagrams_are_lost_or_duplicated() {
        let mut state = 1_u32;
        let fate = move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            [0, 1, 2, 1][(state >> 30) as usize]
        };
        let (mut got, complete) = transfer(1000, fate);
        let mut expected = records(1000);
        got.sort();
        expected.sort();
        assert!(complete && got == expected);
    }

    #[test]
    fn the_tries_are_bounded_without_an_answer() {
        let mut sent = 0;
        let (got, complete) = transfer(10, || {
            sent += 1;
            0
        });
        assert!(got.is_empty() && !complete);
        // Ten records are two or three datagrams.
        assert!(sent <= 50 * 4, "{sent}");
    }

    #[test]
    fn impossible_numbers_change_nothing() {
        let mut receiving = Receiving::default();
        assert!(receiving.handle_datagram(3, 3, &[0, 1, 7]).is_empty());
        assert!(!receiving.is_complete());
        assert_eq!(receiving.handle_datagram(0, 1, &[0, 1, 7, 0, 9, 1]), [[7]]);
        assert!(receiving.is_complete());
    }
}
