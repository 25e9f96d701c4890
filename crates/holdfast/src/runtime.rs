// SPDX-License-Identifier: Apache-2.0
//! The daemons' runtime directory, and the lock of an interface in it.
//!
//! One gateway and one mobile's daemon run on an interface. Each holds a lock file, whose
//! name has the interface and the network namespace: two namespaces may each have a `wlan0`.
//! To lock a file one has to open it. Only this user can open a file of mode 0600, in a
//! directory that nobody else can write to: no other user can hinder the start.

use std::fs::{DirBuilder, File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use rustix::process::geteuid;

/// Where the daemons' files are unless the settings say otherwise.
pub(crate) const RUNTIME_DIRECTORY: &str = "/run/holdfast";

/// The network namespace of this process.
const NETWORK_NAMESPACE: &str = "/proc/self/ns/net";

/// Tries to lock a file: its last owner may remove it at this moment, or another daemon that
/// starts may look whether it is in use.
const LOCK_TRIES: usize = 10;
const LOCK_AGAIN: Duration = Duration::from_millis(20);

/// Makes the runtime directory if `path` is in it, and in no other case: a directory that is
/// missing is then more likely a typing error. `flag` is what names another path.
///
/// Errors: one line.
pub(crate) fn prepare_parent(path: &Path, flag: &str) -> anyhow::Result<()> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let remedy = format!("make it, or name another path with {flag}");
    if parent == Path::new(RUNTIME_DIRECTORY) {
        make_directory(parent)
            .with_context(|| format!("{}: cannot be made; {remedy}", parent.display()))?;
    }
    match parent.metadata() {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => bail!("{}: is no directory; {remedy}", parent.display()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!("{}: there is no such directory; {remedy}", parent.display())
        }
        Err(error) => bail!("{}: {error}; {remedy}", parent.display()),
    }
}

/// Makes a directory that everybody may read; nothing if it is there.
fn make_directory(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o755).create(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// The daemon that locks an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DaemonKind {
    /// `holdfast gateway`.
    Gateway,
    /// `holdfast mobile`.
    Mobile,
}

impl DaemonKind {
    const fn name(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Mobile => "mobile",
        }
    }
}

/// One daemon of a kind an interface. Dropped, or with the process, the lock is free.
#[derive(Debug)]
pub(crate) struct InterfaceLock {
    path: PathBuf,
    file: File,
}

impl InterfaceLock {
    /// Locks the interface. None, with a warning in the log: this user has no directory for
    /// the lock file, so that a second daemon would not be noticed.
    ///
    /// Errors: another daemon has the lock; others can write to the directory. One line each.
    pub(crate) fn take(kind: DaemonKind, interface: &str) -> anyhow::Result<Option<Self>> {
        let directory = match lock_directory() {
            Ok(directory) => directory,
            Err(error) if cannot_write(&error) => {
                tracing::warn!(
                    interface,
                    %error,
                    "no lock file in {RUNTIME_DIRECTORY}: a second daemon on this interface would not \
                     be noticed; run as root, or make the directory for this user"
                );
                return Ok(None);
            }
            Err(error) => bail!("{RUNTIME_DIRECTORY}: {error}"),
        };
        Self::take_in(&directory, kind, interface).map(Some)
    }

    /// The same with lock files in `directory`.
    fn take_in(directory: &Path, kind: DaemonKind, interface: &str) -> anyhow::Result<Self> {
        check_directory(directory)?;
        let path = directory.join(lock_name(kind, interface)?);
        let shown = path.display();
        for _ in 0..LOCK_TRIES {
            let file = open_lock_file(&path)
                .with_context(|| format!("{shown}: cannot be opened; remove it"))?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                // The one who had it before may have removed it after we opened it: a lock on a
                // file that is in no directory keeps nobody out.
                Ok(()) if is_same(&file.metadata()?, &path) => {
                    remove_unused(directory);
                    return Ok(Self { path, file });
                }
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => std::thread::sleep(LOCK_AGAIN),
                Err(error) => bail!("{shown}: cannot be locked: {error}"),
            }
        }
        let kind = kind.name();
        bail!("another {kind} runs on interface {interface}; stop it first ({shown})")
    }

    /// Whether a daemon runs on the interface.
    pub(crate) fn is_held(kind: DaemonKind, interface: &str) -> bool {
        let is_locked = |directory: PathBuf| {
            let file = open_existing(&directory.join(lock_name(kind, interface).ok()?)).ok()?;
            let locked = flock(file, FlockOperation::NonBlockingLockShared);
            Some(locked == Err(Errno::WOULDBLOCK))
        };
        candidates().any(|directory| is_locked(directory).unwrap_or(false))
    }
}

impl Drop for InterfaceLock {
    fn drop(&mut self) {
        // While it is locked: whoever opened it before sees that it is gone, and makes another.
        if self
            .file
            .metadata()
            .is_ok_and(|own| is_same(&own, &self.path))
        {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Removes what killed daemons have left, and namespaces that are gone. Whoever opens such a
/// file meanwhile sees that it is gone, as above.
fn remove_unused(directory: &Path) {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        if !is_lock_name(&path) {
            continue;
        }
        let Ok(file) = open_existing(&path) else {
            continue;
        };
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
            && file.metadata().is_ok_and(|own| is_same(&own, &path))
        {
            // One that stays does no harm.
            let _ = std::fs::remove_file(&path);
        }
    }
}

/// Whether a file is called as [`lock_name`] has it.
fn is_lock_name(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let kind = name
        .and_then(|name| name.split_once('-'))
        .map(|(kind, _)| kind);
    let kinds = [DaemonKind::Gateway, DaemonKind::Mobile].map(DaemonKind::name);
    path.extension().is_some_and(|end| end == "lock")
        && kind.is_some_and(|kind| kinds.contains(&kind))
}

/// Directories for locks, the best first.
fn candidates() -> impl Iterator<Item = PathBuf> {
    // A user's own, which the login made.
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(|own| Path::new(&own).join("holdfast"));
    [Some(RUNTIME_DIRECTORY.into()), own].into_iter().flatten()
}

/// The first directory that is there or can be made, and in which this user can make files.
fn lock_directory() -> io::Result<PathBuf> {
    let mut first_error = None;
    for directory in candidates() {
        let usable = make_directory(&directory).and_then(|()| {
            rustix::fs::access(&directory, rustix::fs::Access::WRITE_OK).map_err(io::Error::from)
        });
        match usable {
            Ok(()) => return Ok(directory),
            Err(error) => first_error.get_or_insert(error),
        };
    }
    Err(first_error.unwrap_or_else(|| ErrorKind::NotFound.into()))
}

fn cannot_write(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem | ErrorKind::NotFound
    )
}

/// Errors: another user can make or remove files in it.
fn check_directory(directory: &Path) -> anyhow::Result<()> {
    let shown = directory.display();
    let found = directory
        .symlink_metadata()
        .with_context(|| format!("{shown}: cannot be looked at"))?;
    let own = geteuid().as_raw();
    if !found.is_dir() {
        bail!("{shown}: is no directory; remove it");
    }
    if found.uid() != own && found.uid() != 0 {
        let owner = found.uid();
        bail!("{shown}: belongs to user {owner}, who could stop the daemon; chown root {shown}");
    }
    if found.mode() & 0o022 != 0 {
        let mode = found.mode() & 0o7777;
        bail!("{shown}: has mode {mode:04o}, so others can write to it; chmod 755 {shown}");
    }
    Ok(())
}

/// Errors: a name that the kernel gives to no interface.
fn lock_name(kind: DaemonKind, interface: &str) -> anyhow::Result<String> {
    // The settings take no such name; a path made of one would be somebody else's file.
    if interface.is_empty() || interface.contains(['/', '\0']) {
        bail!("`{interface}` is no name of an interface");
    }
    let namespace = std::fs::metadata(NETWORK_NAMESPACE)
        .with_context(|| format!("{NETWORK_NAMESPACE}: the network namespace is not known"))?;
    let (kind, namespace) = (kind.name(), namespace.ino());
    Ok(format!("{kind}-{namespace}-{interface}.lock"))
}

fn open_existing(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    File::options()
        .read(true)
        .custom_flags(flags.bits() as i32)
        .open(path)
}

fn open_lock_file(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(flags.bits() as i32)
        .open(path)
}

/// Whether this file is what the path names.
pub(crate) fn is_same(own: &Metadata, path: &Path) -> bool {
    path.symlink_metadata()
        .is_ok_and(|found| (found.dev(), found.ino()) == (own.dev(), own.ino()))
}

/// A number that no stranger knows.
///
/// Errors: the kernel gives none.
pub(crate) fn unpredictable() -> anyhow::Result<u64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes)
        .map_err(|error| anyhow::anyhow!("the kernel gives no random bytes: {error}"))?;
    Ok(u64::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const GATEWAY: DaemonKind = DaemonKind::Gateway;

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        folder
    }

    #[test]
    fn an_interface_has_one_daemon_of_a_kind_and_a_lock_that_leaves_nothing() {
        let folder = folder();
        let take = |kind, interface| InterfaceLock::take_in(folder.path(), kind, interface);
        let first = take(GATEWAY, "wlan0").unwrap();
        let error = take(GATEWAY, "wlan0").unwrap_err().to_string();
        assert!(
            error.contains("another gateway runs on interface wlan0"),
            "{error}"
        );
        let _other = take(GATEWAY, "wlan1").unwrap();
        let _mobile = take(DaemonKind::Mobile, "wlan0").unwrap();
        assert_eq!(first.path.metadata().unwrap().mode() & 0o777, 0o600);
        let path = first.path.clone();
        drop(first);
        assert!(!path.exists());
        take(GATEWAY, "wlan0").unwrap();
    }

    #[test]
    fn a_file_that_a_killed_daemon_left_is_no_lock() {
        let folder = folder();
        let path = folder.path().join(lock_name(GATEWAY, "wlan0").unwrap());
        let [other, foreign] = ["mobile-1-wlan0.lock", "notes.lock"].map(|name| {
            let path = folder.path().join(name);
            std::fs::write(&path, "").unwrap();
            path
        });
        std::fs::write(&path, "").unwrap();
        let lock = InterfaceLock::take_in(folder.path(), GATEWAY, "wlan0").unwrap();
        assert!(lock.path.exists() && foreign.exists());
        // Of a namespace that is gone, perhaps.
        assert!(!other.exists());
    }

    #[test]
    fn a_lock_on_a_file_that_was_removed_keeps_nobody_out() {
        let folder = folder();
        let first = InterfaceLock::take_in(folder.path(), GATEWAY, "wlan0").unwrap();
        std::fs::remove_file(&first.path).unwrap();
        let second = InterfaceLock::take_in(folder.path(), GATEWAY, "wlan0").unwrap();
        // The first one removes nothing of the second one's.
        drop(first);
        assert!(second.path.exists());
    }

    #[test]
    fn a_directory_that_others_write_to_is_refused_and_no_link_is_followed() {
        let folder = folder();
        let path = folder.path().join(lock_name(GATEWAY, "wlan0").unwrap());
        std::os::unix::fs::symlink(folder.path().join("victim"), &path).unwrap();
        assert!(InterfaceLock::take_in(folder.path(), GATEWAY, "wlan0").is_err());
        assert!(!folder.path().join("victim").exists());
        std::fs::remove_file(&path).unwrap();
        for mode in [0o775, 0o757, 0o1777] {
            set_permissions(folder.path(), Permissions::from_mode(mode)).unwrap();
            let error = InterfaceLock::take_in(folder.path(), GATEWAY, "wlan0").unwrap_err();
            assert!(error.to_string().contains("chmod 755"), "{error:#}");
        }
    }

    #[test]
    fn no_interface_names_a_file_elsewhere() {
        for name in ["", "../wlan0", "a/b", "/etc/passwd"] {
            assert!(lock_name(GATEWAY, name).is_err(), "{name}");
        }
    }

    #[test]
    fn only_the_runtime_directory_is_made_for_an_operator() {
        let folder = folder();
        let missing = folder.path().join("nope");
        let error = prepare_parent(&missing.join("y.sock"), "--control-socket").unwrap_err();
        let error = format!("{error:#}");
        assert!(
            error.contains("nope") && error.contains("--control-socket"),
            "{error}"
        );
        assert!(!missing.exists());
        assert!(prepare_parent(&folder.path().join("y.sock"), "--control-socket").is_ok());
        assert!(prepare_parent(Path::new("y.sock"), "--control-socket").is_ok());
    }
}
