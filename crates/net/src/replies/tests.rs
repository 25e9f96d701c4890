// SPDX-License-Identifier: Apache-2.0

use std::time::Duration;

use super::*;
use crate::netns::{NetNs, available_or_skip};

const LIMIT: Duration = Duration::from_secs(60);

/// A namespace whose own addresses are two of each family.
fn namespace() -> NetNs {
    let ns = NetNs::new().unwrap();
    let script = "ip address add 10.7.0.1/32 dev lo
        ip address add 10.7.0.2/32 dev lo
        ip address add fd07::1/128 dev lo nodad
        ip address add fd07::2/128 dev lo nodad";
    let status = ns.command("sh").args(["-e", "-c", script]).status();
    assert!(status.unwrap().success());
    ns
}

/// The source of the answer to a datagram that goes from `from` to the socket at `listen`, as `to`.
fn source_of_answer(listen: &str, from: &str, to: &str) -> IpAddr {
    let socket = UdpSocket::bind(listen).unwrap();
    note_arrivals(&socket).unwrap();
    let at: SocketAddr = format!("{to}:{}", socket.local_addr().unwrap().port())
        .parse()
        .unwrap();
    let sender = UdpSocket::bind(from).unwrap();
    for socket in [&socket, &sender] {
        socket.set_read_timeout(Some(LIMIT)).unwrap();
    }
    sender.send_to(b"request", at).unwrap();
    let mut buffer = [0; 16];
    let (length, correspondent) = receive(&socket, &mut buffer).unwrap();
    assert_eq!(&buffer[..length], b"request");
    let port = sender.local_addr().unwrap().port();
    assert_eq!(correspondent.from.port(), port);
    reply(&socket, b"answer", &correspondent).unwrap();
    let (length, source) = sender.recv_from(&mut buffer).unwrap();
    assert_eq!(&buffer[..length], b"answer");
    assert_eq!(source.port(), at.port());
    source.ip()
}

#[test]
fn an_answer_leaves_from_the_address_that_the_datagram_was_sent_to() {
    if !available_or_skip("an_answer_leaves_from_the_address_that_the_datagram_was_sent_to") {
        return;
    }
    let run = || {
        for (listen, from, to) in [
            ("0.0.0.0:0", "10.7.0.1:0", "10.7.0.2"),
            ("[::]:0", "10.7.0.1:0", "10.7.0.2"),
            ("[::]:0", "[fd07::1]:0", "[fd07::2]"),
            // The socket has one address: `note_arrivals` sets nothing.
            ("10.7.0.2:0", "10.7.0.1:0", "10.7.0.2"),
            ("[fd07::2]:0", "[fd07::1]:0", "[fd07::2]"),
        ] {
            let source = source_of_answer(listen, from, to).to_string();
            assert_eq!(source, to.trim_matches(['[', ']']), "{listen}");
        }
    };
    namespace().run(run).unwrap();
}

#[test]
fn a_nonblocking_socket_without_a_datagram_would_block() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    let error = receive(&socket, &mut [0; 4]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
}
