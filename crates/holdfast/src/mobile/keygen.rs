// SPDX-License-Identifier: Apache-2.0
//! `holdfast mobile keygen`.

use std::fs::{DirBuilder, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use anyhow::{Context as _, bail};
use holdfast_core::signal::MobileKey;

use crate::status::print_text;

/// Where the settings are, as the documentation has it.
const SETTINGS_DIRECTORY: &str = "/etc/holdfast";

/// Makes a key and writes it to `file`, which must not be there yet, or prints it.
pub(super) fn run(file: Option<&Path>) -> anyhow::Result<()> {
    let key = MobileKey::from_random(super::random_bytes()?);
    let text = key.to_secret_text() + "\n";
    let Some(file) = file else {
        return print_text(&text);
    };
    prepare_directory(file, Path::new(SETTINGS_DIRECTORY))?;
    let shown = file.display();
    let opened = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file);
    let mut output = opened.with_context(|| {
        format!("{shown}: the key cannot be written; name a file that is not there yet")
    })?;
    let written = output
        .write_all(text.as_bytes())
        .and_then(|()| output.sync_all());
    if let Err(error) = written {
        // Half a key is of no use, and in the way of the next try.
        let _ = std::fs::remove_file(file);
        return Err(error).with_context(|| format!("{shown}: the key cannot be written"));
    }
    print_text(&format!("key {} written to {shown}\n", key.id()))
}

/// Makes the directory of the settings if that alone is missing, and no other: a path with a
/// typing error is to be seen.
fn prepare_directory(file: &Path, settings: &Path) -> anyhow::Result<()> {
    let Some(directory) = file.parent().filter(|path| !path.as_os_str().is_empty()) else {
        return Ok(());
    };
    if directory.exists() {
        return Ok(());
    }
    let shown = directory.display();
    if directory == settings {
        let made = DirBuilder::new().mode(0o755).create(directory);
        return made.with_context(|| format!("{shown}: the directory cannot be made; run as root"));
    }
    bail!("{shown}: there is no such directory; make it first: install -d {shown}")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_directory_of_the_settings_is_made_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let settings = folder.path().join("holdfast");
        prepare_directory(&settings.join("mobile.key"), &settings).unwrap();
        let mode = settings.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755);
        prepare_directory(&settings.join("mobile.key"), &settings).unwrap();
        let other = folder.path().join("hodlfast");
        let error = prepare_directory(&other.join("mobile.key"), &settings).unwrap_err();
        let remedy = format!("install -d {}", other.display());
        assert!(error.to_string().ends_with(&remedy), "{error}");
        assert!(!other.exists());
        assert!(prepare_directory(Path::new("mobile.key"), &settings).is_ok());
    }
}
