// SPDX-License-Identifier: Apache-2.0
//! `[mobile]`: what the MH does for its own flows, and what it hears of its link. The
//! schemes' parameters are named as in the settings file of `holdfast mobile`.

use core::time::Duration;

use holdfast_core::mobile_host::{FreezeSet, MobileHostSettings, MobileScheme};
use serde::{Deserialize, Deserializer, de};

use super::conditions::{GatewayConditions, SchemeChoice, SignalChoice};
use crate::document::DocumentError;

/// The table. What is not given is the daemon's default.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MobileConditions {
    /// The scheme.
    pub scheme: MobileSchemeChoice,
    /// How it hears that its link has gone, and that it is back.
    pub signal: MobileSignalChoice,
    /// So long before an outage it hears of it, with its time, in milliseconds; 0: it does not.
    pub warning_ms: f64,
    /// The parameter set of `freeze`: `2000` or `today`.
    pub freeze_set: Option<FreezeSetChoice>,
    /// How long before an announced outage `freeze` closes windows, in round trips.
    pub warning_round_trips: Option<f64>,
    /// Three ACKs after an outage with `freeze`.
    pub tr_acks: Option<bool>,
    /// How long windows stay closed if an outage that was announced does not come, in
    /// milliseconds.
    pub false_alarm_ms: Option<f64>,
}

/// The longest warning, in milliseconds: the daemon takes no longer one.
const WARNING_MS_MAX: f64 = 60_000.0;

/// A scheme of `holdfast mobile`, or `none`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MobileSchemeChoice {
    /// Nothing.
    #[default]
    None,
    /// Something for the MH's own flows.
    Flows(MobileScheme),
    /// `keep`, for what the MH sends; on Linux hosts.
    Keep,
}

impl MobileSchemeChoice {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flows(scheme) => scheme.name(),
            Self::Keep => "keep",
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
            _ => {}
        }
        let mut schemes = MobileScheme::ALL.into_iter();
        let named = schemes.find(|scheme| scheme.name() == name);
        named.map(Self::Flows).ok_or_else(|| {
            let known = MobileScheme::ALL.map(MobileScheme::name).join(", ");
            de::Error::custom(format!("got `{name}`, takes one of none, keep, {known}"))
        })
    }
}

/// How the MH hears what has become of its link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MobileSignalChoice {
    /// By the carrier of its interface.
    #[default]
    Carrier,
    /// By `holdfast mobile signal down` and `up`; the interface keeps its carrier.
    Command,
    /// It does not; the interface keeps its carrier.
    None,
}

/// The sets of parameters of `freeze`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum FreezeSetChoice {
    /// As published.
    #[serde(rename = "2000")]
    Published,
    /// For today's senders.
    #[serde(rename = "today")]
    Today,
}

impl MobileConditions {
    /// Whether anything is done.
    pub const fn is_on(&self) -> bool {
        !matches!(self.scheme, MobileSchemeChoice::None)
    }

    /// The ranges are those of the daemon's settings file.
    pub(super) fn check(&self) -> Result<(), DocumentError> {
        for (key, value, min, max) in [
            ("warning_ms", Some(self.warning_ms), 0.0, WARNING_MS_MAX),
            ("warning_round_trips", self.warning_round_trips, 0.05, 16.0),
            ("false_alarm_ms", self.false_alarm_ms, 10.0, 60_000.0),
        ] {
            if value.is_some_and(|value| !(min..=max).contains(&value)) {
                return Err(DocumentError::at(key, format!("takes {min} to {max}")));
            }
        }
        Ok(())
    }

    /// One link has one carrier: who is not to hear of it by that, does not stand beside one
    /// who does.
    pub(super) fn check_beside(&self, gateway: &GatewayConditions) -> Result<(), DocumentError> {
        let no_gateway = matches!(gateway.scheme, SchemeChoice::None | SchemeChoice::Haproxy);
        if !self.is_on() || no_gateway {
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

    /// As the machine for the MH's own flows has them; none: it does nothing.
    pub fn settings(&self) -> Option<MobileHostSettings> {
        let MobileSchemeChoice::Flows(scheme) = self.scheme else {
            return None;
        };
        let mut settings = MobileHostSettings::new(scheme);
        settings.set = match self.freeze_set {
            Some(FreezeSetChoice::Published) => FreezeSet::Published,
            Some(FreezeSetChoice::Today) | None => FreezeSet::Today,
        };
        if let Some(factor) = self.warning_round_trips {
            settings.warning_round_trips = factor;
        }
        if let Some(tr_acks) = self.tr_acks {
            settings.tr_acks = tr_acks;
        }
        if let Some(ms) = self.false_alarm_ms {
            settings.false_alarm = Duration::from_secs_f64(ms / 1e3);
        }
        Some(settings)
    }

    /// The lines of the daemon's `[mobile]` section, without its interface; none: there is no
    /// daemon for a scheme.
    pub fn to_lines(&self) -> Option<String> {
        if !self.is_on() {
            return None;
        }
        let scheme = self.scheme.name();
        let set = self.freeze_set.map(|set| match set {
            FreezeSetChoice::Published => "\"2000\"".to_owned(),
            FreezeSetChoice::Today => "\"today\"".to_owned(),
        });
        // As TOML has floats: with a point.
        let float = |value: f64| format!("{value:?}");
        let given = [
            ("freeze_set", set),
            ("warning_round_trips", self.warning_round_trips.map(float)),
            ("tr_acks", self.tr_acks.map(|tr_acks| tr_acks.to_string())),
            ("false_alarm_ms", self.false_alarm_ms.map(float)),
        ];
        let given = given
            .into_iter()
            .filter_map(|(key, value)| Some((key, value?)));
        let lines = given.map(|(key, value)| format!("{key} = {value}\n"));
        Some(format!(
            "scheme = \"{scheme}\"\n{}",
            lines.collect::<String>()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_goes_to_the_machine_and_into_the_daemons_file() {
        let text = "scheme = \"freeze\"\nfreeze_set = \"2000\"\nwarning_round_trips = 2.0\n\
            tr_acks = false\nfalse_alarm_ms = 700.0\n";
        let own: MobileConditions =
            toml::from_str(&format!("{text}warning_ms = 250\nsignal = \"command\"\n")).unwrap();
        own.check().unwrap();
        assert_eq!(own.to_lines().unwrap(), text);
        let settings = own.settings().unwrap();
        assert_eq!(settings.scheme, MobileScheme::Freeze);
        assert_eq!(settings.set, FreezeSet::Published);
        assert!(!settings.tr_acks && (settings.warning_round_trips - 2.0).abs() < 1e-9);
        assert_eq!(settings.false_alarm, Duration::from_millis(700));
    }

    #[test]
    fn without_a_scheme_nobody_does_anything_and_freeze_is_todays_unless_told_otherwise() {
        let none = MobileConditions::default();
        assert!(none.settings().is_none() && none.to_lines().is_none());
        let freeze: MobileConditions = toml::from_str("scheme = \"freeze\"").unwrap();
        assert_eq!(freeze.settings().unwrap().set, FreezeSet::Today);
    }

    #[test]
    fn a_scheme_that_is_none_is_refused_with_those_that_are() {
        let error = toml::from_str::<MobileConditions>("scheme = \"frieze\"").unwrap_err();
        let shown = error.to_string();
        assert!(
            shown.contains("frieze") && shown.contains("fast-retransmit"),
            "{shown}"
        );
        let long: MobileConditions = toml::from_str("warning_ms = 60001").unwrap();
        let error = format!("{:?}", long.check().unwrap_err());
        assert!(
            error.contains("warning_ms") && error.contains("60000"),
            "{error}"
        );
    }
}
