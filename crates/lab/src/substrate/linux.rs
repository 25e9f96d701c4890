// SPDX-License-Identifier: Apache-2.0
//! `linux`: executes a run as `live` does, but in a virtual kernel, in virtual time. The program
//! inside is our own binary again; its result is a line of JSON.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use holdfast_testbed::scratch::Scratch;
use holdfast_testbed::stop::StopFlag;

use super::{ExecutionSettings, SubstrateKind, trace_name, trace_parts};
use crate::library;
use crate::results::ResultLine;
use crate::scenario::{Run, SCENARIO_BYTES_MAX, TRACES_VARIABLE};
use crate::virtual_kernel::{Job, VirtualKernel};

/// The file in the job's folder to which the program inside writes its line.
const RESULT_FILE: &str = "result.jsonl";
/// The scenario's file in the job's folder.
const SCENARIO_FILE: &str = "scenario.toml";
/// The folder for packet files in the job's folder.
const PACKETS_FOLDER: &str = "packets";
/// Memory of the programs inside, in MiB.
const MEMORY_MIB: u32 = 512;
/// Limit of the real time for each second of virtual time: a virtual kernel may be a few times
/// slower than real time.
const WALL_PER_VIRTUAL: f64 = 20.0;
/// Limit of the real time for booting.
const WALL_BOOT: Duration = Duration::from_secs(120);

/// Executes one run.
pub(super) fn execute(
    run: &Run,
    kernel: &VirtualKernel,
    settings: &ExecutionSettings,
    stop: &StopFlag,
) -> anyhow::Result<ResultLine> {
    let folder = Scratch::new("holdfast-linux-")?;
    let program = settings
        .holdfast
        .to_str()
        .context("our own path is not UTF-8")?;
    let mut job = Job::new(&settings.holdfast, program, folder.path());
    job.seed = run.seed;
    job.memory_mib = MEMORY_MIB;
    if let Ok(traces) = std::env::var(TRACES_VARIABLE) {
        let traces = std::path::absolute(traces)?;
        let traces = traces.to_string_lossy().into_owned();
        job.environment.push((TRACES_VARIABLE.to_owned(), traces));
    }
    job.limit =
        WALL_BOOT + Duration::from_secs_f64(run.conditions.transfer.limit_s * WALL_PER_VIRTUAL);
    // /tmp inside is another one, so the scenario is copied into the job's folder. A scenario that
    // names traces stays in its folder: their paths are relative to it.
    let scenario = if run.conditions.names_traces() && run.origin.file.exists() {
        std::path::absolute(&run.origin.file)?
    } else {
        let copy = folder.path().join(SCENARIO_FILE);
        let file = &run.origin.file;
        let text = library::read(file, SCENARIO_BYTES_MAX)
            .with_context(|| format!("{}: cannot be read", file.display()))?;
        fs::write(&copy, text).with_context(|| format!("{}", copy.display()))?;
        PathBuf::from(SCENARIO_FILE)
    };
    job.arguments = arguments(run, &scenario, settings.pcap.is_some())?;
    kernel.run(&job, stop)?.require_success()?;
    let path = folder.path().join(RESULT_FILE);
    let text = fs::read_to_string(&path).context("the run inside left no result")?;
    let mut line: ResultLine =
        serde_json::from_str(text.trim()).context("the run's result cannot be read")?;
    line.scenario.clone_from(&run.scenario);
    if let Some(pcap) = &settings.pcap {
        for part in trace_parts(run.conditions.cells.len()).as_flattened() {
            collect_trace(run, &folder.path().join(PACKETS_FOLDER), part, pcap)?;
        }
    }
    Ok(line)
}

/// Copies the packet file of one part, if the run has that part.
fn collect_trace(run: &Run, packets: &Path, part: &str, pcap: &Path) -> anyhow::Result<()> {
    let entries = fs::read_dir(packets).context("the run inside left no packets")?;
    for entry in entries {
        let path = entry?.path();
        // The scenario may have another name inside, and the file's name too.
        if path.to_string_lossy().ends_with(&format!("-{part}.pcapng")) {
            let own = pcap.join(trace_name(run, SubstrateKind::Linux, part));
            fs::copy(&path, &own)
                .with_context(|| format!("{}: cannot be written", own.display()))?;
        }
    }
    Ok(())
}

/// The arguments with which the program inside executes exactly this run. Its current folder is the
/// job's.
fn arguments(run: &Run, scenario: &Path, packets: bool) -> anyhow::Result<Vec<String>> {
    let scenario = scenario
        .to_str()
        .context("the scenario's path is not UTF-8")?;
    let origin = &run.origin;
    let mut arguments = vec![
        "lab".to_owned(),
        "run".to_owned(),
        scenario.to_owned(),
        "--substrate".to_owned(),
        SubstrateKind::Live.name().to_owned(),
        "--label".to_owned(),
        SubstrateKind::Linux.name().to_owned(),
        "--shard".to_owned(),
        format!("{}/{}", origin.index + 1, origin.count),
        "--out".to_owned(),
        RESULT_FILE.to_owned(),
    ];
    if let Some(seed) = origin.seed {
        arguments.extend(["--seed".to_owned(), seed.to_string()]);
    }
    if packets {
        arguments.extend(["--pcap".to_owned(), PACKETS_FOLDER.to_owned()]);
    }
    Ok(arguments)
}
