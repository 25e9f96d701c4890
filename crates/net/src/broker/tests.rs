// SPDX-License-Identifier: Apache-2.0

use std::net::IpAddr;
use std::os::fd::AsRawFd as _;
use std::process::Command;

use rustix::net::{
    AddressFamily, SendFlags, SocketFlags, SocketType, send as send_octets, socketpair,
};

use super::*;
use crate::attach_point::{AttachMode, BpfObject, HookSide};
use crate::bpf::SharedValues;
use crate::lccwe::tests::wait_until;
use crate::netns::{NetNs, available_or_skip};
use crate::privileges::Client;
use crate::rtnl::Rtnl;
use crate::tun::{LayerKind, query_ifindex};

/// A namespace with the interfaces `w0`, which is the broker's, and `v0`, which is not.
fn namespace() -> NetNs {
    let ns = NetNs::new().unwrap();
    let made = ns.run(|| {
        let rtnl = Rtnl::open()?;
        rtnl.add_veth("w0", &ns, "v0", &ns)
    });
    made.unwrap().unwrap();
    ns
}

/// Ends the broker, also after a panic.
struct End(&'static Client);

impl Drop for End {
    fn drop(&mut self) {
        rustix::net::shutdown(self.0.as_fd(), rustix::net::Shutdown::Both).unwrap();
    }
}

/// Runs `work` beside a broker for `w0`, and waits for the broker's end.
fn beside_broker(ns: &NetNs, work: impl FnOnce(&'static Client) + Send) {
    let (ours, theirs) = sockets();
    // A daemon has its client as long as it lives.
    let client: &'static Client = Box::leak(Box::new(Client::new(ours)));
    let options = BrokerOptions {
        interfaces: vec!["w0".to_owned()],
        opens_packet_sockets: true,
    };
    std::thread::scope(|scope| {
        let broker = scope.spawn(|| ns.run(|| serve(theirs, &options)));
        let end = End(client);
        ns.run(|| work(client)).unwrap();
        drop(end);
        broker.join().unwrap().unwrap().unwrap();
    });
}

fn sockets() -> (OwnedFd, OwnedFd) {
    let flags = SocketFlags::CLOEXEC;
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
}

/// The text of `tc filter show` for the egress of an interface of the calling thread's namespace.
fn filters(interface: &str) -> String {
    let mut command = Command::new("tc");
    command.args(["filter", "show", "dev", interface, "egress"]);
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

#[test]
fn a_program_that_the_broker_has_loaded_is_attached_at_its_interfaces_alone() {
    if !available_or_skip(
        "a_program_that_the_broker_has_loaded_is_attached_at_its_interfaces_alone",
    ) {
        return;
    }
    beside_broker(&namespace(), |client| {
        let programs = Programs::load_by(client, BpfObject::Gateway, &[0; 40], &[]).unwrap();
        let attach = |name: &str, mode| {
            let ifindex = query_ifindex(name).unwrap();
            programs.attach("wireless_egress", ifindex, HookSide::Egress, mode)
        };
        for mode in [AttachMode::Auto, AttachMode::Clsact] {
            let hook = attach("w0", mode).unwrap();
            assert_eq!(matches!(hook, Hook::OfBroker(..)), !hook.is_tcx());
            assert_eq!(filters("w0").contains("bpf"), !hook.is_tcx());
            drop(hook);
            assert!(!filters("w0").contains("bpf"), "{mode:?}");
            for other in ["v0", "lo"] {
                let error = attach(other, mode).unwrap_err().to_string();
                assert!(error.contains("refuses another interface"), "{error}");
            }
        }
        // Both processes have the same maps.
        let heartbeat = programs.map("heartbeat").unwrap();
        let [first, second] = [(); 2].map(|()| SharedValues::map(&heartbeat).unwrap());
        first.store(0, 7);
        assert_eq!(second.load(0), 7);
        let refused = |settings: &[u8]| {
            let loaded = Programs::load_by(client, BpfObject::Keep, settings, &[]);
            loaded.unwrap_err().to_string()
        };
        assert!(refused(&[0; 3]).contains("settings of another size"));
        // Where the programs redirect to.
        let mut settings = [0; 40];
        settings[20..24].copy_from_slice(&query_ifindex("v0").unwrap().to_ne_bytes());
        assert!(refused(&settings).contains("refuses programs for another interface"));
    });
}

#[test]
fn a_device_of_the_broker_is_the_daemons_and_goes_with_it() {
    if !available_or_skip("a_device_of_the_broker_is_the_daemons_and_goes_with_it") {
        return;
    }
    beside_broker(&namespace(), |client| {
        let device = client.device("hfz%d", LayerKind::Ethernet).unwrap();
        assert_eq!(
            (device.name(), device.kind()),
            ("hfz0", LayerKind::Ethernet)
        );
        assert_eq!(query_ifindex("hfz0").unwrap(), device.ifindex());
        drop(device);
        // The broker closes its own descriptor after its answer.
        wait_until("the device's end", || query_ifindex("hfz0").is_err());
        let error = client.device("eth7", LayerKind::Ethernet).unwrap_err();
        assert!(error.to_string().contains("refuses a device of this name"));
        let routed = client.routed_device().unwrap();
        assert!(routed.name().starts_with("hfg"), "{}", routed.name());
    });
}

#[test]
fn a_neighbour_is_set_on_the_brokers_interfaces_alone() {
    if !available_or_skip("a_neighbour_is_set_on_the_brokers_interfaces_alone") {
        return;
    }
    beside_broker(&namespace(), |client| {
        let [own, other] = ["w0", "v0"].map(|name| query_ifindex(name).unwrap());
        let rtnl = Rtnl::open().unwrap();
        rtnl.set_up(own).unwrap();
        let address = IpAddr::from([10, 0, 1, 9]);
        let mac = [2, 0, 0, 0, 1, 9];
        rtnl.set_up(other).unwrap();
        // More neighbours than one message has room for.
        let many: Vec<_> = (0..200_u8)
            .map(|last| (IpAddr::from([10, 0, 0, last]), [2, 0, 0, 0, 0, last]))
            .collect();
        client.set_neighbours(other, &many).unwrap();
        client.set_neighbours(own, &many).unwrap();
        client.set_neighbours(own, &[(address, mac)]).unwrap();
        // The broker does not reply to these. It replies to the next request after them.
        client.resolve(other, address).unwrap();
        client.resolve(own, address).unwrap();
        assert!(client.frame_socket().is_ok());
        assert!(rtnl.neighbours(other).unwrap().is_empty());
        let known = rtnl.neighbours(own).unwrap();
        assert_eq!((known.len(), known.get(&address)), (201, Some(&mac)));
        client.forget_neighbours(own, &[address]).unwrap();
        assert!(client.frame_socket().is_ok());
        assert_eq!(rtnl.neighbours(own).unwrap().get(&address), None);
    });
}

#[test]
fn what_is_no_request_is_refused_and_the_next_one_is_answered() {
    if !available_or_skip("what_is_no_request_is_refused_and_the_next_one_is_answered") {
        return;
    }
    beside_broker(&namespace(), |client| {
        let answer = || {
            let received: (Answer, _) = receive(client.as_fd()).unwrap().expect("an answer");
            received.0.into_result()
        };
        let valid = serde_json::to_vec(&Request::FrameSocket).unwrap();
        let mut number = 0x9e37_79b9_u32;
        println!("seed {number:#x}");
        for length in 1..400_usize {
            // A request with up to six other octets (xorshift), or a part of it.
            let mut octets = valid.clone();
            for _ in 0..length % 7 {
                number ^= number << 13;
                number ^= number >> 17;
                number ^= number << 5;
                let at = number as usize % octets.len();
                octets[at] = (number >> 16) as u8;
            }
            octets.truncate(length.max(1));
            send_octets(client.as_fd(), &octets, SendFlags::empty()).unwrap();
            assert_eq!(answer().is_ok(), octets == valid, "{octets:?}");
        }
        // A message that is too long.
        send_octets(client.as_fd(), &vec![b' '; 20 << 10], SendFlags::empty()).unwrap();
        assert!(answer().is_err());
        // A request without its descriptor, and one with too many.
        send(client.as_fd(), &Request::ReceiveBuffer, &[]).unwrap();
        assert!(answer().is_err());
        let file = std::fs::File::open("/dev/null").unwrap();
        send(client.as_fd(), &Request::ReceiveBuffer, &[file.as_fd(); 60]).unwrap();
        assert!(answer().is_err());
        assert!(client.frame_socket().is_ok());
    });
}

#[test]
fn a_packet_socket_of_the_broker_receives_nothing() {
    if !available_or_skip("a_packet_socket_of_the_broker_receives_nothing") {
        return;
    }
    beside_broker(&namespace(), |client| {
        let rtnl = Rtnl::open().unwrap();
        rtnl.set_up(query_ifindex("w0").unwrap()).unwrap();
        rtnl.set_up(query_ifindex("v0").unwrap()).unwrap();
        let [lent, sending] = [(); 2].map(|()| client.frame_socket().unwrap());
        let any = unfiltered_socket();
        let (from, to) = (link_address("w0"), link_address("v0"));
        for socket in [&lent, &any] {
            bind(socket, &to);
        }
        send_frame(&sending, &from);
        wait_until("the frame arrives", || receives(&any));
        assert!(!receives(&lent));
    });
}

fn unfiltered_socket() -> OwnedFd {
    // SAFETY: socket takes no pointers, and its descriptor has no other owner.
    unsafe {
        OwnedFd::from_raw_fd(check_fd(libc::socket(
            libc::AF_PACKET,
            libc::SOCK_RAW | libc::SOCK_NONBLOCK,
            0,
        )))
    }
}

fn check_fd(result: i32) -> i32 {
    assert!(result >= 0, "{}", io::Error::last_os_error());
    result
}

/// All frames of an interface of the calling thread's namespace.
fn link_address(interface: &str) -> libc::sockaddr_ll {
    // SAFETY: sockaddr_ll is plain data, for which all zeros is a valid value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = query_ifindex(interface).unwrap() as i32;
    address
}

const ADDRESS_BYTES: libc::socklen_t = size_of::<libc::sockaddr_ll>() as libc::socklen_t;

fn bind(socket: &OwnedFd, address: &libc::sockaddr_ll) {
    // SAFETY: bind reads the address, which outlives the call.
    check_fd(unsafe {
        libc::bind(
            socket.as_raw_fd(),
            std::ptr::from_ref(address).cast(),
            ADDRESS_BYTES,
        )
    });
}

fn send_frame(socket: &OwnedFd, address: &libc::sockaddr_ll) {
    let frame = [0xff_u8; 60];
    // SAFETY: sendto reads frame and address, which outlive the call.
    let sent = unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            frame.as_ptr().cast(),
            frame.len(),
            0,
            std::ptr::from_ref(address).cast(),
            ADDRESS_BYTES,
        )
    };
    assert_eq!(sent, 60, "{}", io::Error::last_os_error());
}

/// Whether a frame of the test has arrived.
fn receives(socket: &OwnedFd) -> bool {
    let mut frame = [0_u8; 256];
    loop {
        // SAFETY: recv writes at most the buffer's length, which outlives the call.
        let received = unsafe {
            libc::recv(
                socket.as_raw_fd(),
                frame.as_mut_ptr().cast(),
                frame.len(),
                0,
            )
        };
        if received < 0 {
            return false;
        }
        if frame[..60] == [0xff; 60] {
            return true;
        }
    }
}

/// On kernels without TCX each data path has filters of its own: those of the mobile's own programs and of its
/// engine stand at one interface.
#[test]
fn filters_of_different_objects_stand_beside_each_other() {
    if !available_or_skip("filters_of_different_objects_stand_beside_each_other") {
        return;
    }
    beside_broker(&namespace(), |client| {
        let ifindex = query_ifindex("w0").unwrap();
        let flows = [("flows", 16)];
        let objects: [(_, &[(&str, u32)], _); 3] = [
            (BpfObject::Mobile, &flows, "mobile_egress"),
            (BpfObject::Gateway, &[], "wireless_egress"),
            (BpfObject::Keep, &[], "link_egress"),
        ];
        let mut attached = Vec::new();
        for (object, entries, program) in objects {
            let programs = Programs::load_by(client, object, &[0; 40], entries).unwrap();
            let hook = programs.attach(program, ifindex, HookSide::Egress, AttachMode::Clsact);
            attached.push((programs, hook.unwrap()));
        }
        let shown = filters("w0");
        for (_, _, program) in objects {
            assert!(shown.contains(program), "{program}: {shown}");
        }
    });
}

#[test]
fn a_threshold_is_set_at_the_brokers_interfaces_alone() {
    if !available_or_skip("a_threshold_is_set_at_the_brokers_interfaces_alone") {
        return;
    }
    beside_broker(&namespace(), |client| {
        let set = |name| client.set_wifi_threshold(query_ifindex(name).unwrap(), -70, 4);
        let refused = set("v0").unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied, "{refused}");
        // The broker serves `w0`, which is no Wi-Fi.
        let other = set("w0").unwrap_err();
        assert_ne!(other.kind(), io::ErrorKind::PermissionDenied, "{other}");
    });
}
