// SPDX-License-Identifier: Apache-2.0
//! The options of SYNs: written anew, or existing timestamps removed.

use super::options::{
    END, MAXIMUM_SEGMENT_SIZE, NO_OPERATION, SACK_PERMITTED, TIMESTAMPS, WINDOW_SCALE, first_len,
};
use super::{Header, TCP_HEADER_LEN};
use crate::Options;

impl Header {
    /// Replaces all options by those of a SYN: MSS, SACK permitted, window scale, as far as
    /// `options` has them. The urgent pointer is cleared; the checksum is not touched.
    pub fn set_syn_options(&mut self, options: &Options) {
        self.put(18, &[0, 0]);
        let mut at = TCP_HEADER_LEN;
        if let Some(mss) = options.mss {
            let [high, low] = mss.to_be_bytes();
            self.put(at, &[MAXIMUM_SEGMENT_SIZE, 4, high, low]);
            at += 4;
        }
        if options.sack_permitted {
            self.put(at, &[NO_OPERATION, NO_OPERATION, SACK_PERMITTED, 2]);
            at += 4;
        }
        if let Some(shift) = options.window_scale {
            self.put(at, &[NO_OPERATION, WINDOW_SCALE, 3, shift]);
            at += 4;
        }
        self.put(12, &[(at as u8 / 4) << 4]);
        self.len = self.tcp + at as u8;
    }

    /// Overwrites timestamps with NOPs. Lengths and all other options stay as they are; the
    /// checksum is not changed. False, and nothing is changed, if an option is not understood.
    #[must_use]
    pub fn blank_timestamps(&mut self) -> bool {
        let (start, end) = (self.tcp_offset() + TCP_HEADER_LEN, self.len());
        let mut bytes = self.bytes;
        let mut at = start;
        while at < end && bytes[at] != END {
            let Some(len) = first_len(&bytes[at..end]) else {
                return false;
            };
            if bytes[at] == TIMESTAMPS {
                bytes[at..at + len].fill(NO_OPERATION);
            }
            at += len;
        }
        self.bytes = bytes;
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::{Endpoint, Flags, Header, Options, SackBlocks, Timestamps, parse};

    fn header() -> Header {
        let end = |port| Endpoint {
            address: [10, 1, 0, 2].into(),
            port,
        };
        let mut header = Header::made(&[], end(1), end(2)).unwrap();
        header.set_flags(Flags::SYN);
        header
    }

    #[test]
    fn the_options_of_a_syn_are_read_as_they_were_set() {
        let every = [None, Some(1360)].into_iter().flat_map(|mss| {
            [None, Some(7)].into_iter().flat_map(move |window_scale| {
                [false, true]
                    .into_iter()
                    .map(move |sack_permitted| Options {
                        mss,
                        window_scale,
                        sack_permitted,
                        ..Options::default()
                    })
            })
        });
        for options in every {
            let mut header = header();
            header.set_syn_options(&options);
            assert!(header.set_payload_len(0));
            let (segment, _) = parse(header.as_bytes(), 0).unwrap();
            assert_eq!(segment.options, options);
        }
    }

    #[test]
    fn timestamps_are_taken_out_and_the_rest_stays() {
        let mut header = header();
        let timestamps = Some(Timestamps { tsval: 1, tsecr: 2 });
        let mut sack = SackBlocks::default();
        sack.push(crate::SeqNum::new(1), crate::SeqNum::new(2));
        header.set_options(timestamps, &sack);
        assert!(header.set_payload_len(0));
        let len = header.len();
        assert!(header.blank_timestamps());
        let (segment, _) = parse(header.as_bytes(), 0).unwrap();
        assert_eq!(
            (segment.options.timestamps, segment.options.sack),
            (None, sack)
        );
        assert_eq!(header.len(), len);
    }
}
