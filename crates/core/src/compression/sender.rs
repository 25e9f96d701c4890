// SPDX-License-Identifier: Apache-2.0
//! The SH's side of one flow: what goes out compressed, with which dictionary, and when
//! nothing does.
//!
//! ```text
//!            first segment worth it           its ACK
//!   UNTRIED ----------------------> TRIAL ------------> PROVEN
//!      ^                              | sent again         |  | too much of it sent again
//!      |  so many bytes, doubling     v                    v  v
//!      +---------------------------- RESTING <----------- (RESTING)
//!
//!   TRIAL, PROVEN -- M-TCP freezes --> DOUBTED -- the MH's M-TCP is heard --> as before
//!                                      DOUBTED -- anything else is heard  --> UNTRIED
//! ```
//!
//! - What is sent again goes plain: an MH that cannot read it gets it all the same. The
//!   exception is what an outage has swallowed, if the MH's M-TCP itself says that it is back.
//! - The first segment of a flow goes alone; until its ACK the rest goes plain. From then on
//!   the MH is known to see all of the flow, and what it acknowledges becomes the dictionary.
//! - Nothing is compressed once the MH's registration has lapsed.

use holdfast_wire::{Instant, SeqNum};

use super::HISTORY_BYTES;
use super::codec::{DictionaryRef, Encoder, Plain};
use super::dictionary::{Dictionaries, Dictionary};
use super::worth::Worth;
use super::{CompressionSettings, Method};

/// Segments with less payload go plain, bytes.
const PLAIN_BYTES_MIN: usize = 64;
/// After a trial that failed so many bytes go plain, and twice as many after each further one.
const REST_BYTES: u32 = 64 << 10;
const REST_DOUBLINGS_MAX: u32 = 10;
/// So many bytes acknowledged, and failures before are forgotten.
const TRUSTED_BYTES: u32 = 1 << 20;
/// What is sent again counts so many times what is acknowledged: one byte in eight.
const REPEATED_WEIGHT: u32 = 8;
/// More than this, and it is not the link that loses so much.
const SUSPICION_MAX: u32 = 256 << 10;

/// Whether the MH is known to read what is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trust {
    Untried,
    /// This range is on its way.
    Trial(SeqNum, SeqNum),
    Proven,
    /// So many bytes go plain still.
    Resting(u32),
    /// M-TCP has frozen; whether it was proven then.
    Doubted(bool),
}

/// What became of a segment that was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Emission {
    /// It goes compressed, this many bytes long.
    Compressed(usize),
    /// It goes plain: it does not shrink.
    Vain,
    /// It goes plain for another reason.
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

    /// A flow whose MH can decompress what begins at `nxt`, as it has said in the `session`
    /// of its daemon, and as long as that holds.
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

    /// A segment is offered: what becomes of it. The payload of one that goes compressed is
    /// [`payload`](Self::payload).
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
            // Asked again after a while: the mobile may say it again.
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

    /// What was compressed last, `len` bytes.
    pub(crate) fn payload(&self, len: usize) -> &[u8] {
        self.encoder.payload(len)
    }

    /// The MH has acknowledged everything up to `una`, in part of what was sent compressed.
    pub(crate) fn on_proof(&self, flow: &mut SentCompression) {
        if self.settings.method == Method::Zstd {
            flow.dictionary = self.dictionaries.begin(flow.sent_max);
        }
    }
}

/// What the SH knows of a flow that it compresses.
#[derive(Debug)]
pub(crate) struct SentCompression {
    /// The run of the MH's daemon that said what it can.
    session: u64,
    /// Until then it is believed.
    until: Instant,
    trust: Trust,
    failures: u32,
    /// The end of what was ever sent, compressed or not.
    sent_max: SeqNum,
    /// The end of what was ever sent compressed: what lies before goes plain.
    attempted: SeqNum,
    /// What lies before may be sent again without suspicion: an outage has swallowed it.
    excused: SeqNum,
    suspicion: u32,
    /// Bytes acknowledged since the proof.
    acked: u32,
    worth: Worth,
    dictionary: Option<Dictionary>,
}

impl SentCompression {
    /// The MH has said again what it can: a new run of its daemon knows nothing of before.
    pub(crate) fn renew(&mut self, session: u64, until: Instant) {
        self.until = until;
        if self.session != session {
            self.session = session;
            self.failures = 0;
            self.distrust(Trust::Untried);
        }
    }

    /// Nothing was tried yet, or all is to be tried anew.
    pub(crate) fn is_untried(&self) -> bool {
        self.trust == Trust::Untried
    }

    /// Others of the same mobile have tried in vain: some bytes go plain first, twice as many
    /// for each doubling.
    pub(crate) fn rest_first(&mut self, doublings: u32) {
        self.trust = Trust::Resting(REST_BYTES << doublings.min(REST_DOUBLINGS_MAX));
    }

    fn distrust(&mut self, trust: Trust) {
        self.trust = trust;
        self.dictionary = None;
        self.suspicion = 0;
        self.acked = 0;
    }

    /// Payload of so many bytes, in so many segments, is to be sent. True if it should be
    /// offered; otherwise it goes as it is, and [`on_plain`](Self::on_plain) is told.
    pub(crate) fn wants(&mut self, bytes: u32, segments: u32) -> bool {
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
            Trust::Untried | Trust::Proven => self.worth.looks_at(segments),
        }
    }

    fn may_compress(&self, seq: SeqNum) -> bool {
        let trusted = matches!(self.trust, Trust::Untried | Trust::Proven);
        trusted && !self.worth.rests() && !seq.before(self.attempted)
    }

    /// The dictionary for what ends at `end`: no farther back than the MH keeps it.
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

    /// `seq..end` goes to the MH as it is.
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
                .saturating_add(again.saturating_mul(REPEATED_WEIGHT));
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

    /// The MH has acknowledged what lies between. True if that proves that it can read what is
    /// compressed: then [`Compressor::on_proof`] is to follow.
    pub(crate) fn on_acked(&mut self, from: SeqNum, una: SeqNum) -> bool {
        for mark in [&mut self.sent_max, &mut self.attempted, &mut self.excused] {
            // None is left so far behind that it would come round to the front.
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

    /// A dictionary is to be kept up.
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

    /// The MH is heard again, everything up to `una` acknowledged; `by_its_m_tcp`: by what its
    /// M-TCP alone says.
    pub(crate) fn on_heard(&mut self, by_its_m_tcp: bool, una: SeqNum) {
        let Trust::Doubted(proven) = self.trust else {
            return;
        };
        if by_its_m_tcp && proven {
            self.trust = Trust::Proven;
            self.attempted = una;
        } else {
            self.failures = self.failures.saturating_add(1);
            self.distrust(Trust::Untried);
        }
    }
}
