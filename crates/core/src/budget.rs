// SPDX-License-Identifier: Apache-2.0
//! The bytes that all flows together may keep.

/// Counts the bytes that all flows keep. An owner of cached bytes remembers what was counted for
/// it, so it may be counted at any time, and more than once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CacheBudget {
    bytes_max: usize,
    bytes: usize,
}

impl CacheBudget {
    /// A budget of `bytes_max` bytes.
    pub(crate) const fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            bytes: 0,
        }
    }

    /// Sets another limit. Bytes above it stay until they are acknowledged.
    pub(crate) const fn set_bytes_max(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
    }

    /// Bytes kept.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes that may be cached in addition.
    pub(crate) const fn free(&self) -> usize {
        self.bytes_max.saturating_sub(self.bytes)
    }

    /// An owner for which `counted` bytes were counted keeps `kept` bytes now.
    pub(crate) fn recount(&mut self, counted: usize, kept: usize) {
        self.bytes = self.bytes - counted + kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_owners_keep_is_counted_and_no_more_is_free_than_the_limit_leaves() {
        let mut budget = CacheBudget::new(1000);
        budget.recount(0, 300);
        budget.recount(0, 500);
        assert_eq!((budget.bytes(), budget.free()), (800, 200));
        budget.recount(300, 100);
        assert_eq!((budget.bytes(), budget.free()), (600, 400));
        budget.set_bytes_max(500);
        assert_eq!((budget.bytes(), budget.free()), (600, 0));
    }
}
