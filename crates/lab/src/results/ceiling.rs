// SPDX-License-Identifier: Apache-2.0
//! The most that a wireless hop with random losses can carry: each segment is sent until it
//! arrives, and nothing is sent needlessly.
//!
//! If each direction has a medium of its own, no sender can be faster. On a shared medium ACKs take
//! time too. One ACK for two segments is assumed (RFC 5681, 4.2), or one for each segment if the
//! receiver does not delay them; ACKs caused by losses are left out. There a receiver with fewer
//! ACKs can be faster than this, such as Linux after GRO. Lost ACKs cost the medium a little less
//! than is assumed.

use holdfast_core::Direction;
use holdfast_link::{BitErrorEffect, LinkSettings, OutageSettings};

use crate::framing::Framing;
use crate::scenario::Conditions;

/// The properties of a hop that are known before a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ceiling {
    /// Payload in Mb/s.
    pub goodput_mbps: f64,
    /// The share of full segments that are lost at each sending, 0 to 1.
    pub loss_share: f64,
}

impl Ceiling {
    /// The ceiling of the wireless hop of `conditions`, or of a slower wired hop. None: the hop has
    /// outages, other traffic, or a rate that is not constant.
    pub fn of(conditions: &Conditions, framing: Framing) -> Option<Self> {
        let hop = &conditions.wireless;
        let (way, back) = match Direction::from(conditions.transfer.direction) {
            Direction::Downlink => (&hop.downlink, &hop.uplink),
            Direction::Uplink => (&hop.uplink, &hop.downlink),
        };
        // Both directions of a shared medium have one rate and one model of loss.
        let way = if hop.half_duplex { &hop.downlink } else { way };
        let calm = [way, back]
            .iter()
            .all(|item| item.outages == OutageSettings::None);
        if !calm || !conditions.cross_traffic.is_empty() || way.rate_trace.is_some() {
            return None;
        }
        let overhead = f64::from(hop.frame_overhead_bytes);
        let rate = way.rate_mbit_per_s?;
        let payload = framing.payload_bytes as f64;
        let header = hop.header_bytes(framing.header_bytes) as f64;
        let loss_share = loss_share(way, payload + header, overhead);
        let mut bytes = (payload + header + overhead) / (1.0 - loss_share);
        if hop.half_duplex {
            bytes += (header + overhead) / segments_per_ack(conditions);
        }
        let wireless_mbps = rate * payload / bytes;
        let wired_mbps = conditions.wired.as_ref().and_then(|wired| {
            let way = match Direction::from(conditions.transfer.direction) {
                Direction::Uplink if !wired.half_duplex => &wired.uplink,
                Direction::Downlink | Direction::Uplink => &wired.downlink,
            };
            let rate = way.rate_mbit_per_s?;
            let besides = wired.header_and_frame_bytes(framing.header_bytes) as f64;
            Some(rate * payload / (payload + besides))
        });
        Some(Self {
            goodput_mbps: wired_mbps.map_or(wireless_mbps, |wired| wired.min(wireless_mbps)),
            loss_share,
        })
    }
}

/// The segments that one ACK of the receiver acknowledges.
fn segments_per_ack(conditions: &Conditions) -> f64 {
    let receiver = match Direction::from(conditions.transfer.direction) {
        Direction::Downlink => &conditions.mh,
        Direction::Uplink => &conditions.fh,
    };
    if receiver.delayed_ack == Some(false) {
        1.0
    } else {
        2.0
    }
}

/// The share of packets of this size that a direction loses, 0 to 1.
fn loss_share(way: &LinkSettings, packet_bytes: f64, overhead_bytes: f64) -> f64 {
    let bytes = match way.bit_error_effect {
        BitErrorEffect::Lose => packet_bytes + overhead_bytes,
        // A corrupted packet has its bit errors in its own bytes, not in those that framing adds.
        BitErrorEffect::Corrupt => packet_bytes,
    };
    let in_state = way.gilbert_elliott.as_ref().map_or(0.0, |item| {
        let changes = item.good_to_bad + item.bad_to_good;
        // A model that never changes its state stays in the good state.
        let bad = if changes > 0.0 {
            item.good_to_bad / changes
        } else {
            0.0
        };
        bad * item.loss_bad + (1.0 - bad) * item.loss_good
    });
    let sound = libm::pow(1.0 - way.bit_error_rate, bytes * 8.0);
    1.0 - (1.0 - way.loss) * (1.0 - in_state) * sound
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;
    use std::path::Path;

    fn ceiling(more: &str) -> Option<Ceiling> {
        let text = format!("[transfer]\nbytes = 1000000\n{more}");
        let scenario = Scenario::parse(Path::new("s.toml"), &text).unwrap();
        let run = scenario.runs(None).unwrap().remove(0);
        Ceiling::of(&run.conditions, Framing::new(1460, false))
    }

    fn goodput(more: &str) -> f64 {
        ceiling(more).unwrap().goodput_mbps
    }

    #[test]
    fn without_loss_headers_alone_are_lost() {
        let goodput = goodput("[wireless]\nrate_mbit_per_s = 15");
        assert!((goodput - 14.6).abs() < 1e-9, "{goodput}");
    }

    #[test]
    fn what_is_lost_is_retransmitted_until_it_arrives() {
        let goodput = goodput("[wireless]\nrate_mbit_per_s = 15\nloss = 0.5");
        assert!((goodput - 7.3).abs() < 1e-9, "{goodput}");
        // 1 - (1 - 1e-5)^12000.
        let bits = ceiling("[wireless]\nrate_mbit_per_s = 15\nbit_error_rate = 1e-5").unwrap();
        assert!((bits.loss_share - 0.113_080).abs() < 1e-5, "{bits:?}");
    }

    #[test]
    fn a_model_of_loss_that_never_changes_its_state_loses_as_its_good_state() {
        let loss = "gilbert_elliott = { good_to_bad = 0, bad_to_good = 0, loss_good = 0.5 }";
        let goodput = goodput(&format!("[wireless]\nrate_mbit_per_s = 15\n{loss}"));
        assert!((goodput - 7.3).abs() < 1e-9, "{goodput}");
    }

    #[test]
    fn on_a_shared_medium_acks_take_their_turns() {
        // Two packets of 1,703 bytes and an ACK of 243 bytes, as in papers/snoop-1995.
        let hop = "[wireless]\nhalf_duplex = true\nrate_mbit_per_s = 2\nframe_overhead_bytes = 203";
        let delayed = goodput(hop);
        assert!((delayed - 2.0 * 2920.0 / 3649.0).abs() < 1e-9, "{delayed}");
        let each = goodput(&format!("{hop}\n[mh]\ndelayed_ack = false"));
        assert!((each - 2.0 * 1460.0 / 1946.0).abs() < 1e-9, "{each}");
    }

    #[test]
    fn bits_beside_the_packet_count_only_where_they_lose_it() {
        let hop = "[wireless]\nrate_mbit_per_s = 2\nframe_overhead_bytes = 1500\nbit_error_rate = 1e-5\nbit_error_effect = ";
        let lost = ceiling(&format!("{hop}\"lose\"")).unwrap().loss_share;
        let corrupt = ceiling(&format!("{hop}\"corrupt\"")).unwrap().loss_share;
        assert!((1.0 - (1.0 - corrupt) * (1.0 - corrupt) - lost).abs() < 1e-9);
    }

    #[test]
    fn an_uplink_is_bounded_by_the_wired_hops_uplink() {
        let hops = "direction = \"uplink\"\n[wired]\nrate_mbit_per_s = 15\n\
                    uplink = { rate_mbit_per_s = 1.5 }\n[wireless]\nrate_mbit_per_s = 15";
        assert!((goodput(hops) - 1.46).abs() < 1e-9);
        // A download is limited by its downlink.
        let other = hops.replace("direction = \"uplink\"", "");
        assert!((goodput(&other) - 14.6).abs() < 1e-9);
    }

    #[test]
    fn the_slower_hop_is_the_ceiling_and_outages_have_none() {
        let wired = "[wired]\nrate_mbit_per_s = 1.5\n[wireless]\nrate_mbit_per_s = 15";
        assert!((goodput(wired) - 1.46).abs() < 1e-9);
        let outage = "[wireless]\nrate_mbit_per_s = 2\noutages = { kind = \"list\", list = [{ at_s = 1, for_s = 1 }] }";
        assert_eq!(ceiling(outage), None);
        assert_eq!(ceiling("[wireless]\ndelay_ms = 5"), None);
    }
}
