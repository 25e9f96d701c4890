// SPDX-License-Identifier: Apache-2.0
//! The thread's parts beside a kernel whose reports are lost.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use super::*;
use crate::datapath::Interface;
use crate::netns::{NetNs, available_or_skip};
use crate::rtnl::Rtnl;

const MH: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));
const ROUTER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
/// More than the kernel queues for a socket of the usual buffer.
const REPORTS: u32 = 4_000;

fn mac(last: u8) -> Mac {
    [2, 0, 0, 0, 0, last]
}

/// A line of `ip -batch`: the neighbour has this address.
fn neighbour(batch: &mut String, address: &str, last: u8, state: &str) {
    let entry = format!("{address} lladdr 02:00:00:00:00:{last:02x} dev wl0 nud {state}");
    let _ = writeln!(batch, "neigh replace {entry}");
}

fn apply(batch: &str) {
    let mut command = Command::new("ip");
    command.args(["-batch", "-"]).stdin(Stdio::piped());
    let mut ip = command.spawn().unwrap();
    let mut input = ip.stdin.take().unwrap();
    input.write_all(batch.as_bytes()).unwrap();
    drop(input);
    assert!(ip.wait().unwrap().success());
}

/// The messages that the kernel has dropped for the sockets of the calling thread's namespace.
fn dropped() -> u64 {
    let sockets = std::fs::read_to_string("/proc/thread-self/net/netlink").unwrap();
    let dropped = sockets.lines().skip(1).map(|line| {
        // sk, Eth, Pid, Groups, Rmem, Wmem, Dump, Locks, Drops, Inode
        line.split_whitespace().nth(8).unwrap().parse::<u64>()
    });
    dropped.map(Result::unwrap).sum()
}

#[test]
fn where_reports_were_lost_the_present_address_counts_and_no_older_report() {
    let test = "where_reports_were_lost_the_present_address_counts_and_no_older_report";
    if !available_or_skip(test) {
        return;
    }
    let [mh, router] = [(); 2].map(|()| NetNs::new().unwrap());
    let rtnl = Rtnl::open().unwrap();
    rtnl.add_veth("wl0", &mh, "ap0", &router).unwrap();
    let up = || {
        let rtnl = Rtnl::open().unwrap();
        rtnl.set_up(rtnl.link_index("ap0").unwrap()).unwrap();
    };
    router.run(up).unwrap();
    let work = || {
        let rtnl = Rtnl::open().unwrap();
        let interface = Interface::query("wl0").unwrap();
        rtnl.set_up(interface.ifindex).unwrap();
        rtnl.add_address(interface.ifindex, MH, 24).unwrap();
        let mut batch = String::new();
        neighbour(&mut batch, "10.0.0.1", 1, "reachable");
        apply(&batch);
        let frames = FrameSocket::open(&interface).unwrap();
        let mut follower = Follower::open(Arc::new(frames)).unwrap();
        follower.follow(Sent {
            ends: [MH, ROUTER],
            frame: mac(1).to_vec(),
            may_be_late: true,
        });
        assert_eq!(follower.waiting.next_hops(), [ROUTER]);
        // The kernel has room for the first report, not for the last one.
        batch.clear();
        neighbour(&mut batch, "10.0.0.1", 7, "reachable");
        for number in 0..REPORTS {
            neighbour(&mut batch, "10.0.0.9", number as u8, "permanent");
        }
        neighbour(&mut batch, "10.0.0.1", 2, "reachable");
        apply(&batch);
        assert!(dropped() > 0, "the kernel has queued all reports");
        follower.note_changes();
        // What was queued before the loss, if it is still there.
        follower.note_changes();
        let mut went_to = Vec::new();
        follower.waiting.transmit(Instant::now(), |octets, _| {
            went_to.push(octets.to_vec());
            Ok(())
        });
        assert_eq!(went_to, [mac(2)]);
    };
    mh.run(work).unwrap();
}
