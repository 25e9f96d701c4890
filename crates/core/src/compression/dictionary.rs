// SPDX-License-Identifier: Apache-2.0
//! The SH's copy of the last bytes that the MH has acknowledged.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use holdfast_wire::SeqNum;

use super::DICTIONARY_BYTES_MAX;
use super::codec::DictionaryRef;

/// Flows with a dictionary, at most. Each dictionary takes up to twice [`DICTIONARY_BYTES_MAX`].
/// The packets of further flows are compressed without one.
const DICTIONARIES_MAX: usize = 1024;
/// A shorter dictionary does not help.
const LEN_MIN: u32 = 64;

/// Counts the dictionaries of a gateway.
#[derive(Clone, Debug, Default)]
pub(super) struct Dictionaries(Arc<AtomicUsize>);

impl Dictionaries {
    /// A dictionary of the bytes that are acknowledged from `from` on; `None` at the limit.
    pub(super) fn begin(&self, from: SeqNum) -> Option<Dictionary> {
        if self.0.fetch_add(1, Ordering::Relaxed) >= DICTIONARIES_MAX {
            self.0.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(Dictionary {
            bytes: Vec::new(),
            end: from,
            permit: self.clone(),
        })
    }

    pub(super) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// The last bytes of a stream that the MH has acknowledged, without a hole.
#[derive(Debug)]
pub(super) struct Dictionary {
    /// At least the last [`DICTIONARY_BYTES_MAX`] bytes, at most twice as many.
    bytes: Vec<u8>,
    /// The sequence number after the last byte.
    end: SeqNum,
    permit: Dictionaries,
}

impl Drop for Dictionary {
    fn drop(&mut self) {
        self.permit.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Dictionary {
    /// The MH has acknowledged these bytes from `seq` on. After a hole the dictionary begins again.
    pub(super) fn extend(&mut self, seq: SeqNum, bytes: &[u8]) {
        let known = self.end.distance_from(seq) as usize;
        let Some(new) = bytes.get(known..).filter(|new| !new.is_empty()) else {
            return;
        };
        if seq.after(self.end) {
            self.bytes.clear();
        }
        self.end = seq + bytes.len() as u32;
        let most = DICTIONARY_BYTES_MAX as usize;
        let new = &new[new.len().saturating_sub(most)..];
        if self.bytes.capacity() == 0 {
            self.bytes.reserve_exact(2 * most);
        }
        if self.bytes.len() + new.len() > 2 * most {
            let surplus = self.bytes.len() - (most - new.len()).min(self.bytes.len());
            self.bytes.drain(..surplus);
        }
        self.bytes.extend_from_slice(new);
    }

    /// The dictionary for the next segment; it begins at or after `begin`.
    pub(super) fn since(&self, begin: SeqNum) -> Option<DictionaryRef<'_>> {
        let most = self.end.distance_from(begin).min(DICTIONARY_BYTES_MAX);
        let len = (self.bytes.len() as u32).min(most);
        (len >= LEN_MIN).then(|| DictionaryRef {
            bytes: &self.bytes[self.bytes.len() - len as usize..],
            end: self.end,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seq: u32) -> SeqNum {
        SeqNum::new(seq)
    }

    #[test]
    fn a_dictionary_is_the_last_acknowledged_bytes_whatever_the_steps() {
        let stream: Vec<u8> = (0..400_000_u32)
            .map(|n| (n.wrapping_mul(n) >> 7) as u8)
            .collect();
        let first = u32::MAX - 100_000;
        let mut dictionary = Dictionaries::default().begin(at(first)).expect("room");
        let (mut from, mut step) = (0, 1);
        while from < stream.len() {
            let to = stream.len().min(from + step);
            // Some bytes are acknowledged twice.
            let begin = from.saturating_sub(step / 3);
            dictionary.extend(at(first) + begin as u32, &stream[begin..to]);
            if to >= 64 {
                let known = dictionary.since(at(first)).expect("a dictionary");
                assert_eq!(known.end, at(first) + to as u32);
                let most = to.min(DICTIONARY_BYTES_MAX as usize);
                assert_eq!(known.bytes, &stream[to - most..to]);
            }
            assert!(dictionary.bytes.len() <= 2 * DICTIONARY_BYTES_MAX as usize);
            from = to;
            step = step * 3 % 50_021 + 1;
        }
    }

    #[test]
    fn after_a_hole_a_dictionary_begins_again() {
        let mut dictionary = Dictionaries::default().begin(at(0)).expect("room");
        dictionary.extend(at(0), &[1; 1000]);
        dictionary.extend(at(1001), &[2; 100]);
        let known = dictionary.since(at(0)).expect("a dictionary");
        assert_eq!((known.bytes, known.end), (&[2; 100][..], at(1101)));
        // It begins no earlier than the MH's copy.
        assert_eq!(dictionary.since(at(1021)).expect("some").bytes.len(), 80);
        assert!(dictionary.since(at(1100)).is_none());
    }

    #[test]
    fn dictionaries_stay_below_the_limit_and_a_dropped_one_makes_room() {
        let all = Dictionaries::default();
        let mut all_in_use: Vec<Dictionary> = (0..DICTIONARIES_MAX)
            .map(|_| all.begin(at(0)).expect("room"))
            .collect();
        assert!(all.begin(at(0)).is_none());
        all_in_use.pop();
        assert!(all.begin(at(0)).is_some());
        drop(all_in_use);
        assert_eq!(all.count(), 0);
    }
}
