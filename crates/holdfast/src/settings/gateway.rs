// SPDX-License-Identifier: Apache-2.0
//! `holdfast gateway`: its flags, its file, and what comes of both.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use holdfast_core::keep::KeepSettings;
use holdfast_core::signal::{MobileKey, PORT_DEFAULT, PeerConfig, Prefix};
use holdfast_core::{Scheme, Settings};
use serde::Deserialize;
use toml::Value;

use super::file::{Section, SectionKeys, SettingsFile};
use super::keep::KEYS as KEEP_KEYS;
use super::keys::{Kind, is_interface_name};
use super::{GATEWAY_SOCKET, SettingsError};
use crate::control::LinkEvent;

mod bandwidth;
mod compression;
mod handoff;
mod key;
mod mtcp;
mod snoop;

pub(crate) use bandwidth::KEYS as BANDWIDTH_KEYS;
pub(crate) use handoff::{KEYS as HANDOFF_KEYS, StationSettings};
pub(crate) use key::{GATEWAY_KEYS, MOBILE_ENTRY_KEYS, SIGNAL_KEYS, SNOOP_KEYS};
pub(crate) use mtcp::KEYS as MTCP_KEYS;
use snoop::SnoopSetName;

/// What a gateway's settings file may hold.
pub(crate) const GATEWAY_FILE: &[SectionKeys] = &[
    SectionKeys {
        name: "gateway",
        repeated: false,
        keys: GATEWAY_KEYS,
    },
    SectionKeys {
        name: "bandwidth",
        repeated: false,
        keys: BANDWIDTH_KEYS,
    },
    SectionKeys {
        name: "mtcp",
        repeated: false,
        keys: MTCP_KEYS,
    },
    SectionKeys {
        name: "keep",
        repeated: false,
        keys: KEEP_KEYS,
    },
    SectionKeys {
        name: "snoop",
        repeated: false,
        keys: SNOOP_KEYS,
    },
    SectionKeys {
        name: "signals",
        repeated: false,
        keys: SIGNAL_KEYS,
    },
    SectionKeys {
        name: "handoff",
        repeated: false,
        keys: HANDOFF_KEYS,
    },
    SectionKeys {
        name: "mobile",
        repeated: true,
        keys: MOBILE_ENTRY_KEYS,
    },
];

/// Most `[[mobile]]` sections of a file.
const MOBILES_MAX: usize = 4096;
/// Most addresses or prefixes of one.
const PREFIXES_MAX: usize = 64;

/// The schemes that a gateway knows, as `--scheme` takes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SchemeName {
    /// Keep the segments of an outage and send them on after it; touch no ACK
    #[default]
    Hold,
    /// M-TCP+: the same, and acknowledge what is kept while the link is down
    MtcpPlus,
    /// M-TCP: split connections here, keep fixed hosts waiting while the link is down
    Mtcp,
    /// Keep the newest packets of an outage, of any protocol, and send them on after it
    Keep,
    /// Snoop: retransmit what the wireless half loses, and hide the loss from the fixed host
    Snoop,
    /// Pass every segment, and count what outages cost
    Observe,
}

impl SchemeName {
    /// The name as `--scheme` takes it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::MtcpPlus => "mtcp-plus",
            Self::Mtcp => "mtcp",
            Self::Snoop => "snoop",
            Self::Keep => "keep",
            Self::Observe => "observe",
        }
    }
}

/// How a daemon writes its log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for people
    #[default]
    Text,
    /// One JSON object a line
    Json,
}

/// Carry the TCP of mobiles through the outages of their links: the daemon for a router
/// between the wired and the wireless part of a network.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Flags override the file. Every key of the file: docs/settings.md, holdfast.toml(5).

Examples:
  holdfast gateway --wireless wlan0 --check
  holdfast gateway --wireless wlan0 --wired eth0 --scheme hold
  holdfast gateway --wireless wlan0 --scheme snoop --snoop-set 1995
  holdfast gateway --config /etc/holdfast/holdfast.toml --log-format json
  holdfast gateway signal 10.9.0.2 down"
)]
pub(crate) struct GatewayArgs {
    /// Something else than to run the daemon
    #[command(subcommand)]
    pub(crate) command: Option<GatewayCommand>,
    /// The interface toward the mobiles
    #[arg(long, value_name = "IF", value_parser = interface)]
    wireless: Option<String>,
    /// The interface toward the fixed hosts, for --check
    #[arg(long, value_name = "IF", value_parser = interface)]
    wired: Option<String>,
    /// What is done for the flows
    #[arg(long, value_enum, value_name = "SCHEME")]
    scheme: Option<SchemeName>,
    /// Which Snoop, for the scheme snoop
    #[arg(long, value_enum, value_name = "SET")]
    snoop_set: Option<SnoopSetName>,
    /// The settings file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Look at the router's set-up, say what goes round or against the gateway, and end
    #[arg(long)]
    pub(crate) check: bool,
    /// How to write the log, on standard error
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) log_format: LogFormat,
    /// Where `holdfast status` finds the daemon
    #[arg(long, value_name = "PATH")]
    control_socket: Option<PathBuf>,
    /// Where the daemon keeps what its successor needs
    #[arg(long, value_name = "PATH")]
    state_file: Option<PathBuf>,
    /// Where to hear the mobiles' signals
    #[arg(long, value_name = "ADDRESS:PORT")]
    signal_listen: Option<SocketAddr>,
}

/// Other things than to run the daemon.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum GatewayCommand {
    /// Tell the running daemon about a mobile's link, as a script that watches a modem would
    #[command(after_help = "Example:\n  holdfast gateway signal 10.9.0.2 going-down-soon")]
    Signal {
        /// An address of the mobile
        address: IpAddr,
        /// What happened to its link
        event: LinkEvent,
        /// The daemon's control socket
        #[arg(long, value_name = "PATH", default_value = GATEWAY_SOCKET)]
        socket: PathBuf,
    },
}

/// What a gateway runs with: flags over file over defaults.
#[derive(Debug)]
pub(crate) struct GatewaySettings {
    /// What is done for the flows.
    pub(crate) scheme: SchemeName,
    /// The interface toward the mobiles.
    pub(crate) wireless: String,
    /// The interface toward the fixed hosts, where one was named.
    pub(crate) wired: Option<String>,
    /// What `keep` keeps.
    pub(crate) keep: KeepSettings,
    /// The settings of the mechanisms, `scheme` among them.
    pub(crate) core: Settings,
    /// How long SIGTERM waits for the MHs' ACKs of bytes acknowledged ahead of them.
    pub(crate) drain: Duration,
    /// The DSCP of what goes ahead of ordinary traffic, 0 to 63; none: its sender's.
    pub(crate) resend_dscp: Option<u8>,
    /// The control socket.
    pub(crate) control_socket: PathBuf,
    /// Where the successor finds what it needs.
    pub(crate) state_file: PathBuf,
    /// The link signals.
    pub(crate) signals: SignalSettings,
    /// The neighbours, where there are some.
    pub(crate) station: Option<StationSettings>,
}

/// How the gateway hears its mobiles.
#[derive(Debug)]
pub(crate) struct SignalSettings {
    /// Where datagrams come in.
    pub(crate) listen: SocketAddr,
    /// How long an address stays with a mobile that is not heard.
    pub(crate) registration_lifetime: Duration,
    /// The mobiles that may speak; without any the socket need not be opened.
    pub(crate) mobiles: Vec<PeerConfig>,
}

/// For clap: a name that an interface can have.
fn interface(text: &str) -> Result<String, String> {
    if is_interface_name(text) {
        return Ok(text.to_owned());
    }
    Err(format!("takes {}", Kind::Interface.takes()))
}

impl GatewayArgs {
    /// The settings of the flags, the file that they name, and the defaults.
    pub(crate) fn settings(&self) -> Result<GatewaySettings, SettingsError> {
        let file = match &self.config {
            Some(path) => SettingsFile::read(path, GATEWAY_FILE)?,
            None => SettingsFile::default(),
        };
        let has_key = |entry: Section<'_>| entry.value(&key::MOBILE_KEY).is_some();
        if let Some(path) = self
            .config
            .as_ref()
            .filter(|_| file.sections("mobile").any(has_key))
        {
            super::key_file::warn_of_readers(path);
        }
        self.over(&file)
    }

    /// The same, of a file that is read already.
    pub(super) fn over(&self, file: &SettingsFile) -> Result<GatewaySettings, SettingsError> {
        let section = file.section("gateway");
        let scheme = match self.scheme {
            Some(scheme) => scheme,
            None => section.get_or_default(&key::SCHEME, scheme_of)?,
        };
        let wireless = match &self.wireless {
            Some(wireless) => wireless.clone(),
            None => section
                .get(&key::WIRELESS, Kind::text)?
                .ok_or_else(|| section.error(&key::WIRELESS, MISSING_WIRELESS))?,
        };
        let wired = section.get(&key::WIRED, Kind::text)?;
        let wired = self.wired.clone().or(wired);
        if wired.as_ref() == Some(&wireless) {
            let problem = format!(
                "got {wireless:?}, which is the wireless interface; takes the one toward the fixed hosts"
            );
            return Err(section.error(&key::WIRED, problem));
        }
        let control_socket = path(&section, &key::CONTROL_SOCKET, self.control_socket.as_ref())?;
        let state_file = path(&section, &key::STATE_FILE, self.state_file.as_ref())?;
        let station = handoff::settings(&file.section("handoff"), scheme, wired.as_deref())?;
        Ok(GatewaySettings {
            station,
            keep: super::keep::settings(&file.section("keep"))?,
            scheme,
            wireless,
            wired,
            core: Settings {
                bandwidth: bandwidth::settings(&file.section("bandwidth"))?,
                mtcp: mtcp::settings(&file.section("mtcp"))?,
                compression: compression::settings(&file.section("mtcp"))?,
                snoop: snoop::settings(&file.section("snoop"), self.snoop_set)?,
                ..core_settings(&section, scheme)?
            },
            drain: section.get_or_default(&key::DRAIN, Kind::duration)?,
            resend_dscp: section.get(&key::RESEND_DSCP, Kind::dscp)?,
            control_socket,
            state_file,
            signals: self.signals(file)?,
        })
    }

    fn signals(&self, file: &SettingsFile) -> Result<SignalSettings, SettingsError> {
        let section = file.section("signals");
        let listen = match self.signal_listen {
            Some(listen) => listen,
            None => section.get_or_default(&key::LISTEN, socket_address)?,
        };
        let mut mobiles: Vec<PeerConfig> = Vec::new();
        for entry in file.sections("mobile") {
            let mobile = mobile(&entry)?;
            if mobiles.len() == MOBILES_MAX {
                let problem = format!("there are more than {MOBILES_MAX} mobiles");
                return Err(entry.error(&key::MOBILE_NAME, problem));
            }
            refuse_twins(&entry, &mobile, &mobiles)?;
            mobiles.push(mobile);
        }
        let registration_lifetime =
            section.get_or_default(&key::REGISTRATION_LIFETIME, Kind::duration)?;
        Ok(SignalSettings {
            listen,
            registration_lifetime,
            mobiles,
        })
    }
}

const MISSING_WIRELESS: &str = "missing; takes the name of the interface toward the mobiles, \
    for example \"wlan0\" (or the flag --wireless wlan0)";

fn scheme_of(kind: Kind, value: &Value) -> Option<SchemeName> {
    clap::ValueEnum::from_str(&kind.text(value)?, false).ok()
}

fn socket_address(kind: Kind, value: &Value) -> Option<SocketAddr> {
    kind.text(value)?.parse().ok()
}

fn path(
    section: &Section<'_>,
    key: &super::Key,
    flag: Option<&PathBuf>,
) -> Result<PathBuf, SettingsError> {
    let from_file = section.get_or_default(key, Kind::text)?;
    Ok(flag.cloned().unwrap_or_else(|| from_file.into()))
}

/// The settings of the mechanisms.
fn core_settings(section: &Section<'_>, scheme: SchemeName) -> Result<Settings, SettingsError> {
    let bytes = |key| {
        section
            .get_or_default(key, Kind::bytes)
            .map(|bytes| bytes as usize)
    };
    let count = |key| {
        section
            .get_or_default(key, Kind::count)
            .map(|count| count as usize)
    };
    let time = |key| section.get_or_default(key, Kind::duration);
    let settings = Settings {
        scheme: match scheme {
            // `keep` has a worker of its own, which asks for none of this.
            SchemeName::Hold | SchemeName::Keep => Scheme::Hold,
            SchemeName::MtcpPlus => Scheme::MtcpPlus,
            SchemeName::Mtcp => Scheme::Mtcp,
            SchemeName::Snoop => Scheme::Snoop,
            SchemeName::Observe => Scheme::Observe,
        },
        flows_max: count(&key::FLOWS_MAX)?,
        cache_bytes_max: bytes(&key::CACHE_BYTES_MAX)?,
        flow_cache_bytes_max: bytes(&key::FLOW_CACHE_BYTES_MAX)?,
        flow_cache_entries_max: count(&key::FLOW_CACHE_ENTRIES_MAX)?,
        silence_min: time(&key::SILENCE_MIN)?,
        probe_interval_min: time(&key::PROBE_INTERVAL_MIN)?,
        probe_interval_max: time(&key::PROBE_INTERVAL_MAX)?,
        flow_idle_max: time(&key::FLOW_IDLE_MAX)?,
        owed_wait_max: time(&key::OWED_WAIT)?,
        ..Settings::default()
    };
    if settings.flow_cache_bytes_max > settings.cache_bytes_max {
        let problem = format!(
            "got {}, more than all flows together may keep; takes at most gateway.cache_bytes_max, {}",
            super::keys::size_text(settings.flow_cache_bytes_max as u64),
            super::keys::size_text(settings.cache_bytes_max as u64),
        );
        return Err(section.error(&key::FLOW_CACHE_BYTES_MAX, problem));
    }
    if settings.probe_interval_min > settings.probe_interval_max {
        let problem = format!(
            "got {} ms, takes at most gateway.probe_interval_max_ms, {} ms",
            settings.probe_interval_min.as_millis(),
            settings.probe_interval_max.as_millis(),
        );
        return Err(section.error(&key::PROBE_INTERVAL_MIN, problem));
    }
    Ok(settings)
}

/// One `[[mobile]]`.
fn mobile(entry: &Section<'_>) -> Result<PeerConfig, SettingsError> {
    let name = entry.require(&key::MOBILE_NAME, Kind::text)?;
    let key = entry.get(&key::MOBILE_KEY, secret_key)?;
    let file = entry.get(&key::MOBILE_KEY_FILE, Kind::text)?;
    let key = match (key, file) {
        (Some(key), None) => key,
        (None, Some(file)) => super::key_file::read_key(file.as_ref())
            .map_err(|problem| entry.error(&key::MOBILE_KEY_FILE, problem))?,
        (None, None) => return Err(entry.missing(&key::MOBILE_KEY)),
        (Some(_), Some(_)) => {
            return Err(entry.error(
                &key::MOBILE_KEY_FILE,
                "there is a `key` too; takes one of them",
            ));
        }
    };
    let allowed = entry.require(&key::MOBILE_ADDRESSES, prefixes)?;
    Ok(PeerConfig { name, key, allowed })
}

fn secret_key(kind: Kind, value: &Value) -> Option<MobileKey> {
    kind.text(value)?.parse().ok()
}

fn prefixes(_: Kind, value: &Value) -> Option<Vec<Prefix>> {
    let values = value.as_array()?;
    if !(1..=PREFIXES_MAX).contains(&values.len()) {
        return None;
    }
    values
        .iter()
        .map(|value| value.as_str()?.parse().ok())
        .collect()
}

/// Names and keys tell mobiles apart.
fn refuse_twins(
    entry: &Section<'_>,
    mobile: &PeerConfig,
    others: &[PeerConfig],
) -> Result<(), SettingsError> {
    for other in others {
        if other.name == mobile.name {
            let problem = format!(
                "got {:?}, which another mobile has; takes another name",
                mobile.name
            );
            return Err(entry.error(&key::MOBILE_NAME, problem));
        }
        if other.key.id() == mobile.key.id() {
            let problem = format!(
                "this is the key of {:?} too; takes a key of its own, made by `holdfast mobile keygen`",
                other.name
            );
            return Err(entry.error(&key::MOBILE_KEY, problem));
        }
    }
    Ok(())
}

/// The port in the default of `signals.listen` is the documented one.
const _: () = assert!(PORT_DEFAULT == 4848);
