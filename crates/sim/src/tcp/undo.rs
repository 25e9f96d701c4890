// SPDX-License-Identifier: Apache-2.0
//! What a sender stores of a reduction, to undo it if nothing was lost (Eifel: RFC 3522 and
//! RFC 4015; D-SACK: RFC 3708), as Linux does.

/// The last reduction.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Undo {
    /// SND.UNA when the reduction began. None: there is nothing to undo.
    marker: Option<u64>,
    /// Retransmissions that no D-SACK has reported yet; none: nothing was retransmitted.
    repeats: Option<u32>,
    /// The timestamp of the first retransmission.
    stamp: Option<u32>,
    /// `ssthresh` and `cwnd` before the reduction.
    before: Option<(u64, u64)>,
}

impl Undo {
    /// A reduction begins with these windows, and `repeats` retransmissions in flight.
    pub(super) fn begin(&mut self, una: u64, repeats: u32, ssthresh: u64, cwnd: u64) {
        self.marker = Some(una);
        self.repeats = (repeats > 0).then_some(repeats);
        self.before = Some((ssthresh, cwnd));
    }

    /// No retransmission of this recovery is left.
    pub(super) fn forget_stamp(&mut self) {
        self.stamp = None;
    }

    /// A segment is retransmitted. `stamp` is its timestamp.
    pub(super) fn on_repeat(&mut self, stamp: u32) {
        self.stamp.get_or_insert(stamp);
        self.repeats = Some(self.repeats.unwrap_or(0) + 1);
    }

    /// D-SACK reports `segments` duplicates, in bytes up to `right`.
    pub(super) fn on_dsack(&mut self, right: u64, segments: u32) {
        if self.marker.is_some_and(|marker| right > marker) {
            self.repeats = self.repeats.map(|left| left.saturating_sub(segments));
        }
    }

    /// Whether an ACK with this echo answers a segment sent before the first retransmission.
    pub(super) fn is_of_original(&self, echo: Option<u32>) -> bool {
        let (Some(stamp), Some(echo)) = (self.stamp, echo) else {
            return false;
        };
        self.marker.is_some() && (echo.wrapping_sub(stamp) as i32) < 0
    }

    /// Each retransmission was a duplicate.
    pub(super) fn all_repeats_were_duplicates(&self) -> bool {
        self.marker.is_some() && self.repeats == Some(0)
    }

    /// There is a reduction that was not undone.
    pub(super) fn stands(&self) -> bool {
        self.marker.is_some()
    }

    /// Undoes the reduction: returns the windows from before.
    pub(super) fn take_windows(&mut self) -> Option<(u64, u64)> {
        self.marker = None;
        self.before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun() -> Undo {
        let mut undo = Undo::default();
        undo.begin(1000, 0, 50, 20);
        undo
    }

    #[test]
    fn an_echo_from_before_the_first_retransmission_is_of_the_original() {
        let mut undo = begun();
        assert!(!undo.is_of_original(Some(99)));
        undo.on_repeat(100);
        undo.on_repeat(200);
        assert!(undo.is_of_original(Some(99)) && !undo.is_of_original(Some(100)));
        assert!(!undo.is_of_original(None));
        // The clock wraps.
        let mut late = begun();
        late.on_repeat(1);
        assert!(late.is_of_original(Some(u32::MAX)));
        assert_eq!(late.take_windows(), Some((50, 20)));
        assert!(!late.is_of_original(Some(u32::MAX)));
    }

    #[test]
    fn a_dsack_for_each_retransmission_takes_the_reduction_back() {
        let mut undo = begun();
        // Nothing was retransmitted: no proof.
        undo.on_dsack(3000, 1);
        assert!(!undo.all_repeats_were_duplicates());
        undo.on_repeat(1);
        undo.on_repeat(2);
        undo.on_dsack(3000, 1);
        assert!(!undo.all_repeats_were_duplicates());
        // A D-SACK of an earlier time.
        undo.on_dsack(1000, 1);
        assert!(!undo.all_repeats_were_duplicates());
        undo.on_dsack(4000, 1);
        assert!(undo.all_repeats_were_duplicates());
    }
}
