// SPDX-License-Identifier: Apache-2.0
//! Numbers from a seed: fast, and the same on every machine (xorshift64, G. Marsaglia, 2003).

pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn of_seed(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn word(&mut self) -> u32 {
        (self.number() >> 16) as u32
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        (self.number() >> 11) % limit.max(1)
    }

    /// True with a probability of one in `times`.
    pub(crate) fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    pub(crate) fn bytes(&mut self, len: u64) -> Vec<u8> {
        (0..len).map(|_| self.word() as u8).collect()
    }

    /// Some bytes become others, or there are more or fewer of them: the first 80 are the
    /// headers, and are hit more often.
    pub(crate) fn damage(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(4) {
            let len = bytes.len() as u64;
            if len == 0 {
                return;
            }
            let at = self.below(len.min(80)) as usize;
            match self.below(4) {
                0 => bytes[self.below(len) as usize] ^= 1 << self.below(8),
                1 => bytes[at] = self.word() as u8,
                2 => bytes.truncate(self.below(len) as usize + 1),
                _ => bytes.insert(at, self.word() as u8),
            }
        }
    }
}
