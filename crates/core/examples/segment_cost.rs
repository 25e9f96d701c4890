// SPDX-License-Identifier: Apache-2.0
//! What a packet costs in instructions, for callgrind:
//!
//! ```text
//! cargo build --release -p holdfast-core --example segment_cost
//! for n in 100000 200000; do
//!   valgrind --tool=callgrind --callgrind-out-file=/dev/null target/release/examples/segment_cost $n
//! done
//! ```
//!
//! Sends that many data segments of one flow through parser and engine, each second
//! one acknowledged by the MH; the difference of the two totals, divided by the
//! difference of segments and by 1.5, is the cost of a packet.

use holdfast_core::{Actions, Direction, Gateway, Payload, Settings};
use holdfast_wire::{Header, Instant, Layout, parse};

const PAYLOAD_LEN: u32 = 1448;
const FH_PORT: [u8; 2] = [0, 80];
const MH_PORT: [u8; 2] = [0x9c, 0x40];

/// A length with the headers that came before it.
#[derive(Clone)]
struct Length(Header, u32);

impl Payload for Length {
    type Header = Header;

    fn header(&self) -> Option<Header> {
        Some(self.0)
    }

    fn segment_len(&self) -> u32 {
        self.1
    }

    fn is_cacheable(&self) -> bool {
        true
    }
}

/// An IPv4 packet with timestamps.
fn packet(downlink: bool, seq: u32, ack: u32, len: u32) -> Vec<u8> {
    let mut bytes = vec![0; 52 + len as usize];
    bytes[0] = 0x45;
    bytes[2..4].copy_from_slice(&(52 + len as u16).to_be_bytes());
    bytes[8..10].copy_from_slice(&[63, 6]);
    let (from, to) = if downlink {
        ([10, 1, 0, 2], [10, 2, 0, 2])
    } else {
        ([10, 2, 0, 2], [10, 1, 0, 2])
    };
    bytes[12..16].copy_from_slice(&from);
    bytes[16..20].copy_from_slice(&to);
    bytes[20..22].copy_from_slice(if downlink { &FH_PORT } else { &MH_PORT });
    bytes[22..24].copy_from_slice(if downlink { &MH_PORT } else { &FH_PORT });
    bytes[24..28].copy_from_slice(&seq.to_be_bytes());
    bytes[28..32].copy_from_slice(&ack.to_be_bytes());
    bytes[32..36].copy_from_slice(&[0x80, 0x10, 0xff, 0xff]);
    bytes[40..44].copy_from_slice(&[1, 1, 8, 10]);
    bytes
}

fn main() {
    let segments: u32 = std::env::args()
        .nth(1)
        .and_then(|count| count.parse().ok())
        .unwrap_or(100_000);
    let mut gateway = Gateway::new(Settings::default());
    let mut actions = Actions::new();
    let mut forwarded = 0u32;
    let mut data = packet(true, 1, 1, PAYLOAD_LEN);
    let mut ack = packet(false, 1, 1, 0);
    for number in 0..segments {
        let now = Instant::from_nanos(u64::from(number) * 600_000);
        let seq = 1u32.wrapping_add(number.wrapping_mul(PAYLOAD_LEN));
        data[24..28].copy_from_slice(&seq.to_be_bytes());
        ack[28..32].copy_from_slice(&seq.to_be_bytes());
        forwarded += pass(&mut gateway, Direction::Downlink, &data, now, &mut actions);
        if number % 2 == 1 {
            forwarded += pass(&mut gateway, Direction::Uplink, &ack, now, &mut actions);
        }
    }
    println!(
        "{segments} segments, {forwarded} packets forwarded, {:?}",
        gateway.stats()
    );
    assert_eq!(
        forwarded,
        segments + segments / 2,
        "an undisturbed flow passes whole"
    );
}

fn pass(
    gateway: &mut Gateway<Length>,
    direction: Direction,
    frame: &[u8],
    now: Instant,
    actions: &mut Actions<Length>,
) -> u32 {
    let Ok((segment, layout)) = parse(frame, 0) else {
        return 0;
    };
    let layout: Layout = layout;
    let Some(header) = Header::copy_from(frame, &layout) else {
        return 0;
    };
    let payload = Length(header, segment.payload_len);
    let verdict = gateway.handle_segment(direction, &segment, &payload, now, actions);
    actions.clear();
    u32::from(verdict == holdfast_core::Verdict::Forward)
}
