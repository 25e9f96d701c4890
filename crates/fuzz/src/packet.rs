// SPDX-License-Identifier: Apache-2.0
//! A frame as the gateway caches it: real bytes and real headers, as in the daemon.

use std::rc::Rc;

use holdfast_core::Payload;
use holdfast_core::handoff::Copied;
use holdfast_wire::{Header, Layout, Segment};

#[derive(Clone, Debug)]
pub(crate) struct Packet {
    frame: Rc<Vec<u8>>,
    layout: Layout,
    pub(crate) segment: Segment,
    segment_len: u32,
    /// Headers that replace those of the frame.
    header: Option<Header>,
}

impl Packet {
    pub(crate) fn new(frame: Vec<u8>, layout: Layout, segment: Segment, segment_len: u32) -> Self {
        Self {
            frame: Rc::new(frame),
            layout,
            segment,
            segment_len,
            header: None,
        }
    }

    pub(crate) fn payload(&self) -> &[u8] {
        &self.frame[self.layout.payload..self.layout.end]
    }

    fn part(&self, offset: u32, len: u32) -> &[u8] {
        let payload = self.payload();
        let from = payload.len().min(offset as usize);
        let to = payload.len().min(from + len as usize);
        &payload[from..to]
    }
}

impl Payload for Packet {
    type Header = Header;

    fn header(&self) -> Option<Header> {
        self.header
            .or_else(|| Header::copy_from(&self.frame, &self.layout))
    }

    fn segment_len(&self) -> u32 {
        self.segment_len
    }

    fn is_cacheable(&self) -> bool {
        true
    }

    fn renumbered(&self, own: &Segment) -> Option<Self> {
        let before = self.header()?;
        let mut header = before;
        header.set_seq(own.seq);
        header.set_ack(own.ack);
        header.set_flags(own.flags);
        header.set_window(own.window);
        if !header.keep_sack_blocks(&own.options.sack) {
            return None;
        }
        if own.options.timestamps.is_none() && !header.blank_timestamps() {
            return None;
        }
        header.correct_checksum(&before);
        Some(Self {
            header: Some(header),
            segment: *own,
            ..self.clone()
        })
    }

    fn answered(&self, answer: &Segment) -> Option<Self> {
        let mut header = Header::made(self.header()?.link(), answer.from, answer.to)?;
        header.set_seq(answer.seq);
        header.set_ack(answer.ack);
        header.set_flags(answer.flags);
        header.set_window(answer.window);
        header.set_syn_options(&answer.options);
        if !header.set_payload_len(0) {
            return None;
        }
        header.set_checksum(&[]);
        Some(Self {
            header: Some(header),
            segment: *answer,
            ..self.clone()
        })
    }

    fn has_same_bytes(&self, offset: u32, other: &Self, other_offset: u32, len: u32) -> bool {
        self.part(offset, len) == other.part(other_offset, len)
    }

    fn octets(&self, offset: u32, len: u32) -> Option<&[u8]> {
        let part = self.part(offset, len);
        (part.len() == len as usize).then_some(part)
    }
}

impl Copied for Packet {
    fn segment(&self) -> &Segment {
        &self.segment
    }

    fn bytes(&self) -> usize {
        self.frame.len()
    }
}
