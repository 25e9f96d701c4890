// SPDX-License-Identifier: Apache-2.0
//! Checks of each frame that the gateway makes. The frames are built as the daemon builds them
//! (`crates/holdfast/src/gateway/emit.rs`).

use holdfast_core::{Direction, Made, Payload, Resend, Scheme, Unreachable};
use holdfast_wire::{Endpoint, Flags, Header, SackBlocks, SeqNum, parse, unreachable};

use crate::packet::Packet;
use crate::traffic::{Traffic, honest_byte, is_honest};

/// The DSCP of segments that go ahead of ordinary traffic.
const DSCP: u8 = 46;
/// The largest IP packet.
const IP_PACKET_BYTES_MAX: u32 = 65_535;

/// Checks that the piece lies within its segment, and has the segment's bytes. True if they were
/// compared with what an honest flow has sent.
pub(crate) fn check_resend(piece: &Resend<Packet>, is_early: bool) -> bool {
    let octets = piece.payload.octets(piece.offset, piece.len);
    let octets = octets.expect("a piece outside of its segment");
    if is_early {
        return false;
    }
    let from = piece.payload.segment.seq + piece.offset;
    assert_eq!(piece.seq, from, "other bytes at this number");
    let (fh_port, mh_port) = match piece.direction {
        Direction::Downlink => (
            piece.payload.segment.from.port,
            piece.payload.segment.to.port,
        ),
        Direction::Uplink => (
            piece.payload.segment.to.port,
            piece.payload.segment.from.port,
        ),
    };
    if is_honest(fh_port) {
        let seqs = (0..piece.len).map(|i| piece.seq.get().wrapping_add(i));
        let same = seqs
            .zip(octets)
            .all(|(seq, octet)| honest_byte(seq, mh_port) == *octet);
        assert!(same, "bytes that were never sent");
    }
    is_honest(fh_port)
}

/// Checks that the piece, made a frame, is a segment with these numbers and this payload.
pub(crate) fn check_frame(piece: &Resend<Packet>) {
    let mut header = piece.payload.header().expect("headers of what is kept");
    header.set_options(piece.timestamps, &SackBlocks::default());
    header.set_dscp(DSCP);
    header.set_seq(piece.seq);
    header.set_ack(piece.ack);
    header.set_window(piece.window);
    header.set_flags(piece.flags);
    let len = piece
        .len
        .min(IP_PACKET_BYTES_MAX - header.network_len() as u32);
    assert!(header.set_payload_len(len as usize), "no such packet");
    header.set_checksum_partial(len as usize);
    let octets = piece.payload.octets(piece.offset, len).expect("its bytes");
    let mut frame = header.as_bytes().to_vec();
    frame.extend(octets);
    let (segment, layout) = parse(&frame, 0).expect("a segment");
    assert_eq!((segment.seq, segment.ack), (piece.seq, piece.ack));
    assert_eq!(segment.options.timestamps, piece.timestamps);
    assert_eq!(&frame[layout.payload..layout.end], octets);
}

/// Checks a header of the gateway's own: it is read as it was made, and acknowledges no more than it may.
/// True if it is an honest flow's ACK and was compared with the MH's own, by `traffic`.
pub(crate) fn check_made(made: &Made<Header>, scheme: Scheme, traffic: Option<&Traffic>) -> bool {
    let mut header = made.template;
    header.set_seq(made.seq);
    header.set_ack(made.ack);
    header.set_flags(made.flags);
    header.set_window(made.window);
    header.set_options(made.timestamps, &made.sack);
    assert!(header.set_payload_len(0), "no such packet");
    header.set_checksum(&[]);
    let (segment, _) = parse(header.as_bytes(), 0).expect("a segment");
    assert_eq!((segment.seq, segment.ack), (made.seq, made.ack));
    assert_eq!(segment.flags, made.flags);
    assert_eq!(segment.options.timestamps, made.timestamps);
    let mut farthest = None;
    // The blocks of an FH that lies are repeated unchanged.
    let may_repeat_a_lie = made.direction == Direction::Downlink && !is_honest(segment.from.port);
    let blocks = segment.options.sack.iter().filter(|_| !may_repeat_a_lie);
    for (index, (left, right)) in blocks.enumerate() {
        assert!(
            left.before(right),
            "a SACK block that ends before it begins"
        );
        // An ACK to the MH may repeat the blocks of one of the FH. The first may be a D-SACK (RFC 2883).
        let may_be_d_sack = index == 0 && made.direction == Direction::Downlink;
        assert!(
            may_be_d_sack || made.ack.before(left),
            "a SACK block before the ACK"
        );
        assert_ne!(Some(left), farthest, "a SACK block twice");
        farthest = Some(left);
    }
    let is_reset = made.flags.has(Flags::RST);
    let is_ack_for_fh = made.direction == Direction::Uplink && !is_reset;
    assert!(
        !is_ack_for_fh || scheme != Scheme::Hold,
        "hold makes no ACK for an FH"
    );
    if let (true, Some(traffic)) = (is_ack_for_fh, traffic) {
        return check_acked(scheme, segment.to, segment.from, made.ack, traffic);
    }
    false
}

/// Checks that a report to a sender at the MH is a packet. In an honest flow of `traffic` it may name no
/// number above what the FH has acknowledged. True if this was compared.
pub(crate) fn check_notice(report: &Unreachable<Header>, traffic: Option<&Traffic>) -> bool {
    let (fh, mh) = (report.key.fh, report.key.mh);
    let frame = unreachable(report.template.link(), mh, fh, report.seq);
    assert!(frame.is_some(), "no such packet");
    let truth = traffic.filter(|_| is_honest(fh.port));
    let Some(truth) = truth.and_then(|traffic| traffic.truth(mh.port)) else {
        return false;
    };
    let limit = SeqNum::new(truth.fh_acked);
    assert!(
        report.seq.at_or_before(limit),
        "a report ahead of the FH: {:?}, at most {limit:?}",
        report.seq
    );
    true
}

/// Checks that an ACK to the FH of an honest flow is not above what the MH has acknowledged. With
/// M-TCP+ the limit is what the FH has sent. True if the flow is honest.
pub(crate) fn check_acked(
    scheme: Scheme,
    fh: Endpoint,
    mh: Endpoint,
    ack: SeqNum,
    traffic: &Traffic,
) -> bool {
    if !is_honest(fh.port) {
        return false;
    }
    let Some(truth) = traffic.truth(mh.port) else {
        return false;
    };
    let limit = if scheme == Scheme::MtcpPlus {
        truth.fh_nxt
    } else {
        truth.mh_acked
    };
    let limit = SeqNum::new(limit);
    assert!(
        ack.at_or_before(limit),
        "an ACK to the FH ahead of the MH: {ack:?}, at most {limit:?}"
    );
    true
}
