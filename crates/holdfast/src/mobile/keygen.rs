// SPDX-License-Identifier: Apache-2.0
//! `holdfast mobile keygen`.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::Context as _;
use holdfast_core::signal::MobileKey;

use crate::status::print_text;

/// Makes a key and writes it to `file`, which must not be there yet, or prints it.
pub(super) fn run(file: Option<&Path>) -> anyhow::Result<()> {
    let key = MobileKey::from_random(super::random_bytes()?);
    let text = key.to_secret_text() + "\n";
    let Some(file) = file else {
        return print_text(&text);
    };
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())
                .and_then(|()| file.sync_all())
        })
        .with_context(|| {
            format!(
                "{}: the key cannot be written; name a file that is not there yet",
                file.display()
            )
        })?;
    print_text(&format!("key {} written to {}\n", key.id(), file.display()))
}
