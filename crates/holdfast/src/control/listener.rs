// SPDX-License-Identifier: Apache-2.0
//! The socket file of a daemon. Only its owner and group may connect. It replaces nothing but a socket
//! that no daemon serves.

use std::fs::{Metadata, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use rustix::fs::{Mode, fchmod};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};

use crate::runtime::{RUNTIME_DIRECTORY, prepare_parent};

/// The flag that names a daemon's control socket.
pub(crate) const CONTROL_SOCKET_FLAG: &str = "--control-socket";

/// Callers that the kernel lets wait until they are taken.
const BACKLOG: i32 = 128;

/// Who may connect: the owner and the group.
const MODE: u32 = 0o660;

/// A control socket that goes with its owner.
#[derive(Debug)]
pub(crate) struct ControlListener {
    listener: UnixListener,
    path: PathBuf,
    /// The socket file that was made.
    made: Metadata,
}

impl ControlListener {
    /// Listens at `path`, which comes from the flag or key `named_by`. A dead daemon's socket is replaced.
    ///
    /// Errors: one line that names the path and the remedy. A daemon serves there, or the file is no
    /// socket; neither is changed.
    pub(crate) fn bind(path: &Path, named_by: &str) -> anyhow::Result<Self> {
        let shown = path.display();
        let other = format!("name another path with {named_by}");
        prepare_parent(path, RUNTIME_DIRECTORY, &format!("make it, or {other}"))?;
        remove_abandoned(path, &other)?;
        let (listener, made) =
            listen_at(path).with_context(|| format!("{shown}: cannot listen there; {other}"))?;
        Ok(Self {
            listener,
            path: path.to_owned(),
            made,
        })
    }

    /// A copy of the listening socket, for the task that waits for callers.
    pub(crate) fn try_clone(&self) -> io::Result<UnixListener> {
        self.listener.try_clone()
    }
}

impl Drop for ControlListener {
    fn drop(&mut self) {
        // The file may have been replaced by another one.
        let made = (self.made.dev(), self.made.ino());
        let is_ours = |found: Metadata| (found.dev(), found.ino()) == made;
        if self.path.symlink_metadata().is_ok_and(is_ours) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Removes the socket of a daemon that was killed.
fn remove_abandoned(path: &Path, other: &str) -> anyhow::Result<()> {
    let shown = path.display();
    match path.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => bail!("{shown}: {error}; {other}"),
        Ok(found) if !found.file_type().is_socket() => {
            bail!("{shown}: is there and is no socket; remove it, or {other}")
        }
        Ok(_) => {}
    }
    match try_to_call(path) {
        Err(Errno::CONNREFUSED) => {
            std::fs::remove_file(path).with_context(|| format!("{shown}: cannot be replaced"))
        }
        // It was removed at this moment.
        Err(Errno::NOENT) => Ok(()),
        // AGAIN: the queue of callers is full, and the kernel takes no more.
        Ok(()) | Err(Errno::AGAIN) => {
            bail!("{shown}: another daemon listens there; stop it, or {other}")
        }
        Err(error) => bail!("{shown}: {error}; {other}"),
    }
}

/// Connects without waiting: a daemon that hangs accepts no caller.
fn try_to_call(path: &Path) -> Result<(), Errno> {
    let caller = unix_socket()?;
    connect(&caller, &SocketAddrUnix::new(path)?)
}

fn listen_at(path: &Path) -> io::Result<(UnixListener, Metadata)> {
    let socket = unix_socket()?;
    // The file gets the socket's mode, less the umask: others can never connect.
    fchmod(&socket, Mode::from_raw_mode(MODE))?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    let made = path.symlink_metadata()?;
    // Restores the bits that the umask has removed.
    std::fs::set_permissions(path, Permissions::from_mode(MODE))?;
    listen(&socket, BACKLOG)?;
    Ok((socket.into(), made))
}

fn unix_socket() -> Result<OwnedFd, Errno> {
    socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )
}

/// Leaves a socket as a daemon does that was killed. It never listened, so that a caller is refused even
/// while another test's child has its descriptor.
#[cfg(test)]
pub(crate) fn leave_abandoned(path: &Path) {
    let socket = unix_socket().expect("a socket");
    bind(&socket, &SocketAddrUnix::new(path).expect("a path")).expect("nothing is there");
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, mknodat};

    use super::*;

    fn refusal(path: &Path) -> String {
        format!(
            "{:#}",
            ControlListener::bind(path, CONTROL_SOCKET_FLAG).unwrap_err()
        )
    }

    #[test]
    fn what_is_no_socket_is_neither_replaced_nor_removed() {
        let folder = tempfile::tempdir().unwrap();
        let [file, fifo, link, directory, other] =
            ["file", "fifo", "link", "directory", "other"].map(|name| folder.path().join(name));
        std::fs::write(&file, "precious").unwrap();
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR, 0).unwrap();
        std::os::unix::fs::symlink(&other, &link).unwrap();
        std::fs::create_dir(&directory).unwrap();
        for path in [&file, &fifo, &link, &directory, Path::new("/dev/null")] {
            let error = refusal(path);
            assert!(
                error.contains("is no socket") && error.contains("--control-socket"),
                "{error}"
            );
            assert!(path.symlink_metadata().is_ok(), "{path:?}");
        }
        assert_eq!(std::fs::read(&file).unwrap(), b"precious");
        // One that is replaced while the daemon runs stays at its end.
        let listener = ControlListener::bind(&other, CONTROL_SOCKET_FLAG).unwrap();
        std::fs::remove_file(&other).unwrap();
        std::fs::write(&other, "precious").unwrap();
        drop(listener);
        assert_eq!(std::fs::read(&other).unwrap(), b"precious");
    }

    #[test]
    fn a_socket_is_replaced_if_no_daemon_serves_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        leave_abandoned(&path);
        let listener = ControlListener::bind(&path, CONTROL_SOCKET_FLAG).unwrap();
        assert!(refusal(&path).contains("another daemon listens there"));
        // With more callers than it takes as well.
        let mut callers = Vec::new();
        while callers.len() < 2 * BACKLOG as usize && try_to_call(&path).is_ok() {
            let caller = unix_socket().unwrap();
            if connect(&caller, &SocketAddrUnix::new(&path).unwrap()).is_err() {
                break;
            }
            callers.push(caller);
        }
        assert!(refusal(&path).contains("another daemon listens there"));
        drop(listener);
        assert!(!path.exists());
    }
}
