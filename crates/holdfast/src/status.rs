// SPDX-License-Identifier: Apache-2.0
//! `holdfast status`: what a running daemon sees, for people and for scripts.

mod handoff;
mod outages;
mod sources;
mod units;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::bail;
use comfy_table::{Table, presets};
use serde::Serialize;

use crate::control::{
    ControlReply, ControlRequest, FlowStatus, MobileSessionStatus, MobileStatus, StatusReply, ask,
    query_unescaped,
};
use crate::settings::{GATEWAY_SOCKET, MOBILE_SOCKET};
use crate::terminal::print_text;
pub(crate) use outages::what_is_counted;
pub(crate) use units::{bytes, seconds};

/// Show what a running daemon sees.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdfast status
  holdfast status --flows 20
  holdfast status --outages
  holdfast status --json | jq '.mobiles[] | select(.link == \"down\") | .name'
  holdfast status --socket /run/holdfast/mobile.sock")]
pub(crate) struct StatusArgs {
    /// The daemon's control socket; unless given the gateway's in /run/holdfast, or the mobile's
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Print the daemon's reply as one JSON object
    #[arg(long)]
    json: bool,
    /// List up to N flows, those with most cached bytes first
    #[arg(long, value_name = "N", default_value_t = 0)]
    flows: usize,
    /// List the newest outages, up to N, with the stalls saved
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "20")]
    outages: Option<usize>,
}

/// Runs `holdfast status`.
pub(crate) fn run(args: &StatusArgs) -> anyhow::Result<()> {
    let request = ControlRequest::Status {
        flows_max: args.flows,
        outages_max: args.outages.unwrap_or(0),
    };
    let socket = args.socket.clone().unwrap_or_else(present_socket);
    let reply = if args.json {
        query_unescaped(&socket, &request)?
    } else {
        ask(&socket, &request)?
    };
    let text = match reply {
        ControlReply::Gateway(status) if args.json => json(&*status)?,
        ControlReply::Mobile(status) if args.json => json(&*status)?,
        ControlReply::Gateway(status) if args.outages.is_some() => {
            outages::text(&status.outages, status.uptime_s)
        }
        ControlReply::Mobile(status) if args.outages.is_some() => {
            outages::text(&status.outages, status.uptime_s)
        }
        ControlReply::Gateway(status) => gateway_text(&status),
        ControlReply::Mobile(status) => mobile_text(&status),
        ControlReply::Error { .. } | ControlReply::Done => {
            bail!("{}: an answer without a status", socket.display())
        }
    };
    print_text(&text)
}

/// The gateway's socket, or the mobile's if only that exists.
pub(crate) fn present_socket() -> PathBuf {
    let (gateway, mobile) = (Path::new(GATEWAY_SOCKET), Path::new(MOBILE_SOCKET));
    let is_mobile = mobile.exists() && !gateway.exists();
    (if is_mobile { mobile } else { gateway }).to_owned()
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
            String::new()
        } else if status.serving.is_empty() {
            " (NOT attached: packets pass by)".into()
        } else {
            format!(" ({})", status.serving.join("; "))
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
    line!(
        text,
        "{}",
        outages::totals(&status.outages, status.uptime_s)
    );
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
            mobile
                .interface
                .iter()
                .fold(list(&mobile.addresses), |addresses, interface| {
                    format!("{addresses} on {interface}")
                }),
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
            None if status.gateway.is_none() && status.scheme != "none" => "no gateway set".into(),
            None => "not acknowledged yet".into(),
        }
    );
    line!(text, "addresses {}", list(&status.addresses));
    line!(text, "scheme {}", status.scheme);
    line!(
        text,
        "{}",
        outages::totals(&status.outages, status.uptime_s)
    );
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
    table.load_style(presets::NOTHING).set_header(header);
    table
}

/// A value's name as the JSON has it.
pub(crate) fn word(value: &impl Serialize) -> String {
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
    use holdfast_core::{LinkSource, LinkState};

    use super::*;
    use crate::control::{CacheStatus, FlowTableStatus};

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
                interface: None,
                link: LinkState::GoingDownSoon,
                source: LinkSource::Signal,
                since_s: 0.25,
                epoch: 12,
                signal_age_s: None,
                flows: 3,
                cached_bytes: 3 << 20,
                outages: 11,
                ..MobileStatus::default()
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
