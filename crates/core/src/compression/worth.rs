// SPDX-License-Identifier: Apache-2.0
//! Whether it is worth while: payload that does not shrink (TLS, films) is left alone, and
//! looked at again ever more rarely.

/// Segments between two looks at a flow whose payload does not shrink, at most: one segment in
/// so many is compressed in vain.
const SKIPPED_MAX: u32 = 1024;
/// After so many segments in a row that did not shrink, looks become rarer.
const VAIN_MAX: u8 = 2;

/// What is known of how a flow's payload shrinks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Worth {
    /// Segments to be left alone still.
    skip: u32,
    /// And after the next one in vain.
    skip_next: u32,
    vain: u8,
}

impl Worth {
    /// So many segments are to go out. True if they should be looked at.
    pub(super) const fn looks_at(&mut self, segments: u32) -> bool {
        if self.skip == 0 {
            return true;
        }
        self.skip = self.skip.saturating_sub(segments);
        false
    }

    /// The next segments are left alone.
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

    /// A segment has not.
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
    fn what_never_shrinks_is_looked_at_one_time_in_a_thousand() {
        let mut worth = Worth::default();
        let mut looks = 0;
        for segment in 0..1_000_000 {
            if worth.looks_at(1) {
                looks += 1;
                worth.on_vain();
            }
            if segment == 999 {
                assert!(looks <= 10, "{looks} of the first thousand");
            }
        }
        assert!(looks <= 1_000, "{looks} of a million");
    }

    #[test]
    fn what_shrinks_again_is_compressed_again_at_once() {
        let mut worth = Worth::default();
        for _ in 0..100_000 {
            if worth.looks_at(1) {
                worth.on_vain();
            }
        }
        let waited = (0..=SKIPPED_MAX).take_while(|_| !worth.looks_at(1)).count();
        assert!(waited <= SKIPPED_MAX as usize, "{waited}");
        worth.on_shrunk();
        assert!(worth.looks_at(1) && worth.looks_at(40));
        // One that does not is an exception still.
        worth.on_vain();
        assert!(worth.looks_at(1));
    }
}
