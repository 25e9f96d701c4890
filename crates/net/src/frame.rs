// SPDX-License-Identifier: Apache-2.0
//! Frames that are read once and not copied afterwards, although they may be sent and
//! cached several times.
//!
//! A [`BufferPool`] reads each frame into a slot of its own and hands out a
//! reference-counted [`Frame`]. Slots come from chunks of one size; a chunk
//! serves one slot size at a time and is given to another when all its slots
//! are free. A frame lies in the smallest slot that holds it. A small frame is moved
//! there once, right after the read (a copy of at most [`COPY_BYTES_MAX`]). A large
//! frame stays where it was read. So a cached frame of more than 1,000 octets pins at
//! most four times its size, whatever else is cached and for how long. It pins more
//! only if no chunk was free.
//!
//! Free slots are reused last in, first out: frames that only pass run through
//! the same few cache lines.
//!
//! Single-threaded by design (`Rc`, `Cell`): one worker owns one pool.

use std::cell::{Cell, RefCell};
use std::io;
use std::ops::{Deref, Range};
use std::ptr::NonNull;
use std::rc::Rc;

use crate::tun::VNET_HDR_BYTES;
use crate::vnet::VnetHdr;

/// The largest frame that a read may return, with its `virtio_net_hdr`: an IP
/// packet of 65,535 octets behind an Ethernet header fits.
pub const FRAME_BYTES_MAX: usize = 69_632;

/// Frames up to this many octets are moved to a slot of about their size.
pub const COPY_BYTES_MAX: usize = 17_408;

/// The octets of a chunk: eight frames of the largest size.
pub const CHUNK_BYTES: usize = 8 * FRAME_BYTES_MAX;

/// Slot sizes, small to large; each divides [`CHUNK_BYTES`].
const SLOT_BYTES: [usize; 4] = [2_176, 8_704, COPY_BYTES_MAX, FRAME_BYTES_MAX];
const LARGEST: usize = SLOT_BYTES.len() - 1;
const SLOTS_MAX: usize = CHUNK_BYTES / SLOT_BYTES[0];
const MASK_LEN: usize = SLOTS_MAX.div_ceil(64);

/// A slot: the chunk's number and the slot's within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SlotId(u32);

impl SlotId {
    /// The slot outside all chunks that is used when the pool is exhausted.
    const SCRATCH: Self = Self(u32::MAX);

    const fn new(chunk: usize, slot: usize) -> Self {
        Self((chunk as u32) << 8 | slot as u32)
    }

    const fn chunk(self) -> usize {
        (self.0 >> 8) as usize
    }

    const fn slot(self) -> usize {
        (self.0 & 0xff) as usize
    }
}

/// The memory behind one chunk, or behind the scratch slot.
struct Memory {
    start: NonNull<u8>,
    bytes: usize,
}

impl Memory {
    fn new(bytes: usize) -> Self {
        let boxed: Box<[u8]> = vec![0; bytes].into_boxed_slice();
        Self {
            start: NonNull::from(Box::leak(boxed)).cast(),
            bytes,
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let slice = std::ptr::slice_from_raw_parts_mut(self.start.as_ptr(), self.bytes);
        // SAFETY: start and bytes are those of the box leaked in new(), and no
        // handle is left: each holds the pool, which holds this.
        drop(unsafe { Box::from_raw(slice) });
    }
}

struct Chunk {
    memory: Memory,
    /// Index into [`SLOT_BYTES`].
    class: Cell<usize>,
    /// One bit a slot, set while it is free.
    free: [Cell<u64>; MASK_LEN],
    /// Slots in use.
    live: Cell<u32>,
    /// Handles to each slot.
    handles: Box<[Cell<u32>]>,
}

impl Chunk {
    fn new() -> Self {
        Self {
            memory: Memory::new(CHUNK_BYTES),
            class: Cell::new(LARGEST),
            free: Default::default(),
            live: Cell::new(0),
            handles: (0..SLOTS_MAX).map(|_| Cell::new(0)).collect(),
        }
    }

    fn assign(&self, class: usize) {
        debug_assert_eq!(self.live.get(), 0);
        self.class.set(class);
        let mut slots = CHUNK_BYTES / SLOT_BYTES[class];
        for word in &self.free {
            let here = slots.min(64);
            word.set(if here == 64 {
                u64::MAX
            } else {
                (1 << here) - 1
            });
            slots -= here;
        }
    }

    fn take(&self) -> Option<usize> {
        for (index, word) in self.free.iter().enumerate() {
            let bits = word.get();
            if bits != 0 {
                word.set(bits & (bits - 1));
                self.live.set(self.live.get() + 1);
                return Some(index * 64 + bits.trailing_zeros() as usize);
            }
        }
        None
    }

    fn give_back(&self, slot: usize) {
        let word = &self.free[slot / 64];
        debug_assert_eq!(word.get() >> (slot % 64) & 1, 0, "slot {slot} was free");
        word.set(word.get() | 1 << (slot % 64));
        self.live.set(self.live.get() - 1);
    }

    fn is_full(&self) -> bool {
        self.free.iter().all(|word| word.get() == 0)
    }
}

/// The data that the pool and all its frames share.
struct Shared {
    chunks: RefCell<Vec<Chunk>>,
    chunks_max: Cell<usize>,
    /// By class: chunks with a free slot; the last is served first.
    partial: [RefCell<Vec<u16>>; SLOT_BYTES.len()],
    scratch: Memory,
    scratch_handles: Cell<u32>,
    slots_in_use_bytes: Cell<usize>,
}

impl Shared {
    fn allocate(&self, class: usize) -> Option<SlotId> {
        loop {
            let top = self.partial[class].borrow().last().copied();
            let Some(index) = top else {
                let index = self.chunk_for(class)?;
                self.partial[class].borrow_mut().push(index);
                continue;
            };
            let taken = self.chunks.borrow()[usize::from(index)].take();
            match taken {
                Some(slot) => {
                    self.slots_in_use_bytes
                        .set(self.slots_in_use_bytes.get() + SLOT_BYTES[class]);
                    return Some(SlotId::new(usize::from(index), slot));
                }
                None => {
                    self.partial[class].borrow_mut().pop();
                }
            }
        }
    }

    /// A chunk with all slots free, assigned to `class`: a new one below the
    /// limit, else one that another class does not use.
    fn chunk_for(&self, class: usize) -> Option<u16> {
        let mut chunks = self.chunks.borrow_mut();
        let index = if chunks.len() < self.chunks_max.get() {
            chunks.push(Chunk::new());
            chunks.len() - 1
        } else {
            let index = chunks.iter().position(|chunk| chunk.live.get() == 0)?;
            self.partial[chunks[index].class.get()]
                .borrow_mut()
                .retain(|&other| usize::from(other) != index);
            index
        };
        chunks[index].assign(class);
        Some(index as u16)
    }

    fn free(&self, id: SlotId) {
        let chunks = self.chunks.borrow();
        let chunk = &chunks[id.chunk()];
        let was_full = chunk.is_full();
        chunk.give_back(id.slot());
        let class = chunk.class.get();
        self.slots_in_use_bytes
            .set(self.slots_in_use_bytes.get() - SLOT_BYTES[class]);
        if was_full {
            let mut partial = self.partial[class].borrow_mut();
            // A full chunk stays listed until the next allocation finds that it is full.
            if partial.last() != Some(&(id.chunk() as u16)) {
                partial.retain(|&other| usize::from(other) != id.chunk());
                partial.push(id.chunk() as u16);
            }
        }
    }

    fn start(&self, id: SlotId) -> NonNull<u8> {
        if id == SlotId::SCRATCH {
            return self.scratch.start;
        }
        let chunks = self.chunks.borrow();
        let chunk = &chunks[id.chunk()];
        let offset = id.slot() * SLOT_BYTES[chunk.class.get()];
        debug_assert!(offset < CHUNK_BYTES);
        // SAFETY: the slot lies in the chunk: slots * slot size == CHUNK_BYTES.
        unsafe { chunk.memory.start.add(offset) }
    }

    fn handles<T>(&self, id: SlotId, change: impl FnOnce(&Cell<u32>) -> T) -> T {
        if id == SlotId::SCRATCH {
            return change(&self.scratch_handles);
        }
        change(&self.chunks.borrow()[id.chunk()].handles[id.slot()])
    }
}

/// A handle to octets of one slot: cheap to clone and to slice, never copied.
pub struct FrameBytes {
    shared: Rc<Shared>,
    id: SlotId,
    start: NonNull<u8>,
    len: u32,
}

impl FrameBytes {
    fn new(shared: &Rc<Shared>, id: SlotId, len: usize) -> Self {
        shared.handles(id, |handles| handles.set(handles.get() + 1));
        Self {
            shared: Rc::clone(shared),
            id,
            start: shared.start(id),
            len: len as u32,
        }
    }

    /// Another handle to a part of these octets.
    ///
    /// Panics if the range does not lie within them.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len as usize);
        let mut part = self.clone();
        // SAFETY: range.start is within the octets that self covers.
        part.start = unsafe { self.start.add(range.start) };
        part.len = (range.end - range.start) as u32;
        part
    }

    /// Whether they may be kept beyond the next read; false when the pool was
    /// exhausted as they were read.
    pub fn is_cacheable(&self) -> bool {
        self.id != SlotId::SCRATCH
    }
}

impl Clone for FrameBytes {
    fn clone(&self) -> Self {
        self.shared
            .handles(self.id, |handles| handles.set(handles.get() + 1));
        Self {
            shared: Rc::clone(&self.shared),
            id: self.id,
            start: self.start,
            len: self.len,
        }
    }
}

impl Drop for FrameBytes {
    fn drop(&mut self) {
        let left = self.shared.handles(self.id, |handles| {
            handles.set(handles.get() - 1);
            handles.get()
        });
        if left == 0 && self.id != SlotId::SCRATCH {
            self.shared.free(self.id);
        }
    }
}

impl Deref for FrameBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: start and len lie within the slot, whose memory lives as long
        // as shared does. The slot is written only by BufferPool::read, to slots
        // without a handle; this one has a handle as long as self lives. All
        // octets were initialised when the chunk was made.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len as usize) }
    }
}

impl std::fmt::Debug for FrameBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FrameBytes({} octets)", self.len)
    }
}

/// One frame as it was read from a device.
#[derive(Clone, Debug)]
pub struct Frame {
    vnet: VnetHdr,
    /// The `virtio_net_hdr` and the frame.
    whole: FrameBytes,
}

impl Frame {
    /// The kernel's flags about checksum and segmentation.
    pub const fn vnet(&self) -> &VnetHdr {
        &self.vnet
    }

    /// The frame, from its link-layer or IP header on.
    pub fn bytes(&self) -> &[u8] {
        &self.whole[VNET_HDR_BYTES..]
    }

    /// A handle to a part of [`Frame::bytes`].
    ///
    /// Panics if the range does not lie within them.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> FrameBytes {
        self.whole
            .slice(range.start + VNET_HDR_BYTES..range.end + VNET_HDR_BYTES)
    }

    /// See [`FrameBytes::is_cacheable`].
    pub fn is_cacheable(&self) -> bool {
        self.whole.is_cacheable()
    }

    /// The octets to write to a device to send the frame as it came.
    pub(crate) fn as_read(&self) -> &[u8] {
        &self.whole
    }
}

/// Buffers for frames, up to a limit; see the module's description.
pub struct BufferPool {
    shared: Rc<Shared>,
    /// A slot of the largest size without a handle, for the next read.
    ready: Option<SlotId>,
}

fn chunks_in(bytes_max: usize) -> usize {
    (bytes_max / CHUNK_BYTES).clamp(1, usize::from(u16::MAX))
}

impl BufferPool {
    /// A pool of at most `bytes_max` octets, taken from the system when first
    /// needed and kept; at least one chunk ([`CHUNK_BYTES`]), at most 65,535 chunks.
    pub fn new(bytes_max: usize) -> Self {
        let chunks_max = chunks_in(bytes_max);
        Self {
            shared: Rc::new(Shared {
                chunks: RefCell::new(Vec::with_capacity(chunks_max)),
                chunks_max: Cell::new(chunks_max),
                partial: std::array::from_fn(|_| RefCell::new(Vec::with_capacity(chunks_max))),
                scratch: Memory::new(FRAME_BYTES_MAX),
                scratch_handles: Cell::new(0),
                slots_in_use_bytes: Cell::new(0),
            }),
            ready: None,
        }
    }

    /// Octets of the slots that hold frames (or stand ready for one).
    pub fn in_use_bytes(&self) -> usize {
        self.shared.slots_in_use_bytes.get()
    }

    /// The most octets that slots can take.
    pub fn bytes_max(&self) -> usize {
        self.shared.chunks_max.get() * CHUNK_BYTES
    }

    /// Sets another limit. Memory that was taken from the system stays with the pool.
    pub fn set_bytes_max(&self, bytes_max: usize) {
        self.shared.chunks_max.set(chunks_in(bytes_max));
    }

    /// Fills a buffer by `read`, which returns the octets of one
    /// `virtio_net_hdr` and frame, and makes a [`Frame`] of them.
    ///
    /// Errors: that of `read`; `InvalidData` for less than a `virtio_net_hdr`;
    /// `OutOfMemory` if the pool is exhausted and a frame that is not cacheable
    /// was kept all the same.
    pub fn read(&mut self, read: impl FnOnce(&mut [u8]) -> io::Result<usize>) -> io::Result<Frame> {
        let ready = self.ready.take().or_else(|| self.shared.allocate(LARGEST));
        let id = ready.unwrap_or(SlotId::SCRATCH);
        if self.shared.handles(id, |handles| handles.get() != 0) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let start = self.shared.start(id);
        // SAFETY: the slot has FRAME_BYTES_MAX initialised octets and no handle,
        // so that nothing else refers to them while the slice lives.
        let buffer = unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), FRAME_BYTES_MAX) };
        let outcome = read(buffer);
        let len = match outcome {
            Ok(len) if (VNET_HDR_BYTES..=FRAME_BYTES_MAX).contains(&len) => len,
            Ok(_) => {
                self.ready = ready;
                return Err(io::ErrorKind::InvalidData.into());
            }
            Err(error) => {
                self.ready = ready;
                return Err(error);
            }
        };
        let vnet = VnetHdr::parse(buffer.first_chunk().expect("longer than the header"));
        let id = self.settle(id, &buffer[..len]);
        Ok(Frame {
            vnet,
            whole: FrameBytes::new(&self.shared, id, len),
        })
    }

    /// Moves a small frame to a slot of its size and keeps `id` for the next read.
    fn settle(&mut self, id: SlotId, octets: &[u8]) -> SlotId {
        let class = SLOT_BYTES
            .iter()
            .position(|&size| octets.len() <= size)
            .unwrap_or(LARGEST);
        let small = (class..LARGEST).find_map(|class| self.shared.allocate(class));
        let Some(small) = small else { return id };
        let start = self.shared.start(small);
        // SAFETY: the slot is large enough for the octets, was just allocated and
        // has no handle; two slots never overlap.
        unsafe {
            std::ptr::copy_nonoverlapping(octets.as_ptr(), start.as_ptr(), octets.len());
        }
        if id != SlotId::SCRATCH {
            self.ready = Some(id);
        }
        small
    }
}

impl std::fmt::Debug for BufferPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "BufferPool({} of {} octets in use)",
            self.in_use_bytes(),
            self.bytes_max()
        )
    }
}

#[cfg(test)]
mod tests;
