// SPDX-License-Identifier: Apache-2.0
//! `[snoop]`: the parameters of the scheme `snoop`, by set and one by one.

use holdfast_core::{SnoopSet, SnoopSettings};
use toml::Value;

use super::super::SettingsError;
use super::super::file::Section;
use super::super::keys::Kind;
use super::key;

/// The sets of parameters, as `--snoop-set` takes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum SnoopSetName {
    /// For senders with SACK, RACK and D-SACK; the default
    Today,
    /// As published in 1995
    #[value(name = "1995")]
    Paper1995,
}

impl From<SnoopSetName> for SnoopSet {
    fn from(name: SnoopSetName) -> Self {
        match name {
            SnoopSetName::Today => Self::Today,
            SnoopSetName::Paper1995 => Self::Paper1995,
        }
    }
}

fn set_of(kind: Kind, value: &Value) -> Option<SnoopSetName> {
    clap::ValueEnum::from_str(&kind.text(value)?, false).ok()
}

/// The section's keys over the set's own values; `flag` over the section's set.
pub(super) fn settings(
    section: &Section<'_>,
    flag: Option<SnoopSetName>,
) -> Result<SnoopSettings, SettingsError> {
    let of_file = section.get_or_default(&key::SNOOP_SET, set_of)?;
    let mut snoop = match flag.unwrap_or(of_file).into() {
        SnoopSet::Today => SnoopSettings::today(),
        SnoopSet::Paper1995 => SnoopSettings::paper_1995(),
    };
    for (key, own) in [
        (&key::ALPHA, &mut snoop.alpha),
        (&key::HIDE_RTOS, &mut snoop.hide_rtos),
        (&key::CONGESTED_RTTS, &mut snoop.congested_rtts),
    ] {
        replace(own, section.get(key, Kind::factor)?);
    }
    for (key, own) in [
        (
            &key::RETRANSMIT_INTERVAL_MIN,
            &mut snoop.retransmit_interval_min,
        ),
        (&key::PERSIST, &mut snoop.persist),
        (&key::NACK_WAIT, &mut snoop.nack_wait),
    ] {
        replace(own, section.get(key, Kind::duration)?);
    }
    for (key, own) in [
        (&key::RETRANSMIT_SRTTS, &mut snoop.retransmit_srtts),
        (
            &key::NACK_THRESHOLD_PACKETS,
            &mut snoop.nack_threshold_packets,
        ),
    ] {
        replace(
            own,
            section.get(key, Kind::count)?.map(|count| count as u32),
        );
    }
    let bytes = section.get(&key::HIGH_WATER_MARK_BYTES, Kind::bytes)?;
    replace(
        &mut snoop.high_water_mark_bytes,
        bytes.map(|bytes| bytes as usize),
    );
    Ok(snoop)
}

fn replace<T>(own: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *own = given;
    }
}
