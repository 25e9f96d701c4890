// SPDX-License-Identifier: Apache-2.0
//! Pseudo-random bytes, in a file or as they are needed. The same seed gives the same bytes.
//! No two parts are alike, so that a byte that is lost, doubled or out of order changes the
//! hash.

use std::fs::File;
use std::io::{BufWriter, Read as _, Write as _};
use std::path::Path;

use anyhow::Context as _;
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng as _, SeedableRng as _};
use sha2::{Digest as _, Sha256};

/// Bytes made at a time.
const CHUNK_BYTES: usize = 1 << 16;

/// A SHA-256.
pub type Sha256Sum = [u8; 32];

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeededContent {
    /// Its length in bytes.
    pub bytes: u64,
    /// Its SHA-256.
    pub sha256: Sha256Sum,
}

impl SeededContent {
    /// The first `bytes` bytes of `seed`.
    pub fn of(bytes: u64, seed: u64) -> Self {
        let mut hash = Sha256::new();
        let mut stream = SeededStream::new(bytes, seed);
        while let Some(chunk) = stream.next_chunk() {
            hash.update(chunk);
        }
        Self {
            bytes,
            sha256: hash.finalize().into(),
        }
    }
}

/// Pseudo-random bytes of a seed, made as they are needed.
#[derive(Debug)]
pub struct SeededStream {
    rng: ChaCha8Rng,
    left: u64,
    chunk: Vec<u8>,
}

impl SeededStream {
    /// The first `bytes` bytes of `seed`.
    pub fn new(bytes: u64, seed: u64) -> Self {
        Self {
            rng: ChaCha8Rng::seed_from_u64(seed),
            left: bytes,
            chunk: vec![0; CHUNK_BYTES],
        }
    }

    /// The next bytes: 64 KiB, or the rest. None: there are no more.
    pub fn next_chunk(&mut self) -> Option<&[u8]> {
        if self.left == 0 {
            return None;
        }
        let part = &mut self.chunk[..self.left.min(CHUNK_BYTES as u64) as usize];
        self.rng.fill_bytes(part);
        self.left -= part.len() as u64;
        Some(part)
    }
}

/// Writes `bytes` pseudo-random bytes of `seed` to `path`.
pub fn write_seeded(path: &Path, bytes: u64, seed: u64) -> anyhow::Result<SeededContent> {
    let mut stream = SeededStream::new(bytes, seed);
    let mut hash = Sha256::new();
    let at = || format!("{}: cannot be written", path.display());
    let mut file = BufWriter::new(File::create(path).with_context(at)?);
    while let Some(chunk) = stream.next_chunk() {
        hash.update(chunk);
        file.write_all(chunk).with_context(at)?;
    }
    file.flush().with_context(at)?;
    Ok(SeededContent {
        bytes,
        sha256: hash.finalize().into(),
    })
}

/// The SHA-256 of the first `bytes` bytes of a file.
pub fn sha256_of_start(path: &Path, bytes: u64) -> anyhow::Result<Sha256Sum> {
    let at = || format!("{}: cannot be read", path.display());
    let mut start = File::open(path).with_context(at)?.take(bytes);
    let mut hash = Sha256::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let len = start.read(&mut chunk).with_context(at)?;
        if len == 0 {
            return Ok(hash.finalize().into());
        }
        hash.update(&chunk[..len]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_bytes_and_another_gives_others() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let one = write_seeded(&path, 100_001, 7).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 100_001);
        assert_eq!(
            one.sha256,
            <Sha256Sum>::from(Sha256::digest(std::fs::read(&path).unwrap()))
        );
        assert_eq!(one, write_seeded(&path, 100_001, 7).unwrap());
        assert_eq!(sha256_of_start(&path, 100_001).unwrap(), one.sha256);
        assert_ne!(sha256_of_start(&path, 100_000).unwrap(), one.sha256);
        assert_eq!(SeededContent::of(100_001, 7), one);
        assert_ne!(one.sha256, write_seeded(&path, 100_001, 8).unwrap().sha256);
    }
}
