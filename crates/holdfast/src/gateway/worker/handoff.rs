// SPDX-License-Identifier: Apache-2.0
//! The commands of a handoff to the engine, and the station's part of the worker's loop.

use std::io;

use holdfast_core::handoff::HandoffAction;
use holdfast_core::{Direction, FlowKey};
use holdfast_net::datapath::{monotonic_ns, now};
use holdfast_net::tun::LayerKind;
use holdfast_wire::Header;

use super::{BATCH_FRAMES, Worker};
use crate::gateway::station::CopiedPacket;

/// After this many delivered packets the worker reads the device that receives them: its queue
/// is limited.
const DELIVERED_IN_A_ROW: usize = 64;

/// The limit of frames that are read before the engine sends the segments that it has queued.
const FRAMES_BEFORE_GO: usize = 16_384;

impl Worker {
    /// Receives the neighbours' messages, and does what is due between stations.
    ///
    /// Errors: the socket or a device broke.
    pub(super) fn handle_station(&mut self) -> io::Result<()> {
        let now = now();
        let Some(station) = &mut self.station else {
            return Ok(());
        };
        if station.is_readable {
            station.receive(now)?;
        }
        station.handle_timeout(now);
        self.do_handoff()
    }

    /// Does the actions of the handoffs, in order.
    ///
    /// Errors: a device broke.
    pub(super) fn do_handoff(&mut self) -> io::Result<()> {
        let mut delivered = 0;
        while let Some(station) = &mut self.station {
            let Some(action) = station.actions.pop_front() else {
                break;
            };
            delivered += usize::from(matches!(action, HandoffAction::Deliver(_)));
            if let Some(action) = station.perform(action) {
                self.do_in_engine(action)?;
            }
            if delivered == DELIVERED_IN_A_ROW {
                delivered = 0;
                self.read_downlink(2 * DELIVERED_IN_A_ROW)?;
            }
        }
        Ok(())
    }

    fn do_in_engine(&mut self, action: HandoffAction<CopiedPacket>) -> io::Result<()> {
        let now = now();
        match action {
            HandoffAction::Export {
                mobile,
                addresses,
                to,
            } => {
                let states = self.engine.export(&addresses, now, &mut self.actions);
                if let Some(station) = &mut self.station {
                    station.send_state(mobile, to, &states, now);
                }
            }
            HandoffAction::Stop { mobile, addresses } => {
                let mut pieces = Vec::new();
                self.engine
                    .release(&addresses, &mut pieces, &mut self.actions);
                let copies = pieces.iter().filter_map(CopiedPacket::of_piece);
                if let Some(station) = &mut self.station {
                    copies.for_each(|copy| station.keep(mobile, copy, now));
                }
            }
            HandoffAction::Adopt(state) => {
                let uplink = self.uplink_header(&state.key);
                self.engine.adopt(&state, uplink, now, &mut self.actions);
            }
            HandoffAction::QueueSegments(flows) => self.engine.queue_segments(&flows),
            HandoffAction::ResumeSending(flows) => {
                // The delivered packets come through the routing: the engine must get them first.
                self.read_downlink(FRAMES_BEFORE_GO)?;
                self.engine.resume_sending(&flows, now, &mut self.actions);
            }
            // The station has done the others.
            _ => {}
        }
        self.perform();
        Ok(())
    }

    /// The template for packets in the name of an MH that has sent nothing through this gateway yet. They
    /// are addressed to the router, like the MH's own.
    fn uplink_header(&self, key: &FlowKey) -> Option<Header> {
        let interface = self.path.interface();
        let ether_type: u16 = if key.mh.address.is_ipv4() {
            0x0800
        } else {
            0x86dd
        };
        let ethernet = [&interface.mac[..], &[0; 6], &ether_type.to_be_bytes()].concat();
        let link = match interface.kind {
            LayerKind::Ethernet => &ethernet[..],
            LayerKind::RawIp => &[],
        };
        Header::made(link, key.mh, key.fh)
    }

    /// Reads up to `frames` from the downlink device, without waiting.
    fn read_downlink(&mut self, frames: usize) -> io::Result<()> {
        for _ in 0..frames.div_ceil(BATCH_FRAMES) {
            // Sealing takes time; without a beat the kernel would pass all packets.
            self.path.beat(monotonic_ns());
            let read = self.read_batch(Direction::Downlink, BATCH_FRAMES)?;
            if read < BATCH_FRAMES {
                break;
            }
        }
        Ok(())
    }
}
