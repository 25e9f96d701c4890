// SPDX-License-Identifier: Apache-2.0
//! What scenarios run on. A scenario never names one.
//!
//! | | endpoints | time |
//! | --- | --- | --- |
//! | `model` | the simulator's TCP hosts | virtual, the same to the bit everywhere |
//! | `linux` | Linux TCP inside of a virtual kernel | virtual |
//! | `live` | Linux TCP in network namespaces of this kernel | wall clock |

mod linux;
pub mod live;
mod model;

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::results::ResultLine;
use crate::scenario::Run;
use crate::stop::StopFlag;
use crate::virtual_kernel::VirtualKernel;

/// One of the substrates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubstrateKind {
    /// The simulator.
    Model,
    /// Real Linux TCP in a virtual kernel.
    Linux,
    /// Real Linux TCP in network namespaces of the running kernel.
    Live,
}

impl SubstrateKind {
    /// Its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Linux => "linux",
            Self::Live => "live",
        }
    }

    /// Runs at a time unless told otherwise: as many as disturb no result.
    pub fn jobs_default(self) -> usize {
        match self {
            Self::Model | Self::Linux => {
                std::thread::available_parallelism().map_or(1, usize::from)
            }
            Self::Live => 1,
        }
    }
}

/// How runs are to be carried out.
#[derive(Clone, Debug)]
pub struct ExecutionSettings {
    /// Our own binary.
    pub holdfast: PathBuf,
    /// What results call the substrate, if not by its own name.
    pub label: Option<String>,
    /// A folder, which must exist, for the packets of each run.
    pub pcap: Option<PathBuf>,
}

/// A substrate ready to carry out runs, several at a time.
#[derive(Debug)]
pub struct Substrate {
    kind: SubstrateKind,
    settings: ExecutionSettings,
    files: Mutex<live::ServedFiles>,
    kernel: Option<VirtualKernel>,
}

impl Substrate {
    /// Makes it ready.
    ///
    /// # Errors
    /// There is no virtual kernel for `linux`; says how to make one.
    pub fn new(kind: SubstrateKind, settings: ExecutionSettings) -> anyhow::Result<Self> {
        let kernel = match kind {
            SubstrateKind::Linux => Some(VirtualKernel::require()?),
            SubstrateKind::Model | SubstrateKind::Live => None,
        };
        Ok(Self {
            kernel,
            kind,
            settings,
            files: Mutex::new(live::ServedFiles::default()),
        })
    }

    /// Which one it is.
    pub fn kind(&self) -> SubstrateKind {
        self.kind
    }

    /// Why this substrate cannot carry out `run`, and what can; none: it can.
    pub fn refusal(&self, run: &Run) -> Option<String> {
        match self.kind {
            SubstrateKind::Model => model::refusal(&run.conditions),
            SubstrateKind::Linux | SubstrateKind::Live => live::refusal(&run.conditions),
        }
    }

    /// Carries out one run.
    ///
    /// # Errors
    /// What the substrate cannot do, what is missing on this machine; `Interrupted` if
    /// `stop` was raised. A transfer that does not finish is a result.
    pub fn execute(&self, run: &Run, stop: &StopFlag) -> anyhow::Result<ResultLine> {
        stop.check()?;
        if let Some(refusal) = self.refusal(run) {
            anyhow::bail!(refusal);
        }
        let mut line = match (self.kind, &self.kernel) {
            (SubstrateKind::Model, _) => model::execute(run, self.settings.pcap.as_deref())?,
            (SubstrateKind::Linux, Some(kernel)) => {
                linux::execute(run, kernel, &self.settings, stop)?
            }
            (SubstrateKind::Linux, None) => anyhow::bail!("the virtual kernel is gone"),
            (SubstrateKind::Live, _) => live::execute(run, &self.settings, &self.files, stop)?,
        };
        if let Some(label) = &self.settings.label {
            line.substrate.clone_from(label);
        }
        Ok(line)
    }
}

/// A run's file of packets in `folder`.
fn trace_file(folder: &Path, run: &Run, part: &str) -> PathBuf {
    folder.join(trace_name(run, part))
}

/// The file's name: scenario, variant and seed, and what the file is of.
fn trace_name(run: &Run, part: &str) -> String {
    let mut name = format!("{} {} seed={} {part}", run.scenario, run.variant, run.seed);
    name = name
        .trim()
        .chars()
        .map(|c| {
            if c.is_alphanumeric() || "=.+-".contains(c) {
                c
            } else {
                '-'
            }
        })
        .collect();
    format!("{name}.pcapng")
}
