// SPDX-License-Identifier: Apache-2.0
//! `--check` of both daemons: which parts of the machine's configuration bypass or disturb the daemon,
//! and what to do about them.
//!
//! Nothing is changed: data paths are attached for a moment without a heartbeat, and pass
//! everything.

use std::fmt;
use std::io;
use std::process::Command;

use anyhow::bail;
use serde::Serialize;
use serde_json::Value;

use crate::terminal::{escaped_line, print_text};

pub(crate) mod interface;
pub(crate) mod offload;
pub(crate) mod signals;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
    /// As it should be.
    Fine,
    /// It may matter; the operator can judge it.
    Note,
    /// The daemon cannot work, or packets go round it.
    Problem,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    severity: Severity,
    /// The state that was found, and why it matters.
    what: String,
    /// What to do about it; empty when there is nothing to do.
    remedy: String,
}

impl Finding {
    pub(crate) fn fine(what: impl Into<String>) -> Self {
        Self {
            severity: Severity::Fine,
            what: what.into(),
            remedy: String::new(),
        }
    }

    pub(crate) fn note(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            severity: Severity::Note,
            what: what.into(),
            remedy: remedy.into(),
        }
    }

    pub(crate) fn problem(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            severity: Severity::Problem,
            what: what.into(),
            remedy: remedy.into(),
        }
    }

    /// The severity of the finding.
    pub(crate) const fn severity(&self) -> Severity {
        self.severity
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.severity {
            Severity::Fine => "ok",
            Severity::Note => "note",
            Severity::Problem => "PROBLEM",
        };
        write!(f, "{word:8}{}", escaped_line(&self.what))?;
        if !self.remedy.is_empty() {
            write!(f, "; {}", escaped_line(&self.remedy))?;
        }
        Ok(())
    }
}

/// Prints the findings, a line each.
///
/// Errors: one of them is a problem.
pub(crate) fn report_findings(findings: &[Finding]) -> anyhow::Result<()> {
    let lines = findings.iter().map(|finding| format!("{finding}\n"));
    print_text(&lines.collect::<String>())?;
    match problems(findings) {
        0 => Ok(()),
        problems => bail!("{problems} problem(s) found"),
    }
}

/// The number of problems among the findings.
pub(crate) fn problems(findings: &[Finding]) -> usize {
    let is_problem = |finding: &&Finding| finding.severity() == Severity::Problem;
    findings.iter().filter(is_problem).count()
}

/// Judges an attempt to attach, which takes no packet. `attach`: whether the programs detach by
/// themselves when the daemon dies.
pub(crate) fn check_data_path(interface: &str, attach: io::Result<bool>) -> Finding {
    match attach {
        Ok(true) => Finding::fine(format!("the data path attaches to {interface} (TCX)")),
        Ok(false) => Finding::note(
            format!("the data path attaches to {interface} by clsact: this kernel has no TCX"),
            "after a kill its programs stay, and pass everything",
        ),
        Err(error) => Finding::problem(format!("the data path: {error}"), remedy_for(&error)),
    }
}

fn remedy_for(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "run as root, or with CAP_NET_ADMIN and CAP_BPF in the first user namespace"
        }
        io::ErrorKind::NotFound if error.to_string().contains("/dev/net/tun") => {
            "modprobe tun, or give the container /dev/net/tun"
        }
        // The error's text has the command; the program that made the qdisc would make it again.
        io::ErrorKind::AlreadyExists => {
            "SQM and wondershaper make such a qdisc: take the interface out of their settings"
        }
        _ => "the kernel takes CONFIG_BPF_SYSCALL, CONFIG_NET_CLS_ACT, CONFIG_TUN",
    }
}

/// A tool's output. None if the tool does not exist, fails or prints no JSON.
fn tool_json(tool: &str, arguments: &[&str]) -> Option<Value> {
    let output = Command::new(tool).args(arguments).output().ok()?;
    serde_json::from_slice(&output.stdout)
        .ok()
        .filter(|_| output.status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_qdisc_where_clsact_would_be_is_a_problem_whose_remedy_is_not_the_kernels() {
        let text = "w0 has the qdisc \"ingress\"";
        let error = io::Error::new(io::ErrorKind::AlreadyExists, text);
        let finding = check_data_path("w0", Err(error));
        assert_eq!(finding.severity(), Severity::Problem);
        let shown = finding.to_string();
        assert!(
            shown.contains(text) && shown.contains("SQM") && !shown.contains("CONFIG"),
            "{shown}"
        );
    }
}
