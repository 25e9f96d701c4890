// SPDX-License-Identifier: Apache-2.0
//! The figures of a run that are compared.

use serde::{Deserialize, Serialize};

use crate::results::{ResultLine, Series, retransmission_ratio_percent};

/// A figure of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Response time in seconds.
    TransferS,
    /// Segments retransmitted for each one sent first, in percent.
    RetransmissionRatioPercent,
    /// Seconds with a retransmission, or a probe after an unanswered one, for each 100 seconds in
    /// which the sender sent something.
    RetransmissionSecondsPercent,
    /// Difference between the ratio in a line and the ratio that its segment counts give.
    RetransmissionRatioError,
    /// Goodput in Mb/s.
    GoodputMbps,
    /// Expiries of the sender's retransmission timer for each 100 s, from the transfer's begin to its last
    /// byte.
    #[serde(rename = "timeouts_per_100_s")]
    TimeoutsPer100S,
    /// Median time from leaving a cell to the first packet through the new one, in
    /// milliseconds.
    HandoffMs,
    /// Median time from the first to the second sending of a segment by the MH, in milliseconds; of runs
    /// whose packets were read.
    SentAgainMs,
    /// ACKs that reached the FH with an acknowledgement number that the MH had not sent; of runs whose
    /// packets were read.
    AcksNotOfTheMh,
    /// The longest record of a connection that a base station gave to another one, bytes.
    HandoffStateBytes,
    /// The most bytes at a time that were acknowledged to the sender before the receiver had them.
    AcknowledgedAheadBytes,
    /// The time that the wired hop of the run takes for these bytes, in milliseconds.
    AheadOnTheWireMs,
    /// The longest time without a new byte in order at the receiver, in seconds. It is measured from the first
    /// byte to the last one, or to the run's end; of runs that record `sequence`, to the series' interval.
    LongestIdleS,
    /// The transfer's time over the least possible time of its links.
    TimesOptimum,
    /// The transfer's time less the least possible time of its links, in seconds.
    BeyondOptimumS,
    /// Expiries of the retransmission timer for each 100 segments that the sender retransmitted.
    #[serde(rename = "timeouts_per_100_repeated")]
    TimeoutsPer100Repeated,
    /// Compressed size of the payload that the gateway made smaller, in percent of its size before.
    CompressedToPercent,
    /// The response time without its stalls, divided by the number of outages, in seconds.
    WithoutStallsPerOutageS,
    /// Bytes of data that reached the receiver, with repetitions, for each byte delivered.
    ReceivesPerByte,
    /// Losses whose cause the sender's loss classifier judged rightly, in percent.
    HitRatioPercent,
    /// Mean of the recorded congestion window, KiB.
    CwndMeanKib,
    /// 1 for a transfer that finished, 0 for another one.
    Finished,
}

impl Metric {
    /// The metric of one run; none: the run does not have it, for example because it did not finish.
    pub fn of(self, line: &ResultLine) -> Option<f64> {
        match self {
            Self::TransferS => line.transfer_s,
            Self::RetransmissionRatioPercent => Some(line.retransmission_ratio_percent),
            Self::RetransmissionSecondsPercent => {
                let sending = line.seconds_sending.filter(|sending| *sending > 0)?;
                Some(line.seconds_repeating? as f64 * 100.0 / sending as f64)
            }
            Self::RetransmissionRatioError => {
                let ratio =
                    retransmission_ratio_percent(line.segments, line.retransmitted_segments);
                Some((ratio - line.retransmission_ratio_percent).abs())
            }
            Self::GoodputMbps => Some(line.goodput_mbps),
            Self::HandoffMs => line.handoff.as_ref()?.first_packet_ms_median,
            Self::SentAgainMs => line.traced.as_ref()?.sent_again_ms,
            Self::AcksNotOfTheMh => {
                let traced = line.traced.as_ref()?;
                (traced.acks > 0).then_some(traced.acks_not_of_the_mh as f64)
            }
            Self::HandoffStateBytes => Some(line.handoff.as_ref()?.state_bytes_max? as f64),
            Self::AcknowledgedAheadBytes => Some(line.acknowledged_ahead_bytes? as f64),
            Self::AheadOnTheWireMs => {
                let rate_mbit_per_s = line.conditions.get("wired.rate_mbit_per_s")?.as_f64()?;
                Some(line.acknowledged_ahead_bytes? as f64 * 8.0 / (rate_mbit_per_s * 1e3))
            }
            Self::LongestIdleS => longest_idle_s(line.series.as_ref()?, line.transfer_s.is_some()),
            Self::TimesOptimum => Some(line.transfer_s? / line.optimal_s?),
            Self::BeyondOptimumS => Some(line.transfer_s? - line.optimal_s?),
            Self::TimeoutsPer100Repeated => {
                let repeated = line.retransmitted_segments;
                (repeated > 0).then_some(line.timeouts? as f64 * 100.0 / repeated as f64)
            }
            Self::CompressedToPercent => line.compressed_to_percent,
            Self::WithoutStallsPerOutageS => {
                let stalls: Option<Vec<f64>> = line.stalls_s.iter().copied().collect();
                let stalls = stalls.filter(|stalls| !stalls.is_empty())?;
                let net_s = line.transfer_s? - stalls.iter().sum::<f64>();
                Some(net_s / stalls.len() as f64)
            }
            // Unfinished transfers have no figure: it does not count bytes that were discarded as
            // incomplete.
            Self::ReceivesPerByte => {
                line.transfer_s?;
                Some(1.0 + line.duplicates_per_byte?)
            }
            Self::HitRatioPercent => line.lc_cwe?.hit_ratio_percent,
            Self::CwndMeanKib => {
                let points = &line.series.as_ref()?.cwnd;
                let sum: u64 = points.iter().sum();
                (!points.is_empty()).then(|| sum as f64 / points.len() as f64 / 1024.0)
            }
            Self::TimeoutsPer100S => {
                let elapsed_s = line
                    .transfer_s
                    .unwrap_or(line.bytes as f64 * 8.0 / (line.goodput_mbps * 1e6));
                let timeouts = line.timeouts? as f64;
                (elapsed_s > 0.0 && elapsed_s.is_finite()).then(|| timeouts * 100.0 / elapsed_s)
            }
            Self::Finished => Some(f64::from(u8::from(line.finished))),
        }
    }

    /// The metric for a median: infinite for a run that never reached it; none: it was not measured.
    pub(super) fn rank(self, line: &ResultLine) -> Option<f64> {
        let never_came = match self {
            Self::TransferS => true,
            Self::TimesOptimum => line.optimal_s.is_some(),
            Self::HandoffMs => line.handoff.is_some(),
            _ => false,
        };
        self.of(line).or(never_came.then_some(f64::INFINITY))
    }

    /// The count of a counting metric in these runs, and the number of cases; none: it counts nothing.
    pub(super) fn total(self, lines: &[&ResultLine]) -> Option<(u64, u64)> {
        let traced = || lines.iter().filter_map(|line| line.traced.as_ref());
        match self {
            Self::Finished => {
                let finished = lines.iter().filter(|line| line.finished).count();
                Some((finished as u64, lines.len() as u64))
            }
            Self::AcksNotOfTheMh => Some((
                traced().map(|seen| seen.acks_not_of_the_mh).sum(),
                traced().map(|seen| seen.acks).sum(),
            )),
            _ => None,
        }
    }

    /// Whether the metric needs the run's packets.
    pub(super) fn needs_packets(self) -> bool {
        matches!(self, Self::SentAgainMs | Self::AcksNotOfTheMh)
    }

    /// Its name with its unit, and the decimals of its values.
    fn shown(self) -> (&'static str, usize) {
        match self {
            Self::TransferS => ("Response time (s)", 1),
            Self::RetransmissionRatioPercent => ("Retransmission ratio (%)", 2),
            Self::RetransmissionSecondsPercent => ("Seconds with retransmissions (%)", 2),
            Self::RetransmissionRatioError => ("Error of the retransmission ratio", 2),
            Self::GoodputMbps => ("Goodput (Mb/s)", 2),
            Self::TimeoutsPer100S => ("Timeouts in 100 s", 2),
            Self::HandoffMs => ("Handoff (ms)", 1),
            Self::SentAgainMs => ("Time until retransmitted (ms)", 1),
            Self::AcksNotOfTheMh => ("ACKs that are not the MH's", 0),
            Self::HandoffStateBytes => ("State of a handoff (bytes)", 0),
            Self::AcknowledgedAheadBytes => ("Acknowledged ahead (bytes)", 0),
            Self::AheadOnTheWireMs => ("Acknowledged ahead, time on the wire (ms)", 2),
            Self::LongestIdleS => ("Longest time without a byte (s)", 0),
            Self::TimesOptimum => ("Times the optimum", 3),
            Self::BeyondOptimumS => ("Beyond the optimum (s)", 2),
            Self::TimeoutsPer100Repeated => ("Timeouts for 100 retransmitted segments", 1),
            Self::CompressedToPercent => ("Compressed to (%)", 1),
            Self::WithoutStallsPerOutageS => ("Response time without stalls, each outage (s)", 3),
            Self::ReceivesPerByte => ("Receives per byte", 3),
            Self::HitRatioPercent => ("Hit ratio (%)", 1),
            Self::CwndMeanKib => ("Mean congestion window (KiB)", 1),
            Self::Finished => ("Finished", 0),
        }
    }

    /// Its name with its unit.
    pub fn name(self) -> &'static str {
        self.shown().0
    }

    /// A value of the metric as text.
    pub fn text(self, value: f64) -> String {
        let decimals = self.shown().1;
        if value.is_finite() {
            format!("{value:.decimals$}")
        } else {
            "unfinished".to_owned()
        }
    }
}

/// The longest time between two points with new bytes; none: there are not two. The end of a run that did
/// not finish counts as a point.
fn longest_idle_s(series: &Series, is_finished: bool) -> Option<f64> {
    let bytes = series.rcv_nxt.windows(2);
    let points = series.t_s.iter().skip(1).zip(bytes);
    let arrivals = points.filter(|(_, pair)| pair[0] != pair[1]);
    let end = series.t_s.last().filter(|_| !is_finished);
    let arrivals: Vec<f64> = arrivals
        .map(|(at_s, _)| *at_s)
        .chain(end.copied())
        .collect();
    let idle = arrivals.windows(2).map(|pair| pair[1] - pair[0]);
    idle.max_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_idle_time_is_between_two_bytes_and_not_before_the_first_or_after_the_last() {
        let series = |rcv_nxt: &[u64]| Series {
            t_s: (0..rcv_nxt.len()).map(|second| second as f64).collect(),
            rcv_nxt: rcv_nxt.to_vec(),
            ..Series::default()
        };
        let idle_s = |rcv_nxt: &[u64]| longest_idle_s(&series(rcv_nxt), true);
        assert_eq!(idle_s(&[0, 0, 0, 5, 6, 6, 6, 9, 9, 9, 9, 9]), Some(3.0));
        assert_eq!(idle_s(&[0, 1, 2, 3]), Some(1.0));
        assert_eq!(idle_s(&[0, 0, 7, 7]), None);
        assert_eq!(idle_s(&[]), None);
        // An unfinished transfer: nothing arrives until its end.
        assert_eq!(
            longest_idle_s(&series(&[0, 1, 2, 2, 2, 2]), false),
            Some(3.0)
        );
    }
}
