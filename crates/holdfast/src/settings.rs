// SPDX-License-Identifier: Apache-2.0
//! Settings: TOML files and the flags that override them.
//!
//! Every key is written once, as a field of a struct of `holdfast-settings`: the reader, the errors,
//! `docs/settings.md` and the example files all come from there. An error names the file (or
//! flag), the key, its value and what it takes.

mod document;
mod file;
mod gateway;
mod key_file;
mod keys;
mod manual;
mod mobile;
mod reload;

use std::fmt;
use std::path::PathBuf;

use holdfast_settings::metrics::MetricsSettings;
use holdfast_settings::text::Listen;
use holdfast_settings::web::WebSettings;

pub(crate) use document::{example_files, settings_page};
pub(crate) use gateway::{
    FILTER_VARIABLE, GatewayArgs, GatewayCommand, GatewaySettings, LogFormat, SchemeName,
    StationSettings, interface as interface_name,
};
pub(crate) use holdfast_settings::gateway::GATEWAY_SOCKET;
pub(crate) use holdfast_settings::mobile::MOBILE_SOCKET;
pub(crate) use manual::{MANUAL_FILE, settings_manual};
pub(crate) use mobile::{
    Cell, MobileDaemonArgs, MobileSettings, ModemChoice, SourceSettings, UplinkSettings, resolve,
};
pub(crate) use reload::{Reloaded, nothing_changed};

/// Exit status for settings and usage that cannot be right: `EX_USAGE` of sysexits.h.
pub(crate) const EXIT_USAGE: u8 = 64;

/// Settings that cannot be used. One line; the process ends with [`EXIT_USAGE`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SettingsError {
    /// The file, or `None` for the command line.
    file: Option<PathBuf>,
    /// The key or flag, as the operator writes it.
    key: Option<String>,
    /// What is wrong and what is right.
    problem: String,
}

impl SettingsError {
    /// An error in the command line, described by `problem`.
    pub(crate) fn of(problem: impl Into<String>) -> Self {
        Self {
            file: None,
            key: None,
            problem: problem.into(),
        }
    }

    /// An error in a file as a whole.
    fn in_file(file: &std::path::Path, problem: impl Into<String>) -> Self {
        Self {
            file: Some(file.to_owned()),
            key: None,
            problem: problem.into(),
        }
    }

    /// An error in one key of a file; without a file, of the command line.
    pub(crate) fn at_key(
        file: Option<&std::path::Path>,
        key: impl Into<String>,
        problem: impl Into<String>,
    ) -> Self {
        Self {
            file: file.map(std::path::Path::to_owned),
            key: Some(key.into()),
            problem: problem.into(),
        }
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}: ", file.display())?;
        }
        if let Some(key) = &self.key {
            write!(f, "key `{key}`: ")?;
        }
        f.write_str(&self.problem)
    }
}

impl std::error::Error for SettingsError {}

/// Refuses a live page at the address of the metrics. `flag` is the page's address on the command line.
fn refuse_shared_address(
    file: &file::SettingsFile,
    metrics: &MetricsSettings,
    web: &WebSettings,
    flag: Option<&Listen>,
) -> Result<(), SettingsError> {
    let (Some(page), Some(metrics_at)) = (&web.listen, &metrics.listen) else {
        return Ok(());
    };
    if !page.overlaps(metrics_at) {
        return Ok(());
    }
    let (shown, taken) = (page.to_string(), metrics_at.to_string());
    let problem = if page == metrics_at {
        format!("got {shown:?}, which metrics.listen has too; takes another port or path")
    } else {
        format!("got {shown:?}, at the port of metrics.listen ({taken:?}); takes another port")
    };
    Err(match flag {
        Some(_) => SettingsError::at_key(None, "--web", problem),
        None => file.section("web").error("listen", problem),
    })
}

#[cfg(test)]
mod tests;
