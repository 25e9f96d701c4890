// SPDX-License-Identifier: Apache-2.0
//! What split proxies get wrong and plain forwarding does not: Holdfast must
//! behave as plain forwarding does. Gross bounds only; `make bench` measures.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use holdfast_testbed::harness::{Harness, accept, connect, listen, send_seeded};
use holdfast_testbed::topology::{FH, MH};

use super::{PORT, SCHEMES, connection, fh, harness, wired};

fn veth(scheme: &str) -> Harness {
    harness(&wired(1500), scheme)
}

#[test]
fn a_ping_pong_of_64_bytes_takes_no_delayed_ack() {
    in_virtual_kernel!();
    let harness = veth("hold");
    let (mut at_fh, mut at_mh) = connection(&harness, fh(), PORT);
    at_fh.set_nodelay(true).unwrap();
    at_mh.set_nodelay(true).unwrap();
    let echo = thread::spawn(move || {
        let mut buffer = [0; 64];
        while at_fh.read_exact(&mut buffer).is_ok() {
            at_fh.write_all(&buffer).unwrap();
        }
    });
    let mut buffer = [7; 64];
    let mut times: Vec<Duration> = (0..200)
        .map(|_| {
            let start = Instant::now();
            at_mh.write_all(&buffer).unwrap();
            at_mh.read_exact(&mut buffer).unwrap();
            start.elapsed()
        })
        .collect();
    at_mh.shutdown(Shutdown::Both).unwrap();
    echo.join().unwrap();
    times.sort();
    let median = times[times.len() / 2];
    println!("64-byte ping-pong: median {median:?}");
    assert!(median < Duration::from_millis(10), "median {median:?}");
}

#[test]
fn two_hundred_connections_one_at_a_time_take_a_second_at_most_each_twentieth() {
    in_virtual_kernel!();
    let harness = veth("hold");
    let listener = listen(&harness.topology.fh, fh(), PORT).unwrap();
    let answers = thread::spawn(move || {
        for _ in 0..200 {
            let (mut stream, _) = accept(&listener).unwrap();
            stream.write_all(b"x").unwrap();
        }
    });
    let start = Instant::now();
    // One thread in the namespace for all: entering it is not what is measured.
    harness
        .topology
        .mh
        .run(|| {
            for _ in 0..200 {
                let address = SocketAddr::new(fh(), PORT);
                let mut stream =
                    TcpStream::connect_timeout(&address, Duration::from_secs(5)).unwrap();
                stream
                    .set_read_timeout(Some(Duration::from_secs(5)))
                    .unwrap();
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
            }
        })
        .unwrap();
    let per_second = 200.0 / start.elapsed().as_secs_f64();
    answers.join().unwrap();
    println!("connect, 1 byte, close: {per_second:.0} a second");
    assert!(per_second > 20.0, "{per_second:.0} connections a second");
}

#[test]
fn after_a_half_close_the_reply_arrives() {
    in_virtual_kernel!();
    for scheme in SCHEMES {
        let harness = veth(scheme);
        let (mut at_fh, mut at_mh) = connection(&harness, fh(), PORT);
        at_mh.write_all(b"question").unwrap();
        at_mh.shutdown(Shutdown::Write).unwrap();
        let mut question = Vec::new();
        at_fh.read_to_end(&mut question).unwrap();
        assert_eq!(question, b"question", "{scheme}");
        let sender = thread::spawn(move || send_seeded(&at_fh, 300_000, 16).unwrap());
        let mut reply = Vec::new();
        at_mh.read_to_end(&mut reply).unwrap();
        assert_eq!(reply.len(), 300_000, "{scheme}");
        sender.join().unwrap();
    }
}

#[test]
fn a_closed_port_is_refused_at_once() {
    in_virtual_kernel!();
    for scheme in SCHEMES {
        let harness = veth(scheme);
        let start = Instant::now();
        let error = connect(&harness.topology.mh, fh(), PORT).unwrap_err();
        assert_eq!(
            error.kind(),
            ErrorKind::ConnectionRefused,
            "{scheme}: {error}"
        );
        assert!(
            start.elapsed() < Duration::from_secs(2),
            "{scheme}: {:?}",
            start.elapsed()
        );
    }
}

#[test]
fn the_fh_sees_the_mhs_own_address() {
    in_virtual_kernel!();
    for (address, mh) in [
        (FH.v4.into(), MH.v4.into()),
        (FH.v6.into(), std::net::IpAddr::from(MH.v6)),
    ] {
        let harness = veth("hold");
        let listener = listen(&harness.topology.fh, address, PORT).unwrap();
        let _at_mh = connect(&harness.topology.mh, address, PORT).unwrap();
        let (_, from) = accept(&listener).unwrap();
        assert_eq!(from.ip(), mh);
    }
}

/// Closes with a RST, as a socket with unread bytes does: `other` is the end
/// that sends them.
fn reset(stream: TcpStream, mut other: &TcpStream) {
    other.write_all(b"unread").unwrap();
    assert_eq!(stream.peek(&mut [0]).unwrap(), 1);
    drop(stream);
}

#[test]
fn a_reset_reaches_the_other_end_from_either_side() {
    in_virtual_kernel!();
    for scheme in SCHEMES {
        let harness = veth(scheme);
        let (at_fh, mut at_mh) = connection(&harness, fh(), PORT);
        reset(at_fh, &at_mh);
        let error = at_mh.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{scheme}");
        let (mut at_fh, at_mh) = connection(&harness, fh(), PORT + 1);
        reset(at_mh, &at_fh);
        let error = at_fh.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{scheme}");
    }
}
