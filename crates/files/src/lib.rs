// SPDX-License-Identifier: Apache-2.0
//! Files that a user names: read up to a limit, and overwritten only if they begin like our own output;
//! [settings](document) with errors that name the key, and [traces of packets](packet_trace).

pub mod document;
pub mod packet_trace;

use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

/// How a file of packets (pcapng) begins.
pub const PCAPNG: &[u8] = &[0x0a, 0x0d, 0x0d, 0x0a];

/// How a file of JSON lines begins.
pub const JSON_LINES: &[u8] = b"{";

/// Folders of the pipes that this process has already open: `<(...)` of a shell.
const OPEN_PIPES: [&str; 2] = ["/dev/fd", "/proc"];

/// The text of the file or pipe (`--config <(...)`) that the path names, up to `bytes_max` bytes.
///
/// # Errors
/// It cannot be read, is a device (which may have no end) or a named pipe, is longer, or is no text.
pub fn read_up_to(path: &Path, bytes_max: u64) -> io::Result<String> {
    let kind = path.metadata()?.file_type();
    if kind.is_char_device() || kind.is_block_device() || kind.is_socket() {
        return Err(io::Error::other("not a file or a pipe"));
    }
    if kind.is_fifo() && !OPEN_PIPES.iter().any(|open| path.starts_with(open)) {
        return Err(io::Error::other("a named pipe, which may have no writer"));
    }
    let file = File::open(path)?;
    let mut octets = Vec::new();
    // The file may grow while it is read.
    let read = file.take(bytes_max + 1).read_to_end(&mut octets)? as u64;
    if read > bytes_max {
        let problem = format!("longer than {bytes_max} bytes, the most that is taken");
        return Err(io::Error::other(problem));
    }
    String::from_utf8(octets)
        .map_err(|_| io::Error::new(ErrorKind::InvalidData, "not text in UTF-8"))
}

/// Makes a file to write to, or empties one whose content `begins` like ours.
///
/// # Errors
/// It cannot be written, or there is other content, which stays as it is.
pub fn create(path: &Path, begins: &[u8]) -> io::Result<File> {
    check_overwritable(path, begins)?;
    File::create(path)
}

/// Whether [`create`] would make or empty this file.
///
/// # Errors
/// There is other content.
pub fn check_overwritable(path: &Path, begins: &[u8]) -> io::Result<()> {
    let found = match path.metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let parent = path
                .parent()
                .filter(|parent| !parent.as_os_str().is_empty());
            return match parent.map(Path::metadata) {
                Some(Err(_)) => Err(io::Error::other("there is no such folder; make it")),
                _ => Ok(()),
            };
        }
        found => found?,
    };
    let kind = found.file_type();
    if kind.is_dir() {
        return Err(io::Error::from(ErrorKind::IsADirectory));
    }
    if kind.is_block_device() {
        return Err(io::Error::other("a block device is not overwritten"));
    }
    if !kind.is_file() || found.len() == 0 {
        // /dev/null and pipes lose nothing.
        return Ok(());
    }
    let mut first = vec![0; begins.len()];
    let read = File::open(path)?
        .take(begins.len() as u64)
        .read(&mut first)?;
    if first[..read] != *begins {
        let problem = "is there and is no earlier output of this kind; remove it, or name another";
        return Err(io::Error::new(ErrorKind::AlreadyExists, problem));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn no_file_is_read_beyond_its_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        fs::write(&path, "12345").unwrap();
        assert_eq!(read_up_to(&path, 5).unwrap(), "12345");
        let error = |path: &Path| read_up_to(path, 4).unwrap_err().to_string();
        assert_eq!(error(&path), "longer than 4 bytes, the most that is taken");
        assert_eq!(error(Path::new("/dev/zero")), "not a file or a pipe");
        assert!(read_up_to(folder.path(), 4).is_err());
        let fifo = folder.path().join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status();
        assert!(made.unwrap().success());
        assert!(error(&fifo).starts_with("a named pipe"));
    }

    #[test]
    fn what_is_not_of_our_making_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "precious").unwrap();
        for begins in [PCAPNG, JSON_LINES] {
            let error = create(&path, begins).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::AlreadyExists);
            assert_eq!(fs::read(&path).unwrap(), b"precious");
        }
        for earlier in ["{\"event\":1}\n", ""] {
            fs::write(&path, earlier).unwrap();
            drop(create(&path, JSON_LINES).unwrap());
            assert_eq!(fs::read(&path).unwrap(), b"");
        }
        assert!(create(&folder.path().join("new"), PCAPNG).is_ok());
        assert!(create(Path::new("/dev/null"), PCAPNG).is_ok());
        assert!(create(folder.path(), PCAPNG).is_err());
    }
}
