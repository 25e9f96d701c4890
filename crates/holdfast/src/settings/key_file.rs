// SPDX-License-Identifier: Apache-2.0
//! A file with a key, as `holdfast mobile keygen` makes it.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use holdfast_core::signal::MobileKey;
use holdfast_files::read_up_to;

/// Longest key file, in bytes.
const KEY_FILE_BYTES_MAX: u64 = 4096;

/// Reads a key file; the error is one line that names it.
pub(super) fn read_key(path: &Path) -> Result<MobileKey, String> {
    let shown = path.display();
    let unreadable = |error: std::io::Error| {
        let remedy = match error.kind() {
            ErrorKind::PermissionDenied => readable_by_daemons(path),
            _ => format!("make it with `holdfast mobile keygen {shown}`"),
        };
        format!("{shown} cannot be read: {error}; {remedy}")
    };
    let text = read_up_to(path, KEY_FILE_BYTES_MAX).map_err(unreadable)?;
    let key = text.parse().map_err(|_| {
        format!("{shown} holds no key; takes a file made by `holdfast mobile keygen`")
    })?;
    warn_of_readers(path);
    Ok(key)
}

/// The remedy for a file that this user may not read.
pub(super) fn readable_by_daemons(path: &Path) -> String {
    let shown = path.display();
    format!(
        "run as root, or for the user of the units: chgrp holdfast {shown} && chmod 640 {shown}"
    )
}

/// Warns if other users can read a key: they could send signals for its owner. It is no error: an upgrade
/// must not stop a daemon.
pub(super) fn warn_of_readers(path: &Path) {
    if others_may_use(path) {
        let shown = path.display();
        tracing::warn!("{shown}: other users can read or change the key in it; chmod 600 {shown}");
    }
}

/// Whether other users can use the file. A pipe has no other readers.
fn others_may_use(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|found| found.is_file() && found.mode() & 0o027 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_others_can_read_is_noticed_and_a_file_without_an_end_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let file = tempfile::NamedTempFile::new().unwrap();
        for (mode, others) in [
            (0o600, false),
            (0o400, false),
            (0o640, false),
            (0o644, true),
            (0o620, true),
            (0o602, true),
        ] {
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(file.path(), mode.clone()).unwrap();
            assert_eq!(others_may_use(file.path()), others, "{mode:?}");
        }
        assert!(!others_may_use(Path::new("/dev/null")));
        let error = read_key(Path::new("/dev/zero")).unwrap_err();
        assert!(error.contains("not a file or a pipe"), "{error}");
    }
}
