// SPDX-License-Identifier: Apache-2.0
//! The numbers that decide what comes next: endless ones from a seed, or those in a fuzzer's bytes.

/// A source of numbers, equal on every machine.
pub struct Dice<'a>(Source<'a>);

enum Source<'a> {
    /// xorshift64 (G. Marsaglia, 2003).
    Seed(u64),
    /// What is left of a fuzzer's input.
    Bytes(&'a [u8]),
}

impl<'a> Dice<'a> {
    /// Numbers without end.
    pub const fn of_seed(seed: u64) -> Self {
        Self(Source::Seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1))
    }

    /// Numbers until the bytes are used up, then zeros.
    pub const fn of_bytes(bytes: &'a [u8]) -> Self {
        Self(Source::Bytes(bytes))
    }

    /// Whether only zeros follow.
    pub const fn is_used_up(&self) -> bool {
        matches!(self.0, Source::Bytes([]))
    }

    /// A number of `len` bytes at least. A number of the fuzzer costs no more bytes than that.
    fn number(&mut self, len: usize) -> u64 {
        match &mut self.0 {
            Source::Seed(state) => {
                *state ^= *state << 13;
                *state ^= *state >> 7;
                *state ^= *state << 17;
                *state >> 11
            }
            Source::Bytes(rest) => {
                let (number, after) = rest.split_at(len.min(rest.len()));
                *rest = after;
                let shifted = |sum, byte: &u8| sum << 8 | u64::from(*byte);
                number.iter().fold(0, shifted)
            }
        }
    }

    pub(crate) fn word(&mut self) -> u32 {
        self.number(4) as u32
    }

    /// A number from 0 to `limit - 1`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        let bits = u64::BITS - limit.saturating_sub(1).leading_zeros();
        self.number(bits.div_ceil(8) as usize) % limit.max(1)
    }

    /// True with a probability of one in `times`.
    pub(crate) fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// `len` bytes; fewer if a fuzzer's are used up.
    pub(crate) fn bytes(&mut self, len: u64) -> Vec<u8> {
        (0..len)
            .map_while(|_| (!self.is_used_up()).then(|| self.number(1) as u8))
            .collect()
    }

    /// Changes, inserts or removes some bytes. The first 80 are the headers, and are hit more
    /// often.
    pub(crate) fn damage(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(4) {
            let len = bytes.len() as u64;
            if len == 0 {
                return;
            }
            let at = self.below(len.min(80)) as usize;
            match self.below(4) {
                0 => bytes[self.below(len) as usize] ^= 1 << self.below(8),
                1 => bytes[at] = self.number(1) as u8,
                2 => bytes.truncate(self.below(len) as usize + 1),
                _ => bytes.insert(at, self.number(1) as u8),
            }
        }
    }
}
