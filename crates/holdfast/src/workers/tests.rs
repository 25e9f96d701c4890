// SPDX-License-Identifier: Apache-2.0
//! Workers without packets, which note what they are commanded.

use std::io;
use std::sync::mpsc::{Receiver, channel};

use holdfast_net::counters::Counters;
use holdfast_net::datapath::{AttachMode, DataPath, FrameHeader};
use holdfast_net::netns::{NetNs, available_or_skip};
use holdfast_net::tun::{LayerKind, Tun, TunOptions};

use super::*;
use crate::command::Attachment;

/// The index of the interface.
pub(crate) const IFINDEX: u32 = 7;
/// How long a worker may take to note a command.
const LIMIT: Duration = Duration::from_secs(60);

/// Counters of a data path. None: there are no namespaces here, and the test is skipped.
pub(crate) fn counters_or_skip(test: &str) -> Option<Counters> {
    if !available_or_skip(test) {
        return None;
    }
    let counters = || {
        let options = TunOptions {
            name: "w0".into(),
            up: true,
            ..TunOptions::default()
        };
        let _device = Tun::create(&options)?;
        DataPath::attach("w0", AttachMode::Auto)?.counters()
    };
    Some(NetNs::new().unwrap().run(counters).unwrap().unwrap())
}

fn attachment(counters: &Counters, link_ifindex: u32) -> Attachment {
    Attachment {
        counters: counters.try_clone().unwrap(),
        link_ifindex,
        devices: Vec::new(),
        data_path: "none",
    }
}

/// A worker without an interface, which fails to attach this many times, and what it is commanded.
pub(crate) fn worker(counters: &Counters, mut failures: u32) -> (RunningWorker, Receiver<Command>) {
    let (note, commands) = channel();
    let at_interface = attachment(counters, IFINDEX);
    let run = move |inbox: crate::command::Inbox| {
        while let Ok(command) = inbox.commands.recv() {
            let Command::Attach(reply) = &command else {
                let leaves = matches!(command, Command::Leave);
                note.send(command).unwrap_or_default();
                if leaves {
                    break;
                }
                continue;
            };
            let attached = if failures == 0 {
                Ok(attachment(&at_interface.counters, IFINDEX))
            } else {
                failures -= 1;
                Err(io::Error::other("no room"))
            };
            reply.try_send(attached).unwrap();
        }
        Ok(())
    };
    let running = RunningWorker::spawn(attachment(counters, 0), run).unwrap();
    (running, commands)
}

/// Workers that have been at an interface.
pub(crate) const fn workers(running: Vec<RunningWorker>) -> Workers {
    Workers {
        running,
        noted: None,
        attached: None,
    }
}

/// The next command of a worker.
pub(crate) fn next(commands: &Receiver<Command>) -> Command {
    commands.recv_timeout(LIMIT).unwrap()
}

fn start(_: &mut Vec<RunningWorker>) -> anyhow::Result<()> {
    panic!("they run already");
}

/// The interface with frames of this kind.
const fn interface(kind: LayerKind) -> InterfaceId {
    InterfaceId {
        ifindex: IFINDEX,
        header: Some(FrameHeader { kind, mac: [0; 6] }),
    }
}

#[test]
fn an_interface_with_other_frames_is_attached_to_again_under_the_same_index() {
    let test = "an_interface_with_other_frames_is_attached_to_again_under_the_same_index";
    let Some(counters) = counters_or_skip(test) else {
        return;
    };
    let (first, commands) = worker(&counters, 0);
    let (second, _second) = worker(&counters, 1);
    let mut workers = workers(vec![first, second]);
    let mut note = |kind| workers.note_interface(Some(interface(kind)), start);
    // The first alone is attached, with the wrong length of header.
    note(LayerKind::Ethernet).unwrap_err();
    for kind in [LayerKind::RawIp, LayerKind::Ethernet] {
        note(kind).unwrap();
        note(kind).unwrap();
        assert!(matches!(next(&commands), Command::Detach));
        assert!(matches!(next(&commands), Command::Take));
    }
    assert!(
        commands.try_recv().is_err(),
        "the same again is nothing new"
    );
    workers.release();
}

#[test]
fn packets_are_taken_when_all_workers_are_attached_and_pass_when_the_interface_is_removed() {
    let test =
        "packets_are_taken_when_all_workers_are_attached_and_pass_when_the_interface_is_removed";
    let Some(counters) = counters_or_skip(test) else {
        return;
    };
    let (first, of_first) = worker(&counters, 0);
    let (second, of_second) = worker(&counters, 1);
    let mut workers = workers(vec![first, second]);
    let error = workers
        .note_interface(Some(interface(LayerKind::RawIp)), start)
        .unwrap_err();
    assert_eq!(error.to_string(), "no room");
    assert!(!workers.is_attached());
    assert!(of_first.try_recv().is_err(), "one alone takes nothing");
    // The interface is removed: the one that is attached leaves it too.
    workers.note_interface(None, start).unwrap();
    for commands in [&of_first, &of_second] {
        assert!(matches!(next(commands), Command::Detach));
    }
    workers
        .note_interface(Some(interface(LayerKind::RawIp)), start)
        .unwrap();
    assert!(workers.is_attached());
    for commands in [&of_first, &of_second] {
        assert!(matches!(next(commands), Command::Take));
    }
    workers.release();
}
