// SPDX-License-Identifier: Apache-2.0
//! The commit from which the lab is built, for its results. `-dirty` follows if the tree
//! differs from the commit.

use std::path::Path;
use std::process::Command;

/// What results depend on, from the repository's root.
const SOURCES: [&str; 4] = ["crates", "bpf", "Cargo.toml", "Cargo.lock"];
/// Crates whose changes are looked for: those that results come from.
const CRATES: [&str; 10] = [
    "wire", "settings", "core", "link", "files", "sim", "net", "testbed", "lab", "holdfast",
];

fn main() {
    let root = Path::new("../..");
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).map(|commit| {
        let changes = ["--no-optional-locks", "status", "--porcelain", "--"];
        let sources = SOURCES.map(|source| format!(":/{source}"));
        let arguments: Vec<&str> = changes
            .into_iter()
            .chain(sources.iter().map(String::as_str))
            .collect();
        match git(&arguments) {
            Some(changes) if changes.is_empty() => commit,
            _ => format!("{commit}-dirty"),
        }
    });
    let commit = commit.unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=HOLDFAST_COMMIT={commit}");
    println!("cargo::rerun-if-changed=build.rs");
    let sources = CRATES.map(|name| root.join("crates").join(name).join("src"));
    // The log moves with HEAD.
    for path in sources
        .into_iter()
        .chain([root.join("bpf"), root.join(".git/logs/HEAD")])
    {
        if path.exists() {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
}

/// The output of git; none if it failed.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = output
        .status
        .success()
        .then(|| String::from_utf8(output.stdout))?;
    Some(text.ok()?.trim().to_owned())
}
