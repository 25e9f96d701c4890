// SPDX-License-Identifier: Apache-2.0
//! The data path with real sockets: FH, router and MH as network namespaces.
//!
//! ```text
//!   fh [f0] 10.1.0.2 ---- 10.1.0.1 [g0] gw [wl0] 10.2.0.1 ---- 10.2.0.2 [wl0] mh
//!           fd01::2       fd01::1            fd02::1           fd02::2
//! ```
#![allow(
    missing_docs,
    unsafe_code,
    reason = "a test, with a socket that no safe crate offers"
)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use holdfast_core::Direction;
use holdfast_core::keep::Mode;
use holdfast_net::counters::CounterValues;
use holdfast_net::datapath::{
    AttachMode, DataPath, HEARTBEAT_INTERVAL, PathOptions, Taking, monotonic_ns,
};
use holdfast_net::frame::BufferPool;
use holdfast_net::keep_path::{KeepPath, Peers, Protocols};
use holdfast_net::netns::{NetNs, available_or_skip};
use holdfast_net::readiness::wait_readable;
use holdfast_net::rtnl::Rtnl;
use holdfast_net::tun::LayerKind;
use rustix::net::sockopt::set_socket_recv_buffer_size_force;

mod topology;

use topology::{Background, Topology, address};

const WAIT_MAX: Duration = Duration::from_secs(60);
/// Longer than any test: the owner of a path may get no processor for a while.
const HOUR_NS: u64 = 3_600_000_000_000;
const DIRECTIONS: [Direction; 2] = [Direction::Downlink, Direction::Uplink];

/// Attaches to the router and gives back all that is taken, until it is stopped; then
/// it leaves in good order and reports its counters.
fn empty_gateway(topology: &Topology, mode: AttachMode) -> Background<CounterValues> {
    empty_gateway_with(topology, mode, None)
}

fn empty_gateway_with(
    topology: &Topology,
    mode: AttachMode,
    ahead_dscp: Option<u8>,
) -> Background<CounterValues> {
    let gw = Arc::clone(&topology.gw);
    let (ready, is_ready) = mpsc::channel();
    let gateway = Background::spawn(move |stop| {
        gw.run(|| {
            let path = DataPath::attach_with(
                "wl0",
                PathOptions {
                    mode,
                    ahead_dscp,
                    ..PathOptions::default()
                },
            )
            .unwrap();
            let counters = path.counters().unwrap();
            let mut pool = BufferPool::new(8 << 20);
            path.beat(monotonic_ns() + HOUR_NS);
            ready.send(()).unwrap();
            let mut leaves_by = None;
            loop {
                if stop.load(Ordering::Relaxed) && leaves_by.is_none() {
                    path.stop_taking();
                    leaves_by = Some(Instant::now() + WAIT_MAX);
                }
                for direction in DIRECTIONS {
                    while let Some(frame) = path.read(direction, &mut pool).unwrap() {
                        path.forward(direction, &frame).unwrap();
                    }
                }
                if let Some(by) = leaves_by {
                    let counted = counters.read().unwrap();
                    // One that was counted may still be on its way to the device.
                    if is_all_given_back(&counted) || Instant::now() > by {
                        return counted;
                    }
                }
                let fds = DIRECTIONS.map(|direction| path.device_fd(direction));
                wait_readable(fds, Some(HEARTBEAT_INTERVAL)).unwrap();
            }
        })
        .unwrap()
    });
    is_ready.recv_timeout(WAIT_MAX).unwrap();
    gateway
}

fn pattern(at: usize) -> u8 {
    (at ^ (at >> 8) ^ (at >> 16)) as u8
}

/// Sends `len` bytes each way at once and checks them.
fn exchange(ends: (TcpStream, TcpStream), len: usize) {
    let (fh_end, mh_end) = ends;
    let send = |mut to: TcpStream| {
        move || {
            let bytes: Vec<u8> = (0..len).map(pattern).collect();
            to.write_all(&bytes).unwrap();
            to.shutdown(std::net::Shutdown::Write).unwrap();
        }
    };
    let receive = |mut from: TcpStream| {
        move || {
            let mut bytes = Vec::with_capacity(len);
            from.read_to_end(&mut bytes).unwrap();
            assert_eq!(bytes.len(), len);
            assert!(
                bytes
                    .iter()
                    .enumerate()
                    .all(|(at, &byte)| byte == pattern(at))
            );
        }
    };
    thread::scope(|scope| {
        for end in [fh_end, mh_end] {
            scope.spawn(receive(end.try_clone().unwrap()));
            scope.spawn(send(end));
        }
    });
}

fn count(counters: &CounterValues, name: &str) -> u64 {
    let found = counters.iter().find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("no counter {name}")).1
}

fn is_all_given_back(counters: &CounterValues) -> bool {
    ["downlink", "uplink"].iter().all(|direction| {
        let [taken, given] = ["taken", "given"].map(|done| format!("{done}_{direction}"));
        count(counters, &taken) == count(counters, &given)
    })
}

fn assert_all_given_back(counters: &CounterValues) {
    for direction in ["downlink", "uplink"] {
        let taken = count(counters, &format!("taken_{direction}"));
        assert!(taken > 10, "{counters:?}");
    }
    assert!(is_all_given_back(counters), "{counters:?}");
}

#[test]
fn tcp_crosses_both_ways_beside_masquerading_and_a_stateful_firewall() {
    if !available_or_skip("tcp_crosses_both_ways_beside_masquerading_and_a_stateful_firewall") {
        return;
    }
    for mode in [AttachMode::Auto, AttachMode::Clsact] {
        let topology = Topology::new(LayerKind::Ethernet);
        topology.masquerade();
        let gateway = empty_gateway(&topology, mode);
        for fh in ["10.1.0.2", "fd01::2"] {
            exchange(topology.connect(fh), 20 << 20);
        }
        let counters = gateway.finish();
        assert_all_given_back(&counters);
        assert!(
            count(&counters, "passed_not_tcp") > 0,
            "ARP at least: {counters:?}"
        );
    }
}

#[test]
fn tcp_crosses_where_the_wireless_interface_has_no_link_header() {
    if !available_or_skip("tcp_crosses_where_the_wireless_interface_has_no_link_header") {
        return;
    }
    let topology = Topology::new(LayerKind::RawIp);
    topology.masquerade();
    let gateway = empty_gateway(&topology, AttachMode::Auto);
    for fh in ["10.1.0.2", "fd01::2"] {
        exchange(topology.connect(fh), 5 << 20);
    }
    assert_all_given_back(&gateway.finish());
}

#[test]
fn keep_takes_what_is_not_tcp_at_the_same_interface() {
    if !available_or_skip("keep_takes_what_is_not_tcp_at_the_same_interface") {
        return;
    }
    for mode in [AttachMode::Auto, AttachMode::Clsact] {
        let topology = Topology::new(LayerKind::Ethernet);
        let gateway = empty_gateway(&topology, mode);
        let attach = || {
            let taken = (Peers::ByAddress, Protocols::AllButTcp);
            KeepPath::attach("wl0", mode, taken, 7).unwrap()
        };
        let keep = topology.gw.run(attach).unwrap();
        keep.beat(monotonic_ns() + HOUR_NS);
        // The links carry, and the router knows both ends: no datagram is lost for want of that.
        drop(topology.connect("10.1.0.2"));
        let bind = |ns: &NetNs, at: &str| {
            let socket = ns.run(|| UdpSocket::bind(SocketAddr::new(address(at), 700)));
            let socket = socket.unwrap().unwrap();
            socket.set_read_timeout(Some(WAIT_MAX)).unwrap();
            socket
        };
        let (at_fh, at_mh) = (
            bind(&topology.fh, "10.1.0.2"),
            bind(&topology.mh, "10.2.0.2"),
        );
        let to_mh = at_mh.local_addr().unwrap();
        let mut octets = [0; 100];
        at_fh.send_to(b"passes", to_mh).unwrap();
        assert_eq!(at_mh.recv(&mut octets).unwrap(), 6);
        let peer = keep.table().find_or_enter(to_mh.ip()).unwrap();
        keep.table().set_mode(peer, Mode::Take);
        at_fh.send_to(b"taken", to_mh).unwrap();
        wait_readable([keep.device_fd()], Some(WAIT_MAX)).unwrap();
        let mut pool = BufferPool::new(1 << 20);
        let frame = keep.read(&mut pool).unwrap().expect("it is readable");
        exchange(topology.connect("10.1.0.2"), 5 << 20);
        assert!(keep.read(&mut pool).unwrap().is_none(), "TCP was taken");
        keep.send(&frame).unwrap();
        assert_eq!(at_mh.recv(&mut octets).unwrap(), 5);
        drop(keep);
        at_fh.send_to(b"passes again", to_mh).unwrap();
        assert_eq!(at_mh.recv(&mut octets).unwrap(), 12);
        assert_all_given_back(&gateway.finish());
    }
}

#[test]
fn segments_pass_with_copies_until_their_peer_is_taken() {
    if !available_or_skip("segments_pass_with_copies_until_their_peer_is_taken") {
        return;
    }
    for (fh, mh) in [("10.1.0.2", "10.2.0.2"), ("fd01::2", "fd02::2")] {
        let topology = Topology::new(LayerKind::Ethernet);
        let options = PathOptions {
            taking: Taking::InOutages,
            ..PathOptions::default()
        };
        let attach = || DataPath::attach_with("wl0", options).unwrap();
        let path = topology.gw.run(attach).unwrap();
        path.beat(monotonic_ns() + HOUR_NS);
        let mut pool = BufferPool::new(8 << 20);
        exchange(topology.connect(fh), 1 << 20);
        for direction in DIRECTIONS {
            assert!(
                path.read(direction, &mut pool).unwrap().is_none(),
                "it was taken"
            );
            let copy = path.read_copy(direction, &mut pool).unwrap();
            assert!(copy.is_some(), "no copy, {direction:?}");
        }

        let (mut fh_end, mut mh_end) = topology.connect(fh);
        path.take_peer(address(mh), true).unwrap();
        fh_end.write_all(b"taken").unwrap();
        // A segment of the first connection may come before it.
        let mut is_taken = false;
        while !is_taken {
            let down = path.device_fd(Direction::Downlink);
            let is_readable = wait_readable([down], Some(WAIT_MAX)).unwrap();
            assert_eq!(is_readable, [true], "it was not taken");
            while let Some(frame) = path.read(Direction::Downlink, &mut pool).unwrap() {
                is_taken |= frame.bytes().ends_with(b"taken");
                path.forward(Direction::Downlink, &frame).unwrap();
            }
        }
        let mut octets = [0; 5];
        mh_end.read_exact(&mut octets).unwrap();
        assert_eq!(&octets, b"taken");

        path.release_peers();
        // The ACK of it may have been taken, and its sender then sends it once more.
        fh_end.write_all(b"pass.").unwrap();
        mh_end.read_exact(&mut octets).unwrap();
        assert_eq!(&octets, b"pass.");
    }
}

#[test]
fn without_a_heartbeat_everything_passes() {
    if !available_or_skip("without_a_heartbeat_everything_passes") {
        return;
    }
    for (has_lived, fh) in [(false, "10.1.0.2"), (true, "fd01::2")] {
        let topology = Topology::new(LayerKind::Ethernet);
        let path = topology
            .gw
            .run(|| DataPath::attach("wl0", AttachMode::Auto).unwrap())
            .unwrap();
        // Before the first segment: one that comes in between would be taken.
        if has_lived {
            path.beat(monotonic_ns() + HOUR_NS);
            path.stop_taking();
        }
        exchange(topology.connect(fh), 1 << 20);
        let counters = path.counters().unwrap().read().unwrap();
        assert!(
            count(&counters, "passed_stale_heartbeat") > 10,
            "{counters:?}"
        );
        for name in ["taken_downlink", "taken_uplink"] {
            assert_eq!(count(&counters, name), 0, "{counters:?}");
        }
    }
}

#[test]
fn a_detached_path_leaves_an_interface_that_has_another_name() {
    if !available_or_skip("a_detached_path_leaves_an_interface_that_has_another_name") {
        return;
    }
    for mode in [AttachMode::Auto, AttachMode::Clsact] {
        let topology = Topology::new(LayerKind::Ethernet);
        let attach = || DataPath::attach("wl0", mode).unwrap();
        let mut path = topology.gw.run(attach).unwrap();
        path.beat(monotonic_ns() + HOUR_NS);
        // Before Linux 6.2 an interface that is up keeps its name.
        for change in ["wl0 down", "wl0 name wl9", "wl9 up"] {
            let mut ip = topology.gw.command("ip");
            ip.args(["link", "set"]).args(change.split(' '));
            assert!(ip.status().unwrap().success(), "{change}");
        }
        topology.gw.run(|| path.detach()).unwrap();
        path.beat(monotonic_ns() + HOUR_NS);
        exchange(topology.connect("10.1.0.2"), 1 << 20);
        // No program has seen a segment.
        let counters = path.counters().unwrap().read().unwrap();
        for name in ["taken_downlink", "taken_uplink", "passed_stale_heartbeat"] {
            assert_eq!(count(&counters, name), 0, "{mode:?}: {counters:?}");
        }
    }
}

#[test]
fn a_connection_outlives_the_gateways_leaving_and_coming_back() {
    if !available_or_skip("a_connection_outlives_the_gateways_leaving_and_coming_back") {
        return;
    }
    for mode in [AttachMode::Auto, AttachMode::Clsact] {
        let topology = Topology::new(LayerKind::Ethernet);
        topology.masquerade();
        let (mut fh_end, mut mh_end) = topology.connect("10.1.0.2");
        let mut echo = |text: &[u8]| {
            let mut buffer = [0; 16];
            mh_end.write_all(text).unwrap();
            fh_end.read_exact(&mut buffer[..text.len()]).unwrap();
            fh_end.write_all(text).unwrap();
            mh_end.read_exact(&mut buffer[..text.len()]).unwrap();
            assert_eq!(&buffer[..text.len()], text);
        };
        echo(b"before");
        for _ in 0..3 {
            let gateway = empty_gateway(&topology, mode);
            echo(b"through it");
            let counters = gateway.finish();
            assert!(count(&counters, "given_uplink") > 0, "{counters:?}");
            echo(b"without it");
        }
        exchange((fh_end, mh_end), 1 << 20);
    }
}

#[test]
fn nothing_is_left_on_the_interface_and_no_device_remains() {
    if !available_or_skip("nothing_is_left_on_the_interface_and_no_device_remains") {
        return;
    }
    let topology = Topology::new(LayerKind::Ethernet);
    let leftovers = || {
        let devices = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
        let ours = devices
            .lines()
            .filter(|line| line.trim().starts_with("hf"))
            .count();
        let index = Rtnl::open().unwrap().link_index("wl0").unwrap();
        let programs = holdfast_net::datapath::tcx_programs(index);
        let programs: usize = programs.iter().map(|(_, names)| names.len()).sum();
        (ours, programs)
    };
    let (has_tcx, during, after) = topology
        .gw
        .run(|| {
            let path = DataPath::attach("wl0", AttachMode::Auto).unwrap();
            let has_tcx = path.detaches_on_death();
            let during = leftovers();
            drop(path);
            // A process that another test is starting has the descriptors until it executes its program.
            let until = Instant::now() + Duration::from_secs(30);
            while leftovers() != (0, 0) && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(2));
            }
            (has_tcx, during, leftovers())
        })
        .unwrap();
    // Filters of a kernel without TCX are none of its programs.
    assert_eq!(during, (2, if has_tcx { 2 } else { 0 }));
    assert_eq!(after, (0, 0));
}

/// For all frames of the namespace that the thread is in, with room for all of a test.
fn packet_socket() -> OwnedFd {
    /// A frame counts with all its octets, however few of them are wanted.
    const ROOM_BYTES: usize = 64 << 20;
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: socket takes no pointers, and its descriptor has no other owner.
    let socket = unsafe {
        let fd = libc::socket(libc::AF_PACKET, kind, i32::from(0x0003_u16.to_be()));
        assert!(fd >= 0, "{}", std::io::Error::last_os_error());
        OwnedFd::from_raw_fd(fd)
    };
    set_socket_recv_buffer_size_force(&socket, ROOM_BYTES).unwrap();
    socket
}

/// Counts the TCP frames over IPv4 that leave `wl0` with a mark that passes `has_mark`:
/// a packet socket behind the egress hook, with a filter on `skb->mark`.
struct MarkTap {
    socket: OwnedFd,
}

impl MarkTap {
    /// In the namespace that the thread is in; `equal` or unequal to `mark`.
    fn open(mark: u32, equal: bool) -> Self {
        // From linux/filter.h: loads of what is beside the packet.
        const AD_MARK: u32 = (-0x1000_i32 + 20) as u32;
        const AD_PACKET_TYPE: u32 = (-0x1000_i32 + 4) as u32;
        const AD_INTERFACE: u32 = (-0x1000_i32 + 8) as u32;
        let interface = Rtnl::open().unwrap().link_index("wl0").unwrap();
        let load = |k, size| libc::sock_filter {
            code: (size | 0x20) as u16,
            jt: 0,
            jf: 0,
            k,
        };
        let unless = |k, skip| libc::sock_filter {
            code: 0x15,
            jt: 0,
            jf: skip,
            k,
        };
        let answer = |k| libc::sock_filter {
            code: 0x06,
            jt: 0,
            jf: 0,
            k,
        };
        let (yes, no) = if equal { (64, 0) } else { (0, 64) };
        let mut code = [
            load(AD_INTERFACE, 0),
            unless(interface, 8),
            load(AD_PACKET_TYPE, 0),
            unless(u32::from(libc::PACKET_OUTGOING), 6),
            load(23, 0x10),
            unless(6, 4),
            load(AD_MARK, 0),
            unless(mark, 1),
            answer(yes),
            answer(no),
            answer(0),
        ];
        let program = libc::sock_fprog {
            len: code.len() as u16,
            filter: code.as_mut_ptr(),
        };
        let socket = packet_socket();
        // SAFETY: setsockopt reads the program and its code, which outlive the call.
        let result = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ATTACH_FILTER,
                (&raw const program).cast(),
                size_of::<libc::sock_fprog>() as u32,
            )
        };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
        Self { socket }
    }

    /// Counts all frames of the namespace with `skb->priority`, which no classic filter
    /// can read.
    fn of_priority(priority: i32) -> Self {
        // __sk_buff in linux/bpf.h.
        const PRIORITY_OFFSET: i16 = 32;
        let instruction = |code, source, off, imm| libbpf_sys::bpf_insn {
            code,
            _bitfield_align_1: [],
            _bitfield_1: libbpf_sys::bpf_insn::new_bitfield_1(0, source),
            off,
            imm,
        };
        let code = [
            instruction(0x61, 1, PRIORITY_OFFSET, 0), // r0 = priority
            instruction(0x55, 0, 2, priority),        // unless it is the one, go on 2 below
            instruction(0xb7, 0, 0, 64),              // r0 = octets to keep
            instruction(0x95, 0, 0, 0),               // exit
            instruction(0xb7, 0, 0, 0),
            instruction(0x95, 0, 0, 0),
        ];
        let socket = packet_socket();
        // SAFETY: the code outlives the call, the name may be null, and the descriptor
        // has no other owner.
        let program = unsafe {
            let fd = libbpf_sys::bpf_prog_load(
                libbpf_sys::BPF_PROG_TYPE_SOCKET_FILTER,
                std::ptr::null(),
                c"GPL".as_ptr(),
                code.as_ptr(),
                code.len() as libbpf_sys::size_t,
                std::ptr::null_mut(),
            );
            assert!(fd >= 0, "{}", std::io::Error::from_raw_os_error(-fd));
            OwnedFd::from_raw_fd(fd)
        };
        let fd = program.as_raw_fd();
        // SAFETY: setsockopt reads one descriptor's number.
        let result = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ATTACH_BPF,
                (&raw const fd).cast(),
                size_of_val(&fd) as u32,
            )
        };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
        Self { socket }
    }

    /// Frames since it was opened.
    fn count(&self) -> usize {
        let mut octets = [0_u8; 64];
        let mut receive = || {
            // SAFETY: recv writes at most as many octets as there are.
            unsafe {
                libc::recv(
                    self.socket.as_raw_fd(),
                    octets.as_mut_ptr().cast(),
                    octets.len(),
                    0,
                )
            }
        };
        std::iter::from_fn(|| (receive() > 0).then_some(())).count()
    }
}

#[test]
fn what_is_given_back_has_the_mark_that_the_router_gave_it() {
    if !available_or_skip("what_is_given_back_has_the_mark_that_the_router_gave_it") {
        return;
    }
    let topology = Topology::new(LayerKind::Ethernet);
    let rules = "table inet handling { chain transit { type filter hook forward priority 0;
        oifname \"wl0\" meta mark set 0x42; }; }";
    let status = topology.gw.command("nft").arg(rules).status().unwrap();
    assert!(status.success());
    let gateway = empty_gateway(&topology, AttachMode::Auto);
    let [right, wrong] =
        [true, false].map(|equal| topology.gw.run(|| MarkTap::open(0x42, equal)).unwrap());
    exchange(topology.connect("10.1.0.2"), 1 << 20);
    assert_all_given_back(&gateway.finish());
    assert!(right.count() > 10);
    assert_eq!(wrong.count(), 0);
}

#[test]
fn what_has_the_dscp_gets_the_priority_of_interactive_traffic_unless_the_router_chose_a_class() {
    /// From linux/pkt_sched.h, and the class 1:10.
    const INTERACTIVE: i32 = 6;
    const CLASS: i32 = 0x0001_0010;
    let test = "what_has_the_dscp_gets_the_priority_of_interactive_traffic";
    if !available_or_skip(test) {
        return;
    }
    let topology = Topology::new(LayerKind::Ethernet);
    let nft = |ns: &NetNs, rules: &str| {
        let status = ns.command("nft").arg(rules).status().unwrap();
        assert!(status.success());
    };
    // CS5: none that the kernel itself makes a priority of.
    let rules = "table inet dscp { chain out { type filter hook output priority 0;
        meta l4proto tcp ip dscp set 40; meta l4proto tcp ip6 dscp set 40; }; }";
    nft(&topology.fh, rules);
    let counts = |ahead_dscp, fh| {
        let gateway = empty_gateway_with(&topology, AttachMode::Auto, ahead_dscp);
        let taps = [INTERACTIVE, CLASS];
        let taps = taps.map(|priority| topology.gw.run(|| MarkTap::of_priority(priority)).unwrap());
        exchange(topology.connect(fh), 1 << 20);
        assert_all_given_back(&gateway.finish());
        taps.map(|tap| tap.count())
    };
    for fh in ["10.1.0.2", "fd01::2"] {
        let [interactive, class] = counts(Some(40), fh);
        assert!(
            interactive > 10 && class == 0,
            "{fh}: {interactive} {class}"
        );
        assert_eq!(counts(None, fh), [0, 0], "{fh}");
        assert_eq!(counts(Some(41), fh), [0, 0], "{fh}");
    }
    let rules = "table inet chosen { chain transit { type filter hook forward priority 0;
        oifname \"wl0\" meta priority set 0x10010; }; }";
    nft(&topology.gw, rules);
    let [interactive, class] = counts(Some(40), "10.1.0.2");
    assert!(interactive == 0 && class > 10, "{interactive} {class}");
}
