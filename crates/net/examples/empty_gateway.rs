// SPDX-License-Identifier: Apache-2.0
//! The data path with nothing in it: every frame is given back as it came. So its cost
//! is the cost of the detour alone.
//!
//! `empty_gateway INTERFACE [KEEP_MIB] [clsact]` in the router's network namespace,
//! until it is killed; `KEEP_MIB` keeps the newest downlink frames of this many MiB, as
//! a cache would. SIGTERM makes it leave in good order.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use holdfast_core::Direction;
use holdfast_net::datapath::{AttachMode, DataPath, HEARTBEAT_INTERVAL, monotonic_ns};
use holdfast_net::frame::BufferPool;
use holdfast_net::readiness::wait_readable;
use holdfast_net::tun::LayerKind;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let wireless = arguments.next().ok_or("which interface?")?;
    let keep_bytes = arguments.next().map_or(Ok(0), |mib| mib.parse::<usize>())? << 20;
    let mode = if arguments.next().is_some() {
        AttachMode::Clsact
    } else {
        AttachMode::Auto
    };
    let path = DataPath::attach(&wireless, mode)?;
    let counters = path.counters()?;
    let mut pool = BufferPool::new((keep_bytes * 5).max(64 << 20));
    let mut kept = VecDeque::new();
    let mut kept_bytes = 0;
    let leave = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGTERM, Arc::clone(&leave))?;
    println!(
        "ready: {} {}",
        path.interface().name,
        path.detaches_on_death()
    );
    let mut leaving = false;
    loop {
        if leaving {
            path.stop_taking();
        } else {
            path.beat(monotonic_ns());
        }
        let mut frames = 0;
        for direction in [Direction::Downlink, Direction::Uplink] {
            for _ in 0..64 {
                let Some(frame) = path.read(direction, &mut pool)? else {
                    break;
                };
                frames += 1;
                if is_tcp(frame.bytes(), path.interface().kind) {
                    let _ = path.forward(direction, &frame);
                }
                if direction == Direction::Downlink && keep_bytes > 0 && frame.is_cacheable() {
                    kept_bytes += frame.bytes().len();
                    kept.push_back(frame);
                    while kept_bytes > keep_bytes {
                        kept_bytes -= kept.pop_front().map_or(0, |frame| frame.bytes().len());
                    }
                }
            }
        }
        if frames == 0 {
            if leaving {
                for (name, value) in counters.read()? {
                    println!("{name} {value}");
                }
                return Ok(());
            }
            leaving = leave.load(Ordering::Relaxed);
            let devices = [Direction::Downlink, Direction::Uplink].map(|way| path.device_fd(way));
            wait_readable(devices, Some(HEARTBEAT_INTERVAL))?;
        }
    }
}

fn is_tcp(frame: &[u8], kind: LayerKind) -> bool {
    let start = match kind {
        LayerKind::Ethernet => 14,
        LayerKind::RawIp => 0,
    };
    // The programs take TCP; the only other frames are copies of ICMP messages.
    !matches!(
        (frame[start] >> 4, frame[start + 9], frame[start + 6]),
        (4, 1, _) | (6, _, 58)
    )
}
