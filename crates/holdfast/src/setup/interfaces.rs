// SPDX-License-Identifier: Apache-2.0
//! The machine's interfaces, and which of them is most likely the one to serve.

use std::fs;
use std::io;

use holdfast_net::addresses::default_interfaces;
use holdfast_net::datapath::Interface;
use holdfast_net::nl80211::{WifiRole, wifi_interfaces};
use holdfast_net::rtnl::{LinkInfo, Rtnl};

use crate::mobile::modem_interfaces;
use crate::runtime::DaemonKind;

/// `ARPHRD_LOOPBACK`, `ARPHRD_PPP`, `ARPHRD_RAWIP`.
const LOOPBACK: u16 = 772;
const PPP: u16 = 512;
const RAW_IP: u16 = 519;
/// How the daemons' own devices begin, before a number.
const OWN_DEVICES: [&str; 5] = ["hfd", "hfu", "hfc", "hfk", "hfg"];

/// The kind of an interface, the likeliest to go down first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    AccessPoint,
    Station,
    Modem,
    Ppp,
    /// Hardware with an Ethernet header.
    Ethernet,
    Bridge,
    /// A tunnel, a VLAN, a veth.
    Virtual,
}

impl Kind {
    /// Whether a link of this kind comes and goes.
    const fn comes_and_goes(self) -> bool {
        matches!(self, Self::Station | Self::Modem | Self::Ppp)
    }
}

/// An interface that a daemon can serve.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    /// Its name.
    pub(super) name: String,
    kind: Kind,
    /// ModemManager has it.
    has_modem_manager: bool,
    has_default_route: bool,
    link: LinkInfo,
    /// The bridge, bond or VRF whose port it is.
    master: Option<String>,
}

impl Candidate {
    /// A line for people.
    pub(super) fn description(&self) -> String {
        let kind = match self.kind {
            Kind::AccessPoint => "Wi-Fi, access point",
            Kind::Station => "Wi-Fi, station",
            Kind::Modem => "modem",
            Kind::Ppp => "PPP",
            Kind::Ethernet => "Ethernet",
            Kind::Bridge => "bridge",
            Kind::Virtual => self.link.kind.as_str(),
        };
        let master = self.master.as_ref();
        let more = [
            master.map(|master| format!("port of {master}")),
            self.has_default_route.then(|| "default route".to_owned()),
            (!self.link.up).then(|| "down".to_owned()),
        ];
        let text = [Some(kind.to_owned())].into_iter().chain(more).flatten();
        let text: Vec<String> = text.collect();
        format!("{:15} {}", self.name, text.join(", "))
    }

    /// A smaller rank is likelier.
    fn rank(&self, role: DaemonKind) -> (bool, bool, Kind) {
        let is_unlikely = match role {
            // Such an interface leads to the fixed hosts.
            DaemonKind::Gateway => self.has_default_route,
            DaemonKind::Mobile => !self.has_default_route,
        };
        let is_fixed = match role {
            DaemonKind::Gateway => false,
            DaemonKind::Mobile => !self.kind.comes_and_goes(),
        };
        (is_fixed, is_unlikely, self.kind)
    }
}

/// What setup knows of the machine.
#[derive(Debug)]
pub(super) struct Machine {
    candidates: Vec<Candidate>,
    forwards: bool,
}

impl Machine {
    /// Looks at the interfaces of the calling thread's network namespace.
    pub(super) fn look() -> io::Result<Self> {
        let links = Rtnl::open()?.links()?;
        let wifi = wifi_interfaces()?;
        let routes = default_interfaces()?;
        // Most machines have no ModemManager.
        let modems = modem_interfaces().unwrap_or_default();
        let is_served = |link: &&LinkInfo| {
            link.link_type != LOOPBACK
                && !is_own(&link.name)
                && Interface::query(&link.name).is_ok()
        };
        let candidates = links.iter().filter(is_served).map(|link| {
            let wifi = wifi.iter().find(|(ifindex, _)| *ifindex == link.ifindex);
            let has_modem_manager = modems.contains(&link.name);
            let master = links
                .iter()
                .find(|other| link.master == Some(other.ifindex));
            Candidate {
                name: link.name.clone(),
                kind: kind_of(link, wifi.map(|(_, role)| *role), has_modem_manager),
                has_modem_manager,
                has_default_route: routes.contains(&link.ifindex),
                link: link.clone(),
                master: master.map(|master| master.name.clone()),
            }
        });
        Ok(Self {
            candidates: candidates.collect(),
            forwards: forwards(),
        })
    }

    /// The most likely role of the machine.
    pub(super) fn likely_role(&self) -> DaemonKind {
        let mut routes = self.candidates.iter().filter(|one| one.has_default_route);
        let moves = routes.any(|one| one.kind.comes_and_goes());
        let has_access_point = self
            .candidates
            .iter()
            .any(|one| one.kind == Kind::AccessPoint);
        if !moves && (has_access_point || self.forwards) {
            DaemonKind::Gateway
        } else {
            DaemonKind::Mobile
        }
    }

    /// The interfaces, the likeliest first.
    pub(super) fn candidates(&self, role: DaemonKind) -> Vec<&Candidate> {
        let mut candidates: Vec<_> = self.candidates.iter().collect();
        candidates.sort_by_key(|candidate| candidate.rank(role));
        candidates
    }

    /// Whether there is such an interface.
    pub(super) fn has(&self, name: &str) -> bool {
        self.candidates
            .iter()
            .any(|candidate| candidate.name == name)
    }

    /// The settings file for an interface.
    pub(super) fn settings_text(&self, role: DaemonKind, interface: &str) -> String {
        let quoted = |name: &str| toml::Value::from(name).to_string();
        let own = quoted(interface);
        match role {
            DaemonKind::Gateway => {
                let mut routes = self.candidates.iter().filter(|one| one.has_default_route);
                let wired = routes.find(|one| one.name != interface);
                let wired = wired.map_or(String::new(), |one| {
                    format!("wired = {}\n", quoted(&one.name))
                });
                format!(
                    "# Settings of `holdfast gateway`. Every key: holdfast.toml(5).\n\n[gateway]\n\
                     wireless = {own}\n{wired}"
                )
            }
            DaemonKind::Mobile => {
                let mut named = self.candidates.iter().filter(|one| one.name == interface);
                let sources = named.next().map_or("", |one| match one.kind {
                    _ if one.has_modem_manager => "\n[sources]\nmodem = \"auto\"\n",
                    Kind::Station => "\n[sources]\nwifi = true\n",
                    _ => "",
                });
                format!(
                    "# Settings of `holdfast mobile`. Every key: holdfast.toml(5).\n\n[mobile]\n\
                     interface = {own}\n{sources}"
                )
            }
        }
    }
}

fn is_own(name: &str) -> bool {
    let number = OWN_DEVICES.iter().find_map(|own| name.strip_prefix(own));
    number.is_some_and(|number| number.parse::<u32>().is_ok())
}

fn kind_of(link: &LinkInfo, wifi: Option<WifiRole>, has_modem_manager: bool) -> Kind {
    match (wifi, link.link_type, link.kind.as_str()) {
        (Some(WifiRole::AccessPoint), ..) => Kind::AccessPoint,
        (Some(_), ..) => Kind::Station,
        (None, _, "wwan") | (None, RAW_IP, _) => Kind::Modem,
        _ if has_modem_manager || is_wwan(&link.name) => Kind::Modem,
        (None, PPP, _) => Kind::Ppp,
        (None, _, "bridge") => Kind::Bridge,
        (None, _, "") => Kind::Ethernet,
        _ => Kind::Virtual,
    }
}

/// A modem that looks like an Ethernet interface: its driver reports the type.
fn is_wwan(name: &str) -> bool {
    let described = fs::read_to_string(format!("/sys/class/net/{name}/uevent"));
    described.is_ok_and(|text| text.lines().any(|line| line == "DEVTYPE=wwan"))
}

fn forwards() -> bool {
    let is_on = |path: &str| fs::read_to_string(path).is_ok_and(|text| text.trim() != "0");
    is_on("/proc/sys/net/ipv4/ip_forward") || is_on("/proc/sys/net/ipv6/conf/all/forwarding")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(name: &str, kind: Kind, has_default_route: bool) -> Candidate {
        Candidate {
            name: name.into(),
            kind,
            has_modem_manager: false,
            has_default_route,
            link: LinkInfo {
                ifindex: 1,
                name: name.into(),
                address: Vec::new(),
                mtu: 1500,
                up: true,
                carrier: true,
                link_type: 1,
                kind: String::new(),
                master: None,
                is_bridge_port: false,
                is_switch_port: false,
            },
            master: None,
        }
    }

    /// The likely role, and the likeliest interface for it.
    fn choice(candidates: &[Candidate], forwards: bool) -> (DaemonKind, String) {
        let machine = Machine {
            candidates: candidates.to_vec(),
            forwards,
        };
        let role = machine.likely_role();
        (role, machine.candidates(role)[0].name.clone())
    }

    #[test]
    fn the_likely_role_and_interface_are_those_of_usual_machines() {
        use DaemonKind::{Gateway, Mobile};
        let wired = candidate("eth0", Kind::Ethernet, true);
        let lan = candidate("eth1", Kind::Ethernet, false);
        let access_point = candidate("wlan0", Kind::AccessPoint, false);
        let station = candidate("wlan1", Kind::Station, true);
        let modem = candidate("wwan0", Kind::Modem, true);
        for (machine, forwards, role, name) in [
            // An access point that routes or switches.
            (
                vec![wired.clone(), lan.clone(), access_point.clone()],
                true,
                Gateway,
                "wlan0",
            ),
            (
                vec![access_point.clone(), wired.clone()],
                false,
                Gateway,
                "wlan0",
            ),
            // A router with access points of others behind it.
            (vec![wired.clone(), lan.clone()], true, Gateway, "eth1"),
            // A laptop, and one at a cable.
            (vec![wired.clone(), station.clone()], false, Mobile, "wlan1"),
            (vec![wired.clone()], false, Mobile, "eth0"),
            // A router in a vehicle.
            (vec![access_point, lan, modem], true, Mobile, "wwan0"),
        ] {
            assert_eq!(choice(&machine, forwards), (role, name.to_owned()));
        }
    }

    #[test]
    fn names_are_quoted_in_the_file_and_the_daemons_own_devices_are_left_out() {
        let machine = Machine {
            candidates: vec![candidate("a\"b\\", Kind::Ethernet, false)],
            forwards: true,
        };
        let text = machine.settings_text(DaemonKind::Gateway, "a\"b\\");
        let table: toml::Table = text.parse().expect("TOML");
        assert_eq!(table["gateway"]["wireless"].as_str(), Some("a\"b\\"));
        assert!(is_own("hfd0") && is_own("hfk12") && !is_own("hfd") && !is_own("hfx0"));
    }
}
