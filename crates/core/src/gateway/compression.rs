// SPDX-License-Identifier: Apache-2.0
//! Compression of what goes to mobiles that have said that they can read it
//! (`crate::compression`).

use core::net::IpAddr;
use std::collections::BTreeMap;

use holdfast_wire::{Flags, Instant};

use super::Gateway;
use crate::compression::{CompressionSettings, Compressor, Emission, Method};
use crate::signal::Abilities;
use crate::table::FlowId;
use crate::{Payload, Resend};

/// Addresses whose abilities are remembered at most; then the one that lapses first goes.
const ADDRESSES_MAX: usize = 65_536;
/// After so many trials in a row that proved nothing, further flows begin with some bytes plain:
/// something on the way may drop all that is compressed.
const TRIALS_IN_VAIN: u32 = 4;

/// What a mobile has said of itself.
#[derive(Clone, Copy, Debug)]
struct Told {
    abilities: Abilities,
    session: u64,
    until: Instant,
    /// Trials since one has proved something, all flows.
    trials: u32,
}

/// The gateway's compression.
pub(super) struct Compression {
    compressor: Compressor,
    told: BTreeMap<IpAddr, Told>,
}

impl Compression {
    pub(super) fn new(settings: CompressionSettings) -> Self {
        Self {
            compressor: Compressor::new(settings),
            told: BTreeMap::new(),
        }
    }

    fn remember(&mut self, address: IpAddr, abilities: Abilities, session: u64, until: Instant) {
        let known = self.told.get(&address);
        if known.is_none() && self.told.len() >= ADDRESSES_MAX {
            let first = self.told.iter().min_by_key(|(_, told)| told.until);
            if let Some(first) = first.map(|(address, _)| *address) {
                self.told.remove(&first);
            }
        }
        let same = self
            .told
            .get(&address)
            .filter(|told| told.session == session);
        let told = Told {
            abilities,
            session,
            until,
            trials: same.map_or(0, |told| told.trials),
        };
        self.told.insert(address, told);
    }

    fn reads(&self, abilities: Abilities) -> bool {
        match self.compressor.method() {
            Method::Deflate => abilities.has(Abilities::DEFLATE),
            Method::Zstd => abilities.has(Abilities::ZSTD),
        }
    }
}

impl<P: Payload> Gateway<P> {
    /// The mobile with these addresses has said what it can, in this `session` of its daemon;
    /// that holds until `until`, unless it says so again.
    pub fn handle_abilities(
        &mut self,
        addresses: &[IpAddr],
        abilities: Abilities,
        session: u64,
        until: Instant,
    ) {
        let Some(compression) = &mut self.compression else {
            return;
        };
        for address in addresses {
            compression.remember(*address, abilities, session, until);
        }
        for address in addresses {
            let mobile = self.mobiles.get(address);
            for flow in mobile.map_or(Vec::new(), |mobile| mobile.flows.clone()) {
                self.equip(flow);
            }
        }
    }

    /// These addresses are no longer those of the mobile that had them.
    pub(super) fn forget_abilities(&mut self, addresses: &[IpAddr]) {
        let Some(compression) = &mut self.compression else {
            return;
        };
        for address in addresses {
            compression.told.remove(address);
            let mobile = self.mobiles.get(address);
            for flow_id in mobile.map_or(&[][..], |mobile| &mobile.flows) {
                if let Some(flow) = self.flows.at_mut(*flow_id) {
                    flow.compression = None;
                }
            }
        }
    }

    /// A flow may have become one that is compressed, or is none any more.
    pub(super) fn equip(&mut self, flow_id: FlowId) {
        let Some(compression) = &self.compression else {
            return;
        };
        let Some(flow) = self.flows.at_mut(flow_id) else {
            return;
        };
        let told = compression.told.get(&flow.key.mh.address);
        let Some(told) = told.filter(|told| flow.is_split() && compression.reads(told.abilities))
        else {
            flow.compression = None;
            return;
        };
        if let Some(known) = &mut flow.compression {
            known.renew(told.session, told.until);
        } else {
            // What was sent before may arrive yet, and proves nothing.
            let nxt = flow.fh.max.max(flow.fh.una);
            let mut begun = Compressor::begin(nxt, told.session, told.until);
            if let Some(doublings) = told.trials.checked_sub(TRIALS_IN_VAIN) {
                begun.rest_first(doublings);
            }
            flow.compression = Some(Box::new(begun));
        }
    }

    /// The MH of a flow is known to read what is compressed.
    pub(super) fn prove_compression(&mut self, flow_id: FlowId) {
        let (Some(compression), Some(flow)) = (&mut self.compression, self.flows.at_mut(flow_id))
        else {
            return;
        };
        if let Some(known) = &mut flow.compression {
            self.counters.compression_proofs += 1;
            compression.compressor.on_proof(known);
            if let Some(told) = compression.told.get_mut(&flow.key.mh.address) {
                told.trials = 0;
            }
        }
    }

    /// The payload to send in place of the `len` bytes after the first `sent` of a piece that
    /// has [`compress`](Resend::compress), a segment on the wire with these control bits; it
    /// goes out with those of [`marked`](crate::compression::marked). `None`: the segment goes
    /// as it is.
    pub fn compress(
        &mut self,
        piece: &Resend<P>,
        sent: u32,
        len: u32,
        flags: Flags,
        now: Instant,
    ) -> Option<&[u8]> {
        let compression = self.compression.as_mut()?;
        let flow_id = self.flows.find(&piece.compress?)?;
        let flow = self.flows.at_mut(flow_id)?;
        let known = flow.compression.as_mut()?;
        let seq = piece.seq + sent;
        let bytes = piece.payload.octets(piece.offset + sent, len);
        let readable = flags.has(Flags::ACK) && !flags.has(Flags::FIN) && !flags.has(Flags::URG);
        let Some(bytes) = bytes.filter(|_| readable) else {
            known.on_plain(seq, seq + len);
            return None;
        };
        let (psh, untried) = (flags.has(Flags::PSH), known.is_untried());
        let counters = &mut self.counters;
        let wire_len = match compression.compressor.emit(known, bytes, seq, psh, now) {
            Emission::Plain => return None,
            Emission::Vain => {
                counters.compressed_in_vain += 1;
                return None;
            }
            Emission::Compressed(wire_len) => wire_len,
        };
        if untried && let Some(told) = compression.told.get_mut(&flow.key.mh.address) {
            told.trials = told.trials.saturating_add(1);
        }
        counters.compressed += 1;
        counters.compressed_from_bytes += u64::from(len);
        counters.compressed_to_bytes += wire_len as u64;
        // The link carries what is on the wire, and the share is of that: the next piece may go
        // the sooner.
        flow.mtcp.refund(len - wire_len as u32);
        if flow.mtcp.is_assigned() && flow.has_backlog() {
            self.schedule_flow(flow_id, now);
        }
        let compression = self.compression.as_ref()?;
        Some(compression.compressor.payload(wire_len))
    }

    /// Flows with a dictionary.
    pub fn dictionaries(&self) -> usize {
        let compression = self.compression.as_ref();
        compression.map_or(0, |compression| compression.compressor.dictionaries())
    }
}
