// SPDX-License-Identifier: Apache-2.0
//! Whether compression is worth the work. Payload that does not shrink (TLS, films) is sent plain, and tried ever
//! more rarely.

/// Segments between two tries on a flow whose payload does not shrink, at most.
const SKIPPED_MAX: u32 = 1024;
/// After this many segments in a row that did not shrink, tries become rarer.
const VAIN_MAX: u8 = 2;

/// How a flow's payload has shrunk.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Worth {
    /// Segments to send plain before the next try.
    skip: u32,
    /// The value of `skip` after the next try that fails, before it is doubled.
    skip_next: u32,
    vain: u8,
}

impl Worth {
    /// True if the next `segments` segments should be tried.
    pub(super) const fn should_try(&mut self, segments: u32) -> bool {
        if self.skip == 0 {
            return true;
        }
        self.skip = self.skip.saturating_sub(segments);
        false
    }

    /// True while segments are sent plain without a try.
    pub(super) const fn rests(&self) -> bool {
        self.skip > 0
    }

    /// A segment has shrunk.
    pub(super) const fn on_shrunk(&mut self) {
        *self = Self {
            skip: 0,
            skip_next: 0,
            vain: 0,
        };
    }

    /// A segment has not shrunk.
    pub(super) fn on_vain(&mut self) {
        self.vain = self.vain.saturating_add(1);
        if self.vain >= VAIN_MAX || self.skip_next > 0 {
            self.skip_next = (self.skip_next * 2).clamp(4, SKIPPED_MAX);
            self.skip = self.skip_next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_that_never_shrinks_is_tried_one_time_in_a_thousand() {
        let mut worth = Worth::default();
        let mut tries = 0;
        for segment in 0..1_000_000 {
            if worth.should_try(1) {
                tries += 1;
                worth.on_vain();
            }
            if segment == 999 {
                assert!(tries <= 10, "{tries} of the first thousand");
            }
        }
        assert!(tries <= 1_000, "{tries} of a million");
    }

    #[test]
    fn payload_that_shrinks_again_is_compressed_at_once() {
        let mut worth = Worth::default();
        for _ in 0..100_000 {
            if worth.should_try(1) {
                worth.on_vain();
            }
        }
        let waited = (0..=SKIPPED_MAX)
            .take_while(|_| !worth.should_try(1))
            .count();
        assert!(waited <= SKIPPED_MAX as usize, "{waited}");
        worth.on_shrunk();
        assert!(worth.should_try(1) && worth.should_try(40));
        // One segment that does not shrink is an exception.
        worth.on_vain();
        assert!(worth.should_try(1));
    }
}
