// SPDX-License-Identifier: Apache-2.0
//! The queue of events.
//!
//! Entries are ordered by time, then by the order in which they were entered. Nothing else
//! decides, so a run is the same on every machine.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use holdfast_wire::Instant;

#[derive(Debug)]
struct Entry<T> {
    at: Instant,
    serial: u64,
    what: T,
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.serial == other.serial
    }
}
impl<T> Eq for Entry<T> {}
impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        (self.at, self.serial).cmp(&(other.at, other.serial))
    }
}

/// Events that will happen, with their times.
#[derive(Debug)]
pub struct EventQueue<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    serial: u64,
}

impl<T> Default for EventQueue<T> {
    fn default() -> Self {
        Self {
            heap: BinaryHeap::new(),
            serial: 0,
        }
    }
}

impl<T> EventQueue<T> {
    /// Enters `what` for `at`.
    pub fn push(&mut self, at: Instant, what: T) {
        self.serial += 1;
        let serial = self.serial;
        self.heap.push(Reverse(Entry { at, serial, what }));
    }

    /// Takes out the earliest entry.
    pub fn pop(&mut self) -> Option<(Instant, T)> {
        let Reverse(entry) = self.heap.pop()?;
        Some((entry.at, entry.what))
    }

    /// When the earliest entry is due.
    pub fn next_at(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse(entry)| entry.at)
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_one_time_come_out_in_the_order_they_went_in() {
        let mut queue = EventQueue::default();
        for (at, what) in [(5, 'a'), (3, 'b'), (5, 'c'), (3, 'd'), (4, 'e'), (5, 'f')] {
            queue.push(Instant::from_nanos(at), what);
        }
        assert_eq!(
            (queue.len(), queue.next_at()),
            (6, Some(Instant::from_nanos(3)))
        );
        let order: String = std::iter::from_fn(|| queue.pop()).map(|(_, c)| c).collect();
        assert_eq!(order, "bdeacf");
        assert!(queue.is_empty());
    }
}
