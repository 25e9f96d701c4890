// SPDX-License-Identifier: Apache-2.0
//! Reads TCP segments from the packet files that links write.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::{Block, PcapNgReader};

use holdfast_files::packet_trace::{Passing, VERSION_BYTES};

/// A TCP segment in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileSegment {
    /// When it was seen, since 1970.
    pub at: Duration,
    /// The direction in which it passed the device.
    pub passing: Passing,
    /// Its source port and its destination port.
    pub ports: [u16; 2],
    /// Its sequence number.
    pub seq: u32,
    /// The number that it acknowledges.
    pub ack: Option<u32>,
    /// Bytes of data in it.
    pub len: u32,
    /// Whether it is a SYN without an ACK.
    pub opens: bool,
}

/// Calls `note` for each TCP segment of a file, in the file's order.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn read_segments(path: &Path, mut note: impl FnMut(FileSegment)) -> anyhow::Result<()> {
    let unreadable = || format!("{}: cannot be read", path.display());
    let file = File::open(path).with_context(unreadable)?;
    let mut reader = PcapNgReader::new(BufReader::new(file)).with_context(unreadable)?;
    while let Some(block) = reader.next_block() {
        let Block::EnhancedPacket(packet) = block.with_context(unreadable)? else {
            continue;
        };
        let outbound = packet.options.iter().any(|option| {
            matches!(option, EnhancedPacketOption::Flags(flags) if *flags == Passing::Outbound as u32)
        });
        let passing = if outbound {
            Passing::Outbound
        } else {
            Passing::Inbound
        };
        let frame = packet.data.get(VERSION_BYTES..).unwrap_or_default();
        if let Some(segment) = parse(frame, packet.timestamp, passing) {
            note(segment);
        }
    }
    Ok(())
}

/// Parses a packet by its first bytes. None: it is no TCP segment, or not the
/// segment's first fragment.
fn parse(packet: &[u8], at: Duration, passing: Passing) -> Option<FileSegment> {
    const TCP: u8 = 6;
    const SYN: u8 = 0x02;
    const ACK: u8 = 0x10;
    let short = |at: usize| Some(u16::from_be_bytes(*packet.get(at..)?.first_chunk()?));
    let long = |at: usize| Some(u32::from_be_bytes(*packet.get(at..)?.first_chunk()?));
    let (header, total) = match packet.first()? >> 4 {
        4 if *packet.get(9)? == TCP && short(6)?.trailing_zeros() >= 13 => {
            let header = usize::from(packet[0] & 0xf) * 4;
            (header, usize::from(short(2)?))
        }
        // The lab's hosts send no extension headers.
        6 if *packet.get(6)? == TCP => (40, 40 + usize::from(short(4)?)),
        _ => return None,
    };
    let own = usize::from(packet.get(header + 12)? >> 4) * 4;
    let flags = packet.get(header + 13)? & (SYN | ACK);
    Some(FileSegment {
        at,
        passing,
        ports: [short(header)?, short(header + 2)?],
        seq: long(header + 4)?,
        ack: if flags & ACK != 0 {
            long(header + 8)
        } else {
            None
        },
        len: total.checked_sub(header + own)? as u32,
        opens: flags == SYN,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_files::packet_trace::PacketTrace;

    /// A segment of 1000 bytes; the file has the first 12 of them.
    fn v4() -> Vec<u8> {
        let mut packet = vec![0; 52 + 12];
        (packet[0], packet[9]) = (0x45, 6);
        packet[2..4].copy_from_slice(&1052_u16.to_be_bytes());
        packet[20..24].copy_from_slice(&[0x9c, 0x40, 0, 80]);
        packet[24..28].copy_from_slice(&7_u32.to_be_bytes());
        packet[32] = 8 << 4;
        packet
    }

    #[test]
    fn segments_are_read_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pcapng");
        let mut trace = PacketTrace::create(&path, &[("a", "a device")]).unwrap();
        let at = Duration::from_nanos(1_700_000_000_123_456_789);
        let mut write = |passing, packet: &[u8]| {
            trace.write(0, passing, at, packet, 1052).unwrap();
        };
        write(Passing::Outbound, &v4());
        let mut v6 = vec![0; 60 + 12];
        (v6[0], v6[6], v6[52]) = (0x60, 6, 5 << 4);
        v6[4..6].copy_from_slice(&20_u16.to_be_bytes());
        write(Passing::Inbound, &v6);
        let mut datagram = v4();
        datagram[9] = 17;
        write(Passing::Inbound, &datagram);
        write(Passing::Inbound, &[0x45]);
        let mut later_fragment = v4();
        later_fragment[7] = 1;
        write(Passing::Inbound, &later_fragment);
        assert_eq!(trace.finish().unwrap(), 0);
        let mut seen = Vec::new();
        read_segments(&path, |segment| seen.push(segment)).unwrap();
        let first = FileSegment {
            at,
            passing: Passing::Outbound,
            ports: [40_000, 80],
            seq: 7,
            ack: None,
            len: 1000,
            opens: false,
        };
        let second = FileSegment {
            passing: Passing::Inbound,
            ports: [0, 0],
            seq: 0,
            len: 0,
            ..first
        };
        assert_eq!(seen, [first, second]);
    }
}
