// SPDX-License-Identifier: Apache-2.0
//! What an MH does for its flows, and how.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

/// What the MH does for its own flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MobileScheme {
    /// Freeze-TCP: windows closed ahead of an outage, three ACKs after it.
    Freeze,
    /// Three ACKs after an outage.
    FastRetransmit,
    /// M-TCP at the MH: one marked ACK after an outage, for an M-TCP gateway.
    Mtcp,
    /// A segment kept unacknowledged in a bulk download, acknowledged after an outage.
    Wake,
}

impl MobileScheme {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Freeze, Self::FastRetransmit, Self::Mtcp, Self::Wake];

    /// Its name in settings and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Freeze => "freeze",
            Self::FastRetransmit => "fast-retransmit",
            Self::Mtcp => "mtcp",
            Self::Wake => "wake",
        }
    }
}

impl fmt::Display for MobileScheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No scheme has this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownName;

impl FromStr for MobileScheme {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let named = Self::ALL.into_iter().find(|scheme| scheme.name() == name);
        named.ok_or(UnknownName)
    }
}

/// The parameter set of `freeze`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FreezeSet {
    /// Section IV of the paper: any warning closes the window.
    #[default]
    Published,
    /// For senders that do not go into persist state over outstanding data (Linux): a
    /// window is closed only if its ACK and the data before it have the time to arrive.
    Today,
}

impl FreezeSet {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Published, Self::Today];

    /// Its name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Published => "2000",
            Self::Today => "today",
        }
    }
}

impl FromStr for FreezeSet {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let named = Self::ALL.into_iter().find(|set| set.name() == name);
        named.ok_or(UnknownName)
    }
}

/// How the scheme does it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MobileHostSettings {
    /// The scheme.
    pub scheme: MobileScheme,
    /// The parameter set of `freeze`.
    pub set: FreezeSet,
    /// How long before the link goes windows are closed: round trips of the flow. More than 0.
    pub warning_round_trips: f64,
    /// After an outage, `freeze` sends three ACKs to every flow; otherwise one to those
    /// whose window it has closed.
    pub tr_acks: bool,
    /// After the time of a warning, or after one without a time: how long windows stay
    /// closed if the link does not go.
    pub false_alarm: Duration,
}

impl MobileHostSettings {
    /// The defaults of a scheme.
    pub const fn new(scheme: MobileScheme) -> Self {
        Self {
            scheme,
            set: FreezeSet::Published,
            warning_round_trips: 1.0,
            tr_acks: true,
            false_alarm: Duration::from_millis(500),
        }
    }

    /// How long before the link goes the window of a flow with this round trip is closed.
    /// Today's senders need one more than the published one: what was sent until the word of the
    /// closed window was there has to arrive, and so has its ACK.
    pub(super) fn ahead(&self, round_trip: Duration) -> Duration {
        let more = match self.set {
            FreezeSet::Published => 0.0,
            FreezeSet::Today => 1.0,
        };
        self.round_trips(round_trip, more)
    }

    /// If there is less time than this, a window is not closed: an ACK takes half a round trip.
    pub(super) fn least(&self, round_trip: Duration) -> Duration {
        self.round_trips(round_trip, 0.5)
    }

    fn round_trips(&self, round_trip: Duration, more: f64) -> Duration {
        // Bounded: no setting makes of it what is no duration.
        let factor = self.warning_round_trips.clamp(0.0, 16.0) + more;
        round_trip.min(Duration::from_secs(180)).mul_f64(factor)
    }
}
