// SPDX-License-Identifier: Apache-2.0
//! Interfaces that have a qdisc already, in namespaces.

use std::process::Command;

use libbpf_rs::{TC_INGRESS, TcHookBuilder};

use crate::attach_point::{AttachMode, BpfObject};
use crate::bpf::Programs;
use crate::datapath::DataPath;
use crate::keep_path::{KeepPath, Peers, Protocols};
use crate::netns::{NetNs, available_or_skip};
use crate::rtnl::Rtnl;
use crate::tun::query_ifindex;

/// Runs `work` in a namespace with the interface `w0`.
fn beside_interface(work: impl FnOnce() + Send) {
    let ns = NetNs::new().unwrap();
    ns.run(|| {
        let rtnl = Rtnl::open().unwrap();
        rtnl.add_veth("w0", &ns, "v0", &ns).unwrap();
        work();
    })
    .unwrap();
}

/// What `tc` prints.
fn tc(arguments: &str) -> String {
    let output = Command::new("tc").args(arguments.split(' ')).output();
    let output = output.unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "tc {arguments}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn qdiscs() -> String {
    tc("qdisc show dev w0")
}

fn attach() -> std::io::Result<DataPath> {
    DataPath::attach("w0", AttachMode::Clsact)
}

fn attach_keep() -> KeepPath {
    let taken = (Peers::WholeLink, Protocols::AllButTcp);
    KeepPath::attach("w0", AttachMode::Clsact, taken, 0).unwrap()
}

#[test]
fn an_ingress_qdisc_is_refused_and_no_program_is_left_at_it() {
    if !available_or_skip("an_ingress_qdisc_is_refused_and_no_program_is_left_at_it") {
        return;
    }
    beside_interface(|| {
        tc("qdisc add dev w0 handle ffff: ingress");
        let error = attach()
            .map(drop)
            .expect_err("it has no hook for egress")
            .to_string();
        for part in ["w0", "ingress", "tc qdisc del dev w0 ingress"] {
            assert!(error.contains(part), "{error}");
        }
        assert_eq!(error.lines().count(), 1);
        assert_eq!(tc("filter show dev w0 parent ffff:"), "");
        assert!(qdiscs().contains("ingress"), "{}", qdiscs());
        tc("qdisc del dev w0 ingress");
        attach().expect("no other qdisc is there");
    });
}

#[test]
fn an_ingress_qdisc_can_be_added_when_the_last_program_has_left() {
    if !available_or_skip("an_ingress_qdisc_can_be_added_when_the_last_program_has_left") {
        return;
    }
    beside_interface(|| {
        let path = attach().unwrap();
        let keep = attach_keep();
        // The path that has made the qdisc is dropped first.
        drop(path);
        assert!(tc("filter show dev w0 egress").contains("link_egress"));
        drop(keep);
        tc("qdisc add dev w0 handle ffff: ingress");
    });
}

#[test]
fn a_clsact_qdisc_of_others_or_with_their_filters_stays() {
    if !available_or_skip("a_clsact_qdisc_of_others_or_with_their_filters_stays") {
        return;
    }
    beside_interface(|| {
        tc("qdisc add dev w0 clsact");
        drop(attach().unwrap());
        assert!(qdiscs().contains("clsact"), "{}", qdiscs());
        tc("qdisc del dev w0 clsact");
        let path = attach().unwrap();
        let programs = Programs::load(BpfObject::Gateway, &[0; 40], &[]).unwrap();
        let mut other = TcHookBuilder::new(programs.program("give_up").unwrap())
            .ifindex(query_ifindex("w0").unwrap() as i32)
            .priority(7)
            .hook(TC_INGRESS);
        other.attach().unwrap();
        drop(path);
        assert!(tc("filter show dev w0 ingress").contains("give_up"));
        // This process has made the qdisc, and removes it when the filters of others are gone.
        other.detach().unwrap();
        drop(attach().unwrap());
        assert!(!qdiscs().contains("clsact"), "{}", qdiscs());
    });
}
