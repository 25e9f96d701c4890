// SPDX-License-Identifier: Apache-2.0
//! Finds the run of a command to which a line of results belongs.

use std::collections::HashMap;

use anyhow::bail;
use holdfast_lab::results::{COMMIT, ResultLine};
use holdfast_lab::scenario::{Parameters, Run, word};
use holdfast_lab::substrate::SubstrateKind;

/// A line that has all keys that its run reads has these three. No scenario of the repository gives all three.
const IN_COMPLETE_LINES: [&str; 3] = ["fh.sack", "mh.sack", "mobile.scheme"];

/// The runs of a command, by the fields that identify them in lines.
pub(super) struct RunIndex<'a> {
    runs: &'a [Run],
    kind: SubstrateKind,
    substrate: &'a str,
    indices: HashMap<(&'a str, &'a str, u64), usize>,
}

impl<'a> RunIndex<'a> {
    /// Indexes all runs of the command's scenarios on one substrate. `substrate` is its name in lines.
    ///
    /// # Errors
    /// The lines of two runs could not be distinguished.
    pub(super) fn new(
        runs: &'a [Run],
        kind: SubstrateKind,
        substrate: &'a str,
    ) -> anyhow::Result<Self> {
        let mut indices = HashMap::with_capacity(runs.len());
        for (index, run) in runs.iter().enumerate() {
            let key = (run.scenario.as_str(), run.variant.as_str(), run.seed);
            if let Some(other) = indices.insert(key, index) {
                let [one, two] = [&runs[other], run].map(|run| run.origin.file.display());
                bail!(
                    "{two}: its runs are called {} like those of {one}; give one file another name",
                    run.scenario
                );
            }
        }
        Ok(Self {
            runs,
            kind,
            substrate,
            indices,
        })
    }

    /// The index of a line's run.
    ///
    /// # Errors
    /// The line is of no run of this command, or of a run with other conditions.
    pub(super) fn find(&self, line: &ResultLine) -> anyhow::Result<usize> {
        let key = (line.scenario.as_str(), line.variant.as_str(), line.seed);
        let index = self.indices.get(&key).copied();
        let Some(index) = index.filter(|_| line.substrate == self.substrate) else {
            bail!(
                "no run of this command ({} {} seed={} on {}); give the same scenarios, or another file",
                line.scenario,
                line.variant,
                line.seed,
                line.substrate
            );
        };
        if line.conditions.is_empty() {
            bail!("the line is of an older program, without its conditions; name another file");
        }
        let run = &self.runs[index];
        // A line of an older program has only the keys that its scenario gives.
        let is_complete = IN_COMPLETE_LINES
            .iter()
            .all(|key| line.conditions.contains_key(*key));
        let now = if is_complete {
            as_read(&self.kind.conditions(run))?
        } else {
            as_read(&run.given)?
        };
        // Each of two versions may read keys that the other does not know.
        let has_same_keys = !is_complete || line.commit == COMMIT;
        if let Some(differing) = differing(&line.conditions, &now, has_same_keys) {
            bail!("{differing}; restore the scenario, or name another file");
        }
        Ok(index)
    }
}

/// The conditions after a round trip through JSON, like those of a line: a number's last bit may depend on it.
fn as_read(conditions: &Parameters) -> anyhow::Result<Parameters> {
    Ok(serde_json::from_str(&serde_json::to_string(conditions)?)?)
}

/// The first key in which two runs differ. Without `same_keys` a key that only one of them has
/// does not count.
fn differing(was: &Parameters, is: &Parameters, same_keys: bool) -> Option<String> {
    let is_compared = |key: &str| same_keys || was.contains_key(key) && is.contains_key(key);
    let key = was
        .keys()
        .chain(is.keys())
        .find(|key| is_compared(key) && was.get(*key) != is.get(*key))?;
    let shown = |keys: &Parameters| keys.get(key).map_or("not given".to_owned(), word);
    Some(format!(
        "{key} was {}, and is {} now",
        shown(was),
        shown(is)
    ))
}
