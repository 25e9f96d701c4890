// SPDX-License-Identifier: Apache-2.0
//! `holdfast lab export`: results for other programs.

use std::io::{BufWriter, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Args;
use holdfast_files as files;
use holdfast_lab::export::Columns;

use super::result_lines::read_all;

/// The first bytes of a Parquet file.
const PARQUET: &[u8] = b"PAR1";
/// The first bytes of this program's CSV: the name of its first column.
const CSV: &[u8] = b"scenario,";

/// Write results as CSV or Parquet
///
/// A row for each run. A table in a line becomes columns with dots (parameters.delay_ms,
/// conditions.wireless.delay_ms, latency.p99_ms), a list stays as its JSON. Time series are left
/// out: `holdfast lab plot` draws them.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  holdfast lab export results.jsonl --out results.csv
  holdfast lab export part-1.jsonl part-2.jsonl --out results.parquet
  python3 -c 'import pandas; print(pandas.read_parquet(\"results.parquet\"))'")]
pub(super) struct ExportArgs {
    /// What `holdfast lab run --out` wrote; of a run that is in several files, the first counts
    #[arg(value_name = "RESULTS", required = true)]
    files: Vec<PathBuf>,
    /// The file, whose name ends in .csv or .parquet
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

pub(super) fn run(args: &ExportArgs) -> anyhow::Result<ExitCode> {
    let shown = args.out.display();
    let ending = args.out.extension().unwrap_or_default();
    let is_csv = match ending.to_str() {
        Some("csv") => true,
        Some("parquet") => false,
        _ => bail!("--out: got {shown}, takes a name that ends in .csv or .parquet"),
    };
    let lines = read_all("RESULTS", &args.files)?;
    let columns = Columns::of(&lines)?;
    let cannot = || format!("--out: {shown} cannot be written");
    let begins = if is_csv { CSV } else { PARQUET };
    let mut file = BufWriter::new(files::create(&args.out, begins).with_context(cannot)?);
    if is_csv {
        columns.write_csv(&mut file).with_context(cannot)?;
    } else {
        columns.write_parquet(&mut file).with_context(cannot)?;
    }
    file.flush().with_context(cannot)?;
    let with_series = lines.iter().filter(|line| line.series.is_some()).count();
    if with_series > 0 {
        eprintln!("left out: the time series of {with_series} runs");
    }
    Ok(ExitCode::SUCCESS)
}
