// SPDX-License-Identifier: Apache-2.0
//! `[bandwidth]`: what the cells carry, and the weights of their mobiles.

use holdfast_core::signal::Prefix;
use holdfast_core::{BandwidthSettings, CellSettings};
use toml::Value;

use super::super::SettingsError;
use super::super::file::Section;
use super::super::keys::{Key, Kind};

/// `[bandwidth]`, in the order of the documentation.
pub(crate) const KEYS: &[Key] = &[CELLS, WEIGHTS];

/// Entries of each list at most.
const ENTRIES_MAX: usize = 64;
const KBPS_MAX: u64 = 100_000_000;
const WEIGHT_MAX: u32 = 1000;

const CELLS: Key = Key {
    path: "bandwidth.cells",
    kind: Kind::Capacities,
    default: None,
    example: "[\"10.2.1.0/24 20000\", \"* estimate\"]",
    meaning: "The cells: which mobiles are in each (the first that has a mobile counts), and what it carries \
        toward them, kilobits of payload a second, or `estimate`. It is shared among the mobiles by need and \
        weight, and what one gets among its connections. Connections that `mtcp` splits are paced to their \
        shares, and their FHs do not hear of what the wireless half loses; what other schemes send on after \
        an outage is paced to the mobile's share. Without cells nothing is shared, and FHs regulate \
        themselves.",
    cost: "More than the link carries: its queue overflows and nobody slows down. Less: the rest is not \
        used. An estimate needs some seconds, and gives up a few percent.",
};

const WEIGHTS: Key = Key {
    path: "bandwidth.weights",
    kind: Kind::Weights,
    default: None,
    example: "[\"10.2.1.7 3\"]",
    meaning: "How often the share of a mobile counts in its cell; the first entry that has it. Others count \
        once.",
    cost: "Without `cells` it does nothing.",
};

/// The section's keys.
pub(super) fn settings(section: &Section<'_>) -> Result<BandwidthSettings, SettingsError> {
    let cells = section.get(&CELLS, |_, value| entries(value, cell))?;
    let weights = section.get(&WEIGHTS, |_, value| entries(value, weight))?;
    Ok(BandwidthSettings {
        cells: cells.unwrap_or_default(),
        weights: weights.unwrap_or_default(),
    })
}

/// A list of texts of two words each.
fn entries<T>(value: &Value, entry: fn(&str, &str) -> Option<T>) -> Option<Vec<T>> {
    let values = value.as_array()?;
    let entry = |value: &Value| {
        let mut words = value.as_str()?.split_whitespace();
        let (first, second) = (words.next()?, words.next()?);
        entry(first, second).filter(|_| words.next().is_none())
    };
    let few = (1..=ENTRIES_MAX).contains(&values.len());
    values
        .iter()
        .map(entry)
        .collect::<Option<Vec<T>>>()
        .filter(|_| few)
}

fn cell(mobiles: &str, carries: &str) -> Option<CellSettings> {
    let mobiles = match mobiles {
        "*" => None,
        prefix => Some(prefix.parse::<Prefix>().ok()?),
    };
    let bytes_per_s = match carries {
        "estimate" => None,
        kbps => {
            let kbps = kbps.parse::<u64>().ok()?;
            (1..=KBPS_MAX).contains(&kbps).then_some(())?;
            Some(kbps * 1000 / 8)
        }
    };
    Some(CellSettings {
        mobiles,
        bytes_per_s,
    })
}

fn weight(mobile: &str, weight: &str) -> Option<(Prefix, u32)> {
    let weight = weight.parse::<u32>().ok()?;
    (1..=WEIGHT_MAX).contains(&weight).then_some(())?;
    Some((mobile.parse().ok()?, weight))
}
