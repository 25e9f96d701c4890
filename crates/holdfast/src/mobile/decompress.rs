// SPDX-License-Identifier: Apache-2.0
//! Decompression at the MH (compressed M-TCP, sections 4.2.1 and 6.3): a thread between the
//! interface's detour and `core::compression`.
//!
//! If the thread hangs or dies the programs pass compressed segments on as they are, and the
//! host drops them: they carry no ACK (RFC 9293, 3.10.7.4). The gateway then sends plain ones.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use holdfast_core::compression::{Decompressor, DecompressorLimits, Restored, restored_header};
use holdfast_core::{Direction, FlowKey, Payload as _, counters};
use holdfast_net::datapath::{HEARTBEAT_INTERVAL, monotonic_ns, now};
use holdfast_net::frame::{BufferPool, Frame};
use holdfast_net::mobile_path::{Detour, FOLLOWED_MAX};
use holdfast_net::readiness::{Waker, wait_readable};

use crate::gateway::packet::{Content, classify};

/// Buffers for frames: they are given back at once, so few are in use.
const POOL_BYTES_MAX: usize = 4 << 20;
/// The limit of frames that are read before the next heartbeat.
const BURST: usize = 64;

type Counters = BTreeMap<String, u64>;

counters! {
    /// What is counted beside the decompressor.
    pub(super) struct WorkerCounters {
        /// Segments of the detour that passed unchanged.
        passed = "passed",
        /// Frames that the kernel did not take.
        errors = "errors",
    }
}

counters! {
    gauge
    /// What there is at present.
    pub(super) struct WorkerGauges {
        /// Flows with a dictionary.
        followed = "followed",
    }
}

/// The thread, ended when dropped.
pub(super) struct Decompression {
    stop: Waker,
    counters: Arc<Mutex<Counters>>,
    thread: Option<JoinHandle<()>>,
}

impl Decompression {
    /// Starts the thread.
    pub(super) fn start(detour: Detour) -> io::Result<Self> {
        let stop = Waker::new()?;
        let counters = Arc::new(Mutex::new(Counters::new()));
        let (stopped, shown) = (stop.clone(), Arc::clone(&counters));
        let thread = std::thread::Builder::new()
            .name("decompression".into())
            .spawn(move || {
                if let Err(error) = Worker::new(detour).run(&stopped, &shown) {
                    tracing::error!(%error, "decompression has ended");
                }
            })?;
        Ok(Self {
            stop,
            counters,
            thread: Some(thread),
        })
    }

    /// Whether the thread still runs.
    pub(super) fn runs(&self) -> bool {
        self.thread
            .as_ref()
            .is_some_and(|thread| !thread.is_finished())
    }

    /// The thread's counters, by name.
    pub(super) fn counters(&self) -> Counters {
        let counters = self.counters.lock();
        counters.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Decompression {
    fn drop(&mut self) {
        self.stop.wake();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread is in the log.
            let _ = thread.join();
        }
    }
}

struct Worker {
    detour: Detour,
    decompressor: Decompressor,
    forgotten: Vec<FlowKey>,
    passed: u64,
    errors: u64,
}

impl Worker {
    fn new(detour: Detour) -> Self {
        let limits = DecompressorLimits {
            flows_max: FOLLOWED_MAX,
            ..DecompressorLimits::default()
        };
        Self {
            detour,
            decompressor: Decompressor::new(limits),
            forgotten: Vec::new(),
            passed: 0,
            errors: 0,
        }
    }

    fn run(mut self, stop: &Waker, counters: &Mutex<Counters>) -> io::Result<()> {
        let mut pool = BufferPool::new(POOL_BYTES_MAX);
        let mut report_at = 0;
        loop {
            let now = monotonic_ns();
            self.detour.beat(now);
            if now >= report_at {
                self.report(counters);
                report_at = now + HEARTBEAT_INTERVAL.as_nanos() as u64;
            }
            let waited = wait_readable(
                [self.detour.as_fd(), stop.as_fd()],
                Some(HEARTBEAT_INTERVAL),
            );
            let [readable, stopped] = match waited {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                waited => waited?,
            };
            if stopped {
                return Ok(());
            }
            if !readable {
                continue;
            }
            for _ in 0..BURST {
                let Some(frame) = self.detour.read(&mut pool)? else {
                    break;
                };
                if let Err(error) = self.handle(&frame) {
                    self.errors += 1;
                    tracing::debug!(%error, "a segment is lost");
                }
            }
        }
    }

    fn handle(&mut self, frame: &Frame) -> io::Result<()> {
        let ip = self.detour.link_header_bytes();
        let Content::Segment(segment, packet) = classify(frame, Direction::Downlink, ip) else {
            // For example a segment with a wrong checksum: the host drops it.
            self.passed += 1;
            return self.detour.give_back(frame);
        };
        let payload = packet.octets(0, segment.payload_len).unwrap_or_default();
        let now = now();
        match self.decompressor.handle(&segment, payload, now) {
            Restored::NotCompressed => {
                self.passed += 1;
                self.detour.give_back(frame)?;
            }
            Restored::Segment {
                flags,
                payload,
                follow,
            } => {
                if follow {
                    // The flow must be followed before the host receives and acknowledges the segment.
                    let key = FlowKey::of(&segment, Direction::Downlink);
                    self.detour.follow(&key)?;
                }
                let header = packet.header();
                if let Some(header) = header.and_then(|own| restored_header(own, flags, payload)) {
                    self.detour.deliver(header.as_bytes(), payload)?;
                }
            }
            Restored::Dropped(reason) => tracing::debug!(?reason, "not restored"),
        }
        self.forgotten.extend(self.decompressor.take_forgotten());
        while let Some(key) = self.forgotten.pop() {
            self.detour.forget(&key)?;
        }
        Ok(())
    }

    fn report(&self, counters: &Mutex<Counters>) {
        // The packets do not wait for a reader of the counters: the next report has them.
        let Ok(mut shown) = counters.try_lock() else {
            return;
        };
        let own = WorkerCounters {
            passed: self.passed,
            errors: self.errors,
        };
        let gauges = WorkerGauges {
            followed: self.detour.followed() as u64,
        };
        let counters = self.decompressor.counters().named();
        for (name, count) in counters.chain(own.named()).chain(gauges.named()) {
            shown.insert(format!("decompression.{name}"), count);
        }
    }
}
