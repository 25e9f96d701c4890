// SPDX-License-Identifier: Apache-2.0
//! Which run of a command a line of results is of.

use std::collections::HashMap;

use anyhow::bail;
use holdfast_lab::results::{COMMIT, ResultLine};
use holdfast_lab::scenario::{Parameters, Run, word};
use holdfast_lab::substrate::SubstrateKind;

/// Each line with all keys that its run reads has these. No scenario of the repository gives all of them.
const IN_COMPLETE_LINES: [&str; 3] = ["fh.sack", "mh.sack", "mobile.scheme"];

/// The runs of a command by what their lines have.
pub(super) struct RunIndex<'a> {
    runs: &'a [Run],
    kind: SubstrateKind,
    substrate: &'a str,
    indices: HashMap<(&'a str, &'a str, u64), usize>,
}

impl<'a> RunIndex<'a> {
    /// Of all runs of the command's scenarios, on one substrate, whose name in lines may be another.
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
    /// It is of no run of this command, or of one with other conditions.
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
        // A line of an older program has only what its scenario gives.
        let is_complete = IN_COMPLETE_LINES
            .iter()
            .all(|key| line.conditions.contains_key(*key));
        let now = if is_complete {
            as_read(&self.kind.conditions(run))?
        } else {
            as_read(&run.given)?
        };
        // Another version may read keys that this one does not know, and the other way round.
        let has_same_keys = !is_complete || line.commit == COMMIT;
        if let Some(differing) = differing(&line.conditions, &now, has_same_keys) {
            bail!("{differing}; restore the scenario, or name another file");
        }
        Ok(index)
    }
}

/// Read from the same text as a line's: a number's last bit may depend on that.
fn as_read(conditions: &Parameters) -> anyhow::Result<Parameters> {
    Ok(serde_json::from_str(&serde_json::to_string(conditions)?)?)
}

/// The first key that two runs do not have alike. Unless they have the `same_keys`, one that only one of them has
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
