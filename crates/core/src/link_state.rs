// SPDX-License-Identifier: Apache-2.0
//! The state of a link, what changes it, and what reported it.

use core::time::Duration;

use serde::{Deserialize, Serialize};

/// The state of a link. Within one epoch a mobile reports them in this order.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum LinkState {
    /// There was no report.
    #[default]
    Unknown,
    /// It delivers packets.
    Up,
    /// It delivers packets. A source has warned that an outage begins soon.
    GoingDownSoon,
    /// It delivers nothing.
    Down,
}

impl LinkState {
    /// The event that leads to this state, if one does. `lead` is the time of a warning.
    pub const fn event(self, lead: Option<Duration>) -> Option<LinkEvent> {
        match self {
            Self::Unknown => None,
            Self::Up => Some(LinkEvent::Up),
            Self::GoingDownSoon => Some(LinkEvent::GoingDownSoon(lead)),
            Self::Down => Some(LinkEvent::Down),
        }
    }
}

/// A report about a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkEvent {
    /// It is up.
    Up,
    /// It is down.
    Down,
    /// It will go down after this time; none: soon.
    GoingDownSoon(Option<Duration>),
}

/// What reported the state of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinkSource {
    /// There was no report.
    #[default]
    None,
    /// The carrier of the own interface.
    Carrier,
    /// The mobile's Wi-Fi.
    Wifi,
    /// The mobile's modem.
    Modem,
    /// A program of the operator.
    Script,
    /// A command on the control socket.
    Command,
    /// A sealed message of the mobile.
    Signal,
    /// Data in flight that nothing answers, or an answer after that.
    Silence,
}

impl LinkSource {
    /// Its name in the status and in the log.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Carrier => "carrier",
            Self::Wifi => "wifi",
            Self::Modem => "modem",
            Self::Script => "script",
            Self::Command => "command",
            Self::Signal => "signal",
            Self::Silence => "silence",
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::de::IntoDeserializer as _;
    use serde::de::value::{Error, StrDeserializer};

    use super::*;

    #[test]
    fn each_state_but_the_unknown_one_is_reported_by_its_event() {
        let lead = Some(Duration::from_millis(300));
        let events = [
            LinkState::Unknown,
            LinkState::Up,
            LinkState::GoingDownSoon,
            LinkState::Down,
        ]
        .map(|state| state.event(lead));
        let warning = LinkEvent::GoingDownSoon(lead);
        assert_eq!(
            events,
            [
                None,
                Some(LinkEvent::Up),
                Some(warning),
                Some(LinkEvent::Down)
            ]
        );
    }

    /// Others read the status by serde.
    #[test]
    fn a_source_has_one_name_everywhere() {
        for source in [
            LinkSource::None,
            LinkSource::Carrier,
            LinkSource::Wifi,
            LinkSource::Modem,
            LinkSource::Script,
            LinkSource::Command,
            LinkSource::Signal,
            LinkSource::Silence,
        ] {
            let name: StrDeserializer<'_, Error> = source.name().into_deserializer();
            assert_eq!(LinkSource::deserialize(name), Ok(source));
        }
    }
}
