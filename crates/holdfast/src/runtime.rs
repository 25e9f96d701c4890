// SPDX-License-Identifier: Apache-2.0
//! The daemons' runtime directory, and the lock of an interface in it.
//!
//! One gateway and one mobile's daemon run on an interface. Each locks a file, whose
//! name has the interface and the network namespace: two namespaces may each have a `wlan0`.
//! The lock ends with the process; the empty file stays. Only this user can open a file of mode
//! 0600, in a directory that no other user can write to: no other user can block the start.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown,
};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use rustix::process::geteuid;

/// The directory of the daemons' files, unless the settings name another.
pub(crate) const RUNTIME_DIRECTORY: &str = "/run/holdfast";

/// The directory of settings and keys, unless the operator names another.
pub(crate) const SETTINGS_DIRECTORY: &str = "/etc/holdfast";

/// The network namespace of this process.
const NETWORK_NAMESPACE: &str = "/proc/self/ns/net";

/// Attempts to lock a file: `--check` may hold the lock for a moment.
const LOCK_TRIES: usize = 10;
const LOCK_AGAIN: Duration = Duration::from_millis(20);

/// Makes the parent directory of `path` if it is `own`, a directory of this program. Another missing
/// directory is probably a typing error. `remedy` is what the operator can do.
///
/// Errors: one line.
pub(crate) fn prepare_parent(path: &Path, own: &str, remedy: &str) -> anyhow::Result<()> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if parent == Path::new(own) {
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

/// Makes a directory that all users may read, unless it exists.
fn make_directory(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o755).create(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Lets the user of the units read a new file with settings or a key: owner root, group
/// `holdfast`, mode 0640. Without that group, or if not root, the file is not changed.
pub(crate) fn let_daemons_read(file: &File) -> io::Result<()> {
    let group = std::fs::read_to_string("/etc/group")
        .ok()
        .and_then(|groups| daemon_group(&groups));
    let Some(group) = group.filter(|_| geteuid().is_root()) else {
        return Ok(());
    };
    fchown(file, Some(0), Some(group))?;
    file.set_permissions(Permissions::from_mode(0o640))
}

/// The id of the units' group in the text of group(5).
fn daemon_group(groups: &str) -> Option<u32> {
    let mut lines = groups.lines();
    let fields = lines.find_map(|line| line.strip_prefix("holdfast:"))?;
    fields.split(':').nth(1)?.parse().ok()
}

/// The daemon that locks an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum DaemonKind {
    /// The router in front of the link: `holdfast gateway`
    Gateway,
    /// The device that moves: `holdfast mobile`
    Mobile,
}

impl DaemonKind {
    /// The name of its command.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Mobile => "mobile",
        }
    }
}

/// The lock of an interface for one daemon of a kind. It ends when it is dropped, and with the process.
#[derive(Debug)]
pub(crate) struct InterfaceLock {
    _file: File,
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

    /// Locks the interface with a lock file in `directory`.
    fn take_in(directory: &Path, kind: DaemonKind, interface: &str) -> anyhow::Result<Self> {
        check_directory(directory)?;
        let path = directory.join(lock_name(kind, interface)?);
        let shown = path.display();
        let file = open_lock_file(
            File::options().write(true).create(true).truncate(false),
            &path,
        )
        .with_context(|| format!("{shown}: cannot be opened; remove it"))?;
        for _ in 0..LOCK_TRIES {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Self { _file: file }),
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
            let path = directory.join(lock_name(kind, interface).ok()?);
            let file = open_lock_file(File::options().read(true), &path).ok()?;
            let locked = flock(file, FlockOperation::NonBlockingLockShared);
            Some(locked == Err(Errno::WOULDBLOCK))
        };
        candidates().any(|directory| is_locked(directory).unwrap_or(false))
    }
}

/// Directories for locks, the best first.
fn candidates() -> impl Iterator<Item = PathBuf> {
    // The user's own directory, which the login has made.
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(|own| Path::new(&own).join("holdfast"));
    [Some(RUNTIME_DIRECTORY.into()), own].into_iter().flatten()
}

/// The first directory that exists or can be made, and in which this user can make files.
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

/// Errors: the directory is missing, or another user can make or remove files in it.
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
    // The settings reject such a name; as a path it would be another file.
    if interface.is_empty() || interface.contains(['/', '\0']) {
        bail!("`{interface}` is no name of an interface");
    }
    let namespace = std::fs::metadata(NETWORK_NAMESPACE)
        .with_context(|| format!("{NETWORK_NAMESPACE}: the network namespace is not known"))?;
    let (kind, namespace) = (kind.name(), namespace.ino());
    Ok(format!("{kind}-{namespace}-{interface}.lock"))
}

/// Opens a lock file, and follows no link.
fn open_lock_file(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    options
        .mode(0o600)
        .custom_flags(flags.bits() as i32)
        .open(path)
}

/// Fresh bytes from the kernel's generator.
pub(crate) fn random_bytes<const N: usize>() -> anyhow::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| anyhow::anyhow!("no random bytes from the kernel: {error}"))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs::set_permissions;
    use std::time::Instant;

    use super::*;

    /// No condition is waited for longer than this.
    const LIMIT: Duration = Duration::from_secs(60);

    const GATEWAY: DaemonKind = DaemonKind::Gateway;

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        folder
    }

    #[test]
    fn the_group_of_the_units_is_found_by_its_whole_name() {
        let others = "root:x:0:\nholdfast2:x:7:\nmy-holdfast:x:8:\n";
        assert_eq!(daemon_group(others), None);
        assert_eq!(
            daemon_group(&format!("{others}holdfast:x:990:a,b")),
            Some(990)
        );
        assert_eq!(daemon_group("holdfast:x:many:"), None);
    }

    #[test]
    fn an_interface_has_one_daemon_of_a_kind() {
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
        let path = folder.path().join(lock_name(GATEWAY, "wlan0").unwrap());
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        drop(first);
        // A child of another test has the lock's descriptor until it executes its program.
        let deadline = Instant::now() + LIMIT;
        while let Err(error) = take(GATEWAY, "wlan0") {
            assert!(Instant::now() < deadline, "{error:#}");
        }
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
    fn only_the_programs_own_directory_is_made_for_an_operator() {
        let folder = folder();
        let prepare = |path: &Path| prepare_parent(path, RUNTIME_DIRECTORY, "name another");
        let missing = folder.path().join("nope");
        let error = prepare(&missing.join("y.sock")).unwrap_err();
        let error = format!("{error:#}");
        assert!(
            error.contains("nope") && error.contains("name another"),
            "{error}"
        );
        assert!(!missing.exists());
        assert!(prepare(&folder.path().join("y.sock")).is_ok());
        assert!(prepare(Path::new("y.sock")).is_ok());
        let own = folder.path().join("own");
        prepare_parent(&own.join("key"), own.to_str().unwrap(), "run as root").unwrap();
        assert_eq!(own.metadata().unwrap().mode() & 0o777, 0o755);
    }
}
