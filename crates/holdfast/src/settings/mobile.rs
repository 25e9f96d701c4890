// SPDX-License-Identifier: Apache-2.0
//! `holdfast mobile`: its flags, its file, and what comes of both.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::time::Duration;

use holdfast_core::keep::KeepSettings;
use holdfast_core::mobile_host::{FreezeSet, MobileHostSettings, MobileScheme};
use holdfast_core::signal::{MobileKey, PORT_DEFAULT};
use holdfast_net::lccwe::Scope;
use toml::Value;

use super::SettingsError;
use super::file::{Section, SectionKeys, SettingsFile};
use super::gateway::LogFormat;
use super::keep::KEYS as KEEP_KEYS;
use super::key_file::read_key;
use super::keys::{Key, Kind, is_interface_name};

mod scheme;
mod sources;

use scheme::{SCHEME, SchemeChoice, scheme};
pub(crate) use sources::{ModemChoice, SOURCE_KEYS, SourceSettings};

/// `[mobile]` of a mobile's own settings file.
pub(crate) const MOBILE_DAEMON_KEYS: &[Key] = &[
    INTERFACE,
    GATEWAY,
    CELLS,
    KEY_FILE,
    KEEPALIVE,
    CONTROL_SOCKET,
    SCHEME,
    FREEZE_SET,
    WARNING_ROUND_TRIPS,
    TR_ACKS,
    FALSE_ALARM,
    FLOWS_MAX,
    DECOMPRESS,
    CONGESTION_CONTROL,
    CONGESTION_CONTROL_DEFAULT,
];

/// What a mobile's own settings file may hold.
const MOBILE_FILE: &[SectionKeys] = &[
    SectionKeys {
        name: "mobile",
        repeated: false,
        keys: MOBILE_DAEMON_KEYS,
    },
    SectionKeys {
        name: "keep",
        repeated: false,
        keys: KEEP_KEYS,
    },
    SectionKeys {
        name: "sources",
        repeated: false,
        keys: SOURCE_KEYS,
    },
];

const INTERFACE: Key = Key {
    path: "mobile.interface",
    kind: Kind::Interface,
    default: None,
    example: "\"wwan0\"",
    meaning: "The interface of the link. Its carrier is the link's state, its addresses are registered.",
    cost: "Has to be given, here or by `--interface`.",
};

const GATEWAY: Key = Key {
    path: "mobile.gateway",
    kind: Kind::Text,
    default: None,
    example: "\"192.0.2.1:4848\"",
    meaning: "The gateway's signal address: an address or a name, with or without a port (4848).",
    cost: "This, `--gateway` or `cells` has to be given, or a `scheme` that needs no gateway.",
};

const CELLS: Key = Key {
    path: "mobile.cells",
    kind: Kind::Cells,
    default: None,
    example: "[\"wlan0 10.2.0.1\", \"wlan1 10.3.0.1:4848\"]",
    meaning: "In place of `gateway`: several, each with the interface of its cell; `interface` is then the \
        one whose addresses are registered. The mobile is in the cell whose gateway is the next hop of its \
        default route; otherwise, when the interface of its cell has no carrier, in the first that has one; \
        or where `holdfast mobile signal up --gateway` says.",
    cost: "None.",
};

/// Cells at most.
const CELLS_MAX: usize = 64;

/// A gateway and the interface by which it is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    /// The interface; its carrier is the link's state.
    pub(crate) interface: String,
    /// The gateway's signal address, as given; it may need a resolver. None: the mobile is
    /// on its own.
    pub(crate) gateway: Option<String>,
}

const KEY_FILE: Key = Key {
    path: "mobile.key_file",
    kind: Kind::Path,
    default: Some("\"/etc/holdfast/mobile.key\""),
    example: "\"/etc/holdfast/mobile.key\"",
    meaning: "The file with the key that the gateway has too, made by `holdfast mobile keygen`.",
    cost: "None. Keep it readable by root alone.",
};

const KEEPALIVE: Key = Key {
    path: "mobile.keepalive_s",
    kind: Kind::Seconds {
        min: 1.0,
        max: 3_600.0,
    },
    default: Some("30"),
    example: "30",
    meaning: "Time between two registrations when nothing happens.",
    cost: "Shorter: a gateway that restarted knows the mobile sooner, for one datagram each.",
};

const CONTROL_SOCKET: Key = Key {
    path: "mobile.control_socket",
    kind: Kind::Path,
    default: Some("\"/run/holdfast/mobile.sock\""),
    example: "\"/run/holdfast/mobile.sock\"",
    meaning: "The Unix socket of `holdfast mobile signal` and `holdfast status --socket`.",
    cost: "None.",
};

const FREEZE_SET: Key = Key {
    path: "mobile.freeze_set",
    kind: Kind::Choice(&["2000", "today"]),
    default: Some("\"today\""),
    example: "\"today\"",
    meaning: "The parameter set of `freeze`. `2000`: as published, any warning closes the windows. `today`: only \
        those of flows for which one and a half of their round trips, as measured, end before the outage begins.",
    cost: "With `2000` a warning shorter than the round trip makes Linux senders far slower than no warning.",
};

const WARNING_ROUND_TRIPS: Key = Key {
    path: "mobile.warning_round_trips",
    kind: Kind::Factor {
        min: 0.05,
        max: 16.0,
    },
    default: Some("1"),
    example: "1",
    meaning: "How long before an announced outage `freeze` closes a flow's window, in round trips of the flow; \
        with `today` one more.",
    cost: "More: the flow idles before the outage. Less: what is on its way is lost in the outage.",
};

const TR_ACKS: Key = Key {
    path: "mobile.tr_acks",
    kind: Kind::Flag,
    default: Some("true"),
    example: "true",
    meaning: "Whether `freeze` sends three copies of the last ACK after an outage: with `2000` to every flow, with \
        `today` to those whose window it has closed; otherwise none, or with `today` one.",
    cost: "Three small packets a flow and outage.",
};

const FALSE_ALARM: Key = Key {
    path: "mobile.false_alarm_ms",
    kind: Kind::Millis {
        min: 10.0,
        max: 60_000.0,
    },
    default: Some("500"),
    example: "500",
    meaning: "How long after the announced time `freeze` keeps windows closed if no outage comes; `today` opens some sooner, 0.2 s after it or later.",
    cost: "More: a false alarm costs so much more.",
};

const FLOWS_MAX: Key = Key {
    path: "mobile.flows_max",
    kind: Kind::Count {
        min: 64,
        max: 1 << 20,
    },
    default: Some("8192"),
    example: "8192",
    meaning: "Flows that are followed; beyond, those that were seen least recently are forgotten.",
    cost: "About 300 bytes of kernel memory each.",
};

const DECOMPRESS: Key = Key {
    path: "mobile.decompress",
    kind: Kind::Flag,
    default: Some("true"),
    example: "true",
    meaning: "With `scheme = \"mtcp\"` and a gateway: restore segments that the gateway has compressed, and tell \
        it that this can be done. Whether it compresses is its own setting.",
    cost: "A device beside the interface and a thread; plain segments take no detour.",
};

const CONGESTION_CONTROL: Key = Key {
    path: "mobile.congestion_control",
    kind: Kind::Text,
    default: None,
    example: "\"holdfast_lccwe\"",
    meaning: "Registers the congestion control of LC and CWE in the kernel under this name, of at most 15 letters, \
        digits, `_` and `-`, and tells it when the interface loses its carrier and has it again. Sockets select it by \
        that name (`TCP_CONGESTION`), or `congestion_control_default` gives it to them. Needs no gateway.",
    cost: "The name is the whole kernel's, and goes with the daemon. Linux 6.1; where it cannot be, the log says why and \
        all else goes on. docs/schemes/lc-cwe.md says what it is good for.",
};

const CONGESTION_CONTROL_DEFAULT: Key = Key {
    path: "mobile.congestion_control_default",
    kind: Kind::Text,
    default: None,
    example: "\"namespace\"",
    meaning: "Whose new sockets have that congestion control without asking for it: `namespace`, all of the daemon's \
        network namespace (`net.ipv4.tcp_congestion_control`), or the folder of a control group in a `cgroup2` file \
        system, as `/sys/fs/cgroup/system.slice/backup.service`: those of its processes.",
    cost: "What was before is again when the daemon ends, however it ends. Connections that were made meanwhile keep what they have.",
};

/// The flags of the daemon.
#[derive(Debug, clap::Args)]
pub(crate) struct MobileDaemonArgs {
    /// The interface of the link
    #[arg(long, visible_alias = "iface", value_name = "IF", value_parser = interface)]
    interface: Option<String>,
    /// The gateway's signal address; port 4848 unless given
    #[arg(long, value_name = "HOST[:PORT]")]
    gateway: Option<String>,
    /// The file with the key
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// The settings file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where `holdfast mobile signal` finds the daemon
    #[arg(long, value_name = "PATH")]
    control_socket: Option<PathBuf>,
    /// Seconds between two registrations when nothing happens
    #[arg(long, value_name = "SECONDS", value_parser = keepalive)]
    keepalive: Option<Duration>,
    /// What to do for the own flows
    #[arg(long, value_name = "SCHEME", value_parser = scheme)]
    scheme: Option<SchemeChoice>,
    /// The parameter set of freeze: 2000 or today
    #[arg(long, value_name = "SET", value_parser = freeze_set)]
    freeze_set: Option<FreezeSet>,
    /// How to write the log, on standard error
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) log_format: LogFormat,
}

/// What a mobile's daemon runs with: flags over file over defaults.
#[derive(Debug)]
pub(crate) struct MobileSettings {
    /// The interface whose addresses are registered.
    pub(crate) interface: String,
    /// The gateways, one at least.
    pub(crate) cells: Vec<Cell>,
    /// The key; none without a gateway.
    pub(crate) key: Option<MobileKey>,
    /// Time between two registrations when nothing happens.
    pub(crate) keepalive: Duration,
    /// The control socket.
    pub(crate) control_socket: PathBuf,
    /// What to do for the own flows.
    pub(crate) host: Option<MobileHostSettings>,
    /// What to keep of what the mobile sends, if anything.
    pub(crate) keep: Option<KeepSettings>,
    /// How many of them to follow.
    pub(crate) flows_max: u32,
    /// Whether to restore what the gateway has compressed.
    pub(crate) decompress: bool,
    /// The name to register the congestion control of LC and CWE by, if it is to be.
    pub(crate) congestion_control: Option<String>,
    /// Whose sockets have it without asking.
    pub(crate) congestion_control_default: Option<Scope>,
    /// What tells of the link, beside the carrier.
    pub(crate) sources: SourceSettings,
}

fn freeze_set(text: &str) -> Result<FreezeSet, String> {
    let mut sets = FreezeSet::ALL.into_iter();
    sets.find(|set| set.name() == text)
        .ok_or_else(|| format!("takes {}", FREEZE_SET.kind.takes()))
}

fn interface(text: &str) -> Result<String, String> {
    is_interface_name(text)
        .then(|| text.to_owned())
        .ok_or_else(|| format!("takes {}", Kind::Interface.takes()))
}

fn keepalive(text: &str) -> Result<Duration, String> {
    text.parse::<f64>()
        .ok()
        .and_then(|number| KEEPALIVE.kind.duration(&Value::Float(number)))
        .ok_or_else(|| format!("takes {}", KEEPALIVE.kind.takes()))
}

/// Whose sockets have the congestion control without asking for it.
fn congestion_control_default(section: &Section<'_>) -> Result<Option<Scope>, SettingsError> {
    let key = &CONGESTION_CONTROL_DEFAULT;
    let Some(text) = section.get(key, Kind::text)? else {
        return Ok(None);
    };
    let scope = match section.get(&CONGESTION_CONTROL, Kind::text)? {
        Some(_) => text.parse().map(Some),
        None => Err("needs mobile.congestion_control, the name to register".to_owned()),
    };
    scope.map_err(|problem| section.error(key, problem))
}

impl MobileDaemonArgs {
    /// The settings of the flags, the file that they name, and the defaults.
    pub(crate) fn settings(&self) -> Result<MobileSettings, SettingsError> {
        let file = match &self.config {
            Some(path) => SettingsFile::read(path, MOBILE_FILE)?,
            None => SettingsFile::default(),
        };
        let section = file.section("mobile");
        let interface = required(&section, &INTERFACE, self.interface.as_ref(), "--interface")?;
        let choice = match self.scheme {
            Some(scheme) => Some(scheme),
            None => section.get(&SCHEME, |kind, value| scheme(&kind.text(value)?).ok())?,
        };
        let host = match choice {
            Some(SchemeChoice::Flows(scheme)) => Some(self.host(&section, scheme)?),
            Some(SchemeChoice::Keep) | None => None,
        };
        let keep = super::keep::settings(&file.section("keep"))?;
        let keep = (choice == Some(SchemeChoice::Keep)).then_some(keep);
        let congestion_control = section.get(&CONGESTION_CONTROL, Kind::text)?;
        let needs_gateway = choice.is_none() && congestion_control.is_none();
        let cells = self.cells(&section, &interface, needs_gateway)?;
        let path = |key: &Key, flag: Option<&PathBuf>| -> Result<PathBuf, SettingsError> {
            let from_file = section.get_or_default(key, Kind::text)?;
            Ok(flag.cloned().unwrap_or_else(|| from_file.into()))
        };
        let key = if cells.iter().any(|cell| cell.gateway.is_some()) {
            let key_file = path(&KEY_FILE, self.key_file.as_ref())?;
            Some(read_key(&key_file).map_err(|problem| section.error(&KEY_FILE, problem))?)
        } else {
            None
        };
        let keepalive = match self.keepalive {
            Some(keepalive) => keepalive,
            None => section.get_or_default(&KEEPALIVE, Kind::duration)?,
        };
        let control_socket = path(&CONTROL_SOCKET, self.control_socket.as_ref())?;
        let is_mtcp = host.is_some_and(|host| host.scheme == MobileScheme::Mtcp);
        let decompress = is_mtcp && section.get_or_default(&DECOMPRESS, Kind::flag)?;
        Ok(MobileSettings {
            interface,
            cells,
            key,
            keepalive,
            control_socket,
            host,
            keep,
            flows_max: section.get_or_default(&FLOWS_MAX, Kind::count)? as u32,
            decompress,
            congestion_control_default: congestion_control_default(&section)?,
            congestion_control,
            sources: SourceSettings::of(&file.section("sources"))?,
        })
    }

    /// The gateways, and what they are reached by.
    fn cells(
        &self,
        section: &Section<'_>,
        interface: &str,
        needs_gateway: bool,
    ) -> Result<Vec<Cell>, SettingsError> {
        let of = |gateway| {
            vec![Cell {
                interface: interface.to_owned(),
                gateway,
            }]
        };
        let listed = section.get(&CELLS, cells)?;
        match (listed, &self.gateway, section.value(&GATEWAY)) {
            (Some(_), None, Some(_)) => {
                let problem = "there is a `gateway` too; takes one of them";
                Err(section.error(&CELLS, problem))
            }
            (Some(cells), None, None) => Ok(cells),
            (None, None, None) if !needs_gateway => Ok(of(None)),
            _ => required(section, &GATEWAY, self.gateway.as_ref(), "--gateway")
                .map(|gateway| of(Some(gateway))),
        }
    }

    /// What to do for the own flows: flags over the section.
    fn host(
        &self,
        section: &Section<'_>,
        scheme: MobileScheme,
    ) -> Result<MobileHostSettings, SettingsError> {
        let set = if let Some(set) = self.freeze_set {
            set
        } else {
            let parsed = |kind: Kind, value: &Value| freeze_set(&kind.text(value)?).ok();
            section.get_or_default(&FREEZE_SET, parsed)?
        };
        let warning_round_trips = section.get_or_default(&WARNING_ROUND_TRIPS, Kind::factor)?;
        let tr_acks = section.get_or_default(&TR_ACKS, Kind::flag)?;
        let false_alarm = section.get_or_default(&FALSE_ALARM, Kind::duration)?;
        Ok(MobileHostSettings {
            scheme,
            set,
            warning_round_trips,
            tr_acks,
            false_alarm,
        })
    }
}

/// A text that has to be given, by its flag `name` or in the file.
fn required(
    section: &Section<'_>,
    key: &Key,
    flag: Option<&String>,
    name: &str,
) -> Result<String, SettingsError> {
    match flag {
        Some(value) => Ok(value.clone()),
        None => section.get(key, Kind::text)?.ok_or_else(|| {
            let takes = key.kind.takes();
            let problem = format!(
                "missing; takes {takes}, for example {} (or the flag {name})",
                key.example
            );
            section.error(key, problem)
        }),
    }
}

fn cells(_: Kind, value: &Value) -> Option<Vec<Cell>> {
    let values = value.as_array()?;
    if !(1..=CELLS_MAX).contains(&values.len()) {
        return None;
    }
    let cell = |text: &str| {
        let (interface, gateway) = text.split_once(' ')?;
        let gateway = gateway.trim();
        let one_word = !gateway.is_empty() && !gateway.contains(' ');
        (is_interface_name(interface) && one_word).then(|| Cell {
            interface: interface.into(),
            gateway: Some(gateway.into()),
        })
    };
    values.iter().map(|value| cell(value.as_str()?)).collect()
}

/// The gateway's address as sockets take it. Asks a resolver if it is a name.
pub(crate) fn resolve(gateway: &str) -> std::io::Result<SocketAddr> {
    let unbracketed = gateway.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = unbracketed.parse::<std::net::IpAddr>() {
        return Ok(SocketAddr::new(address, PORT_DEFAULT));
    }
    let has_port = gateway
        .rsplit_once(':')
        .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let mut addresses = if has_port {
        gateway.to_socket_addrs()?
    } else {
        (gateway, PORT_DEFAULT).to_socket_addrs()?
    };
    addresses
        .next()
        .ok_or_else(|| std::io::Error::other(format!("{gateway} has no address")))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Flags {
        #[command(flatten)]
        mobile: MobileDaemonArgs,
    }

    fn settings(arguments: &[&str]) -> Result<MobileSettings, String> {
        let arguments = ["holdfast", "--iface", "lo"].iter().chain(arguments);
        let flags = Flags::try_parse_from(arguments).map_err(|error| error.to_string())?;
        flags.mobile.settings().map_err(|error| error.to_string())
    }

    #[test]
    fn a_default_congestion_control_has_a_name_and_a_scope() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("mobile.toml");
        let scope = |lines: &str| {
            std::fs::write(&file, format!("[mobile]\n{lines}\n")).expect("a file");
            let path = file.to_str().expect("a path");
            let settings = settings(&["--config", path, "--scheme", "freeze"]);
            settings.map(|settings| settings.congestion_control_default)
        };
        let named = "congestion_control = \"holdfast_lccwe\"\ncongestion_control_default = ";
        assert_eq!(
            scope(&format!("{named}\"namespace\"")),
            Ok(Some(Scope::Namespace))
        );
        let group = Scope::Cgroup("/sys/fs/cgroup/a".into());
        assert_eq!(
            scope(&format!("{named}\"/sys/fs/cgroup/a\"")),
            Ok(Some(group))
        );
        let error = scope(&format!("{named}\"a\"")).expect_err("no scope");
        assert!(
            error.contains("mobile.congestion_control_default") && error.contains("got a, takes"),
            "{error}"
        );
        let error = scope("congestion_control_default = \"namespace\"").expect_err("no name");
        assert!(error.contains("needs mobile.congestion_control"), "{error}");
    }

    #[test]
    fn a_scheme_needs_neither_gateway_nor_key() {
        let settings = settings(&["--scheme", "freeze"]).expect("enough");
        let host = settings.host.expect("a scheme");
        assert_eq!(host.scheme, MobileScheme::Freeze);
        assert_eq!(host.set, FreezeSet::Today, "the one that does no harm");
        assert!(settings.key.is_none() && !settings.decompress);
        assert!(settings.cells.iter().all(|cell| cell.gateway.is_none()));
    }

    #[test]
    fn without_a_scheme_a_gateway_has_to_be_named() {
        let shown = settings(&[]).expect_err("too little");
        assert!(shown.contains("mobile.gateway"), "{shown}");
    }

    #[test]
    fn schemes_and_sets_that_are_none_are_refused_with_those_that_are() {
        for (flag, known) in [("--scheme", "fast-retransmit"), ("--freeze-set", "today")] {
            let shown = settings(&[flag, "wake-up"]).expect_err("unknown");
            assert!(shown.contains(known), "{shown}");
        }
        for scheme in MobileScheme::ALL {
            assert!(super::scheme::SCHEMES.contains(&scheme.name()));
        }
    }

    #[test]
    fn flags_stand_over_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let config = folder.path().join("mobile.toml");
        let text = "[mobile]\nscheme = \"mtcp\"\nfreeze_set = \"2000\"\nwarning_round_trips = 2\n\
            tr_acks = false\nfalse_alarm_ms = 250\nflows_max = 100\n";
        std::fs::write(&config, text).expect("written");
        let config = config.to_str().expect("a path");
        let settings = settings(&["--config", config, "--scheme", "freeze"]).expect("good");
        let expected = MobileHostSettings {
            scheme: MobileScheme::Freeze,
            set: FreezeSet::Published,
            warning_round_trips: 2.0,
            tr_acks: false,
            false_alarm: Duration::from_millis(250),
        };
        assert_eq!((settings.host, settings.flows_max), (Some(expected), 100));
    }
}
