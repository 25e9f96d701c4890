// SPDX-License-Identifier: Apache-2.0
//! What compression costs and gains: time for one packet by its size and level (figure 14 of
//! M-TCP, 1997), how much text, programs and TLS shrink, with the published method and with
//! today's, and what payload that does not shrink costs.
//!
//! ```text
//! cargo bench -p holdfast-core --bench compression
//! ```
//!
//! Text is this repository's documentation, the program this bench's own machine code, TLS random
//! bytes.
//! The time of a packet is the least of some; what is shown is the mean over packets. Ratios are
//! of payloads, our header of 7 or 12 bytes counted.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "what is measured is time"
)]

use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use holdfast_core::compression::{CompressionSettings, DICTIONARY_BYTES_MAX, Method, PlainCodec};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

/// Bytes of each kind that are sent.
const STREAM_BYTES: usize = 300_000;
/// Times that each packet is measured; the least counts.
const PASSES: usize = 5;
/// Segments on their way: what the MH has acknowledged lies so far behind.
const IN_FLIGHT: usize = 8;

fn main() -> ExitCode {
    let text = documentation();
    let Some(program) = machine_code() else {
        eprintln!("the bench cannot read itself");
        return ExitCode::FAILURE;
    };
    let mut tls = vec![0; STREAM_BYTES];
    ChaCha8Rng::seed_from_u64(1).fill_bytes(&mut tls);
    let kinds = [
        ("text", &text[..]),
        ("program", &program[..]),
        ("TLS", &tls[..]),
    ];
    times(&text);
    ratios(&kinds);
    dictionaries(&text);
    several_segments(&text);
    ExitCode::SUCCESS
}

/// What this process executes.
fn machine_code() -> Option<Vec<u8>> {
    let own = std::env::current_exe().ok()?;
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let name = own.to_str()?;
    let is_code = |line: &&str| line.contains(" r-xp ") && line.ends_with(name);
    let line = maps.lines().find(is_code)?;
    let fields: Vec<&str> = line.split_whitespace().collect();
    let hex = |text: &str| usize::from_str_radix(text, 16).ok();
    let (from, to) = fields.first()?.split_once('-')?;
    let (len, offset) = (hex(to)? - hex(from)?, hex(fields.get(2)?)?);
    let file = std::fs::read(&own).ok()?;
    let code = file.get(offset..offset + len)?;
    Some(code[..code.len().min(STREAM_BYTES)].to_vec())
}

/// Markdown of the repository, in the order of the names.
fn documentation() -> Vec<u8> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut files = Vec::new();
    for folder in [docs.clone(), docs.join("schemes")] {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        files.extend(entries.map(|entry| entry.path()));
    }
    files.sort();
    let mut text: Vec<u8> = files
        .iter()
        .filter(|path| path.extension().is_some_and(|ext| ext == "md"))
        .filter_map(|path| std::fs::read(path).ok())
        .flatten()
        .collect();
    text.truncate(STREAM_BYTES);
    text
}

/// What one pass over a stream came to.
struct Outcome {
    /// Of one packet, nanoseconds.
    compression_ns: u64,
    decompression_ns: u64,
    /// Bytes on the wire for each of payload.
    ratio: f64,
}

/// Sends `stream` in packets of `size`; the dictionary is what was acknowledged.
fn measure(settings: CompressionSettings, stream: &[u8], size: usize) -> Outcome {
    measure_with(settings, stream, size, DICTIONARY_BYTES_MAX as usize)
}

/// The same, with a dictionary of at most `most` bytes.
fn measure_with(settings: CompressionSettings, stream: &[u8], size: usize, most: usize) -> Outcome {
    let mut codec = PlainCodec::new(settings);
    let packets = stream.len() / size;
    let dictionary_of = |packet: usize| {
        let acked = packet.saturating_sub(IN_FLIGHT) * size;
        let from = acked.saturating_sub(most);
        match settings.method {
            Method::Deflate => &stream[..0],
            Method::Zstd => &stream[from..acked],
        }
    };
    let plain_of = |packet: usize| &stream[packet * size..(packet + 1) * size];
    let (mut compression, mut decompression, mut wire, mut restored) = (0, 0, 0, 0);
    for packet in 0..packets {
        let (plain, dictionary) = (plain_of(packet), dictionary_of(packet));
        let mut least = [u64::MAX; 2];
        let payload = codec.compress(plain, dictionary).map(<[u8]>::to_vec);
        for _ in 0..PASSES {
            let begun = Instant::now();
            black_box(codec.compress(black_box(plain), dictionary));
            least[0] = least[0].min(begun.elapsed().as_nanos() as u64);
            let Some(payload) = &payload else { continue };
            let begun = Instant::now();
            let back = codec.decompress(black_box(payload), dictionary);
            least[1] = least[1].min(begun.elapsed().as_nanos() as u64);
            assert!(back == Some(plain), "restored to something else");
        }
        compression += least[0];
        wire += payload.as_ref().map_or(size, Vec::len);
        if payload.is_some() {
            decompression += least[1];
            restored += 1;
        }
    }
    Outcome {
        compression_ns: compression / packets as u64,
        decompression_ns: decompression / restored.max(1),
        ratio: wire as f64 / (packets * size) as f64,
    }
}

/// Figure 14: by packet size and level.
fn times(text: &[u8]) {
    for (method, name) in [
        (Method::Deflate, "deflate"),
        (Method::Zstd, "zstd, dictionary"),
    ] {
        println!("{name}: text, compression / decompression of one packet, us");
        let sizes = [100, 200, 400, 600, 800, 1000, 1200, 1400];
        let heads = sizes.iter().fold(String::new(), |mut line, size| {
            let _ = write!(line, "{size:>14}");
            line
        });
        println!("level {heads}");
        for level in 1..=9 {
            let mut line = format!("{level:>5} ");
            for size in sizes {
                let outcome = measure(CompressionSettings { method, level }, text, size);
                let us = |ns: u64| ns as f64 / 1000.0;
                let (there, back) = (us(outcome.compression_ns), us(outcome.decompression_ns));
                let _ = write!(line, "{:>14}", format!("{there:.1} / {back:.1}"));
            }
            println!("{line}");
        }
    }
}

/// How much is left on the wire, and at what cost.
fn ratios(kinds: &[(&str, &[u8])]) {
    println!("left on the wire, %, of payload; us for compression");
    for size in [512, 1448] {
        for (method, name) in [(Method::Deflate, "deflate"), (Method::Zstd, "zstd")] {
            for level in [1, 3, 6, 9] {
                let mut line = format!("{size:>5} {name:>8} {level}:");
                for (kind, stream) in kinds {
                    let outcome = measure(CompressionSettings { method, level }, stream, size);
                    let us = outcome.compression_ns as f64 / 1000.0;
                    let percent = 100.0 * outcome.ratio;
                    let _ = write!(line, "  {kind} {percent:.1} % {us:.1} us");
                }
                println!("{line}");
            }
        }
    }
}

/// What a longer dictionary gains and costs.
fn dictionaries(text: &[u8]) {
    println!("zstd, text, packets of 1448 bytes, by the dictionary's length");
    for level in [1, 3] {
        let mut line = format!("level {level}:");
        for kib in [0, 4, 8, 16, 32, 63] {
            let settings = CompressionSettings {
                method: Method::Zstd,
                level,
            };
            let outcome = measure_with(settings, text, 1448, kib << 10);
            let (percent, us) = (
                100.0 * outcome.ratio,
                outcome.compression_ns as f64 / 1000.0,
            );
            let _ = write!(line, "  {kib} KiB {percent:.1} % {us:.1} us");
        }
        println!("{line}");
    }
}

/// What it would gain to compress several segments into one packet.
fn several_segments(text: &[u8]) {
    println!(
        "text, level 3: on the wire with headers of 52 bytes a packet, %, by segments a packet"
    );
    for (method, name) in [(Method::Deflate, "deflate"), (Method::Zstd, "zstd")] {
        let mut line = format!("{name:>8}:");
        for segments in 1..=3 {
            let size = 1448 * segments;
            let outcome = measure(CompressionSettings { method, level: 3 }, text, size);
            let wire = outcome.ratio * size as f64 + 52.0;
            let percent = 100.0 * wire / (1500 * segments) as f64;
            let _ = write!(line, "  {segments}: {percent:.1} %");
        }
        println!("{line}");
    }
}
