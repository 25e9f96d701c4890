// SPDX-License-Identifier: Apache-2.0
//! Folders for a run's files. A run removes its folder at its end. A run that is killed
//! cannot: the next run removes the folders that no process holds any more.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;

/// The file that a run locks while it uses the folder. The kernel releases the lock when the process dies.
const LOCK: &str = "held";

/// Limit of dead runs' folders that one start removes.
const REMOVED_MAX: usize = 100;

/// Limit of folders that another run has removed before they were locked. Then the next one is used as it is.
const TRIES_MAX: u32 = 10;

/// A folder of this run, removed when dropped.
#[derive(Debug)]
pub struct Scratch {
    folder: TempDir,
    _lock: File,
}

impl Scratch {
    /// Makes a folder whose name begins with `prefix`, where the system keeps temporary files.
    /// Removes folders of the same prefix whose runs have died.
    pub fn new(prefix: &str) -> io::Result<Self> {
        Self::new_in(&std::env::temp_dir(), prefix)
    }

    fn new_in(parent: &Path, prefix: &str) -> io::Result<Self> {
        remove_abandoned(parent, prefix);
        let mut tries = TRIES_MAX;
        loop {
            let folder = tempfile::Builder::new().prefix(prefix).tempdir_in(parent)?;
            let lock = File::create_new(folder.path().join(LOCK))?;
            flock(&lock, FlockOperation::LockExclusive)?;
            // Another run that starts at the same moment may have been faster.
            if folder.path().join(LOCK).exists() || tries == 0 {
                return Ok(Self {
                    folder,
                    _lock: lock,
                });
            }
            tries -= 1;
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes the folders of runs that have died. A folder that cannot be removed stays: it
/// does no harm.
fn remove_abandoned(parent: &Path, prefix: &str) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    let ours = entries
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    for entry in ours.take(REMOVED_MAX) {
        let _ = remove_if_abandoned(&entry.path());
    }
}

fn remove_if_abandoned(folder: &Path) -> io::Result<()> {
    // Links are not followed, and folders of other users stay.
    let metadata = fs::symlink_metadata(folder)?;
    let own = rustix::process::geteuid().as_raw();
    if !metadata.is_dir() || metadata.uid() != own {
        return Ok(());
    }
    // A folder without this file is just being made: it stays.
    let lock = File::open(folder.join(LOCK))?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
    fs::remove_dir_all(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_with_its_run_or_with_the_next() {
        let parent = tempfile::tempdir().unwrap();
        let parent = parent.path();
        let count = || fs::read_dir(parent).unwrap().count();
        let living = Scratch::new_in(parent, "run-").unwrap();
        // As a kill leaves it: the lock is free, the folder is there.
        let dead = Scratch::new_in(parent, "run-").unwrap();
        let Scratch {
            folder,
            _lock: lock,
        } = dead;
        let left = folder.keep();
        fs::write(left.join("large"), b"x").unwrap();
        assert_eq!(count(), 2);
        let held = Scratch::new_in(parent, "other-").unwrap();
        assert_eq!(count(), 3, "another prefix removes nothing");
        drop(lock);
        let next = Scratch::new_in(parent, "run-").unwrap();
        assert!(!left.exists());
        assert!(living.path().exists() && held.path().exists());
        drop((living, held, next));
        assert_eq!(count(), 0);
    }

    #[test]
    fn a_link_and_a_folder_that_is_just_being_made_are_left_alone() {
        let parent = tempfile::tempdir().unwrap();
        let parent = parent.path();
        let elsewhere = tempfile::tempdir().unwrap();
        fs::write(elsewhere.path().join(LOCK), b"").unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), parent.join("run-link")).unwrap();
        fs::create_dir(parent.join("run-new")).unwrap();
        drop(Scratch::new_in(parent, "run-").unwrap());
        assert!(elsewhere.path().join(LOCK).exists());
        assert!(parent.join("run-new").exists());
    }
}
