// SPDX-License-Identifier: Apache-2.0
//! `holdfast gateway`: its flags, its file, and the settings from both.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use holdfast_core::signal::{MobileKey, PeerConfig};
use holdfast_core::{LinkState, MtcpSetUp, Scheme, Settings};
use holdfast_settings::gateway::{GATEWAY_SOCKET, GatewayDaemon};
use holdfast_settings::keep::KeepSettings;
use holdfast_settings::kind::{Kind as _, takes};
use holdfast_settings::metrics::MetricsSettings;
use holdfast_settings::mtcp::{MtcpChoice, MtcpCompression, MtcpSettings};
use holdfast_settings::signals::{MobileEntry, SignalSettings};
use holdfast_settings::snoop::{SnoopSet, SnoopSettings};
use holdfast_settings::text::{InterfaceName, Interfaces, Listen};
use holdfast_settings::web::WebSettings;

use super::file::{SectionValues, SettingsFile};
use super::keys::GATEWAY_FILE;
use super::reload::{GATEWAY_LIVE, Reloaded};
use super::{SettingsError, key_file};
use crate::control::link_state;
use crate::web;

mod handoff;

pub(crate) use handoff::StationSettings;
pub(crate) use holdfast_settings::gateway::SchemeName;

/// The limit of `[[mobile]]` sections in a file.
const MOBILES_MAX: usize = 4096;

/// The variable of the environment with the log's filter.
pub(crate) const FILTER_VARIABLE: &str = "HOLDFAST_LOG";

/// Whether the environment has a filter, even a wrong one: it overrides the filter of the settings.
pub(super) fn is_filtered_by_environment() -> bool {
    std::env::var_os(FILTER_VARIABLE).is_some()
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
#[derive(Clone, Debug, Default, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Flags override the file. Every key of the file: docs/settings.md, holdfast.toml(5).

Examples:
  holdfast gateway --wireless wlan0 --check
  holdfast gateway --wireless wlan0 --wired eth0 --scheme hold
  holdfast gateway --wireless wlan0 --scheme snoop --snoop-set 1995
  holdfast gateway --config /etc/holdfast/holdfast.toml --log-format json
  holdfast gateway --wireless wlan0 --web 127.0.0.1:8484
  holdfast gateway signal 10.9.0.2 down"
)]
pub(crate) struct GatewayArgs {
    /// Something else than to run the daemon
    #[command(subcommand)]
    pub(crate) command: Option<GatewayCommand>,
    /// The interface toward the mobiles; again for each further one
    #[arg(long, value_name = "IF", value_parser = interface)]
    wireless: Vec<String>,
    /// The interface toward the fixed hosts, for --check
    #[arg(long, value_name = "IF", value_parser = interface)]
    wired: Option<String>,
    /// What is done for the flows
    #[arg(long, value_enum, value_name = "SCHEME")]
    scheme: Option<SchemeName>,
    /// Which Snoop, for the scheme snoop
    #[arg(long, value_enum, value_name = "SET")]
    snoop_set: Option<SnoopSet>,
    /// The settings file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Check what in the router's configuration bypasses or disturbs the gateway, and end
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
    /// Where to receive the mobiles' signals
    #[arg(long, value_name = "ADDRESS:PORT")]
    signal_listen: Option<SocketAddr>,
    /// Where to serve the live page
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = web::listen)]
    web: Option<Listen>,
}

/// Other things than to run the daemon.
#[derive(Clone, Debug, clap::Subcommand)]
pub(crate) enum GatewayCommand {
    /// Report a mobile's link to the running daemon, as a script that watches a modem would
    #[command(after_help = "Example:\n  holdfast gateway signal 10.9.0.2 going-down-soon")]
    Signal {
        /// An address of the mobile
        address: IpAddr,
        /// What happened to its link
        #[arg(value_parser = link_state())]
        event: LinkState,
        /// The daemon's control socket
        #[arg(long, value_name = "PATH", default_value = GATEWAY_SOCKET)]
        socket: PathBuf,
    },
}

/// The settings of a gateway: flags over file over defaults.
#[derive(Debug)]
pub(crate) struct GatewaySettings {
    /// The interfaces toward the mobiles, one at least.
    pub(crate) wireless: Vec<String>,
    /// The other keys of `[gateway]` that the engine does not need.
    pub(crate) daemon: GatewayDaemon,
    /// The queues of `keep`.
    pub(crate) keep: KeepSettings,
    /// The settings of the engine, the scheme among them.
    pub(crate) core: Settings,
    /// How the gateway receives signals.
    pub(crate) signals: SignalSettings,
    /// The mobiles that may send signals; without any the socket is not opened.
    pub(crate) mobiles: Vec<PeerConfig>,
    /// Where metrics are served.
    pub(crate) metrics: MetricsSettings,
    /// Where the live page is served.
    pub(crate) web: WebSettings,
    /// The settings as a base station, if there are neighbours.
    pub(crate) station: Option<StationSettings>,
    /// The file of these settings.
    file: SettingsFile,
}

impl GatewaySettings {
    /// The settings of a file with this text, without flags.
    pub(crate) fn of_text(path: &Path, text: &str) -> Result<Self, SettingsError> {
        GatewayArgs::default().over(&SettingsFile::parse(path, text, &GATEWAY_FILE)?)
    }
}

/// For clap: a name that an interface can have.
pub(crate) fn interface(text: &str) -> Result<String, String> {
    InterfaceName::of_text(text).ok_or_else(takes::<InterfaceName, String>)
}

impl GatewaySettings {
    /// The state file for an interface: each of several interfaces has its own.
    pub(crate) fn state_file(&self, wireless: &str) -> PathBuf {
        let path = &self.daemon.state_file;
        match self.wireless.as_slice() {
            [_] => path.into(),
            _ => format!("{path}.{wireless}").into(),
        }
    }
}

impl GatewayArgs {
    /// The settings of the flags, the file that they name, and the defaults.
    pub(crate) fn settings(&self) -> Result<GatewaySettings, SettingsError> {
        let file = SettingsFile::of(self.config.as_deref(), &GATEWAY_FILE)?;
        let settings = self.over(&file)?;
        if let Some(path) = &self.config
            && file.repeated("mobile").any(|entry| entry.has("key"))
        {
            key_file::warn_of_readers(path);
        }
        Ok(settings)
    }

    /// Reads the file of the present settings again.
    pub(crate) fn reload(
        &self,
        running: &GatewaySettings,
    ) -> Result<Reloaded<GatewaySettings>, SettingsError> {
        let over = |file: &SettingsFile| self.over(file);
        let applies = |key: &str, _: &GatewaySettings| GATEWAY_LIVE.contains(&key);
        let stands_over = |key: &str| self.over_key(key);
        let config = self.config.as_deref();
        let mut reloaded = Reloaded::read(config, &running.file, stands_over, applies, over)?;
        let keys = |settings: &GatewaySettings| -> Vec<_> {
            let mobiles = settings.mobiles.iter();
            mobiles.map(|mobile| mobile.key.clone()).collect()
        };
        if keys(&reloaded.settings) != keys(running) {
            reloaded.note_replaced_file("mobile");
        }
        Ok(reloaded)
    }

    /// The given flag, or the variable, that overrides this key of the file.
    fn over_key(&self, key: &str) -> Option<&'static str> {
        let (name, is_given) = match key {
            "gateway.wireless" => ("--wireless", !self.wireless.is_empty()),
            "gateway.wired" => ("--wired", self.wired.is_some()),
            "gateway.scheme" => ("--scheme", self.scheme.is_some()),
            "gateway.control_socket" => ("--control-socket", self.control_socket.is_some()),
            "gateway.state_file" => ("--state-file", self.state_file.is_some()),
            "gateway.log_filter" => (FILTER_VARIABLE, is_filtered_by_environment()),
            "snoop.set" => ("--snoop-set", self.snoop_set.is_some()),
            "signals.listen" => ("--signal-listen", self.signal_listen.is_some()),
            "web.listen" => ("--web", self.web.is_some()),
            _ => return None,
        };
        is_given.then_some(name)
    }

    /// The settings of the flags and of a file that was read already.
    pub(super) fn over(&self, file: &SettingsFile) -> Result<GatewaySettings, SettingsError> {
        let section = file.section("gateway");
        let daemon = self.daemon(&section)?;
        let wireless = daemon.wireless.clone();
        if wireless.is_empty() {
            return Err(section.missing_or_flag("wireless", "--wireless"));
        }
        if let Some(wired) = daemon
            .wired
            .as_ref()
            .filter(|wired| wireless.contains(wired))
        {
            let problem = format!(
                "got {wired:?}, which is the wireless interface; takes the one toward the fixed hosts"
            );
            return Err(section.error("wired", problem));
        }
        section.check_log_filter(daemon.log_filter.as_deref())?;
        let core = self.core(file, daemon.scheme)?;
        core.check().map_err(|error| section.contradiction(error))?;
        let wired = daemon.wired.as_deref();
        let station = handoff::settings(&file.section("handoff"), daemon.scheme, wired)?;
        if wireless.len() > 1
            && let Some(scheme) = scheme_of_one_interface(&core)
        {
            let problem = format!(
                "got {} interfaces with {scheme}, whose flows break when they change to another interface; \
                 takes one, or another scheme",
                wireless.len()
            );
            return Err(section.error("wireless", problem));
        }
        if station.is_some() && wireless.len() > 1 {
            let problem = "there is a [handoff] too, which takes one wireless interface";
            return Err(section.error("wireless", problem));
        }
        let mut signals: SignalSettings = file.section("signals").read()?;
        signals.listen = self.signal_listen.unwrap_or(signals.listen);
        let metrics: MetricsSettings = file.section("metrics").read()?;
        let web: WebSettings = file.section("web").read()?;
        let web = web.with_flag(self.web.as_ref());
        super::refuse_shared_address(file, &metrics, &web, self.web.as_ref())?;
        Ok(GatewaySettings {
            wireless,
            daemon,
            keep: file
                .section("keep")
                .read::<KeepSettings>()?
                .with_flow_bytes(),
            core,
            signals,
            mobiles: mobiles(file)?,
            metrics,
            web,
            station,
            file: file.clone(),
        })
    }

    /// The daemon's keys; flags override them.
    fn daemon(&self, section: &SectionValues<'_>) -> Result<GatewayDaemon, SettingsError> {
        let daemon: GatewayDaemon = section.read()?;
        let path = |name: &str, flag: &Option<PathBuf>, own: String| match flag {
            Some(path) => path.to_str().map(str::to_owned).ok_or_else(|| {
                let problem = format!("got {}, takes a path in UTF-8", path.display());
                SettingsError::at_key(None, name, problem)
            }),
            None => Ok(own),
        };
        Ok(GatewayDaemon {
            scheme: self.scheme.unwrap_or(daemon.scheme),
            wireless: self.wireless(daemon.wireless)?,
            wired: self.wired.clone().or(daemon.wired),
            control_socket: path(
                "--control-socket",
                &self.control_socket,
                daemon.control_socket,
            )?,
            state_file: path("--state-file", &self.state_file, daemon.state_file)?,
            ..daemon
        })
    }

    /// The wireless interfaces of the flags, or those of the file.
    fn wireless(&self, own: Vec<String>) -> Result<Vec<String>, SettingsError> {
        if self.wireless.is_empty() {
            return Ok(own);
        }
        Interfaces::of_list(&self.wireless).ok_or_else(|| {
            let problem = format!(
                "got {}, takes up to 16 interfaces, each once",
                self.wireless.join(" ")
            );
            SettingsError::at_key(None, "--wireless", problem)
        })
    }

    /// The settings of the engine.
    fn core(&self, file: &SettingsFile, scheme: SchemeName) -> Result<Settings, SettingsError> {
        let (mtcp, snoop) = (file.section("mtcp"), file.section("snoop"));
        let mtcp_set = mtcp.read::<MtcpChoice>()?.set;
        let snoop_set = match self.snoop_set {
            Some(set) => set,
            None => snoop.read::<SnoopSettings>()?.set,
        };
        if self.snoop_set.is_some() && !matches!(scheme, SchemeName::Snoop | SchemeName::Auto) {
            let problem = format!(
                "got a set, which the scheme {} does not use; takes --scheme snoop with it",
                scheme.name()
            );
            return Err(SettingsError::at_key(None, "--snoop-set", problem));
        }
        if scheme == SchemeName::Auto && snoop_set == SnoopSet::Paper1995 {
            let problem =
                "got 1995, with which `auto` retransmits nothing; takes today, or the scheme snoop";
            return Err(match self.snoop_set {
                Some(_) => SettingsError::at_key(None, "--snoop-set", problem),
                None => snoop.error("set", problem),
            });
        }
        Ok(Settings {
            // `keep` has a worker of its own, which does not use these settings.
            scheme: scheme.for_flows().unwrap_or_default(),
            bandwidth: file.section("bandwidth").read()?,
            mtcp: mtcp.read_over(&MtcpSettings::of_set(mtcp_set))?,
            compression: mtcp.read::<MtcpCompression>()?.settings(),
            snoop: SnoopSettings {
                set: snoop_set,
                ..snoop.read_over(&SnoopSettings::of_set(snoop_set))?
            },
            ..file.section("gateway").read()?
        })
    }
}

/// The mobiles that may send signals.
fn mobiles(file: &SettingsFile) -> Result<Vec<PeerConfig>, SettingsError> {
    let mut mobiles: Vec<PeerConfig> = Vec::new();
    for entry in file.repeated("mobile") {
        let mobile = mobile(&entry)?;
        if mobiles.len() == MOBILES_MAX {
            let problem = format!("there are more than {MOBILES_MAX} mobiles");
            return Err(entry.error("name", problem));
        }
        refuse_twins(&entry, &mobile, &mobiles)?;
        mobiles.push(mobile);
    }
    Ok(mobiles)
}

/// One `[[mobile]]`.
fn mobile(entry: &SectionValues<'_>) -> Result<PeerConfig, SettingsError> {
    let keys: MobileEntry = entry.read()?;
    let name = keys.name.ok_or_else(|| entry.missing("name"))?;
    let key: MobileKey = match (keys.key, keys.key_file) {
        (Some(key), None) => key.parse().map_err(|_| entry.refused("key"))?,
        (None, Some(file)) => key_file::read_key(Path::new(&file))
            .map_err(|problem| entry.error("key_file", problem))?,
        (None, None) => return Err(entry.missing("key")),
        (Some(_), Some(_)) => {
            let problem = "there is a `key` too; takes one of them";
            return Err(entry.error("key_file", problem));
        }
    };
    if keys.addresses.is_empty() {
        return Err(entry.missing("addresses"));
    }
    Ok(PeerConfig {
        name,
        key,
        allowed: keys.addresses,
    })
}

/// The scheme, if its flows break when they move to the engine of another interface. The MH lacks acknowledged
/// bytes, or both halves have sequence numbers of their own.
fn scheme_of_one_interface(core: &Settings) -> Option<&'static str> {
    match core.scheme {
        Scheme::MtcpPlus => Some("mtcp-plus"),
        Scheme::Mtcp if core.mtcp.set_up == MtcpSetUp::Early => Some("mtcp and set_up = \"early\""),
        _ => None,
    }
}

/// Refuses a mobile with the name or the key of another one.
fn refuse_twins(
    entry: &SectionValues<'_>,
    mobile: &PeerConfig,
    others: &[PeerConfig],
) -> Result<(), SettingsError> {
    for other in others {
        if other.name == mobile.name {
            let problem = format!(
                "got {:?}, which another mobile has; takes another name",
                mobile.name
            );
            return Err(entry.error("name", problem));
        }
        if other.key.id() == mobile.key.id() {
            let problem = format!(
                "this is the key of {:?} too; takes a key of its own, made by `holdfast mobile keygen`",
                other.name
            );
            return Err(entry.error("key", problem));
        }
    }
    Ok(())
}
