// SPDX-License-Identifier: Apache-2.0
//! `[mobile]`: the MH's scheme for its own flows, and the reports about its link. The schemes'
//! parameters have the names of the settings file of `holdfast mobile`.

use holdfast_core::mobile_host::{MobileHostSettings, MobileScheme};
use holdfast_files::document::{DocumentError, TableReader, differing};
use holdfast_settings::kind::{As, Number};
use serde::{Deserialize, Deserializer, Serialize, de};
use toml::Table;

use super::gateway::{GatewayConditions, SignalChoice};
use super::keys::Keys;

/// The table. Missing keys have the daemon's defaults.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MobileConditions {
    /// The scheme.
    pub scheme: MobileSchemeChoice,
    /// The source of reports that its link is down or up.
    pub signal: MobileSignalChoice,
    /// From the warning of an outage to the outage, in milliseconds; 0: there is no warning.
    pub warning_ms: f64,
    /// The parameters of the schemes.
    host: MobileHostSettings,
}

/// Keys that the daemon's settings file does not have. The longest warning is the daemon's limit.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct MobileKeys {
    #[serde(skip_serializing)]
    scheme: MobileSchemeChoice,
    signal: MobileSignalChoice,
    #[serde(with = "As::<Number<0, 60_000>>")]
    warning_ms: f64,
}

/// A scheme of `holdfast mobile`, or `none`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MobileSchemeChoice {
    /// Nothing.
    #[default]
    None,
    /// A scheme for the MH's own flows.
    Flows(MobileScheme),
    /// `keep`, for packets that the MH sends; on Linux hosts.
    Keep,
    /// `auto`, for both directions.
    Auto,
}

impl MobileSchemeChoice {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flows(scheme) => scheme.name(),
            Self::Keep => "keep",
            Self::Auto => "auto",
            Self::None => "none",
        }
    }
}

impl<'de> Deserialize<'de> for MobileSchemeChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        match name.as_str() {
            "none" => return Ok(Self::None),
            "keep" => return Ok(Self::Keep),
            "auto" => return Ok(Self::Auto),
            _ => {}
        }
        let mut schemes = MobileScheme::ALL.into_iter();
        let named = schemes.find(|scheme| scheme.name() == name);
        named.map(Self::Flows).ok_or_else(|| {
            let known = MobileScheme::ALL.map(MobileScheme::name).join(", ");
            de::Error::custom(format!(
                "got `{name}`, takes one of none, keep, auto, {known}"
            ))
        })
    }
}

/// The source of the MH's reports about its link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MobileSignalChoice {
    /// The carrier of its interface.
    #[default]
    Carrier,
    /// `holdfast mobile signal down` and `up`; the interface keeps its carrier.
    Command,
    /// There is none; the interface keeps its carrier.
    None,
}

impl MobileConditions {
    /// Whether there is a scheme.
    pub const fn is_on(&self) -> bool {
        !matches!(self.scheme, MobileSchemeChoice::None)
    }

    /// Reads the table, with the ranges of the daemon's settings file.
    pub(super) fn read(table: &Table) -> Result<Self, DocumentError> {
        let mut read = TableReader::new(table.clone());
        let own = read.take(&MobileKeys::default())?;
        let host = read.take(&MobileHostSettings::default())?;
        read.finish(&[])?;
        Ok(Self {
            scheme: own.scheme,
            signal: own.signal,
            warning_ms: own.warning_ms,
            host,
        })
    }

    /// Refuses a signal that contradicts the gateway's. The link has one carrier: if the gateway uses
    /// it, the MH cannot ignore it, and the other way round.
    pub(super) fn check_beside(&self, gateway: &GatewayConditions) -> Result<(), DocumentError> {
        if !self.is_on() || gateway.scheme.is_without_daemon() {
            return Ok(());
        }
        let of_gateway = matches!(gateway.signal, SignalChoice::Carrier | SignalChoice::Both);
        if of_gateway == (self.signal == MobileSignalChoice::Carrier) {
            return Ok(());
        }
        let problem = "the link's carrier is seen at both ends; takes carrier with \
            gateway.signal carrier or both, and command or none with the others";
        Err(DocumentError::at("signal", problem))
    }

    /// Adds its keys; without a scheme only `mobile.scheme`.
    pub(super) fn add_to(&self, keys: &mut Keys) {
        keys.add("mobile.scheme", self.scheme.name());
        if self.is_on() {
            keys.add("mobile.signal", self.signal);
            keys.add("mobile.warning_ms", self.warning_ms);
            keys.add("mobile", self.host);
        }
    }

    /// The settings of the state machine for the MH's own flows, beside this gateway; none: it has
    /// nothing to do.
    pub fn settings(&self, gateway: &GatewayConditions) -> Option<MobileHostSettings> {
        let scheme = match self.scheme {
            MobileSchemeChoice::Flows(scheme) => scheme,
            // With a gateway that the daemon signals to, the gateway helps downloads better than
            // `wake`.
            MobileSchemeChoice::Auto if !gateway.receives_signals() => MobileScheme::Wake,
            _ => return None,
        };
        Some(MobileHostSettings {
            scheme,
            ..self.host
        })
    }

    /// The lines of the daemon's `[mobile]` section, without its interface; none: there is no
    /// scheme.
    pub fn to_lines(&self) -> Option<String> {
        let given = differing(&self.host, &MobileHostSettings::default());
        let scheme = self.scheme.name();
        self.is_on()
            .then(|| format!("scheme = \"{scheme}\"\n{given}"))
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use holdfast_core::mobile_host::FreezeSet;

    use super::super::gateway::SchemeChoice;
    use super::*;

    fn read(text: &str) -> Result<MobileConditions, DocumentError> {
        MobileConditions::read(&text.parse().expect("TOML"))
    }

    #[test]
    fn what_is_given_goes_to_the_machine_and_into_the_daemons_file() {
        let text = "scheme = \"freeze\"\nfalse_alarm_ms = 700\nfreeze_set = \"2000\"\n\
            tr_acks = false\nwarning_round_trips = 2\n";
        let own = read(&format!("{text}warning_ms = 250\nsignal = \"command\"\n")).unwrap();
        assert_eq!(own.to_lines().unwrap(), text);
        let settings = own.settings(&GatewayConditions::default()).unwrap();
        assert_eq!(settings.scheme, MobileScheme::Freeze);
        assert_eq!(settings.set, FreezeSet::Published);
        assert!(!settings.tr_acks && (settings.warning_round_trips - 2.0).abs() < 1e-9);
        assert_eq!(settings.false_alarm, Duration::from_millis(700));
    }

    #[test]
    fn without_a_scheme_nothing_is_done_and_freeze_is_todays_by_default() {
        let none = MobileConditions::default();
        let gateway = GatewayConditions::default();
        assert!(none.settings(&gateway).is_none() && none.to_lines().is_none());
        let freeze = read("scheme = \"freeze\"").unwrap();
        assert_eq!(freeze.settings(&gateway).unwrap().set, FreezeSet::Today);
    }

    #[test]
    fn auto_serves_downloads_only_if_its_daemon_knows_no_gateway() {
        let auto = read("scheme = \"auto\"").unwrap();
        let scheme = |scheme, signal| {
            let mut gateway = GatewayConditions::default();
            (gateway.scheme, gateway.signal) = (scheme, signal);
            auto.settings(&gateway).map(|settings| settings.scheme)
        };
        let wakes = Some(MobileScheme::Wake);
        assert_eq!(scheme(SchemeChoice::None, SignalChoice::Both), wakes);
        assert_eq!(scheme(SchemeChoice::Hold, SignalChoice::Carrier), wakes);
        assert_eq!(scheme(SchemeChoice::Hold, SignalChoice::Mobile), None);
    }

    #[test]
    fn a_scheme_that_is_none_is_refused_with_those_that_are() {
        let shown = read("scheme = \"frieze\"").unwrap_err().to_string();
        assert!(
            shown.contains("frieze") && shown.contains("fast-retransmit"),
            "{shown}"
        );
        let error = read("warning_ms = 60001").unwrap_err().to_string();
        assert!(
            error.contains("warning_ms") && error.contains("60000"),
            "{error}"
        );
    }
}
