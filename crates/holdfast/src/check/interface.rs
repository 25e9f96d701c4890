// SPDX-License-Identifier: Apache-2.0
//! The daemon's interface: its state, its bridge or bond, and programs of others at it.

use std::io;

use holdfast_net::datapath::{Interface, tcx_programs};
use holdfast_net::rtnl::{LinkInfo, Rtnl};
use serde_json::Value;

use super::{Finding, tool_json};
use crate::interface::own_name;
use crate::runtime::DaemonKind;

/// The names of the daemons' programs at an interface, as far as the kernel stores them.
const OWN_PROGRAMS: [&str; 6] = [
    "wireless_egress",
    "wireless_ingres",
    "link_egress",
    "link_ingress",
    "mobile_egress",
    "mobile_ingress",
];

/// The limit of a bridge's ports that a finding names.
const PORTS_SHOWN_MAX: usize = 4;

/// The interface of a check.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    /// The interface as the data path needs it.
    pub(crate) interface: Interface,
    /// The interface as the kernel describes it.
    pub(crate) link: LinkInfo,
    /// The bridge, bond or VRF that it is a port of.
    pub(crate) master: Option<LinkInfo>,
    /// The names of the interface's own ports, if it is a bridge.
    ports: Vec<String>,
}

impl Subject {
    /// Looks up an interface.
    ///
    /// Errors: there is none of this name, or no daemon can serve it.
    pub(crate) fn find(name: &str) -> io::Result<Self> {
        let interface = Interface::query(name)?;
        let links = Rtnl::open()?.links()?;
        let at = |ifindex| links.iter().find(|link| link.ifindex == ifindex).cloned();
        let link = at(interface.ifindex).ok_or(io::ErrorKind::NotFound)?;
        let is_port = |other: &&LinkInfo| other.master == Some(link.ifindex);
        let ports = links.iter().filter(is_port);
        Ok(Self {
            ports: ports.map(|port| port.name.clone()).collect(),
            master: link.master.and_then(at),
            interface,
            link,
        })
    }

    /// The interface that has the addresses.
    pub(crate) fn routed(&self) -> &LinkInfo {
        let bridge = self.master.as_ref().filter(|master| is_bridge(master));
        bridge.unwrap_or(&self.link)
    }
}

fn is_bridge(link: &LinkInfo) -> bool {
    link.kind == "bridge"
}

/// Checks the interface of a daemon; `is_running`: such a daemon runs on it.
pub(crate) fn check(subject: &Subject, daemon: DaemonKind, is_running: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(check_name(&subject.interface.name));
    findings.extend(check_state(&subject.link));
    findings.extend(check_master(subject, daemon));
    findings.extend(check_ports(subject, daemon));
    let name = &subject.interface.name;
    if is_running {
        let daemon = daemon.name();
        findings.push(Finding::fine(format!("a {daemon} runs on {name}")));
    }
    for (side, programs) in tcx_programs(subject.interface.ifindex) {
        findings.extend(judge_programs(name, side, &programs));
    }
    findings.extend(check_filters(name));
    findings
}

/// The kernel's reports have an interface's own name: a daemon with an alternative name would receive none.
pub(crate) fn check_name(name: &str) -> Option<Finding> {
    own_name(name).map(|own| {
        Finding::problem(
            format!("{name} is an alternative name of {own}: the daemon does not start with it"),
            format!("write {own}"),
        )
    })
}

fn check_state(link: &LinkInfo) -> Option<Finding> {
    let name = &link.name;
    if !link.up {
        return Some(Finding::problem(
            format!("{name} is down: no packet passes it"),
            format!("ip link set {name} up, or start the service that does so"),
        ));
    }
    (!link.carrier).then(|| {
        Finding::note(
            format!("{name} has no carrier: its link is down at the moment"),
            format!("if this is no outage, see: ip link show {name}"),
        )
    })
}

/// Checks the bridge, bond or VRF that has the interface as a port. At a bridge's port both hooks see each
/// frame, before the bridge receives it or after the bridge has sent it, whether routed or switched.
fn check_master(subject: &Subject, daemon: DaemonKind) -> Option<Finding> {
    let master = subject.master.as_ref()?;
    let (name, flag) = (&subject.interface.name, flag(daemon));
    let (master, kind) = (&master.name, master.kind.as_str());
    match (kind, daemon) {
        ("vrf", _) => None,
        ("bridge", DaemonKind::Gateway) => Some(Finding::fine(format!(
            "{name} is a port of {master}: the gateway serves what {master} routes or switches to it"
        ))),
        ("bridge", DaemonKind::Mobile) => Some(Finding::problem(
            format!("{name} is a port of {master}, which has the addresses of this host"),
            format!("use {flag} {master}"),
        )),
        _ => Some(Finding::problem(
            format!(
                "{name} is a port of {master} ({kind}), which may send by another port: half of a flow \
                 goes round the daemon"
            ),
            format!("use {flag} {master}"),
        )),
    }
}

/// Checks an interface that has ports: packets between its ports, and their carriers, are not seen at it.
fn check_ports(subject: &Subject, daemon: DaemonKind) -> Option<Finding> {
    let wants_ports = daemon == DaemonKind::Gateway && is_bridge(&subject.link);
    let name = &subject.interface.name;
    (wants_ports && !subject.ports.is_empty()).then(|| {
        let ports = &subject.ports[..subject.ports.len().min(PORTS_SHOWN_MAX)];
        Finding::note(
            format!(
                "{name} is a bridge: what it switches between its ports goes round the gateway, and \
                 the loss of a port's carrier is not noticed"
            ),
            format!(
                "if all mobiles are behind one port, use --wireless PORT ({name} has {})",
                ports.join(", ")
            ),
        )
    })
}

const fn flag(daemon: DaemonKind) -> &'static str {
    match daemon {
        DaemonKind::Gateway => "--wireless",
        DaemonKind::Mobile => "--interface",
    }
}

/// Judges the TCX programs of others. `programs` has all programs in the order in which they run.
fn judge_programs(name: &str, side: &str, programs: &[String]) -> Option<Finding> {
    let is_own = |program: &String| OWN_PROGRAMS.contains(&program.as_str());
    let first_own = programs.iter().position(is_own);
    let others: Vec<&str> = programs
        .iter()
        .filter(|program| !is_own(program))
        .map(String::as_str)
        .collect();
    let first_other = programs.iter().position(|program| !is_own(program))?;
    let others = others.join(", ");
    if first_own.is_some_and(|own| first_other < own) {
        return Some(Finding::problem(
            format!(
                "TCX program {others} on {name}, {side}, runs before the daemon: what it redirects or \
                 drops goes round the daemon"
            ),
            "start the daemon again: it attaches before all others",
        ));
    }
    Some(Finding::note(
        format!(
            "TCX program {others} on {name}, {side}, runs after the daemon, and sees each packet as it is \
             sent"
        ),
        "one that is attached later may run before it; see: bpftool net show",
    ))
}

fn check_filters(name: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for side in ["ingress", "egress"] {
        let listed = tool_json("tc", &["-j", "filter", "show", "dev", name, side]);
        let filters = listed.as_ref().and_then(Value::as_array);
        let filters = filters.into_iter().flatten();
        let count = filters
            .filter(|filter| filter.get("options").is_some())
            .count();
        if count > 0 {
            findings.push(Finding::note(
                format!("{count} tc filter(s) on {name}, {side}, run after the daemon"),
                "with skip_sw the hardware goes round the daemon: leave it out",
            ));
        }
    }
    let link = tool_json("ip", &["-j", "link", "show", "dev", name]);
    if link.is_some_and(|link| link.pointer("/0/xdp").is_some()) {
        findings.push(Finding::note(
            format!("an XDP program on {name} sees packets before the daemon"),
            "what it redirects goes round the daemon; see: ip link show",
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::Severity;
    use super::*;

    fn programs(names: &[&str]) -> Option<Finding> {
        let names: Vec<_> = names.iter().map(ToString::to_string).collect();
        judge_programs("wlan0", "egress", &names)
    }

    fn link(name: &str, kind: &str, master: Option<u32>) -> LinkInfo {
        LinkInfo {
            ifindex: 1,
            name: name.into(),
            address: Vec::new(),
            mtu: 1500,
            up: true,
            carrier: true,
            link_type: 1,
            kind: kind.into(),
            master,
            is_bridge_port: false,
            is_switch_port: false,
        }
    }

    #[test]
    fn a_port_of_a_bond_is_a_problem_one_of_a_bridge_on_a_mobile_alone_and_one_of_a_vrf_none() {
        let master = |kind, daemon| {
            let subject = Subject {
                interface: Interface {
                    name: "wlan0".into(),
                    ifindex: 1,
                    kind: holdfast_net::tun::LayerKind::Ethernet,
                    mtu: 1500,
                    mac: [0; 6],
                },
                link: link("wlan0", "", Some(2)),
                master: Some(link("up0", kind, None)),
                ports: Vec::new(),
            };
            check_master(&subject, daemon).map(|finding| finding.severity())
        };
        let (gateway, mobile) = (DaemonKind::Gateway, DaemonKind::Mobile);
        assert_eq!(master("bridge", gateway), Some(Severity::Fine));
        assert_eq!(master("bridge", mobile), Some(Severity::Problem));
        for daemon in [gateway, mobile] {
            assert_eq!(master("bond", daemon), Some(Severity::Problem));
            assert_eq!(master("vrf", daemon), None);
        }
    }

    #[test]
    fn a_program_that_runs_before_ours_is_a_problem_and_one_behind_is_noted() {
        assert_eq!(programs(&[]), None);
        assert_eq!(programs(&["wireless_egress", "link_egress"]), None);
        let severity = |names| programs(names).map(|finding| finding.severity());
        assert_eq!(severity(&["edt"]), Some(Severity::Note));
        assert_eq!(severity(&["wireless_egress", "edt"]), Some(Severity::Note));
        let finding = programs(&["edt", "wireless_egress"]).expect("a finding");
        assert_eq!(finding.severity(), Severity::Problem);
        let shown = finding.to_string();
        assert!(
            shown.contains("edt") && !shown.contains("wireless_egress"),
            "{shown}"
        );
    }
}
