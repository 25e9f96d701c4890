// SPDX-License-Identifier: Apache-2.0
//! The substrates that execute scenarios. A scenario never names one.
//!
//! | | endpoints | time |
//! | --- | --- | --- |
//! | `model` | the simulator's TCP hosts | virtual, the same to the bit everywhere |
//! | `linux` | Linux TCP inside of a virtual kernel | virtual |
//! | `live` | Linux TCP in network namespaces of this kernel | wall clock |

mod conditions;
#[cfg(test)]
mod each_key;
mod ignored;
mod linux;
pub mod live;
mod model;

use std::path::{Path, PathBuf};

use holdfast_testbed::stop::StopFlag;

use crate::results::ResultLine;
use crate::scenario::Run;
use crate::virtual_kernel::VirtualKernel;
use ignored::Reader;

/// The kind of a substrate.
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

    /// The default number of parallel runs: this number changes no result.
    pub fn jobs_default(self) -> usize {
        match self {
            Self::Model | Self::Linux => {
                std::thread::available_parallelism().map_or(1, usize::from)
            }
            Self::Live => 1,
        }
    }
}

/// Why a substrate cannot execute a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What the substrate lacks.
    pub lacks: Lacking,
    /// One line: the key, its value, and the substrates that can execute the run.
    pub why: String,
}

impl Refusal {
    /// A refusal for this reason; `on` names the substrates that can execute the run.
    fn new(lacks: Lacking, why: &str, on: &str) -> Self {
        let separator = if why.contains(';') { ", or" } else { ";" };
        Self {
            lacks,
            why: format!("{why}{separator} run it on {on}"),
        }
    }
}

/// What a substrate lacks for a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lacking {
    /// The run's scheme. The scenario's other runs are still useful.
    Scheme,
    /// The run's hosts. They are the subject of the scenario, so all of its runs are refused.
    Hosts,
    /// A key that the run sets. The scenario's other runs may not need it.
    Setting,
}

impl SubstrateKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Model, Self::Linux, Self::Live];

    /// Why it cannot execute `run`, and which substrate can; none: it can.
    pub fn refusal(self, run: &Run) -> Option<Refusal> {
        match self {
            Self::Model => {
                model::refusal(&run.conditions).or_else(|| ignored::refusal(run, Reader::Model))
            }
            Self::Linux | Self::Live => {
                live::refusal(&run.conditions).or_else(|| ignored::refusal(run, Reader::Kernel))
            }
        }
    }

    /// The number of a scenario's runs that it can execute; 0 if it lacks the hosts of one run.
    pub fn takes(self, runs: &[Run]) -> usize {
        let refusals: Vec<Refusal> = runs.iter().filter_map(|run| self.refusal(run)).collect();
        if refusals
            .iter()
            .any(|refusal| refusal.lacks == Lacking::Hosts)
        {
            0
        } else {
            runs.len() - refusals.len()
        }
    }
}

/// The settings for the execution of runs.
#[derive(Clone, Debug)]
pub struct ExecutionSettings {
    /// Our own binary.
    pub holdfast: PathBuf,
    /// The substrate's name in results, if it is not its own name.
    pub label: Option<String>,
    /// An existing folder for the packet files of each run.
    pub pcap: Option<PathBuf>,
}

/// A substrate that is ready to execute runs, several at a time.
#[derive(Debug)]
pub struct Substrate {
    kind: SubstrateKind,
    settings: ExecutionSettings,
    kernel: Option<VirtualKernel>,
}

impl Substrate {
    /// Prepares the substrate.
    ///
    /// # Errors
    /// `linux` needs a virtual kernel, and there is none; the error names the command that builds
    /// it.
    pub fn new(kind: SubstrateKind, settings: ExecutionSettings) -> anyhow::Result<Self> {
        let kernel = match kind {
            SubstrateKind::Linux => Some(VirtualKernel::require()?),
            SubstrateKind::Model | SubstrateKind::Live => None,
        };
        Ok(Self {
            kind,
            settings,
            kernel,
        })
    }

    /// The kind of this substrate.
    pub fn kind(&self) -> SubstrateKind {
        self.kind
    }

    /// Why this substrate cannot execute `run`, and which one can; none: it can.
    pub fn refusal(&self, run: &Run) -> Option<Refusal> {
        self.kind.refusal(run)
    }

    /// Executes one run.
    ///
    /// # Errors
    /// The substrate cannot execute the run, or this machine lacks something; `Interrupted` if
    /// `stop` was raised. A transfer that does not finish is a result.
    pub fn execute(&self, run: &Run, stop: &StopFlag) -> anyhow::Result<ResultLine> {
        stop.check()?;
        if let Some(refusal) = self.refusal(run) {
            anyhow::bail!(refusal.why);
        }
        let conditions = self.kind.conditions(run);
        let run = &run.drawn()?;
        let mut line = match (self.kind, &self.kernel) {
            (SubstrateKind::Model, _) => model::execute(run, self.settings.pcap.as_deref(), stop)?,
            (SubstrateKind::Linux, Some(kernel)) => {
                linux::execute(run, kernel, &self.settings, stop)?
            }
            (SubstrateKind::Linux, None) => anyhow::bail!("there is no virtual kernel"),
            (SubstrateKind::Live, _) => live::execute(run, &self.settings, stop)?,
        };
        line.conditions = conditions;
        if let Some(label) = &self.settings.label {
            line.substrate.clone_from(label);
        }
        Ok(line)
    }
}

/// The devices that have a packet file each. One file for all devices would have each packet twice,
/// and Wireshark would misread the connection. The wired hop is first, then each cell; in each pair
/// the FH's side is first.
fn trace_parts(cells: usize) -> Vec<[String; 2]> {
    let mut parts = vec![["at-fh".to_owned(), "at-gateway-wired".to_owned()]];
    parts.extend((1..=cells).map(|cell| {
        let of_cell = if cell == 1 {
            String::new()
        } else {
            format!("-{cell}")
        };
        ["at-gateway-wireless", "at-mh"].map(|part| format!("{part}{of_cell}"))
    }));
    parts
}

/// The path of a run's packet file in `folder`.
fn trace_file(folder: &Path, run: &Run, kind: SubstrateKind, part: &str) -> PathBuf {
    folder.join(trace_name(run, kind, part))
}

/// The longest part of a file's name for scenario and variant. A name has 255 bytes at most, and
/// contains more parts.
const TRACE_TITLE_BYTES_MAX: usize = 180;

/// The name of a packet file: scenario and variant, cut off if they are long, then the run's number
/// in its scenario, its seed, the substrate, and the device.
fn trace_name(run: &Run, kind: SubstrateKind, part: &str) -> String {
    let mut title = format!("{} {}", run.scenario, run.variant);
    while title.len() > TRACE_TITLE_BYTES_MAX {
        title.pop();
    }
    let number = run.origin.index + 1;
    let (title, kind) = (title.trim(), kind.name());
    let name: String = format!("{title} run={number} seed={} {kind} {part}", run.seed)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    #[test]
    fn no_two_runs_have_one_file_of_packets_and_every_name_is_one() {
        let long = "ä".repeat(300);
        let text = format!(
            "[transfer]\nbytes = 1\n[wireless]\n[[sweep]]\nname = \"a\"\npoints = [\n\
             {{ name = \"x/y\", set = {{}} }},\n{{ name = \"x-y\", set = {{}} }},\n\
             {{ name = \"{long}1\", set = {{}} }},\n{{ name = \"{long}2\", set = {{}} }},\n]"
        );
        let scenario = Scenario::parse(Path::new("p/s.toml"), &text).unwrap();
        let mut names = std::collections::BTreeSet::new();
        for run in scenario.runs(None).unwrap() {
            for kind in SubstrateKind::ALL {
                for part in trace_parts(2).as_flattened() {
                    let name = trace_name(&run, kind, part);
                    assert!(name.len() <= 255 && !name.contains(['/', ' ']), "{name}");
                    assert!(name.ends_with(&format!("-{part}.pcapng")));
                    assert!(names.insert(name));
                }
            }
        }
        assert_eq!(names.len(), 4 * 3 * 6);
    }

    fn on_model(text: &str) -> ResultLine {
        let scenario = Scenario::parse(Path::new("p/s.toml"), text).unwrap();
        let settings = ExecutionSettings {
            holdfast: "/nonexistent".into(),
            label: None,
            pcap: None,
        };
        let model = Substrate::new(SubstrateKind::Model, settings).unwrap();
        let runs = scenario.runs(None).unwrap();
        model.execute(&runs[0], &StopFlag::default()).unwrap()
    }

    #[test]
    fn a_line_has_every_key_that_its_run_reads() {
        let bare = on_model("[transfer]\nbytes = 1000\n[wireless]\n").conditions;
        let given = on_model(
            "[transfer]\nbytes = 1000\nlimit_s = 600\n[wireless]\ndelay_ms = 0\nqueue_packets_max = 1000\n\
             [gateway]\nscheme = \"none\"\n[mobile]\nscheme = \"none\"\n[hosts]\nmss = 1460\n",
        );
        assert_eq!(bare, given.conditions);
        for key in [
            "transfer.limit_s",
            "wireless.queue_packets_max",
            "wireless.uplink.queue_packets_max",
            "fh.mss",
            "mh.rto_min_s",
            "gateway.signal",
            "mobile.scheme",
        ] {
            assert!(bare.get(key).is_some_and(|value| !value.is_null()), "{key}");
        }
    }

    #[test]
    fn the_models_stalls_are_those_of_outages_that_overlap_the_transfer() {
        let text = |transfer: &str, outages: &str| {
            format!(
                "[transfer]\nbytes = 5000000\n{transfer}\n[wireless]\nrate_mbit_per_s = 10\n\
                 delay_ms = 20\noutages = {{ kind = \"list\", list = [{outages}] }}"
            )
        };
        let three = "{ at_s = 1, for_s = 1 }, { at_s = 5, for_s = 1 }, { at_s = 30, for_s = 1 }";
        let line = on_model(&text("start_s = 4", three));
        assert!(line.finished);
        assert_eq!((line.outages, line.stalls_s.len()), (1, 1), "{line:?}");
        // The second outage begins before the sender's next retransmission.
        let close = "{ at_s = 1, for_s = 2 }, { at_s = 3.05, for_s = 2 }";
        let line = on_model(&text("", close));
        assert_eq!((line.outages, line.stalls_s[0]), (2, None), "{line:?}");
        assert!(line.stalls_s[1].is_some_and(|s| s < 5.0), "{line:?}");
        // The upload begins in an outage, which drops its SYN.
        let line = on_model(&text(
            "direction = \"uplink\"\nstart_s = 1",
            "{ at_s = 0.5, for_s = 2 }",
        ));
        assert!(line.finished && line.stalls_s.len() == 1, "{line:?}");
        assert!(line.stalls_s[0].is_some_and(|s| s > 0.0), "{line:?}");
        // The run's time ends before the link is up again.
        let line = on_model(&text("limit_s = 9", "{ at_s = 2, for_s = 20 }"));
        assert_eq!((line.outages, line.stalls_s), (1, vec![None]));
    }
}
