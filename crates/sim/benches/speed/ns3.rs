// SPDX-License-Identifier: Apache-2.0
//! The same flow in ns-3 (`benches/ns3/flow.cc`), compiled where its library is.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Run;

const PACKAGES: [&str; 3] = ["ns3-internet", "ns3-point-to-point", "ns3-applications"];

/// The compiled program.
pub(crate) struct Flow {
    program: PathBuf,
    /// Of ns-3.
    pub(crate) version: String,
}

impl Flow {
    /// Compiles it.
    ///
    /// # Errors
    /// What is missing, in one line.
    pub(crate) fn compile() -> Result<Self, String> {
        let version = pkg_config(&["--modversion", PACKAGES[0]])?;
        // The files also name libraries and folders that Debian's package does not bring.
        let flags = pkg_config(
            &["--cflags", "--libs"]
                .iter()
                .chain(&PACKAGES)
                .copied()
                .collect::<Vec<_>>(),
        )?;
        let wanted = |flag: &&str| {
            flag.starts_with("-lns3")
                || flag.starts_with("-L")
                || flag
                    .strip_prefix("-I")
                    .is_some_and(|folder| Path::new(folder).is_dir())
        };
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ns3-flow");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/ns3/flow.cc");
        let compiled = Command::new("c++")
            .args(["-O2", "-std=c++17", "-o"])
            .arg(&program)
            .arg(source)
            .args(flags.split_whitespace().filter(wanted))
            .output()
            .map_err(|error| format!("c++ ({error}); on Debian: apt install g++"))?;
        if !compiled.status.success() {
            let why = String::from_utf8_lossy(&compiled.stderr);
            let line = why
                .lines()
                .find(|line| line.contains("error"))
                .unwrap_or("c++ failed");
            return Err(format!("{source}: {line}"));
        }
        Ok(Self { program, version })
    }

    /// One transfer of `bytes`.
    ///
    /// # Errors
    /// It did not finish.
    pub(crate) fn run(&self, bytes: u64) -> Result<Run, String> {
        let output = Command::new(&self.program)
            .arg(bytes.to_string())
            .output()
            .map_err(|error| format!("{}: {error}", self.program.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let mut values = text.split_whitespace().map(str::parse::<f64>);
        let (Some(Ok(received)), Some(Ok(virtual_s)), Some(Ok(wall_s)), Some(Ok(events))) =
            (values.next(), values.next(), values.next(), values.next())
        else {
            return Err(format!("ns-3: printed `{}`", text.trim()));
        };
        if received as u64 != bytes {
            return Err(format!("ns-3: {received} of {bytes} bytes arrived"));
        }
        Ok(Run {
            virtual_s,
            wall_s,
            events: events as u64,
        })
    }
}

fn pkg_config(arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("pkg-config")
        .args(arguments)
        .output()
        .map_err(|_| "no pkg-config; on Debian: apt install pkgconf libns3-dev g++".to_owned())?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    } else {
        Err(format!(
            "no {}; on Debian: apt install libns3-dev",
            PACKAGES.join(", ")
        ))
    }
}
