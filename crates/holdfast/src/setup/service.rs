// SPDX-License-Identifier: Apache-2.0
//! The daemon as a service of systemd.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use serde::Serialize;

use super::target::Target;
use crate::runtime::DaemonKind;

/// The directory that shows that systemd runs: sd_booted(3).
const BOOTED: &str = "/run/systemd/system";

/// What setup has done with the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Service {
    /// It was not to be started.
    NotAsked,
    /// It is enabled and runs.
    Started,
    /// systemd does not run here, or has no such unit.
    None,
    /// The unit reads another file.
    OtherFile,
    /// The check has found a problem.
    Problems,
}

pub(super) const fn unit(role: DaemonKind) -> &'static str {
    match role {
        DaemonKind::Gateway => "holdfast-gateway",
        DaemonKind::Mobile => "holdfast-mobile",
    }
}

/// Enables and starts the role's unit. A unit that runs is restarted with the new settings.
pub(super) fn start(role: DaemonKind, target: &Target, problems: usize) -> anyhow::Result<Service> {
    if problems > 0 {
        return Ok(Service::Problems);
    }
    if !target.is_default(role) {
        return Ok(Service::OtherFile);
    }
    let unit = unit(role);
    if !Path::new(BOOTED).is_dir() || !systemctl(&["cat", unit])? {
        return Ok(Service::None);
    }
    for order in ["enable", "restart"] {
        if !systemctl(&[order, unit])? {
            bail!("systemctl {order} {unit} has failed; see: journalctl -u {unit}");
        }
    }
    Ok(Service::Started)
}

fn systemctl(arguments: &[&str]) -> anyhow::Result<bool> {
    let mut command = Command::new("systemctl");
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let status = command.status().context("systemctl cannot be started")?;
    Ok(status.success())
}

impl Service {
    /// A line for people: what was done, or what to do.
    pub(super) fn text(self, role: &str, file: &Path, problems: usize) -> String {
        let unit = format!("holdfast-{role}");
        let command = format!("holdfast {role} --config {}", file.display());
        match self {
            Self::Started => format!("{unit} is enabled and runs; see: holdfast status\n"),
            Self::Problems => format!(
                "{problems} problem(s) found: {unit} was not started; solve them, and see: {command} --check\n"
            ),
            Self::NotAsked => format!("start it: systemctl enable --now {unit}, or {command}\n"),
            Self::None => format!("no unit {unit} of systemd was found; start it: {command}\n"),
            Self::OtherFile => format!("{unit} reads another file; start it: {command}\n"),
        }
    }
}
