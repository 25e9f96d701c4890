// SPDX-License-Identifier: Apache-2.0
//! Signals to a gateway's process, callers of its control socket, a second gateway.

use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::{Duration, Instant};

use holdfast_testbed::daemons::make_key;
use holdfast_testbed::harness::Harness;
use holdfast_testbed::link_process::GATEWAY_IF;

use super::{HOLDFAST, harness, wired};

/// `holdfast status`, and how long it took.
fn status(harness: &Harness, flags: &[&str]) -> (Duration, String) {
    let begun = Instant::now();
    let output = Command::new(HOLDFAST)
        .args(["status", "--socket"])
        .arg(harness.folder().join("gateway.sock"))
        .args(flags)
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (begun.elapsed(), String::from_utf8(text).unwrap())
}

#[test]
fn a_broken_pipe_is_none_of_a_gateways_business() {
    in_virtual_kernel!();
    let mut harness = harness(&wired(1500), "hold");
    harness.signal_gateway(libc::SIGPIPE).unwrap();
    assert!(status(&harness, &[]).1.starts_with("gateway "));
    harness.stop_gateway().unwrap();
}

#[test]
fn a_gateway_ended_by_a_signal_removes_its_socket_and_frees_the_interface() {
    in_virtual_kernel!();
    let mut harness = harness(&wired(1500), "hold");
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGQUIT] {
        let socket = harness.folder().join("gateway.sock");
        let found = socket.metadata().unwrap();
        assert!(found.file_type().is_socket());
        assert_eq!(found.permissions().mode() & 0o777, 0o660);
        harness.signal_gateway(signal).unwrap();
        let mut gateway = harness.gateway.take().unwrap();
        let ended = gateway.child.wait_at_most(Duration::from_secs(20)).unwrap();
        assert!(ended.is_some_and(|status| status.success()), "{ended:?}");
        assert!(!socket.exists(), "signal {signal}");
        harness.start_gateway().unwrap();
    }
}

#[test]
fn forty_silent_callers_do_not_block_the_status() {
    in_virtual_kernel!();
    let harness = harness(&wired(1500), "hold");
    let call = || UnixStream::connect(harness.folder().join("gateway.sock")).unwrap();
    let silent: Vec<_> = (0..40).map(|_| call()).collect();
    let (took, text) = status(&harness, &[]);
    assert!(text.starts_with("gateway "), "{text}");
    // The gateway closes silent callers after 5 s.
    assert!(took < Duration::from_secs(3), "{took:?}");
    drop(silent);
}

#[test]
fn an_interface_has_one_gateway_and_an_abstract_socket_is_no_lock() {
    in_virtual_kernel!();
    let mut harness = harness(&wired(1500), "hold");
    let folder = harness.folder().to_owned();
    let mut second = harness.topology.gateway().command(HOLDFAST);
    second
        .args(["gateway", "--wireless", GATEWAY_IF, "--control-socket"])
        .arg(folder.join("second.sock"))
        .arg("--state-file")
        .arg(folder.join("second.state"));
    let output = second.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && error.contains("another gateway runs on interface"),
        "{error}"
    );
    harness.stop_gateway().unwrap();
    // Any user of the machine can bind this name.
    let squatter = harness.topology.gateway().run(|| {
        use std::os::linux::net::SocketAddrExt as _;
        use std::os::unix::net::{SocketAddr, UnixListener};
        let name = format!("holdfast-gateway-{GATEWAY_IF}");
        UnixListener::bind_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap()
    });
    harness.start_gateway().unwrap();
    drop(squatter);
}

#[test]
fn a_name_in_the_settings_cannot_control_the_terminal() {
    in_virtual_kernel!();
    let mut harness = harness(&wired(1500), "hold");
    harness.stop_gateway().unwrap();
    let key = make_key(HOLDFAST.as_ref(), harness.folder()).unwrap();
    harness.set_gateway_settings(&format!(
        "[[mobile]]\nname = \"a\\u001b[2J\\u009bb\\nc\"\nkey_file = {key:?}\naddresses = [\"10.0.0.1\"]"
    ));
    harness.start_gateway().unwrap();
    let text = status(&harness, &[]).1;
    assert!(text.contains(r"a\u001b[2J\u009bb\u000ac"), "{text:?}");
    let is_harmless = |char: char| !char.is_control() || char == '\n';
    assert!(text.chars().all(is_harmless), "{text:?}");
    let text = status(&harness, &["--json"]).1;
    assert!(text.chars().all(is_harmless), "{text:?}");
    let exact: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(exact["mobiles"][0]["name"], "a\u{1b}[2J\u{9b}b\nc");
}
