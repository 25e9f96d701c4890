// SPDX-License-Identifier: Apache-2.0
//! The path of the settings file, and the file that exists already.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::runtime::{DaemonKind, SETTINGS_DIRECTORY, let_daemons_read, prepare_parent};
use crate::settings::example_files;

/// The limit of old files that are kept beside the new one.
const BACKUPS_MAX: u32 = 100;

/// The settings file that setup writes.
#[derive(Debug)]
pub(super) struct Target {
    path: PathBuf,
    /// The present content of the file.
    old: Option<Vec<u8>>,
}

impl Target {
    /// The file of a role, or the one that the operator names.
    ///
    /// Errors: the file exists and may not be replaced.
    pub(super) fn find(
        named: Option<&Path>,
        role: DaemonKind,
        may_replace: bool,
    ) -> anyhow::Result<Self> {
        let path = named.map_or_else(|| default_path(role), Path::to_path_buf);
        let shown = path.display();
        let old = match path.symlink_metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => bail!("{shown}: {error}; name another with --config"),
            Ok(found) if !found.is_file() => {
                bail!("{shown}: is there and is no regular file; name another with --config")
            }
            Ok(_) => Some(fs::read(&path).with_context(|| {
                format!("{shown}: cannot be read; run as root, or name another with --config")
            })?),
        };
        // The example is from a package: no operator has written it.
        let is_example = |old: &Vec<u8>| {
            example_files()
                .iter()
                .any(|(_, text)| text.as_bytes() == old)
        };
        if !may_replace && old.as_ref().is_some_and(|old| !is_example(old)) {
            bail!(
                "{shown}: is there already; --force replaces it and keeps the old one, --config names another"
            );
        }
        Ok(Self { path, old })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is the file that the role's service reads.
    pub(super) fn is_default(&self, role: DaemonKind) -> bool {
        self.path == default_path(role)
    }

    /// Writes the whole file or nothing. Returns the path of the old file's copy.
    pub(super) fn write(&self, text: &str) -> anyhow::Result<Option<PathBuf>> {
        let shown = self.path.display();
        let remedy = "make it, run as root, or name another file with --config";
        prepare_parent(&self.path, SETTINGS_DIRECTORY, remedy)?;
        let parent = self
            .path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        let failed =
            || format!("{shown}: cannot be written; run as root, or name another with --config");
        let mut file = tempfile::NamedTempFile::new_in(parent.unwrap_or(Path::new(".")))
            .with_context(failed)?;
        file.write_all(text.as_bytes()).with_context(failed)?;
        let_daemons_read(file.as_file()).with_context(failed)?;
        file.as_file().sync_all().with_context(failed)?;
        let backup = match &self.old {
            Some(old) => Some(self.back_up(old)?),
            None => None,
        };
        let placed = match backup {
            Some(_) => file.persist(&self.path),
            // A file that was made in the meantime stays.
            None => file.persist_noclobber(&self.path),
        };
        placed.map_err(|error| error.error).with_context(failed)?;
        Ok(backup)
    }

    /// Stores the old file under a name that is free.
    fn back_up(&self, old: &[u8]) -> anyhow::Result<PathBuf> {
        for number in 1..=BACKUPS_MAX {
            let mut name = self.path.clone().into_os_string();
            name.push(format!(".old{number}"));
            let backup = PathBuf::from(name);
            let mut options = OpenOptions::new();
            options.write(true).create_new(true).mode(0o600);
            match options.open(&backup) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                opened => {
                    let written = opened.and_then(|mut file| file.write_all(old));
                    return written
                        .map(|()| backup.clone())
                        .with_context(|| format!("{}: cannot be written", backup.display()));
                }
            }
        }
        bail!(
            "{}: has {BACKUPS_MAX} old files beside it; remove some of them",
            self.path.display()
        )
    }
}

fn default_path(role: DaemonKind) -> PathBuf {
    let name = match role {
        DaemonKind::Gateway => "holdfast.toml",
        DaemonKind::Mobile => "mobile.toml",
    };
    Path::new(SETTINGS_DIRECTORY).join(name)
}
