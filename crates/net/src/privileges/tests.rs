// SPDX-License-Identifier: Apache-2.0

use super::*;

#[test]
fn a_broker_that_has_ended_is_an_error_that_names_the_remedy() {
    let flags = SocketFlags::CLOEXEC;
    let sockets = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
    let (ours, theirs) = sockets.unwrap();
    let client = Client::new(ours);
    drop(theirs);
    assert!(!client.is_lost());
    let error = client.frame_socket().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    assert!(error.to_string().contains("restart the daemon"), "{error}");
    assert!(client.is_lost());
}

#[test]
fn a_thread_that_drops_its_capabilities_keeps_those_over_files_alone() {
    let before = capabilities(None).unwrap().permitted;
    if (before - KEPT).is_empty() {
        crate::netns::report_skipped(
            "a_thread_that_drops_its_capabilities_keeps_those_over_files_alone",
            "there is nothing to drop",
        );
        return;
    }
    let after = std::thread::spawn(|| {
        drop_capabilities().unwrap();
        // A second time there is nothing left to drop.
        drop_capabilities().unwrap();
        capabilities(None).unwrap()
    });
    let after = after.join().unwrap();
    assert_eq!(after.permitted, before & KEPT);
    assert!(after.permitted.contains(after.effective));
    assert_eq!(capabilities(None).unwrap().permitted, before);
}

#[test]
fn from_linux_5_19_on_a_descriptor_is_enough() {
    for (release, is_enough) in [
        ("5.15.0-91-generic", false),
        ("5.18.19", false),
        ("5.19.0", true),
        ("6.1.0-13-amd64", true),
        ("6.18.44-fc-v669\n", true),
        ("10.0-rc1", true),
        ("4.20", false),
        ("", false),
        ("six.one", false),
    ] {
        assert_eq!(is_new_enough(release), is_enough, "{release:?}");
    }
}
