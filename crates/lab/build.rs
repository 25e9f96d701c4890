// SPDX-License-Identifier: Apache-2.0
//! Tells the lab which commit it is built from: results carry it.

use std::path::Path;
use std::process::Command;

fn main() {
    let commit = Command::new("git")
        .args(["rev-parse", "--short=12", "HEAD"])
        .output()
        .ok()
        .filter(|output| output.status.success())
        .and_then(|output| String::from_utf8(output.stdout).ok());
    let commit = commit.map_or("unknown".to_owned(), |text| text.trim().to_owned());
    println!("cargo::rustc-env=HOLDFAST_COMMIT={commit}");
    println!("cargo::rerun-if-changed=build.rs");
    // Moves with HEAD.
    let log = Path::new("../../.git/logs/HEAD");
    if log.exists() {
        println!("cargo::rerun-if-changed={}", log.display());
    }
}
