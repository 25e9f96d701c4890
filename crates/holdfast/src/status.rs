// SPDX-License-Identifier: Apache-2.0
//! `holdfast status`: what a running daemon sees, for people and for scripts.
//!
//! The reply types are the contract between the daemons, which fill them, and
//! this command, which prints them; `--json` prints them as they are.

mod handoff;
mod sources;
mod units;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use anyhow::bail;
use comfy_table::{Table, presets};
use serde::{Deserialize, Serialize};

use crate::control::{ControlReply, ControlRequest, ask, ask_exactly};
use crate::settings::GATEWAY_SOCKET;
use crate::terminal::escaped;
pub(crate) use handoff::{HandoffMobileStatus, HandoffStatus};
pub(crate) use sources::SourceStatus;
use units::{bytes, seconds};

/// What a gateway sees.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct StatusReply {
    /// The daemon's version.
    pub(crate) version: String,
    /// The daemon's process.
    pub(crate) pid: u32,
    /// Time since its start, in seconds.
    pub(crate) uptime_s: f64,
    /// The scheme, as `--scheme` takes it.
    pub(crate) scheme: String,
    /// The wireless interface.
    pub(crate) wireless: String,
    /// The wired interface, where one was named.
    pub(crate) wired: Option<String>,
    /// How packets reach the daemon: `tc-tap`, `tc-tun`.
    pub(crate) data_path: String,
    /// Whether packets reach the daemon now.
    pub(crate) attached: bool,
    /// Whether a successor will find what this gateway knows of the flows.
    #[serde(default = "yes")]
    pub(crate) keeps_records: bool,
    /// The flow table.
    pub(crate) flows: FlowTableStatus,
    /// The segment cache.
    pub(crate) cache: CacheStatus,
    /// Mobiles with a key or with flows, by address.
    pub(crate) mobiles: Vec<MobileStatus>,
    /// Mobiles with flows, those not described among them.
    #[serde(default)]
    pub(crate) mobiles_total: u64,
    /// The gateway as a base station, where it has neighbours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) handoff: Option<HandoffStatus>,
    /// Everything that is counted, by name.
    pub(crate) counters: BTreeMap<String, u64>,
    /// The flows asked for, those with most cached bytes first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) flow_list: Vec<FlowStatus>,
}

/// A gateway of an earlier version had a state file, or did not run.
const fn yes() -> bool {
    true
}

/// How full the flow table is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct FlowTableStatus {
    /// Flows in the table.
    pub(crate) tracked: u64,
    /// Most it takes.
    pub(crate) flows_max: u64,
    /// Flows of mobiles whose link is down.
    pub(crate) in_outage: u64,
}

/// How full the segment cache is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct CacheStatus {
    /// Bytes of payload kept.
    pub(crate) bytes: u64,
    /// Most that it keeps.
    pub(crate) bytes_max: u64,
    /// Of them acknowledged to the FH but not yet by the MH.
    pub(crate) owed_bytes: u64,
}

/// What is believed of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LinkView {
    /// No report.
    #[default]
    Unknown,
    /// It carries packets.
    Up,
    /// It is about to go.
    GoingDownSoon,
    /// It delivers nothing.
    Down,
}

/// What reported the state of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LinkSource {
    /// No report.
    #[default]
    None,
    /// The mobile, sealed.
    Signal,
    /// The gateway's own interface.
    Carrier,
    /// A command on the control socket.
    Command,
    /// No ACK for data in flight, or one after none.
    Silence,
}

/// One mobile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct MobileStatus {
    /// Its name in the settings, if it has a key there.
    pub(crate) name: Option<String>,
    /// Its addresses, as registered or as seen.
    pub(crate) addresses: Vec<IpAddr>,
    /// What is believed of its link.
    pub(crate) link: LinkView,
    /// What reported it.
    pub(crate) source: LinkSource,
    /// Time since that, in seconds.
    pub(crate) since_s: f64,
    /// The link epoch of its newest signal, 0 without one.
    pub(crate) epoch: u64,
    /// Time since its newest signal, in seconds.
    pub(crate) signal_age_s: Option<f64>,
    /// Its flows in the table.
    pub(crate) flows: u64,
    /// Bytes kept for it.
    pub(crate) cached_bytes: u64,
    /// Outages seen.
    pub(crate) outages: u64,
}

/// One flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FlowStatus {
    /// The fixed host's end.
    pub(crate) fh: SocketAddr,
    /// The mobile host's end.
    pub(crate) mh: SocketAddr,
    /// The flow's state, by the scheme's names.
    pub(crate) state: String,
    /// Bytes kept for it.
    pub(crate) cached_bytes: u64,
    /// Of them acknowledged to the FH but not yet by the MH.
    pub(crate) owed_bytes: u64,
}

/// What a mobile's daemon sees.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct MobileSessionStatus {
    /// The daemon's version.
    pub(crate) version: String,
    /// The daemon's process.
    pub(crate) pid: u32,
    /// The watched interface.
    pub(crate) interface: String,
    /// What is done for the mobile's own flows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) scheme: Option<String>,
    /// The gateway's signal address.
    pub(crate) gateway: Option<SocketAddr>,
    /// The link as last reported.
    pub(crate) link: LinkView,
    /// The link epoch.
    pub(crate) epoch: u64,
    /// Whether the gateway has acknowledged that.
    pub(crate) acknowledged: bool,
    /// Why the gateway refused it, if it did.
    pub(crate) refused: Option<String>,
    /// The addresses reported to the gateway.
    pub(crate) addresses: Vec<IpAddr>,
    /// The sources that report the link.
    #[serde(default)]
    pub(crate) sources: Vec<SourceStatus>,
    /// Everything that is counted, by name.
    pub(crate) counters: BTreeMap<String, u64>,
}

/// Show what a running daemon sees.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdfast status
  holdfast status --flows 20
  holdfast status --json | jq '.mobiles[] | select(.link == \"down\") | .name'
  holdfast status --socket /run/holdfast/mobile.sock")]
pub(crate) struct StatusArgs {
    /// The daemon's control socket
    #[arg(long, value_name = "PATH", default_value = GATEWAY_SOCKET)]
    socket: PathBuf,
    /// Print the daemon's reply as one JSON object
    #[arg(long)]
    json: bool,
    /// List up to N flows, those with most cached bytes first
    #[arg(long, value_name = "N", default_value_t = 0)]
    flows: usize,
}

/// Runs `holdfast status`.
pub(crate) fn run(args: &StatusArgs) -> anyhow::Result<()> {
    let request = ControlRequest::Status {
        flows_max: args.flows,
    };
    let reply = if args.json {
        ask_exactly(&args.socket, &request)?
    } else {
        ask(&args.socket, &request)?
    };
    let text = match reply {
        ControlReply::Gateway(status) if args.json => json(&*status)?,
        ControlReply::Gateway(status) => gateway_text(&status),
        ControlReply::Mobile(status) if args.json => json(&*status)?,
        ControlReply::Mobile(status) => mobile_text(&status),
        ControlReply::Error { message } => bail!("{}: {message}", args.socket.display()),
        ControlReply::Done => bail!("{}: an answer without a status", args.socket.display()),
    };
    print_text(&text)
}

/// Prints to standard output, without what controls a terminal; a reader that left early is no
/// error.
pub(crate) fn print_text(text: &str) -> anyhow::Result<()> {
    use std::io::Write as _;
    match std::io::stdout().write_all(escaped(text).as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

fn json(status: &impl Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(status)? + "\n")
}

/// Writing into a `String` cannot fail.
macro_rules! line {
    ($text:expr, $($arg:tt)*) => {{
        let _ = writeln!($text, $($arg)*);
    }};
}

/// A gateway's status for people.
pub(crate) fn gateway_text(status: &StatusReply) -> String {
    let mut text = String::new();
    line!(
        text,
        "gateway {} (pid {}), up {}, scheme {}, wireless {}{}, data path {}{}",
        status.version,
        status.pid,
        seconds(status.uptime_s),
        status.scheme,
        status.wireless,
        status
            .wired
            .as_ref()
            .map_or(String::new(), |wired| format!(", wired {wired}")),
        status.data_path,
        if status.attached {
            ""
        } else {
            " (NOT attached: packets pass by)"
        },
    );
    if !status.keeps_records {
        line!(
            text,
            "NO STATE FILE (its file system is full): a restart loses what is known of the flows"
        );
    }
    line!(
        text,
        "flows {} of {}, {} in an outage",
        status.flows.tracked,
        status.flows.flows_max,
        status.flows.in_outage
    );
    line!(
        text,
        "cache {} of {}, {} owed",
        bytes(status.cache.bytes),
        bytes(status.cache.bytes_max),
        bytes(status.cache.owed_bytes)
    );
    if status.mobiles.is_empty() {
        line!(text, "mobiles none yet");
    } else {
        line!(text, "{}", mobile_table(&status.mobiles));
        let with_flows = status.mobiles.iter().filter(|mobile| mobile.flows > 0);
        let others = status
            .mobiles_total
            .saturating_sub(with_flows.count() as u64);
        if others > 0 {
            line!(text, "and {others} mobiles more");
        }
    }
    if let Some(handoff) = &status.handoff {
        handoff::write_text(&mut text, handoff);
    }
    if !status.flow_list.is_empty() {
        line!(text, "{}", flow_table(&status.flow_list));
    }
    counters_text(&mut text, &status.counters);
    text
}

fn mobile_table(mobiles: &[MobileStatus]) -> Table {
    let mut table = table(&[
        "mobile",
        "addresses",
        "link",
        "source",
        "since",
        "epoch",
        "last signal",
        "flows",
        "cached",
        "outages",
    ]);
    for mobile in mobiles {
        table.add_row([
            mobile.name.clone().unwrap_or_else(|| "-".into()),
            list(&mobile.addresses),
            word(&mobile.link),
            word(&mobile.source),
            seconds(mobile.since_s),
            mobile.epoch.to_string(),
            mobile.signal_age_s.map_or("never".into(), seconds),
            mobile.flows.to_string(),
            bytes(mobile.cached_bytes),
            mobile.outages.to_string(),
        ]);
    }
    table
}

fn flow_table(flows: &[FlowStatus]) -> Table {
    let mut table = table(&["FH", "MH", "state", "cached", "owed"]);
    for flow in flows {
        table.add_row([
            flow.fh.to_string(),
            flow.mh.to_string(),
            flow.state.clone(),
            bytes(flow.cached_bytes),
            bytes(flow.owed_bytes),
        ]);
    }
    table
}

/// A mobile's status for people.
pub(crate) fn mobile_text(status: &MobileSessionStatus) -> String {
    let mut text = String::new();
    line!(
        text,
        "mobile {} (pid {}), interface {}, gateway {}",
        status.version,
        status.pid,
        status.interface,
        status
            .gateway
            .map_or("not known".into(), |gateway| gateway.to_string()),
    );
    line!(
        text,
        "link {}, epoch {}, {}",
        word(&status.link),
        status.epoch,
        match &status.refused {
            Some(reason) => format!("REFUSED by the gateway: {reason}"),
            None if status.acknowledged => "acknowledged by the gateway".into(),
            None if status.gateway.is_none() && status.scheme.is_some() => "no gateway set".into(),
            None => "not acknowledged yet".into(),
        }
    );
    line!(text, "addresses {}", list(&status.addresses));
    if let Some(scheme) = &status.scheme {
        line!(text, "own flows: {scheme}");
    }
    for source in &status.sources {
        line!(text, "{}", source.text());
    }
    counters_text(&mut text, &status.counters);
    text
}

fn counters_text(text: &mut String, counters: &BTreeMap<String, u64>) {
    let width = counters.keys().map(String::len).max().unwrap_or(0);
    for (name, count) in counters.iter().filter(|(_, count)| **count > 0) {
        line!(text, "  {name:width$} {count}");
    }
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(header);
    table
}

/// A value's name as the JSON has it.
fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

fn list(addresses: &[IpAddr]) -> String {
    addresses
        .iter()
        .map(IpAddr::to_string)
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gateway() -> StatusReply {
        StatusReply {
            version: "0.1.0".into(),
            pid: 7,
            uptime_s: 61.5,
            scheme: "hold".into(),
            wireless: "wlan0".into(),
            data_path: "tc-tap".into(),
            attached: true,
            flows: FlowTableStatus {
                tracked: 3,
                flows_max: 65536,
                in_outage: 1,
            },
            cache: CacheStatus {
                bytes: 3 << 20,
                bytes_max: 256 << 20,
                owed_bytes: 0,
            },
            mobiles: vec![MobileStatus {
                name: Some("train-7".into()),
                addresses: vec![IpAddr::from([10, 9, 0, 2])],
                link: LinkView::GoingDownSoon,
                source: LinkSource::Signal,
                since_s: 0.25,
                epoch: 12,
                signal_age_s: None,
                flows: 3,
                cached_bytes: 3 << 20,
                outages: 11,
            }],
            counters: BTreeMap::from([("signals.bad-seal".into(), 2), ("zero".into(), 0)]),
            ..StatusReply::default()
        }
    }

    #[test]
    fn the_text_shows_flows_cache_link_and_counters() {
        let text = gateway_text(&gateway());
        for shown in [
            "scheme hold",
            "wireless wlan0",
            "flows 3 of 65536, 1 in an outage",
            "cache 3.0 MiB of 256.0 MiB",
            "train-7",
            "10.9.0.2",
            "going-down-soon",
            "signal",
            "250 ms",
            "never",
            "signals.bad-seal 2",
        ] {
            assert!(text.contains(shown), "{shown:?} is missing in:\n{text}");
        }
        assert!(!text.contains("zero"), "what never happened is not listed");
    }

    #[test]
    fn mobiles_that_are_not_described_are_counted() {
        assert!(!gateway_text(&gateway()).contains("more"));
        let many = StatusReply {
            mobiles_total: 65_000,
            ..gateway()
        };
        let text = gateway_text(&many);
        assert!(text.contains("and 64999 mobiles more"), "{text}");
    }

    #[test]
    fn a_gateway_that_sees_no_packets_reports_it() {
        let text = gateway_text(&StatusReply {
            attached: false,
            ..gateway()
        });
        assert!(text.contains("NOT attached"), "{text}");
    }

    #[test]
    fn the_json_names_states_as_the_documentation_does() {
        let value = serde_json::to_value(gateway()).expect("it is plain data");
        assert_eq!(value["mobiles"][0]["link"], "going-down-soon");
        assert_eq!(value["mobiles"][0]["source"], "signal");
        assert_eq!(value["mobiles"][0]["signal_age_s"], serde_json::Value::Null);
        assert_eq!(value["flows"]["tracked"], 3);
        let back: StatusReply = serde_json::from_value(value).expect("it came from there");
        assert_eq!(back, gateway());
    }

    #[test]
    fn sizes_and_times_take_the_unit_that_fits() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(3 << 29), "1.5 GiB");
        assert_eq!(seconds(0.0), "0 ms");
        assert_eq!(seconds(119.0), "119.0 s");
        assert_eq!(seconds(600.0), "10 min");
    }
}
