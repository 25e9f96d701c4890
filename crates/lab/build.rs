// SPDX-License-Identifier: Apache-2.0
//! The commit from which the lab is built, for its results. `-dirty` follows if the tree
//! differs from the commit. And the repository's scenarios, for the program itself.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

/// What results depend on, from the repository's root.
const SOURCES: [&str; 4] = ["crates", "bpf", "Cargo.toml", "Cargo.lock"];
/// Crates whose changes are looked for: those that results come from.
const CRATES: [&str; 10] = [
    "wire", "settings", "core", "link", "files", "sim", "net", "testbed", "lab", "holdfast",
];
/// Folders whose scenarios and claims are in the program, from the repository's root.
const LIBRARY: [&str; 2] = ["docs/scenarios", "papers"];

fn main() -> io::Result<()> {
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
    write_library(&root.canonicalize()?)
}

/// Writes the table of the library's files: `src/library.rs` includes it.
fn write_library(root: &Path) -> io::Result<()> {
    let mut files = Vec::new();
    for folder in LIBRARY {
        let folder = root.join(folder);
        println!("cargo::rerun-if-changed={}", folder.display());
        find(&folder, &mut files)?;
    }
    files.sort();
    let mut text = String::from("static FILES: &[(&str, &str)] = &[\n");
    for file in files {
        let name = file.strip_prefix(root).map_err(io::Error::other)?;
        // Writing to a string does not fail.
        let [name, file] = [literal(name)?, literal(&file)?];
        let _ = writeln!(text, "    ({name}, include_str!({file})),");
    }
    text.push_str("];\n");
    let folder = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("no OUT_DIR"))?;
    fs::write(Path::new(&folder).join("library.rs"), text)
}

/// A path as a literal of Rust.
fn literal(path: &Path) -> io::Result<String> {
    let text = path.to_str();
    let text = text.ok_or_else(|| io::Error::other("a path is not UTF-8"))?;
    Ok(format!("{text:?}"))
}

/// The files of TOML in a folder and in the folders in it.
fn find(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            find(&path, files)?;
        } else if path.extension().is_some_and(|ending| ending == "toml") {
            files.push(path);
        }
    }
    Ok(())
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
