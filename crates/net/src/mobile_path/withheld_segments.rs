// SPDX-License-Identifier: Apache-2.0
//! The maps of `bpf/withheld_ingress.h`: the state of each flow's withheld segment, the flows that were
//! woken, and the reports of flows that pause.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError};

use holdfast_core::mobile_host::Download;
use holdfast_core::mobile_host::withheld::{FhClock, SegmentBoundaries, floor_of};
use holdfast_wire::{Instant, SeqNum};
use libbpf_rs::{MapHandle, RingBuffer, RingBufferBuilder};

use super::record::KEY_BYTES;
use crate::datapath::clock_ns;

/// `struct withheld`, with the kernel's timer.
pub(super) const VALUE_BYTES: usize = 200;
/// `struct woken`.
pub(super) const WOKEN_BYTES: usize = 40;
/// `struct pause`.
const PAUSE_BYTES: usize = KEY_BYTES + 4;
/// Limit of reports that wait to be read; more are dropped. The flows' numbers are right without them.
const PAUSES_MAX: usize = 4096;

const IN_PUSHED: u32 = 0x01;
const OUT_SEEN: u32 = 0x01;

/// CLOCK_BOOTTIME: it goes on while the machine is suspended, as the FH's clock does.
pub fn boottime() -> Instant {
    Instant::from_nanos(clock_ns(libc::CLOCK_BOOTTIME))
}

/// The state of a flow's withheld segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotedWithheldSegment {
    /// The FH's clock, by [`boottime`].
    pub clock: FhClock,
    /// The number below which nothing leaves; none: nothing has left.
    pub floor: Option<SeqNum>,
    /// When a segment was last withheld, if one is.
    pub withheld_at: Option<Instant>,
    /// When the released segment was withheld last, if no ACK for it has left since.
    pub unacknowledged_from: Option<Instant>,
    /// The data from which the schemes decide.
    pub download: Download,
}

impl NotedWithheldSegment {
    /// A segment is withheld.
    pub const fn is_withholding(&self) -> bool {
        self.withheld_at.is_some()
    }
}

/// Reads a record.
pub(super) fn read(value: &[u8; VALUE_BYTES]) -> NotedWithheldSegment {
    let u32_at = |at: usize| u32::from_ne_bytes(*value[at..].first_chunk().unwrap_or(&[0; 4]));
    let instant_at = |at: usize| {
        Instant::from_nanos(u64::from_ne_bytes(
            *value[at..].first_chunk().unwrap_or(&[0; 8]),
        ))
    };
    let clock = FhClock {
        first: (u32_at(72), instant_at(48)),
        next: (u32_at(76), instant_at(56)),
        newest: (u32_at(80), instant_at(64)),
    };
    let out = (u32_at(88) & OUT_SEEN != 0).then(|| SeqNum::new(u32_at(84)));
    let released = (u32_at(116) != 0).then(|| SeqNum::new(u32_at(112)));
    let floor = floor_of(out, released);
    NotedWithheldSegment {
        clock,
        floor,
        unacknowledged_from: (floor != out).then(|| instant_at(104)),
        withheld_at: Some(instant_at(96))
            .filter(|at| *at != Instant::ZERO && *at != instant_at(104)),
        download: Download {
            segments: u32_at(160),
            upload_at: Some(instant_at(144)).filter(|at| *at != Instant::ZERO),
            pushed_end: (u32_at(12) & IN_PUSHED != 0).then(|| SeqNum::new(u32_at(16))),
            boundaries: SegmentBoundaries {
                start: SeqNum::new(u32_at(0)),
                end: SeqNum::new(u32_at(4)),
                segment_bytes: u32_at(8),
            },
        },
    }
}

/// The orders to the programs for a flow that was woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Woken {
    /// No ACK below this leaves any more.
    pub released: SeqNum,
    /// Echoes up to this TSecr are from before the outage, and are replaced. None: no echo is replaced.
    pub stale: Option<u32>,
    /// The TSecr to send at the time `at`.
    pub echo: u32,
    /// The time of `echo`, by [`boottime`]. From then on the echo moves on by the FH's clock.
    pub at: Instant,
    /// Ticks of the FH's clock in a second.
    pub ticks_per_s: u64,
    /// The entry holds until then, CLOCK_MONOTONIC.
    pub until: Instant,
}

impl Woken {
    pub(super) const fn nothing_renewed(released: SeqNum, now: Instant) -> Self {
        Self {
            released,
            stale: None,
            echo: 0,
            at: now,
            ticks_per_s: 0,
            until: now,
        }
    }

    pub(super) fn parse(octets: &[u8; WOKEN_BYTES]) -> Self {
        let word = |at: usize| u32::from_ne_bytes(*octets[at..].first_chunk().unwrap_or(&[0; 4]));
        let long = |at: usize| u64::from_ne_bytes(*octets[at..].first_chunk().unwrap_or(&[0; 8]));
        Self {
            released: SeqNum::new(word(0)),
            stale: (word(12) != 0).then(|| word(4)),
            echo: word(8),
            at: Instant::from_nanos(long(16)),
            ticks_per_s: long(24),
            until: Instant::from_nanos(long(32)),
        }
    }

    pub(super) fn emit(&self) -> [u8; WOKEN_BYTES] {
        let mut octets = [0; WOKEN_BYTES];
        let stale = self.stale.unwrap_or(0);
        let renews = u32::from(self.stale.is_some());
        let numbers = [self.released.get(), stale, self.echo, renews];
        for (to, word) in octets.chunks_exact_mut(4).zip(numbers) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        let long = [self.at.as_nanos(), self.ticks_per_s, self.until.as_nanos()];
        for (to, word) in octets[16..].chunks_exact_mut(8).zip(long) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        octets
    }
}

/// A flow whose FH pauses, and the number that was released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    pub(super) key: [u8; KEY_BYTES],
    /// The number of a made ACK, if the MH has sent nothing newer.
    pub ack: SeqNum,
}

/// The programs' reports of flows that pause; readable when there is one.
#[derive(Debug)]
pub struct Pauses {
    ring: RingBuffer<'static>,
    found: Arc<Mutex<Vec<Pause>>>,
}

impl Pauses {
    pub(super) fn open(map: &MapHandle) -> io::Result<Self> {
        let found = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&found);
        let mut builder = RingBufferBuilder::new();
        builder
            .add(map, move |octets: &[u8]| {
                let mut noted = noted.lock().unwrap_or_else(PoisonError::into_inner);
                if noted.len() < PAUSES_MAX {
                    noted.extend(pause(octets));
                }
                0
            })
            .map_err(io::Error::other)?;
        let ring = builder.build().map_err(io::Error::other)?;
        Ok(Self { ring, found })
    }

    /// Takes all reports that have come.
    pub fn drain(&self) -> io::Result<Vec<Pause>> {
        self.ring.consume().map_err(io::Error::other)?;
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(core::mem::take(&mut found))
    }
}

fn pause(octets: &[u8]) -> Option<Pause> {
    let octets = octets.first_chunk::<PAUSE_BYTES>()?;
    Some(Pause {
        key: *octets.first_chunk()?,
        ack: SeqNum::new(u32::from_ne_bytes(*octets.last_chunk()?)),
    })
}

impl AsRawFd for Pauses {
    fn as_raw_fd(&self) -> RawFd {
        self.ring.epoll_fd()
    }
}

impl AsFd for Pauses {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is the ring's, which lives as long as self.
        unsafe { BorrowedFd::borrow_raw(self.as_raw_fd()) }
    }
}
