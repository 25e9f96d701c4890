// SPDX-License-Identifier: Apache-2.0
//! `holdfast mobile`: its flags, its file, and the settings from both.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use holdfast_core::keep::KeepSettings;
use holdfast_core::mobile_host::{FreezeSet, MobileHostSettings, MobileScheme};
use holdfast_core::signal::{MobileKey, PORT_DEFAULT};
use holdfast_net::lccwe::check_name;
use holdfast_settings::kind::{Kind, Seconds, takes};
use holdfast_settings::metrics::MetricsSettings;
use holdfast_settings::mobile::{MobileDaemon, MobileSchemeName};
use holdfast_settings::text::Listen;
use holdfast_settings::web::WebSettings;

use super::SettingsError;
use super::file::{SectionValues, SettingsFile};
use super::gateway::{FILTER_VARIABLE, LogFormat, interface, is_filtered_by_environment};
use super::key_file::read_key;
use super::keys::MOBILE_FILE;
use super::reload::{MOBILE_LIVE, Reloaded};
use crate::web;

mod sources;

pub(crate) use holdfast_settings::mobile::Cell;
pub(crate) use sources::{ModemChoice, SourceSettings};

/// The key that names the file of the mobile's key.
const KEY_FILE: &str = "mobile.key_file";

/// The flags of the daemon.
#[derive(Clone, Debug, Default, clap::Args)]
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
    /// Check whether interface, link sources and gateway are as the daemon needs them, and end
    #[arg(long)]
    pub(crate) check: bool,
    /// Where `holdfast mobile signal` finds the daemon
    #[arg(long, value_name = "PATH")]
    control_socket: Option<PathBuf>,
    /// Seconds between two registrations when nothing happens
    #[arg(long, value_name = "SECONDS", value_parser = keepalive)]
    keepalive: Option<Duration>,
    /// What to do for the flows of this host and of hosts behind it
    #[arg(long, value_name = "SCHEME", value_enum)]
    scheme: Option<MobileSchemeName>,
    /// The parameter set of freeze
    #[arg(long, value_name = "SET", value_enum)]
    freeze_set: Option<FreezeSet>,
    /// Where to serve the live page
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = web::listen)]
    web: Option<Listen>,
    /// How to write the log, on standard error
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub(crate) log_format: LogFormat,
}

/// The settings of a mobile's daemon: flags over file over defaults.
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
    /// The scheme that was chosen.
    pub(crate) scheme: MobileSchemeName,
    /// The settings for the flows that the mobile receives; none: the scheme does nothing for them.
    pub(crate) host: Option<MobileHostSettings>,
    /// The settings for the flows that the mobile sends; none: the scheme does nothing for them.
    pub(crate) uplink: Option<UplinkSettings>,
    /// The largest number of flows.
    pub(crate) flows_max: u32,
    /// Whether to restore segments that the gateway has compressed.
    pub(crate) decompress: bool,
    /// The name under which the congestion control of LC and CWE is registered, if the settings want it.
    pub(crate) congestion_control: Option<String>,
    /// The link sources, beside the carrier.
    pub(crate) sources: SourceSettings,
    /// Where metrics are served.
    pub(crate) metrics: MetricsSettings,
    /// Which lines of the log are written.
    pub(crate) log_filter: Option<String>,
    /// The file of these settings.
    file: SettingsFile,
    /// Where the live page is served.
    pub(crate) web: WebSettings,
}

/// The settings for the flows that the mobile sends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UplinkSettings {
    /// True: the engine serves TCP, and `keep` the rest. False: `keep` serves all.
    pub(crate) engine: bool,
    /// The queues of `keep`.
    pub(crate) keep: KeepSettings,
}

impl MobileSettings {
    /// The settings of a file with this text, without flags.
    pub(crate) fn of_text(path: &Path, text: &str) -> Result<Self, SettingsError> {
        MobileDaemonArgs::default().over(&SettingsFile::parse(path, text, &MOBILE_FILE)?)
    }
}

fn keepalive(text: &str) -> Result<Duration, String> {
    type Range = Seconds<1, 3_600>;
    let seconds = text.parse().ok().and_then(Range::of_float);
    seconds.ok_or_else(takes::<Range, Duration>)
}

impl MobileDaemonArgs {
    /// The settings of the flags, the file that they name, and the defaults.
    pub(crate) fn settings(&self) -> Result<MobileSettings, SettingsError> {
        self.over(&SettingsFile::of(self.config.as_deref(), &MOBILE_FILE)?)
    }

    /// Reads the file of the present settings again.
    pub(crate) fn reload(
        &self,
        running: &MobileSettings,
    ) -> Result<Reloaded<MobileSettings>, SettingsError> {
        let over = |file: &SettingsFile| self.over(file);
        // The key belongs to its gateway: it is only applied while the gateway stays.
        let has_same_gateways = |wanted: &MobileSettings| {
            let present = running.cells.iter().map(|cell| &cell.gateway);
            wanted.cells.iter().map(|cell| &cell.gateway).eq(present)
        };
        let applies = |key: &str, wanted: &MobileSettings| {
            MOBILE_LIVE.contains(&key) && (key != KEY_FILE || has_same_gateways(wanted))
        };
        let stands_over = |key: &str| self.over_key(key);
        let config = self.config.as_deref();
        let mut reloaded = Reloaded::read(config, &running.file, stands_over, applies, over)?;
        if reloaded.settings.key == running.key {
            return Ok(reloaded);
        }
        let key_file = self.over_key(KEY_FILE).unwrap_or(KEY_FILE);
        if has_same_gateways(&reloaded.wanted) {
            reloaded.note_replaced_file(key_file);
        } else {
            reloaded.settings.key.clone_from(&running.key);
            reloaded.left.push(key_file.to_owned());
        }
        Ok(reloaded)
    }

    /// The given flag, or the variable, that overrides this key of the file.
    fn over_key(&self, key: &str) -> Option<&'static str> {
        let (name, is_given) = match key {
            "mobile.interface" => ("--interface", self.interface.is_some()),
            "mobile.gateway" | "mobile.cells" => ("--gateway", self.gateway.is_some()),
            KEY_FILE => ("--key-file", self.key_file.is_some()),
            "mobile.keepalive_s" => ("--keepalive", self.keepalive.is_some()),
            "mobile.control_socket" => ("--control-socket", self.control_socket.is_some()),
            "mobile.scheme" => ("--scheme", self.scheme.is_some()),
            "mobile.log_filter" => (FILTER_VARIABLE, is_filtered_by_environment()),
            "mobile.freeze_set" => ("--freeze-set", self.freeze_set.is_some()),
            "web.listen" => ("--web", self.web.is_some()),
            _ => return None,
        };
        is_given.then_some(name)
    }

    /// The settings of the flags and of a file that was read already.
    fn over(&self, file: &SettingsFile) -> Result<MobileSettings, SettingsError> {
        let section = file.section("mobile");
        let keys: MobileDaemon = section.read()?;
        let host: MobileHostSettings = section.read()?;
        let interface = self.interface.as_ref().or(keys.interface.as_ref());
        let interface =
            interface.ok_or_else(|| section.missing_or_flag("interface", "--interface"))?;
        section.check_log_filter(keys.log_filter.as_deref())?;
        let choice = self.scheme.or(keys.scheme);
        // LC and CWE are another remedy for the same outages.
        let own = if keys.congestion_control.is_some() {
            MobileSchemeName::None
        } else {
            MobileSchemeName::Auto
        };
        let choice = choice.unwrap_or(own);
        let cells = self.cells(&section, &keys, interface, choice)?;
        if let Some(name) = &keys.congestion_control {
            check_name(name)
                .map_err(|error| section.error("congestion_control", error.to_string()))?;
        }
        let has_gateway = cells.iter().any(|cell| cell.gateway.is_some());
        // A gateway does more for downloads than the mobile can.
        let scheme = match choice {
            MobileSchemeName::Auto => (!has_gateway).then_some(MobileScheme::Wake),
            named => named.for_flows(),
        };
        if self.freeze_set.is_some() && scheme != Some(MobileScheme::Freeze) {
            let problem = format!(
                "got a set, which the scheme {} does not use; takes --scheme freeze with it",
                choice.name()
            );
            return Err(SettingsError::at_key(None, "--freeze-set", problem));
        }
        let path = |flag: &Option<PathBuf>, own: &str| flag.clone().unwrap_or_else(|| own.into());
        let key = if has_gateway {
            let key_file = path(&self.key_file, &keys.key_file);
            Some(read_key(&key_file).map_err(|problem| section.error("key_file", problem))?)
        } else {
            None
        };
        let keep: KeepSettings = file.section("keep").read()?;
        let metrics: MetricsSettings = file.section("metrics").read()?;
        let web: WebSettings = file.section("web").read()?;
        let web = web.with_flag(self.web.as_ref());
        super::refuse_shared_address(file, &metrics, &web, self.web.as_ref())?;
        Ok(MobileSettings {
            interface: interface.clone(),
            cells,
            key,
            keepalive: self.keepalive.unwrap_or(keys.keepalive),
            control_socket: path(&self.control_socket, &keys.control_socket),
            scheme: choice,
            host: scheme.map(|scheme| MobileHostSettings {
                scheme,
                set: self.freeze_set.unwrap_or(host.set),
                ..host
            }),
            uplink: match choice {
                MobileSchemeName::Keep | MobileSchemeName::Auto => Some(UplinkSettings {
                    engine: choice == MobileSchemeName::Auto,
                    keep: keep.with_flow_bytes(),
                }),
                _ => None,
            },
            flows_max: keys.flows_max,
            decompress: keys.decompress && scheme == Some(MobileScheme::Mtcp),
            congestion_control: keys.congestion_control,
            sources: SourceSettings::read(&file.section("sources"))?,
            metrics,
            log_filter: keys.log_filter,
            file: file.clone(),
            web,
        })
    }

    /// The gateways, and the interface toward each.
    fn cells(
        &self,
        section: &SectionValues<'_>,
        keys: &MobileDaemon,
        interface: &str,
        choice: MobileSchemeName,
    ) -> Result<Vec<Cell>, SettingsError> {
        let is_listed = !keys.cells.is_empty() && self.gateway.is_none();
        if is_listed && keys.gateway.is_some() {
            let problem = "there is a `gateway` too; takes one of them";
            return Err(section.error("cells", problem));
        }
        if is_listed {
            return Ok(keys.cells.clone());
        }
        let gateway = self.gateway.clone().or(keys.gateway.clone());
        if let Some(gateway) = gateway.as_ref().filter(|gateway| !is_host(gateway)) {
            let problem = format!("got {gateway:?}, takes HOST or HOST:PORT, as in 192.0.2.1:4848");
            return Err(section.error("gateway", problem));
        }
        let needs_gateway = choice == MobileSchemeName::None && keys.congestion_control.is_none();
        if needs_gateway && gateway.is_none() {
            return Err(section.missing_or_flag("gateway", "--gateway"));
        }
        let interface = interface.to_owned();
        Ok(vec![Cell { interface, gateway }])
    }
}

/// Whether the text may be a host, with or without a port. IPv6 addresses have colons of their own.
fn is_host(gateway: &str) -> bool {
    let (host, port) = match gateway.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, Some(port)),
        _ => (gateway, None),
    };
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
    !host.is_empty() && !host.contains(char::is_whitespace) && port.is_none_or(is_port)
}

/// The gateway's addresses, at least one. A name is resolved.
pub(crate) fn resolve(gateway: &str) -> std::io::Result<Vec<SocketAddr>> {
    let unbracketed = gateway.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = unbracketed.parse::<std::net::IpAddr>() {
        return Ok(vec![SocketAddr::new(address, PORT_DEFAULT)]);
    }
    let has_port = gateway
        .rsplit_once(':')
        .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let addresses: Vec<_> = if has_port {
        gateway.to_socket_addrs()?.collect()
    } else {
        (gateway, PORT_DEFAULT).to_socket_addrs()?.collect()
    };
    if addresses.is_empty() {
        return Err(std::io::Error::other(format!("{gateway} has no address")));
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use clap::{Parser as _, ValueEnum as _};

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
    fn a_scheme_needs_neither_gateway_nor_key() {
        let settings = settings(&["--scheme", "freeze"]).expect("enough");
        let host = settings.host.expect("a scheme");
        assert_eq!(host.scheme, MobileScheme::Freeze);
        assert_eq!(host.set, FreezeSet::Today, "the one that does no harm");
        assert!(settings.key.is_none() && !settings.decompress);
        assert!(settings.cells.iter().all(|cell| cell.gateway.is_none()));
    }

    #[test]
    fn without_a_scheme_it_is_auto_which_wakes_downloads_where_there_is_no_gateway() {
        let settings = settings(&[]).expect("enough");
        assert!(settings.uplink.is_some_and(|uplink| uplink.engine));
        assert_eq!(
            settings.host.map(|host| host.scheme),
            Some(MobileScheme::Wake)
        );
    }

    #[test]
    fn one_that_only_signals_has_to_know_its_gateway() {
        let shown = settings(&["--scheme", "none"]).expect_err("too little");
        assert!(shown.contains("mobile.gateway"), "{shown}");
    }

    #[test]
    fn schemes_and_sets_that_are_none_are_refused_with_those_that_are() {
        for (flag, known) in [("--scheme", "fast-retransmit"), ("--freeze-set", "today")] {
            let shown = settings(&[flag, "wake-up"]).expect_err("unknown");
            assert!(shown.contains(known), "{shown}");
        }
        let names = MobileSchemeName::value_variants().iter();
        let flows: Vec<_> = names.filter_map(|name| name.for_flows()).collect();
        assert_eq!(flows, MobileScheme::ALL);
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

    #[test]
    fn a_reload_takes_over_a_key_that_was_replaced_and_the_time_between_registrations() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name).display().to_string();
        let (config, key_file) = (path("mobile.toml"), path("mobile.key"));
        let write = |keepalive_s: u32, scheme: &str| {
            let text = format!(
                "[mobile]\ngateway = \"192.0.2.1\"\nkey_file = {key_file:?}\nkeepalive_s = {keepalive_s}\n\
                 scheme = {scheme:?}\n"
            );
            std::fs::write(&config, text).expect("written");
        };
        let keys = [[1; 36], [2; 36]].map(MobileKey::from_random);
        write(30, "keep");
        std::fs::write(&key_file, keys[0].to_secret_text()).expect("written");
        let flags = Flags::parse_from(["holdfast", "--iface", "lo", "--config", &config]);
        let running = flags.mobile.settings().expect("good");
        assert_eq!(running.key.as_ref(), Some(&keys[0]));
        write(7, "auto");
        std::fs::write(&key_file, keys[1].to_secret_text()).expect("written");
        let reloaded = flags.mobile.reload(&running).expect("good");
        assert_eq!(reloaded.applied, ["mobile.keepalive_s", "mobile.key_file"]);
        assert_eq!(reloaded.left, ["mobile.scheme"]);
        let settings = reloaded.settings;
        assert_eq!(settings.key.as_ref(), Some(&keys[1]));
        assert_eq!(settings.keepalive, Duration::from_secs(7));
        assert!(settings.uplink.is_some_and(|uplink| !uplink.engine));
    }
}
