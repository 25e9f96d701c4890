// SPDX-License-Identifier: Apache-2.0
//! Time series of a run, combined from those of the sender's socket, the receiver and the link.

use holdfast_testbed::download::Received;
use holdfast_testbed::link_process::LinkSample;

use crate::endpoint::SocketSample;
use crate::results::Series;
use crate::scenario::{Conditions, DirectionChoice, Record};
use crate::transfer::Measurement;

/// The requested series, with a point for each sample of the sender's socket.
pub(super) fn of(conditions: &Conditions, measured: &Measurement) -> Series {
    let wants = |record| conditions.record.contains(&record);
    let flow = &measured.flows[0];
    let samples = &flow.samples;
    let column = |record, get: &dyn Fn(&SocketSample) -> u64| {
        if wants(record) {
            samples.iter().map(get).collect()
        } else {
            Vec::new()
        }
    };
    let at_ns = |sample: &SocketSample| measured.origin_ns + (sample.t_s * 1e9).round() as u64;
    let link = |record, get: &dyn Fn(LinkSample) -> Option<u32>| -> Vec<u32> {
        if !wants(record) {
            return Vec::new();
        }
        let points = samples.iter().map(at_ns);
        points
            .filter_map(|at_ns| nearest(&measured.link.samples, at_ns).and_then(get))
            .collect()
    };
    let way = match conditions.transfer.direction {
        DirectionChoice::Downlink => 0,
        DirectionChoice::Uplink => 1,
    };
    let up = link(Record::LinkState, &|sample| Some(u32::from(sample.up[way])));
    Series {
        t_s: samples.iter().map(|sample| sample.t_s).collect(),
        cwnd: column(Record::Cwnd, &|sample| sample.cwnd),
        ssthresh: column(Record::Ssthresh, &|sample| sample.ssthresh),
        rwnd: column(Record::Rwnd, &|sample| sample.rwnd),
        snd_una: column(Record::Sequence, &|sample| sample.snd_una),
        snd_nxt: column(Record::Sequence, &|sample| sample.snd_nxt),
        rcv_nxt: column(Record::Sequence, &|sample| {
            arrived(&flow.received, at_ns(sample))
        }),
        queue_packets: link(Record::Queue, &|sample| Some(sample.queue_packets[way])),
        link_up: up.into_iter().map(|up| up == 1).collect(),
    }
}

/// Bytes that the receiver had at `at_ns`.
fn arrived(received: &Received, at_ns: u64) -> u64 {
    let arrivals = &received.arrivals;
    let count = arrivals.partition_point(|arrival| arrival.at_ns <= at_ns);
    count
        .checked_sub(1)
        .map_or(0, |last| arrivals[last].bytes_total)
}

/// The sample nearest in time.
fn nearest(samples: &[LinkSample], at_ns: u64) -> Option<LinkSample> {
    let after = samples.partition_point(|sample| sample.t_ns < at_ns);
    let around = [after.checked_sub(1), Some(after)];
    let around = around.into_iter().flatten().filter_map(|i| samples.get(i));
    around
        .min_by_key(|sample| sample.t_ns.abs_diff(at_ns))
        .copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_testbed::download::Arrival;

    #[test]
    fn the_link_is_as_it_was_at_the_sample_that_is_nearest() {
        let sample = |t_ns, packets| LinkSample {
            t_ns,
            queue_packets: [packets, 0],
            up: [true; 2],
        };
        let samples = [sample(100, 1), sample(200, 2), sample(300, 3)];
        let packets = |at_ns| nearest(&samples, at_ns).map(|sample| sample.queue_packets[0]);
        assert_eq!(
            [0, 100, 149, 151, 200, 900].map(packets),
            [Some(1), Some(1), Some(1), Some(2), Some(2), Some(3)]
        );
        assert_eq!(nearest(&[], 5), None);
    }

    #[test]
    fn what_has_arrived_is_what_came_until_then() {
        let received = Received {
            arrivals: [(10, 5), (20, 9)]
                .map(|(at_ns, bytes_total)| Arrival { at_ns, bytes_total })
                .to_vec(),
            sha256: [0; 32],
        };
        assert_eq!(
            [9, 10, 25].map(|at_ns| arrived(&received, at_ns)),
            [0, 5, 9]
        );
    }
}
