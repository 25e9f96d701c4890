// SPDX-License-Identifier: Apache-2.0
//! The state of a sender about the handoffs of its host.

use std::collections::BTreeMap;

use holdfast_core::lccwe::{Judgement, LcCwe};
use holdfast_wire::Instant;

use super::settings::OnHandoff;

/// What a connection knows of handoffs.
#[derive(Clone, Debug, Default)]
pub(super) struct Handoffs {
    pub mechanism: Option<LcCwe>,
    /// The first byte of each unacknowledged segment, and when it was last sent.
    pub transmitted: BTreeMap<u64, Instant>,
    pub judgements: Vec<Judged>,
    /// cwnd and ssthresh to which a fast recovery without congestion returns.
    pub kept: Option<(u64, u64)>,
    /// In a handoff: the retransmission timer is stopped, and no data is sent.
    pub frozen: bool,
}

/// A loss that the classifier has judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judged {
    /// When.
    pub at: Instant,
    /// The lost segment's first byte, as an offset in the stream.
    pub offset: u64,
    /// When it was sent last.
    pub transmitted: Instant,
    /// The retransmission timer found the loss; false: duplicate ACKs did.
    pub by_timeout: bool,
    /// The verdict.
    pub judgement: Judgement,
}

impl Handoffs {
    pub(super) fn new(on_handoff: OnHandoff) -> Self {
        let mechanism = match on_handoff {
            OnHandoff::LcCwe { parameters, .. } => Some(LcCwe::new(parameters)),
            OnHandoff::Nothing | OnHandoff::FreezeAndFastRetransmit => None,
        };
        Self {
            mechanism,
            ..Self::default()
        }
    }
}
