// SPDX-License-Identifier: Apache-2.0
//! Proportional rate reduction (RFC 9937, which was RFC 6937bis), in segments as in Linux.
//!
//! Above `ssthresh`, the sender sends in proportion to what arrives. Below, PRR-SSRB lets the
//! window grow by a segment an ACK, as long as ACKs advance and report no new loss. Otherwise
//! PRR-CRB sends no more than what has arrived.

/// The state of one recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Prr {
    /// RecoverFS, which on Linux is the window when recovery begins.
    before: u64,
    /// `prr_delivered`.
    delivered: u64,
    /// `prr_out`.
    out: u64,
}

/// What an ACK reports in recovery, segments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    /// DeliveredData.
    pub delivered: u64,
    /// The estimate of segments in flight after this ACK.
    pub in_flight: u64,
    pub ssthresh: u64,
    /// SafeACK: SND.UNA advances, and no loss is newly found.
    pub is_safe: bool,
}

impl Prr {
    /// Recovery begins with this window, segments (RFC 9937, 6.1).
    pub(super) fn begin(before: u64) -> Self {
        Self {
            before: before.max(1),
            ..Self::default()
        }
    }

    /// SndCnt: segments that may be sent now (RFC 9937, 6.2). None: nothing has arrived, and the
    /// window does not change.
    pub(super) fn on_ack(&mut self, report: Report) -> Option<u64> {
        if report.delivered == 0 || self.before == 0 {
            return None;
        }
        self.delivered += report.delivered;
        let count = match report.ssthresh.checked_sub(report.in_flight) {
            None => {
                let share = (self.delivered * report.ssthresh).div_ceil(self.before);
                share.saturating_sub(self.out)
            }
            Some(room) => {
                let arrived = self.delivered.saturating_sub(self.out);
                let most = arrived.max(report.delivered) + u64::from(report.is_safe);
                most.min(room)
            }
        };
        // The fast retransmit is sent whatever the window.
        Some(count.max(u64::from(self.out == 0)))
    }

    /// Segments are sent.
    pub(super) fn on_sent(&mut self, segments: u64) {
        self.out += segments;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first ACK, then ACKs of one segment each; the sender always sends all that it may.
    fn counts(prr: &mut Prr, reports: impl IntoIterator<Item = Report>) -> Vec<u64> {
        let send = |report| {
            let count = prr.on_ack(report).unwrap();
            prr.on_sent(count);
            count
        };
        reports.into_iter().map(send).collect()
    }

    const ONE: Report = Report {
        delivered: 1,
        in_flight: 0,
        ssthresh: 7,
        is_safe: false,
    };

    /// A window of 10 with one loss, ssthresh 7: of 10 ACKs 7 release a segment.
    /// ceil (n * 7 / 10) for n = 1 to 9: 1 2 3 3 4 5 5 6 7.
    #[test]
    fn above_ssthresh_it_sends_in_proportion() {
        let mut prr = Prr::begin(10);
        let reports = [9, 9, 9, 9, 8, 8, 8, 8, 8].map(|in_flight| Report { in_flight, ..ONE });
        assert_eq!(counts(&mut prr, reports), [1, 1, 1, 0, 1, 1, 0, 1, 1]);
    }

    /// Half of the window is lost: 4 in flight, ssthresh 7. PRR-CRB: what has arrived and no
    /// more; PRR-SSRB: one more an ACK, up to ssthresh.
    #[test]
    fn below_ssthresh_it_grows_only_with_safe_acks() {
        let report = |in_flight, is_safe| Report {
            in_flight,
            is_safe,
            ..ONE
        };
        let mut prr = Prr::begin(10);
        assert_eq!(counts(&mut prr, [report(4, false); 3]), [1, 1, 1]);
        assert_eq!(counts(&mut prr, [report(4, true)]), [2]);
        assert_eq!(counts(&mut prr, [report(6, true)]), [1]);
        assert_eq!(counts(&mut prr, [report(7, true)]), [0]);
        // An ACK of four segments. The window takes three of them.
        let four = Report {
            delivered: 4,
            ..report(4, true)
        };
        assert_eq!(counts(&mut prr, [four]), [3]);
    }

    /// RFC 9937, 6.2: "Force a fast retransmit upon entering recovery"; an ACK that delivers
    /// nothing sends nothing.
    #[test]
    fn the_first_retransmission_goes_whatever_the_window() {
        let mut prr = Prr::begin(100);
        let full = Report {
            in_flight: 7,
            ..ONE
        };
        assert_eq!(prr.on_ack(full), Some(1));
        assert_eq!(prr.on_ack(full), Some(1));
        prr.on_sent(1);
        assert_eq!(prr.on_ack(full), Some(0));
        let nothing = Report {
            delivered: 0,
            ..full
        };
        assert_eq!(prr.on_ack(nothing), None);
    }
}
