// SPDX-License-Identifier: Apache-2.0
//! Each test in namespaces of its own.

use std::net::UdpSocket;
use std::time::Duration;

use super::*;
use crate::lccwe::tests::wait_until;
use crate::netns::{NetNs, available_or_skip};

/// Two namespaces with a veth pair between them, addressed and up.
fn pair() -> (NetNs, NetNs) {
    let (a, b) = (NetNs::new().unwrap(), NetNs::new().unwrap());
    a.run(|| {
        Rtnl::open()
            .unwrap()
            .add_veth("left", &a, "right", &b)
            .unwrap();
    })
    .unwrap();
    for (ns, name, octet) in [(&a, "left", 1), (&b, "right", 2)] {
        ns.run(|| {
            let rtnl = Rtnl::open().unwrap();
            let ifindex = rtnl.link_index(name).unwrap();
            rtnl.add_address(ifindex, format!("10.7.0.{octet}").parse().unwrap(), 24)
                .unwrap();
            rtnl.add_address(ifindex, format!("fd07::{octet}").parse().unwrap(), 64)
                .unwrap();
            rtnl.set_up(ifindex).unwrap();
        })
        .unwrap();
    }
    (a, b)
}

#[test]
fn a_veth_pair_carries_a_datagram_of_both_families() {
    if !available_or_skip("a_veth_pair_carries_a_datagram_of_both_families") {
        return;
    }
    let (a, b) = pair();
    for (at_a, at_b) in [("10.7.0.1", "10.7.0.2"), ("[fd07::1]", "[fd07::2]")] {
        let receiver = b
            .run(|| UdpSocket::bind(format!("{at_b}:700")).unwrap())
            .unwrap();
        let wait = Duration::from_millis(20);
        receiver.set_read_timeout(Some(wait)).unwrap();
        let sender = a
            .run(|| UdpSocket::bind(format!("{at_a}:0")).unwrap())
            .unwrap();
        // One that is sent before the pair has a carrier may be lost.
        wait_until("a datagram", || {
            sender.send_to(b"over", format!("{at_b}:700")).unwrap();
            let mut buffer = [0; 16];
            receiver
                .recv(&mut buffer)
                .is_ok_and(|len| &buffer[..len] == b"over")
        });
    }
}

#[test]
fn a_route_names_its_congestion_control() {
    if !available_or_skip("a_route_names_its_congestion_control") {
        return;
    }
    let (a, _b) = pair();
    let listed = a
        .run(|| {
            let rtnl = Rtnl::open().unwrap();
            let ifindex = rtnl.link_index("left").unwrap();
            rtnl.add_route_with(
                "10.9.0.0".parse().unwrap(),
                16,
                Some("10.7.0.2".parse().unwrap()),
                ifindex,
                &RouteOptions {
                    congestion_control: Some("reno".into()),
                    mtu: Some(1400),
                    microsecond_timestamps: false,
                },
            )
            .unwrap();
            std::process::Command::new("ip")
                .args(["route", "show", "10.9.0.0/16"])
                .output()
                .unwrap()
        })
        .unwrap();
    let text = String::from_utf8(listed.stdout).unwrap();
    assert!(text.contains("via 10.7.0.2 dev left"), "{text}");
    assert!(
        text.contains("congctl reno") && text.contains("mtu 1400"),
        "{text}"
    );
}

#[test]
fn an_mtu_and_an_address_are_read_back() {
    if !available_or_skip("an_mtu_and_an_address_are_read_back") {
        return;
    }
    let (a, _b) = pair();
    a.run(|| {
        let rtnl = Rtnl::open().unwrap();
        let ifindex = rtnl.link_index("left").unwrap();
        rtnl.set_mtu(ifindex, 1280).unwrap();
        rtnl.set_address(ifindex, [2, 0, 0, 0, 0, 7]).unwrap();
        let link = rtnl.link(ifindex).unwrap();
        assert_eq!(
            (link.name.as_str(), link.mtu, link.up),
            ("left", 1280, true)
        );
        assert_eq!(link.address, [2, 0, 0, 0, 0, 7]);
    })
    .unwrap();
}

#[test]
fn a_sysctl_is_the_namespaces_own() {
    if !available_or_skip("a_sysctl_is_the_namespaces_own") {
        return;
    }
    let (a, b) = pair();
    a.run(|| sysctl("net.ipv4.ip_forward", "1").unwrap())
        .unwrap();
    assert_eq!(
        a.run(|| read_sysctl("net.ipv4.ip_forward").unwrap())
            .unwrap(),
        "1"
    );
    assert_eq!(
        b.run(|| read_sysctl("net/ipv4/ip_forward").unwrap())
            .unwrap(),
        "0"
    );
}

#[test]
fn an_error_names_the_step_and_the_link() {
    if !available_or_skip("an_error_names_the_step_and_the_link") {
        return;
    }
    let ns = NetNs::new().unwrap();
    let error = ns
        .run(|| Rtnl::open().unwrap().link_index("absent0").unwrap_err())
        .unwrap();
    assert!(
        error.to_string().starts_with("find link absent0: "),
        "{error}"
    );
}

#[test]
fn a_device_is_set_up_for_routing_without_a_sysctl() {
    if !available_or_skip("a_device_is_set_up_for_routing_without_a_sysctl") {
        return;
    }
    let (a, _b) = pair();
    a.run(|| {
        let rtnl = Rtnl::open().unwrap();
        rtnl.add_veth("v0", &a, "v1", &a).unwrap();
        let ifindex = rtnl.link_index("v0").unwrap();
        rtnl.set_routing(ifindex).unwrap();
        rtnl.set_no_ipv6_address(ifindex).unwrap();
        rtnl.set_up(rtnl.link_index("v1").unwrap()).unwrap();
        rtnl.set_up(ifindex).unwrap();
        for (parameter, value) in [
            ("ipv4/conf/v0/forwarding", "1"),
            ("ipv4/conf/v0/rp_filter", "2"),
            ("ipv6/conf/v0/addr_gen_mode", "1"),
        ] {
            assert_eq!(
                read_sysctl(&format!("net/{parameter}")).unwrap(),
                value,
                "{parameter}"
            );
        }
        let addresses = || std::fs::read_to_string("/proc/thread-self/net/if_inet6").unwrap();
        // The other end gets one when it has a carrier.
        wait_until("an address", || addresses().contains(" v1\n"));
        assert!(!addresses().contains(" v0\n"), "{}", addresses());
    })
    .unwrap();
}
