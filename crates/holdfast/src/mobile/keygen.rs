// SPDX-License-Identifier: Apache-2.0
//! `holdfast mobile keygen`.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::Context as _;
use holdfast_core::signal::MobileKey;

use crate::runtime::{SETTINGS_DIRECTORY, let_daemons_read, prepare_parent, random_bytes};
use crate::terminal::print_text;

/// Makes a key and writes it to `file`, which must not exist yet, or prints it.
pub(super) fn run(file: Option<&Path>) -> anyhow::Result<()> {
    let key = MobileKey::from_random(random_bytes()?);
    let text = key.to_secret_text() + "\n";
    let Some(file) = file else {
        return print_text(&text);
    };
    let remedy = "make it first (install -d), or run as root";
    prepare_parent(file, SETTINGS_DIRECTORY, remedy)?;
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
        .and_then(|()| let_daemons_read(&output))
        .and_then(|()| output.sync_all());
    if let Err(error) = written {
        // Half a key is useless, and prevents the next attempt.
        let _ = std::fs::remove_file(file);
        return Err(error).with_context(|| format!("{shown}: the key cannot be written"));
    }
    print_text(&format!("key {} written to {shown}\n", key.id()))
}
