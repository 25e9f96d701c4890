// SPDX-License-Identifier: Apache-2.0
//! Packets with their times, as a pcapng file: several interfaces in one file, whole
//! nanoseconds. Four bytes before the IP header name its version (LINKTYPE_NULL, because
//! libpcap 1.10 refuses a second interface of LINKTYPE_RAW).
//!
//! Source: draft-ietf-opsawg-pcapng (sections 4.2 and 4.3).

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use pcap_file::DataLink;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};

use crate::{PCAPNG, create};

/// Bytes kept of each packet: all headers with their options, little of the payload.
const SNAP_BYTES: usize = 160;
/// Most bytes of one file; later packets are counted and left out.
const FILE_BYTES_MAX: u64 = 4 << 30;

/// Bytes before each packet.
pub const VERSION_BYTES: usize = 4;
/// AF_INET, everywhere.
const VERSION_4: u32 = 2;
/// AF_INET6 as BSD has it, which every reader takes.
const VERSION_6: u32 = 24;

/// 10^-9 s, as if_tsresol has it.
const NANOSECONDS: u8 = 9;

/// Which way a packet passes an interface (the two low bits of `epb_flags`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passing {
    /// It comes in.
    Inbound = 1,
    /// It goes out.
    Outbound = 2,
}

/// A file being written.
pub struct PacketTrace {
    path: PathBuf,
    writer: PcapNgWriter<BufWriter<File>>,
    written_bytes: u64,
    left_out: u64,
}

impl std::fmt::Debug for PacketTrace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PacketTrace")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl PacketTrace {
    /// Creates the file. Packets name an interface by its index in `interfaces`, which
    /// are pairs of name and description.
    pub fn create(path: &Path, interfaces: &[(&str, &str)]) -> anyhow::Result<Self> {
        let at = || format!("{}: cannot be written", path.display());
        let file = BufWriter::new(create(path, PCAPNG).with_context(at)?);
        let mut writer = PcapNgWriter::new(file).with_context(at)?;
        for (name, description) in interfaces {
            let block = InterfaceDescriptionBlock {
                linktype: DataLink::NULL,
                snaplen: (VERSION_BYTES + SNAP_BYTES) as u32,
                options: vec![
                    InterfaceDescriptionOption::IfName(Cow::Owned((*name).to_owned())),
                    InterfaceDescriptionOption::IfDescription(Cow::Owned(
                        (*description).to_owned(),
                    )),
                    InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
                ],
            };
            writer.write_pcapng_block(block).with_context(at)?;
        }
        Ok(Self {
            path: path.to_owned(),
            writer,
            written_bytes: 0,
            left_out: 0,
        })
    }

    /// Writes one packet: its first bytes, and its length.
    pub fn write(
        &mut self,
        interface: u32,
        passing: Passing,
        since_1970: Duration,
        packet: &[u8],
        len_bytes: u32,
    ) -> anyhow::Result<()> {
        if self.written_bytes >= FILE_BYTES_MAX {
            self.left_out += 1;
            return Ok(());
        }
        let version = match packet.first().map(|first| first >> 4) {
            Some(6) => VERSION_6,
            _ => VERSION_4,
        };
        // In the byte order of the pcapng section.
        let mut data = version.to_ne_bytes().to_vec();
        data.extend_from_slice(&packet[..packet.len().min(SNAP_BYTES)]);
        let block = EnhancedPacketBlock {
            interface_id: interface,
            timestamp: since_1970,
            original_len: VERSION_BYTES as u32 + len_bytes,
            data: Cow::Owned(data),
            options: vec![EnhancedPacketOption::Flags(passing as u32)],
        };
        let written = self.writer.write_pcapng_block(block);
        let written =
            written.with_context(|| format!("{}: cannot be written", self.path.display()))?;
        self.written_bytes += written as u64;
        Ok(())
    }

    /// Writes what is buffered; returns how many packets were left out because the file was full.
    pub fn finish(mut self) -> anyhow::Result<u64> {
        let flushed = self.writer.get_mut().flush();
        flushed.with_context(|| format!("{}: cannot be written", self.path.display()))?;
        Ok(self.left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcap_file::pcapng::{Block, PcapNgReader};

    #[test]
    fn packets_come_back_with_their_times_interfaces_and_lengths() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pcapng");
        let mut trace =
            PacketTrace::create(&path, &[("fh0", "the FH's"), ("wl-mh", "the MH's")]).unwrap();
        let times = [
            Duration::new(1_790_000_000, 123_456_789),
            Duration::from_nanos(7),
        ];
        for (interface, at) in times.into_iter().enumerate() {
            let packet = vec![0x45; 100 + 100 * interface];
            let passing = [Passing::Outbound, Passing::Inbound][interface];
            trace
                .write(interface as u32, passing, at, &packet, packet.len() as u32)
                .unwrap();
        }
        assert_eq!(trace.finish().unwrap(), 0);
        let mut reader = PcapNgReader::new(File::open(&path).unwrap()).unwrap();
        let (mut names, mut packets) = (Vec::new(), Vec::new());
        while let Some(block) = reader.next_block() {
            match block.unwrap() {
                Block::InterfaceDescription(block) => {
                    assert!(
                        block
                            .options
                            .contains(&InterfaceDescriptionOption::IfTsResol(9))
                    );
                    names.push(block.linktype);
                }
                Block::EnhancedPacket(block) => packets.push((
                    block.interface_id,
                    block.timestamp,
                    block.data.len(),
                    block.original_len,
                    block.options.iter().find_map(|option| match option {
                        EnhancedPacketOption::Flags(flags) => Some(*flags),
                        _ => None,
                    }),
                )),
                _ => {}
            }
        }
        assert_eq!(names, [DataLink::NULL, DataLink::NULL]);
        assert_eq!(
            packets,
            [
                (0, times[0], 104, 104, Some(2)),
                (1, times[1], 164, 204, Some(1))
            ]
        );
    }
}
