// SPDX-License-Identifier: Apache-2.0
//! `[mobile]` of the mobile's own settings file.

use core::fmt;
use core::time::Duration;

use serde::{Deserialize, Serialize};

pub use crate::entries::Cell;
use crate::kind::{As, Count, Maybe, Millis, Number, Seconds};
use crate::text::{AbsolutePath, Cells, InterfaceName, LogFilter, Name};

/// The control socket of the mobile, unless another is given.
pub const MOBILE_SOCKET: &str = "/run/holdfast/mobile.sock";

/// What the MH does for its flows, and for those of hosts behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MobileScheme {
    /// Freeze-TCP: windows closed ahead of an outage, three ACKs after it.
    Freeze,
    /// Three ACKs after an outage.
    FastRetransmit,
    /// M-TCP at the MH: one marked ACK after an outage, for an M-TCP gateway.
    Mtcp,
    /// A segment of each bulk download that is withheld, and acknowledged after an outage.
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

/// The schemes of a mobile's daemon: those for TCP flows, and `keep`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum MobileSchemeName {
    /// Close the windows of an announced outage, send three ACKs after it
    Freeze,
    /// Send three ACKs after an outage
    FastRetransmit,
    /// Send one marked ACK after an outage, for a gateway with the scheme mtcp
    Mtcp,
    /// Withhold a segment of each bulk download, acknowledge it after an outage
    Wake,
    /// Queue the newest packets that the mobile sends in an outage, send them after it
    Keep,
    /// Retransmit after an outage what the mobile has sent in it; without a gateway as wake too
    Auto,
    /// Only report the link to the gateway
    None,
}

impl MobileSchemeName {
    /// The scheme for what the mobile receives; none: nothing for that.
    pub const fn for_flows(self) -> Option<MobileScheme> {
        match self {
            Self::Freeze => Some(MobileScheme::Freeze),
            Self::FastRetransmit => Some(MobileScheme::FastRetransmit),
            Self::Mtcp => Some(MobileScheme::Mtcp),
            Self::Wake => Some(MobileScheme::Wake),
            Self::Keep | Self::Auto | Self::None => None,
        }
    }

    /// The name in settings and flags.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Freeze => MobileScheme::Freeze.name(),
            Self::FastRetransmit => MobileScheme::FastRetransmit.name(),
            Self::Mtcp => MobileScheme::Mtcp.name(),
            Self::Wake => MobileScheme::Wake.name(),
            Self::Keep => "keep",
            Self::Auto => "auto",
            Self::None => "none",
        }
    }
}

/// The parameter set of `freeze`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum FreezeSet {
    /// As published: any warning closes the windows
    // Section IV of the paper.
    #[default]
    #[serde(rename = "2000")]
    #[cfg_attr(feature = "clap", value(name = "2000"))]
    Published,
    /// For today's senders: windows are closed only if there is time for it
    // Linux does not go into persist state over data in flight. A window is closed only if its ACK
    // and the data before it have the time to arrive.
    #[serde(rename = "today")]
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

/// Keys of `[mobile]` that the schemes for its flows do not need.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MobileDaemon {
    /// The interface of the link. Its carrier is the link's state, its addresses are registered.
    ///
    /// Cost: Has to be given, here or by `--interface`.
    ///
    /// Example: `"wwan0"`
    #[serde(with = "Maybe::<InterfaceName>")]
    pub interface: Option<String>,
    /// The gateway's signal address: an address or a name, with or without a port (4848).
    /// A name is looked up again every 5 minutes.
    ///
    /// Cost: None. With the scheme `none` this, `--gateway` or `cells` has to be given.
    ///
    /// Example: `"192.0.2.1:4848"`
    #[serde(with = "Maybe::<Name>")]
    pub gateway: Option<String>,
    /// Several gateways instead of `gateway`, each with the interface of its cell; `interface` is
    /// then the one whose addresses are registered. The mobile is in the cell whose gateway is the
    /// next hop of its default route. Otherwise, when the interface of its cell has no carrier, it
    /// is in the first that has one, or in that of `holdfast mobile signal up --gateway`.
    ///
    /// Cost: None.
    ///
    /// Example: `["wlan0 10.2.0.1", "wlan1 10.3.0.1:4848"]`
    #[serde(with = "As::<Cells>")]
    pub cells: Vec<Cell>,
    /// The file with the key that the gateway has too, made by `holdfast mobile keygen`.
    ///
    /// Cost: None. Make it readable by root and the group `holdfast` alone.
    #[serde(with = "As::<AbsolutePath>")]
    pub key_file: String,
    /// Time between two registrations when nothing happens.
    ///
    /// Cost: Shorter: a gateway that restarted knows the mobile sooner, for one datagram each.
    #[serde(rename = "keepalive_s", with = "As::<Seconds<1, 3_600>>")]
    pub keepalive: Duration,
    /// The Unix socket of `holdfast mobile signal` and `holdfast status --socket`.
    ///
    /// Cost: None.
    #[serde(with = "As::<AbsolutePath>")]
    pub control_socket: String,
    /// What the mobile does in outages, beside its signals. Unless a scheme is given it is `auto`,
    /// or `none` with `congestion_control`. `auto` caches what the mobile sends by TCP and
    /// retransmits it after an outage. It queues the newest packets of all other protocols as
    /// `keep` does, and without a gateway it also serves downloads as `wake` does. `keep` queues
    /// the newest packets of each flow that the mobile sends in an outage, of any protocol, and
    /// sends them after it. The others are for downloads. `wake` withholds one segment of each bulk
    /// download and acknowledges it after an outage. `freeze` closes the windows before an
    /// announced outage and sends three ACKs after it. `fast-retransmit` sends the three ACKs
    /// alone. `mtcp` sends one marked ACK after an outage for a gateway with the scheme `mtcp`.
    /// With `none` the mobile only signals.
    ///
    /// Cost: A BPF program on each packet of the interface; with `auto` also a copy of each TCP
    /// segment to the daemon. docs/schemes/mobile-auto.md has its figures.
    ///
    /// Example: `"auto"`
    pub scheme: Option<MobileSchemeName>,
    /// The largest number of flows; beyond, those that were seen least recently are forgotten.
    ///
    /// Cost: About 300 bytes of kernel memory each.
    #[serde(with = "As::<Count<64, 1_048_576>>")]
    pub flows_max: u32,
    /// With `scheme = "mtcp"` and a gateway: restore segments that the gateway has compressed, and
    /// report to it that this can be done. Whether it compresses is its own setting.
    ///
    /// Cost: A device beside the interface and a thread; plain segments take no detour.
    pub decompress: bool,
    /// Registers the congestion control of LC and CWE in the kernel under this name, of at most 15
    /// letters, digits, `_` and `-`. Notifies it when the interface loses its carrier and has it
    /// again. Sockets select it by that name (`TCP_CONGESTION`), and so can a route
    /// (`ip route change ... congctl NAME`) or the namespace's `net.ipv4.tcp_congestion_control`.
    /// Needs no gateway.
    ///
    /// Cost: The name is the whole kernel's, and is unregistered with the daemon. Linux 6.1; where
    /// it cannot be, the log gives the reason and all else continues. docs/schemes/lc-cwe.md
    /// describes its use.
    ///
    /// Example: `"holdfast_lccwe"`
    #[serde(with = "Maybe::<Name>")]
    pub congestion_control: Option<String>,
    /// The lines that the log has: a level (`error`, `warn`, `info`, `debug`, `trace`), or several
    /// for parts of the program. Without it `info`. The variable `HOLDFAST_LOG` of the environment
    /// overrides it.
    ///
    /// Cost: With `debug` several lines for each outage.
    ///
    /// Example: `"info,holdfast::mobile=debug"`
    #[serde(with = "Maybe::<LogFilter>")]
    pub log_filter: Option<String>,
}

impl Default for MobileDaemon {
    fn default() -> Self {
        Self {
            interface: None,
            gateway: None,
            cells: Vec::new(),
            key_file: "/etc/holdfast/mobile.key".to_owned(),
            keepalive: Duration::from_secs(30),
            control_socket: MOBILE_SOCKET.to_owned(),
            scheme: None,
            flows_max: 8192,
            decompress: true,
            congestion_control: None,
            log_filter: None,
        }
    }
}

/// How the scheme for the mobile's flows works.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MobileHostSettings {
    /// The scheme.
    #[serde(skip, default = "freeze")]
    pub scheme: MobileScheme,
    /// The parameter set of `freeze`. `2000`: as published, any warning closes the windows.
    /// `today`: only those of flows for which one and a half of their round trips, as measured,
    /// end before the outage begins.
    ///
    /// Cost: With `2000` a warning shorter than the round trip makes Linux senders far slower than
    /// no warning.
    #[serde(rename = "freeze_set")]
    pub set: FreezeSet,
    /// How long before an announced outage `freeze` closes a flow's window, in round trips of the
    /// flow; with `today` one more.
    ///
    /// Cost: More: the flow idles before the outage. Less: what is in flight is lost in the outage.
    #[serde(with = "As::<Number<5, 1_600, 100>>")]
    pub warning_round_trips: f64,
    /// Whether `freeze` sends three copies of the last ACK after an outage. With `2000` it sends
    /// them to every flow, with `today` to those whose window it has closed. Otherwise it sends
    /// none, or with `today` one.
    ///
    /// Cost: Three small packets a flow and outage.
    pub tr_acks: bool,
    /// How long after the announced time `freeze` leaves windows closed if no outage comes;
    /// `today` opens some sooner, 0.2 s after it or later.
    ///
    /// Cost: Longer: a false alarm costs this much more.
    #[serde(rename = "false_alarm_ms", with = "As::<Millis<10, 60_000>>")]
    pub false_alarm: Duration,
}

fn freeze() -> MobileScheme {
    MobileScheme::Freeze
}

impl MobileHostSettings {
    /// The parameters of a scheme as published.
    pub const fn new(scheme: MobileScheme) -> Self {
        Self {
            scheme,
            set: FreezeSet::Published,
            warning_round_trips: 1.0,
            tr_acks: true,
            false_alarm: Duration::from_millis(500),
        }
    }
}

/// The daemon's: for today's senders.
impl Default for MobileHostSettings {
    fn default() -> Self {
        Self {
            set: FreezeSet::Today,
            ..Self::new(MobileScheme::Freeze)
        }
    }
}
