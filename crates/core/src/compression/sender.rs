// SPDX-License-Identifier: Apache-2.0
//! The SH's side of one flow: which segments are compressed, and with which dictionary.
//!
//! ```text
//!            first segment worth it           its ACK
//!   UNTRIED ----------------------> TRIAL ------------> PROVEN
//!      ^                              | retransmitted      |  | too much retransmitted
//!      |  bytes, doubled each time    v                    v  v
//!      +---------------------------- RESTING <----------- (RESTING)
//!
//!   TRIAL, PROVEN -- M-TCP freezes --> DOUBTED -- a segment of the MH's M-TCP --> as before
//!                                      DOUBTED -- any other segment           --> UNTRIED
//! ```
//!
//! - Retransmissions are sent plain, so an MH that cannot decompress receives them. There is one
//!   exception: bytes lost in an outage, if the MH's M-TCP itself reports link up.
//! - The first segment of a flow is compressed alone; until its ACK the rest is sent plain. The
//!   ACK proves that the MH sees all of the flow. What it acknowledges becomes the dictionary.
//! - Nothing is compressed after the MH's registration has expired.

use holdfast_wire::{Instant, SeqNum};

use super::HISTORY_BYTES;
use super::codec::{DictionaryRef, Encoder, Plain};
use super::dictionary::{Dictionaries, Dictionary};
use super::worth::Worth;
use super::{CompressionSettings, Method};

/// Segments with less payload are sent plain, bytes.
const PLAIN_BYTES_MIN: usize = 64;
/// After a failed trial this many bytes are sent plain; the number doubles with each further failure.
const REST_BYTES: u32 = 64 << 10;
const REST_DOUBLINGS_MAX: u32 = 10;
/// After this many acknowledged bytes, earlier failures are forgotten.
const TRUSTED_BYTES: u32 = 1 << 20;
/// Weight of a retransmitted byte against an acknowledged one: one in eight may be retransmitted.
const RETRANSMITTED_WEIGHT: u32 = 8;
/// Above this, the cause is not the link's loss: the MH cannot decompress.
const SUSPICION_MAX: u32 = 256 << 10;

/// Whether the MH is known to decompress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trust {
    Untried,
    /// This range is in flight, the only compressed one.
    Trial(SeqNum, SeqNum),
    Proven,
    /// This many bytes are still sent plain.
    Resting(u32),
    /// M-TCP has frozen; true if it was proven before.
    Doubted(bool),
}

/// The result of [`Compressor::emit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Emission {
    /// The segment is sent compressed; its payload has this many bytes.
    Compressed(usize),
    /// The segment is sent plain because its payload does not shrink.
    Vain,
    /// The segment is sent plain for another reason.
    Plain,
}

/// Compresses for all flows of a gateway.
pub(crate) struct Compressor {
    settings: CompressionSettings,
    encoder: Encoder,
    dictionaries: Dictionaries,
}

impl Compressor {
    pub(crate) fn new(settings: CompressionSettings) -> Self {
        Self {
            settings,
            encoder: Encoder::new(settings),
            dictionaries: Dictionaries::default(),
        }
    }

    pub(crate) const fn method(&self) -> Method {
        self.settings.method
    }

    /// Dictionaries in use.
    pub(crate) fn dictionaries(&self) -> usize {
        self.dictionaries.count()
    }

    /// Starts compression of a flow from `nxt` on. The MH's daemon has registered its abilities in
    /// `session`; the registration is valid until `until`.
    pub(crate) fn begin(nxt: SeqNum, session: u64, until: Instant) -> SentCompression {
        SentCompression {
            session,
            until,
            trust: Trust::Untried,
            failures: 0,
            sent_max: nxt,
            attempted: nxt,
            excused: nxt,
            suspicion: 0,
            acked: 0,
            worth: Worth::default(),
            dictionary: None,
        }
    }

    /// Compresses a segment if it should be. If it is [`Emission::Compressed`],
    /// [`payload`](Self::payload) has the result.
    pub(crate) fn emit(
        &mut self,
        flow: &mut SentCompression,
        bytes: &[u8],
        seq: SeqNum,
        psh: bool,
        now: Instant,
    ) -> Emission {
        let end = seq + bytes.len() as u32;
        if now >= flow.until {
            // The mobile may renew its registration while the flow rests.
            flow.distrust(Trust::Resting(REST_BYTES));
        }
        let may = flow.may_compress(seq) && bytes.len() >= PLAIN_BYTES_MIN;
        if !may {
            flow.on_plain(seq, end);
            return Emission::Plain;
        }
        let plain = Plain { bytes, seq, psh };
        let Some(payload) = self.encoder.encode(plain, flow.dictionary_for(end)) else {
            flow.worth.on_vain();
            flow.on_plain(seq, end);
            return Emission::Vain;
        };
        flow.on_compressed(seq, end);
        Emission::Compressed(payload)
    }

    /// The result of the last compression, `len` bytes.
    pub(crate) fn payload(&self, len: usize) -> &[u8] {
        self.encoder.payload(len)
    }

    /// The MH has acknowledged the bytes of the trial: from now on there is a dictionary.
    pub(crate) fn on_proof(&self, flow: &mut SentCompression) {
        if self.settings.method == Method::Zstd {
            flow.dictionary = self.dictionaries.begin(flow.sent_max);
        }
    }
}

/// The SH's state of a flow that it compresses.
#[derive(Debug)]
pub(crate) struct SentCompression {
    /// The run of the MH's daemon that registered its abilities.
    session: u64,
    /// When the registration expires.
    until: Instant,
    trust: Trust,
    failures: u32,
    /// The end of what was sent, compressed or not.
    sent_max: SeqNum,
    /// The end of what was sent compressed: a segment before it is a retransmission.
    attempted: SeqNum,
    /// A retransmission before this is not suspicious: an outage lost it.
    excused: SeqNum,
    suspicion: u32,
    /// Bytes acknowledged since the trial.
    acked: u32,
    worth: Worth,
    dictionary: Option<Dictionary>,
}

impl SentCompression {
    /// The MH has renewed its registration. A new run of its daemon has no state of earlier ones.
    pub(crate) fn renew(&mut self, session: u64, until: Instant) {
        self.until = until;
        if self.session != session {
            self.session = session;
            self.failures = 0;
            self.distrust(Trust::Untried);
        }
    }

    /// No trial has begun.
    pub(crate) fn is_untried(&self) -> bool {
        self.trust == Trust::Untried
    }

    /// Starts with plain bytes, because trials on other flows of this mobile failed.
    pub(crate) fn rest_first(&mut self, doublings: u32) {
        self.trust = Trust::Resting(REST_BYTES << doublings.min(REST_DOUBLINGS_MAX));
    }

    fn distrust(&mut self, trust: Trust) {
        self.trust = trust;
        self.dictionary = None;
        self.suspicion = 0;
        self.acked = 0;
    }

    /// True if the next `bytes` bytes, in `segments` segments, should be given to
    /// [`Compressor::emit`]. Otherwise the caller sends them plain and calls [`on_plain`](Self::on_plain).
    pub(crate) fn should_compress(&mut self, bytes: u32, segments: u32) -> bool {
        match &mut self.trust {
            Trust::Resting(left) if *left > bytes => {
                *left -= bytes;
                false
            }
            Trust::Resting(_) => {
                self.trust = Trust::Untried;
                false
            }
            Trust::Trial(..) | Trust::Doubted(_) => false,
            Trust::Untried | Trust::Proven => self.worth.should_try(segments),
        }
    }

    fn may_compress(&self, seq: SeqNum) -> bool {
        let trusted = matches!(self.trust, Trust::Untried | Trust::Proven);
        trusted && !self.worth.rests() && !seq.before(self.attempted)
    }

    /// The dictionary for a segment that ends at `end`; it begins no earlier than the MH's copy.
    fn dictionary_for(&self, end: SeqNum) -> Option<DictionaryRef<'_>> {
        let newest = self.sent_max.max(end).get();
        let begin = SeqNum::new(newest.wrapping_sub(HISTORY_BYTES));
        self.dictionary.as_ref()?.since(begin)
    }

    fn on_compressed(&mut self, seq: SeqNum, end: SeqNum) {
        self.worth.on_shrunk();
        self.sent_max = self.sent_max.max(end);
        self.attempted = self.attempted.max(end);
        if self.trust == Trust::Untried {
            self.trust = Trust::Trial(seq, end);
        }
    }

    /// `seq..end` is sent to the MH plain.
    pub(crate) fn on_plain(&mut self, seq: SeqNum, end: SeqNum) {
        self.sent_max = self.sent_max.max(end);
        if let Trust::Trial(from, to) = self.trust
            && seq.before(to)
            && end.after(from)
        {
            return self.rest();
        }
        if seq.before(self.attempted) && !seq.before(self.excused) {
            let again = self.attempted.min(end).distance_from(seq);
            self.suspicion = self
                .suspicion
                .saturating_add(again.saturating_mul(RETRANSMITTED_WEIGHT));
            if self.suspicion > SUSPICION_MAX {
                self.rest();
            }
        }
    }

    fn rest(&mut self) {
        let bytes = REST_BYTES << self.failures.min(REST_DOUBLINGS_MAX);
        self.failures = self.failures.saturating_add(1);
        self.distrust(Trust::Resting(bytes));
    }

    /// The MH has acknowledged `from..una`. True if that ends a trial with success: then the caller
    /// calls [`Compressor::on_proof`].
    pub(crate) fn on_acked(&mut self, from: SeqNum, una: SeqNum) -> bool {
        for mark in [&mut self.sent_max, &mut self.attempted, &mut self.excused] {
            // A number that is too far behind `una` would compare as ahead of it.
            *mark = mark.max(una);
        }
        let acked = una.distance_from(from);
        self.suspicion = self.suspicion.saturating_sub(acked);
        match self.trust {
            Trust::Trial(_, end) if end.at_or_before(una) => {
                self.trust = Trust::Proven;
                true
            }
            Trust::Proven => {
                self.acked = self.acked.saturating_add(acked);
                if self.acked > TRUSTED_BYTES {
                    self.failures = 0;
                }
                false
            }
            _ => false,
        }
    }

    /// True if [`keep`](Self::keep) must be called with what the MH acknowledges.
    pub(crate) const fn has_dictionary(&self) -> bool {
        self.dictionary.is_some()
    }

    /// The MH has acknowledged these bytes.
    pub(crate) fn keep(&mut self, seq: SeqNum, bytes: &[u8]) {
        if let Some(dictionary) = &mut self.dictionary {
            dictionary.extend(seq, bytes);
        }
    }

    /// M-TCP has frozen.
    pub(crate) fn on_frozen(&mut self) {
        let proven = self.trust == Trust::Proven;
        if proven || matches!(self.trust, Trust::Trial(..)) {
            self.trust = Trust::Doubted(proven);
        }
        self.excused = self.sent_max;
        self.suspicion = 0;
    }

    /// A segment of the MH has arrived after a freeze and acknowledges everything up to `una`.
    /// `by_m_tcp`: only the MH's M-TCP sends such a segment.
    pub(crate) fn on_contact(&mut self, by_m_tcp: bool, una: SeqNum) {
        let Trust::Doubted(proven) = self.trust else {
            return;
        };
        if by_m_tcp && proven {
            self.trust = Trust::Proven;
            self.attempted = una;
        } else {
            self.failures = self.failures.saturating_add(1);
            self.distrust(Trust::Untried);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seq: u32) -> SeqNum {
        SeqNum::new(seq)
    }

    /// A megabyte that arrives is worth more than the failures before it.
    #[test]
    fn failures_are_forgotten_after_more_than_the_trusted_bytes() {
        let failures_after = |acked: u32| {
            let mut flow = Compressor::begin(at(1), 7, Instant::ZERO);
            (flow.failures, flow.trust) = (3, Trust::Proven);
            let mut una = 1;
            while una < 1 + acked {
                let next = (una + 100_000).min(1 + acked);
                assert!(!flow.on_acked(at(una), at(next)));
                una = next;
            }
            flow.failures
        };
        assert_eq!(failures_after(TRUSTED_BYTES), 3);
        assert_eq!(failures_after(TRUSTED_BYTES + 1000), 0);
    }
}
