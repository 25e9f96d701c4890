// SPDX-License-Identifier: Apache-2.0
//! Cross traffic: datagrams at a constant rate, or as a Poisson process.

use holdfast_wire::{Duration, Instant};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

use super::{DSCP_DEFAULT, Event, Network};
use crate::outcome::CrossOutcome;
use crate::packet::{Body, DATAGRAM_HEADERS_LEN, NodeId, Packet};

/// A source of datagrams.
#[derive(Clone, Copy, Debug)]
pub struct SourceSettings {
    /// The sending node.
    pub from: NodeId,
    /// The receiving node.
    pub to: NodeId,
    /// Bits of IP packets a second, above 0.
    pub rate_bit_per_s: u64,
    /// Bytes of each IP packet, at least 28.
    pub packet_bytes: u32,
    /// Start time.
    pub start: Instant,
    /// Stop time.
    pub stop: Instant,
    /// Gaps from an exponential distribution with the same mean.
    pub poisson: bool,
    /// The seed of the gaps.
    pub seed: u64,
}

#[derive(Debug)]
pub(super) struct Source {
    settings: SourceSettings,
    next_at: Instant,
    rng: ChaCha8Rng,
    pub outcome: CrossOutcome,
}

impl Source {
    /// Computes when the next datagram is due.
    fn advance(&mut self) {
        let settings = &self.settings;
        let bits = u128::from(settings.packet_bytes) * 8;
        let rate = u128::from(settings.rate_bit_per_s.max(1));
        if settings.poisson {
            let unit = (self.rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
            let mean_ns =
                f64::from(settings.packet_bytes) * 8e9 / settings.rate_bit_per_s.max(1) as f64;
            let gap = -mean_ns * libm::log(1.0 - unit);
            self.next_at += Duration::from_nanos(gap as u64);
        } else {
            // Computed from the start, so that rounding does not add up.
            let elapsed = bits * u128::from(self.outcome.sent) * 1_000_000_000 / rate;
            let elapsed = u64::try_from(elapsed).unwrap_or(u64::MAX);
            self.next_at = settings.start + Duration::from_nanos(elapsed);
        }
    }
}

impl Network {
    /// Adds a source; its outcome is in [`Network::cross_traffic`].
    pub fn add_source(&mut self, settings: SourceSettings) {
        self.sources.push(Source {
            settings,
            next_at: settings.start,
            rng: ChaCha8Rng::seed_from_u64(settings.seed),
            outcome: CrossOutcome::default(),
        });
    }

    pub(super) fn start_sources(&mut self) {
        for (id, source) in self.sources.iter_mut().enumerate() {
            if source.settings.poisson {
                source.advance();
            }
            self.queue.push(source.next_at, Event::Source(id as u32));
        }
    }

    pub(super) fn handle_source(&mut self, id: u32) {
        let source = &mut self.sources[id as usize];
        let settings = source.settings;
        if self.now >= settings.stop {
            return;
        }
        let packet = Packet {
            from: settings.from,
            to: settings.to,
            body: Body::Datagram {
                source: id,
                number: source.outcome.sent,
                payload_len: settings.packet_bytes.saturating_sub(DATAGRAM_HEADERS_LEN),
            },
            corrupted: false,
        };
        source.outcome.sent += 1;
        source.advance();
        let next_at = source.next_at;
        self.queue.push(next_at, Event::Source(id));
        self.forward(settings.from, &packet, DSCP_DEFAULT);
    }
}
