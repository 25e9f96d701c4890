// SPDX-License-Identifier: Apache-2.0
//! The exchange between the host and the first program inside: a command line, and files in the job's
//! folder.

use serde::{Deserialize, Serialize};

/// The arguments of our own binary as the first program. They have to lead to
/// [`be_init`](super::be_init).
pub(super) const INSIDE_ARGUMENTS: [&str; 2] = ["lab", "inside"];

/// The file with the [`Request`].
pub(super) const REQUEST_FILE: &str = "virtual-job.json";
/// The file with the [`Reply`].
pub(super) const REPLY_FILE: &str = "virtual-outcome.json";
/// A link to the command's current folder, if that is not the job's.
pub(super) const FOLDER_FILE: &str = "virtual-folder";
/// The files with the command's output.
pub(super) const STDOUT_FILE: &str = "stdout";
pub(super) const STDERR_FILE: &str = "stderr";

/// The command that the first program runs.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Request {
    pub program: String,
    pub arguments: Vec<String>,
    pub environment: Vec<(String, String)>,
    /// Whether there is a [`FOLDER_FILE`].
    pub has_folder: bool,
}

/// The end of the command.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Reply {
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub virtual_s: f64,
    /// Why the command could not be run.
    pub error: Option<String>,
}
