// SPDX-License-Identifier: Apache-2.0
//! What base stations keep for an MH while a transfer runs, by their status.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use holdfast_testbed::daemons::{Daemon, status_at};

/// From one look to the next.
const INTERVAL: Duration = Duration::from_millis(20);

/// Looks at the stations' status again and again.
#[derive(Debug)]
pub(super) struct BufferWatch {
    over: Arc<AtomicBool>,
    bytes_max: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl BufferWatch {
    /// Begins.
    pub(super) fn start(gateways: &[Daemon]) -> Self {
        let sockets: Vec<PathBuf> = gateways
            .iter()
            .map(|gateway| gateway.socket().to_owned())
            .collect();
        let over = Arc::new(AtomicBool::new(false));
        let bytes_max = Arc::new(AtomicU64::new(0));
        let (is_over, most) = (Arc::clone(&over), Arc::clone(&bytes_max));
        let thread = thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                let bytes = sockets.iter().map(|socket| buffered_bytes(socket)).sum();
                most.fetch_max(bytes, Ordering::Relaxed);
                thread::sleep(INTERVAL);
            }
        });
        Self {
            over,
            bytes_max,
            thread: Some(thread),
        }
    }

    /// Ends; the most bytes of all stations together that were seen.
    pub(super) fn finish(mut self) -> u64 {
        self.end();
        self.bytes_max.load(Ordering::Relaxed)
    }

    fn end(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It has nothing more to say.
            let _ = thread.join();
        }
    }
}

impl Drop for BufferWatch {
    fn drop(&mut self) {
        self.end();
    }
}

/// 0 too if it does not answer: what is wrong with it is seen elsewhere.
fn buffered_bytes(socket: &Path) -> u64 {
    let status = status_at(socket).unwrap_or_default();
    status["handoff"]["buffered_bytes"].as_u64().unwrap_or(0)
}
