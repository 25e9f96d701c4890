// SPDX-License-Identifier: Apache-2.0
//! Compressed M-TCP over a slow link: fewer bytes on the link, every byte at the receiver; and a
//! gateway that is killed.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;

use holdfast_net::datapath::monotonic_ns;
use holdfast_testbed::harness::Harness;
use holdfast_testbed::link_process::EmulatedLink;

use super::mobile_host::{compressing, text};
use super::{PORT, connection, emulated, fh};

/// The rate of the slow link.
const MBIT_PER_S: f64 = 2.0;

fn slow() -> EmulatedLink {
    EmulatedLink {
        rate_mbit_per_s: MBIT_PER_S,
        ..EmulatedLink::default()
    }
}

/// Sends the text to the MH. Returns what arrived, and the seconds it took. `on_progress` gets the
/// number of bytes received.
pub(super) fn transfer(
    harness: &mut Harness,
    text: &[u8],
    mut on_progress: impl FnMut(&mut Harness, usize),
) -> (Vec<u8>, f64) {
    let (mut at_fh, mut at_mh) = connection(harness, fh(), PORT);
    let mut received = Vec::with_capacity(text.len());
    let begun_ns = monotonic_ns();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            at_fh.write_all(text).unwrap();
            at_fh.shutdown(Shutdown::Write).unwrap();
            // Until the MH has closed too.
            let _ = at_fh.read(&mut [0; 1]);
        });
        let mut buffer = vec![0; 1 << 16];
        loop {
            let len = at_mh.read(&mut buffer).unwrap();
            if len == 0 {
                break;
            }
            received.extend_from_slice(&buffer[..len]);
            on_progress(harness, received.len());
        }
        drop(at_mh);
    });
    let seconds = (monotonic_ns() - begun_ns) as f64 / 1e9;
    (received, seconds)
}

#[test]
fn compressed_text_passes_a_slow_link_faster_than_plain_text_could() {
    in_virtual_kernel!();
    let text = text(1_000_000);
    let floor = text.len() as f64 * 8.0 / (MBIT_PER_S * 1e6);
    for method in ["deflate", "zstd"] {
        let (mut harness, mobile) = compressing(&emulated(slow()), method);
        let (received, seconds) = transfer(&mut harness, &text, |_, _| {});
        assert!(received == text, "{method}: other bytes");
        let [wire, plain] = ["wire_bytes", "plain_bytes"]
            .map(|name| mobile.counter(&format!("decompression.{name}")));
        println!("{method}: {seconds:.2} s, plain at least {floor:.2} s; {plain} bytes in {wire}");
        assert!(seconds < 0.7 * floor, "{method}: {seconds} s of {floor}");
    }
}

#[test]
fn a_gateway_killed_while_it_compresses_loses_no_byte_and_its_successor_compresses() {
    in_virtual_kernel!();
    let text = text(1_500_000);
    for method in ["deflate", "zstd"] {
        let (mut harness, mobile) = compressing(&emulated(slow()), method);
        let (mut killed, mut before, mut after) = (false, 0, 0);
        let (received, _) = transfer(&mut harness, &text, |harness, bytes| {
            if !killed && bytes > 300_000 {
                killed = true;
                harness.kill_gateway().unwrap();
                before = mobile.counter("decompression.restored");
            }
            if killed && after == 0 && bytes > 400_000 {
                // The flow continues without compression.
                after = mobile.counter("decompression.restored");
                harness.start_gateway().unwrap();
                mobile.signal(&["up"]);
            }
        });
        assert!(received == text, "{method}: {} bytes", received.len());
        let end = mobile.counter("decompression.restored");
        println!("{method}: {before} restored before the kill, {after} at the start, {end}");
        assert!(
            before > 0 && end > after,
            "{method}: {before} {after} {end}"
        );
    }
}
