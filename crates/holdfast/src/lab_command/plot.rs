// SPDX-License-Identifier: Apache-2.0
//! `holdfast lab plot`: results as a drawing.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use clap::{Args, ValueEnum};
use holdfast_files as files;
use holdfast_lab::report::plot;

use super::result_lines::read_all;

/// The first bytes of a drawing.
const SVG: &[u8] = b"<svg";

/// Draw results
///
/// A sweep is the median of a measure over a parameter, with a curve for each combination of the
/// other parameters. A cdf is the distribution of a measure. A series is a run against time, if
/// the scenario has `record`. At most six curves are in one drawing.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  holdfast lab plot results.jsonl --out sweep.svg
  holdfast lab plot results.jsonl --over delay_ms --measure transfer_s --out times.svg
  holdfast lab plot results.jsonl --kind cdf --measure stalls_s --where delay_ms=50 --out stalls.svg
  holdfast lab plot train.jsonl --kind series --out train.svg")]
pub(super) struct PlotArgs {
    /// What `holdfast lab run --out` wrote; of a run that is in several files, the first counts
    #[arg(value_name = "RESULTS", required = true)]
    files: Vec<PathBuf>,
    /// What is drawn
    #[arg(long, value_enum, value_name = "KIND", default_value_t)]
    kind: PlotKind,
    /// A number of the result lines; of tables with a dot, as latency.p99_ms
    #[arg(long, value_name = "NAME", default_value = "goodput_mbps")]
    measure: String,
    /// The parameter of a sweep; without: one with several numbers
    #[arg(long, value_name = "PARAMETER")]
    over: Option<String>,
    /// Only runs with this value of a parameter; may be given several times
    #[arg(long = "where", value_name = "PARAMETER=VALUE", value_parser = selection)]
    selections: Vec<(String, String)>,
    /// The file, whose name ends in .svg
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

/// `--kind`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum PlotKind {
    /// A measure over a parameter
    #[default]
    Sweep,
    /// The distribution of a measure
    Cdf,
    /// Runs against time
    Series,
}

/// `delay_ms=50`.
fn selection(text: &str) -> Result<(String, String), String> {
    let split = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) =
        split.ok_or_else(|| format!("got `{text}`, takes PARAMETER=VALUE, as in delay_ms=50"))?;
    Ok((name.to_owned(), value.to_owned()))
}

pub(super) fn run(args: &PlotArgs) -> anyhow::Result<ExitCode> {
    let shown = args.out.display();
    ensure!(
        args.out.extension().is_some_and(|ending| ending == "svg"),
        "--out: got {shown}, takes a name that ends in .svg"
    );
    let lines = plot::selected(read_all("RESULTS", &args.files)?, &args.selections)?;
    let drawing = match args.kind {
        PlotKind::Sweep => {
            let over = args
                .over
                .clone()
                .map_or_else(|| plot::parameter(&lines), Ok)?;
            plot::sweep(&lines, &args.measure, &over)?
        }
        PlotKind::Cdf => plot::distribution(&lines, &args.measure)?,
        PlotKind::Series => plot::series(&lines)?,
    };
    let cannot = || format!("--out: {shown} cannot be written");
    let mut file = files::create(&args.out, SVG).with_context(cannot)?;
    file.write_all(drawing.as_bytes()).with_context(cannot)?;
    Ok(ExitCode::SUCCESS)
}
