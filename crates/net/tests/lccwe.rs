// SPDX-License-Identifier: Apache-2.0
//! The congestion control of LC and CWE with a real socket: an MH that sends over a link
//! with a delay, and is handed off in the middle.
//!
//! ```text
//!   mh [wl0] 10.2.0.2 ---- a thread: 30 ms each way, 200 packets at most ---- 10.2.0.1 [wl0] fh
//! ```
#![allow(missing_docs, reason = "a test")]

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use holdfast_core::lccwe::Parameters;
use holdfast_core::lccwe::arithmetic::{
    ONE, Window, grow, next_alpha, p_congestion, p_handoff, parp, steps,
};
use holdfast_net::datapath::monotonic_ns;
use holdfast_net::lccwe::{CongestionControl, Event, EventKind, select};
use holdfast_net::netns::{NetNs, available_or_skip};
use holdfast_net::readiness::wait_readable;
use holdfast_net::rtnl::Rtnl;
use holdfast_net::tcp_info::TcpInfo;
use holdfast_net::tun::{LayerKind, Tun, TunOptions};

/// An emulated processor is slow: a longer wait has failed.
const WAIT_MAX: Duration = Duration::from_secs(180);
const DELAY: Duration = Duration::from_millis(30);
const SECOND_NS: u64 = 1_000_000_000;
const PACKETS_MAX: usize = 200;
const MH: &str = "10.2.0.2";
const FH: &str = "10.2.0.1";
/// The name that a child process registers, if the tests' binary is to be that child.
const CHILD_ENV: &str = "HOLDFAST_LCCWE_CHILD";

fn is_available(name: &str) -> bool {
    let names = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    names.unwrap().split_whitespace().any(|each| each == name)
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + WAIT_MAX;
    while !condition() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// What the link's thread and the test share.
#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    /// In an outage: everything on the link is lost.
    down: AtomicBool,
    /// Bytes of the stream that the FH has.
    received: AtomicU64,
}

/// MH, FH and the link between them.
struct World {
    mh: Arc<NetNs>,
    fh: Arc<NetNs>,
    ifindex: u32,
    shared: Arc<Shared>,
    link: Option<JoinHandle<()>>,
}

impl World {
    fn new() -> Self {
        let (mh, fh) = (
            Arc::new(NetNs::new().unwrap()),
            Arc::new(NetNs::new().unwrap()),
        );
        let ends = [(&mh, MH), (&fh, FH)].map(|(ns, address)| {
            ns.run(|| {
                let tun = Tun::create(&TunOptions {
                    name: "wl0".into(),
                    kind: LayerKind::RawIp,
                    ..TunOptions::default()
                })
                .unwrap();
                tun.set_up().unwrap();
                let rtnl = Rtnl::open().unwrap();
                rtnl.add_address(tun.ifindex(), address.parse().unwrap(), 24)
                    .unwrap();
                tun
            })
            .unwrap()
        });
        let ifindex = ends[0].ifindex();
        let shared = Arc::new(Shared::default());
        let state = Arc::clone(&shared);
        let link = Some(thread::spawn(move || carry(&ends, &state)));
        Self {
            mh,
            fh,
            ifindex,
            shared,
            link,
        }
    }

    /// A connection with the congestion control `name` at the MH.
    fn connect(&self, name: &str) -> [TcpStream; 2] {
        let at = SocketAddr::new(FH.parse().unwrap(), 0);
        let listener = self.fh.run(|| TcpListener::bind(at).unwrap()).unwrap();
        let at = listener.local_addr().unwrap();
        let stream = self
            .mh
            .run(|| TcpStream::connect_timeout(&at, WAIT_MAX).unwrap())
            .unwrap();
        select(&stream, name).unwrap();
        stream.set_write_timeout(Some(WAIT_MAX)).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        accepted.set_read_timeout(Some(WAIT_MAX)).unwrap();
        [stream, accepted]
    }

    /// A transfer by `name` that goes on until it is finished, after its first megabyte.
    fn transfer(&self, name: &str) -> Transfer {
        let [stream, accepted] = self.connect(name);
        let socket = stream.try_clone().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let writer = thread::spawn(move || write_until(stream, &stopped));
        let shared = Arc::clone(&self.shared);
        let reader = thread::spawn(move || read_all(accepted, &shared.received));
        wait_until("a megabyte", || self.received() > 1 << 20);
        Transfer {
            socket,
            stop,
            writer,
            reader,
        }
    }

    /// An outage, reported to `control`, until `is_enough`. What was judged before the outage.
    fn hand_off(
        &self,
        control: &CongestionControl,
        transfer: &Transfer,
        what: &str,
        is_enough: impl FnMut() -> bool,
    ) -> Vec<Event> {
        // Before the outage: on a busy machine a timeout in between would be congestion's.
        let started = || control.handoff_started(self.ifindex);
        self.mh.run(started).unwrap().unwrap();
        // From here on no loss is congestion's: a window that is open stays so.
        wait_until("an open window", || {
            let info = TcpInfo::of(&transfer.socket).unwrap();
            info.backoff == 0 && info.snd_cwnd >= 20
        });
        let before = control.events().unwrap();
        self.set_down(true);
        wait_until(what, is_enough);
        self.set_down(false);
        let finished = || control.handoff_finished(self.ifindex);
        self.mh.run(finished).unwrap().unwrap();
        before
    }

    fn register(&self, name: &str) -> CongestionControl {
        let registered = self.mh.run(|| CongestionControl::register(name));
        registered.unwrap().unwrap()
    }

    /// What `tc` prints at the MH.
    fn tc(&self, arguments: &str) -> String {
        let mut command = Command::new("tc");
        command.args(arguments.split(' '));
        let output = self.mh.run(|| command.output().unwrap()).unwrap();
        assert!(output.status.success(), "tc {arguments}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn received(&self) -> u64 {
        self.shared.received.load(Ordering::Relaxed)
    }

    fn set_down(&self, down: bool) {
        self.shared.down.store(down, Ordering::SeqCst);
    }
}

/// A transfer that is under way: however slow the machine is, there is something to be lost.
struct Transfer {
    socket: TcpStream,
    stop: Arc<AtomicBool>,
    writer: JoinHandle<u64>,
    reader: JoinHandle<u64>,
}

impl Transfer {
    fn finish(self) {
        self.stop.store(true, Ordering::Relaxed);
        let sent = self.writer.join().unwrap();
        assert_eq!(self.reader.join().unwrap(), sent, "bytes are missing");
    }
}

/// Writes, and returns how much, until it is stopped.
fn write_until(mut stream: TcpStream, stop: &AtomicBool) -> u64 {
    let (mut content, mut part, mut sent) = (Content::new(), vec![0; PART_BYTES], 0);
    while !stop.load(Ordering::Relaxed) {
        content.fill(&mut part);
        stream.write_all(&part).unwrap();
        sent += part.len() as u64;
    }
    stream.shutdown(Shutdown::Write).unwrap();
    sent
}

/// Reads to the end, and returns how much; all must be what was written.
fn read_all(mut stream: TcpStream, received: &AtomicU64) -> u64 {
    let (mut content, mut part, mut all) = (Content::new(), vec![0; PART_BYTES], 0);
    let mut expected = vec![0; PART_BYTES];
    loop {
        let mut len = 0;
        while len < PART_BYTES {
            match stream.read(&mut part[len..]).unwrap() {
                0 => break,
                more => len += more,
            }
            received.store(all + len as u64, Ordering::Relaxed);
        }
        content.fill(&mut expected);
        assert!(part[..len] == expected[..len], "other bytes arrived");
        all += len as u64;
        if len < PART_BYTES {
            return all;
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(link) = self.link.take() {
            let _ = link.join();
        }
    }
}

/// Moves packets with a delay, until it is stopped.
fn carry(ends: &[Tun; 2], shared: &Shared) {
    let mut ways: [VecDeque<(Instant, Vec<u8>)>; 2] = Default::default();
    let mut frame = vec![0; 70_000];
    while !shared.stop.load(Ordering::Relaxed) {
        let fds = [ends[0].as_fd(), ends[1].as_fd()];
        wait_readable(fds, Some(Duration::from_millis(1))).unwrap();
        let down = shared.down.load(Ordering::SeqCst);
        let now = Instant::now();
        for from in [0, 1] {
            let way = &mut ways[from];
            for _ in 0..64 {
                let Ok(len) = ends[from].read(&mut frame) else {
                    break;
                };
                if way.len() < PACKETS_MAX {
                    way.push_back((now + DELAY, frame[..len].to_vec()));
                }
            }
            if down {
                way.clear();
            }
            while way.front().is_some_and(|(at, _)| *at <= now) {
                if let Some((_, packet)) = way.pop_front() {
                    let _ = ends[1 - from].write(&packet);
                }
            }
        }
    }
}

/// Bytes that repeat at no distance that a lost or doubled segment could hide in.
struct Content(u64);

/// It comes in such parts.
const PART_BYTES: usize = 1 << 16;

impl Content {
    const fn new() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }

    fn fill(&mut self, part: &mut [u8]) {
        for word in part.chunks_exact_mut(8) {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            word.copy_from_slice(&self.0.to_ne_bytes());
        }
    }
}

/// What the kernel's program did is what `holdfast_core` makes of the same numbers.
fn check(event: &Event) {
    let parameters = Parameters::DEFAULT;
    if event.kind == EventKind::Extrapolated {
        let length_us = event.handoff_finish_us - event.handoff_start_us;
        let window = Window {
            cwnd: event.cwnd_before,
            counted: event.counted_before,
            ssthresh: event.ssthresh_before,
        };
        let passes = steps(length_us, event.srtt_us, event.ack_interval_ns);
        // Both ends of the handoff are rounded down to microseconds there.
        let either = [
            passes,
            steps(length_us + 1, event.srtt_us, event.ack_interval_ns),
        ];
        let came = (event.cwnd_after, event.counted_after);
        let grown = either.map(|passes| grow(window, passes));
        assert!(
            grown
                .iter()
                .any(|window| (window.cwnd, window.counted) == came),
            "{event:?}"
        );
        return;
    }
    let period = parp(event.transmit_us, event.srtt_us, event.rttvar_us);
    let ph = if event.handoff_start_us == 0 {
        0
    } else {
        p_handoff(period, event.handoff_finish_us)
    };
    let pc = p_congestion(event.rtt_us, event.srtt_us, event.alpha_before);
    assert_eq!((event.p_handoff, event.p_congestion), (ph, pc), "{event:?}");
    let congestion = pc > ph || (pc == 0 && ph == 0);
    assert_eq!(event.by_handoff, !congestion, "{event:?}");
    let value_us = if event.kind == EventKind::JudgedTimeout {
        event.rto_us
    } else {
        event.rtt_us
    };
    let next = next_alpha(
        event.alpha_before,
        value_us,
        event.srtt_us,
        parameters.history_weight,
    );
    // In the ambiguous period it stays.
    assert!(
        event.alpha_after == next || event.alpha_after == event.alpha_before,
        "{event:?}"
    );
}

#[test]
fn a_handoff_in_a_transfer_leaves_the_window_and_the_bytes_as_they_were() {
    if !available_or_skip("a_handoff_in_a_transfer_leaves_the_window_and_the_bytes_as_they_were") {
        return;
    }
    let world = World::new();
    let name = format!("hf{}_cut", std::process::id());
    let control = world.register(&name);
    let transfer = world.transfer(&name);
    let mut events = Vec::new();
    let timeouts_by_handoff = |events: &[Event]| {
        let is_one = |event: &&Event| event.kind == EventKind::JudgedTimeout && event.by_handoff;
        events.iter().filter(is_one).count()
    };
    let before = world.hand_off(&control, &transfer, "two timeouts of the handoff", || {
        events.extend(control.events().unwrap());
        timeouts_by_handoff(&events) >= 2
    });
    transfer.finish();
    events.extend(control.events().unwrap());
    for event in before.iter().chain(&events) {
        check(event);
    }
    let of_handoff: Vec<&Event> = events
        .iter()
        .filter(|event| event.kind == EventKind::JudgedTimeout && event.p_handoff == ONE)
        .collect();
    assert!(of_handoff.len() >= 2, "{events:?}");
    for event in of_handoff {
        assert!(event.by_handoff);
        // Linux has set it to 1 or 2 just before.
        assert!(event.cwnd_before > 4, "{event:?} of {events:?}");
        assert_eq!(event.cwnd_after, event.cwnd_before, "{event:?}");
    }
}

#[test]
fn a_socket_whose_owner_has_ended_gets_handoffs_from_the_next_one() {
    if !available_or_skip("a_socket_whose_owner_has_ended_gets_handoffs_from_the_next_one") {
        return;
    }
    let world = World::new();
    let name = format!("hf{}_next", std::process::id());
    let first = world.register(&name);
    let transfer = world.transfer(&name);
    drop(first);
    let next = world.register(&name);
    let mut window = 0;
    world.hand_off(&next, &transfer, "two timeouts", || {
        let info = TcpInfo::of(&transfer.socket).unwrap();
        window = info.snd_cwnd;
        info.backoff >= 2
    });
    // By congestion's verdict it would be 1 or 2.
    assert!(window > 4, "{window} segments");
    transfer.finish();
}

#[test]
fn a_full_queue_of_the_mh_in_an_outage_halves_the_window_and_timeouts_keep_the_half() {
    let test = "a_full_queue_of_the_mh_in_an_outage_halves_the_window_and_timeouts_keep_the_half";
    if !available_or_skip(test) {
        return;
    }
    let world = World::new();
    let name = format!("hf{}_queue", std::process::id());
    let control = world.register(&name);
    let transfer = world.transfer(&name);
    // The losses of slow start are repaired.
    let mut last = TcpInfo::default();
    wait_until("a megabyte without a retransmission", || {
        let info = TcpInfo::of(&transfer.socket).unwrap();
        if info.bytes_retrans != last.bytes_retrans {
            last = info;
        }
        info.bytes_acked > last.bytes_acked + (1 << 20)
    });
    let (mut window, mut before) = (0, 0);
    let mut is_reduced = false;
    world.hand_off(&control, &transfer, "two timeouts", || {
        if !std::mem::replace(&mut is_reduced, true) {
            before = TcpInfo::of(&transfer.socket).unwrap().snd_cwnd;
            // The tail loss probe does not fit into this queue: the kernel reduces the window (CWR).
            world.tc("qdisc replace dev wl0 root pfifo limit 0");
            wait_until("a drop", || {
                !world.tc("-s qdisc show dev wl0").contains("(dropped 0,")
            });
            world.tc("qdisc delete dev wl0 root");
        }
        let info = TcpInfo::of(&transfer.socket).unwrap();
        window = info.snd_cwnd;
        info.backoff >= 2
    });
    assert!(window >= before / 2, "{window} segments of {before}");
    transfer.finish();
}

#[test]
fn a_handoff_without_an_end_is_over_after_a_minute() {
    if !available_or_skip("a_handoff_without_an_end_is_over_after_a_minute") {
        return;
    }
    let world = World::new();
    let name = format!("hf{}_old", std::process::id());
    let control = CongestionControl::register(&name).unwrap();
    wait_until("a machine that runs for a minute", || {
        monotonic_ns() > 62 * SECOND_NS
    });
    let transfer = world.transfer(&name);
    let began_ns = monotonic_ns() - 61 * SECOND_NS;
    let begin = || control.set_handoff(world.ifindex, began_ns, u64::MAX);
    world.mh.run(begin).unwrap().unwrap();
    world.set_down(true);
    control.events().unwrap();
    let mut events = Vec::new();
    wait_until("a timeout", || {
        events.extend(control.events().unwrap());
        let is_timeout = |event: &Event| event.kind == EventKind::JudgedTimeout;
        events.iter().any(is_timeout)
    });
    world.set_down(false);
    transfer.finish();
    for event in &events {
        check(event);
        assert!(!event.by_handoff, "{event:?}");
    }
}

#[test]
fn the_window_makes_up_for_a_short_handoff_at_its_end() {
    if !available_or_skip("the_window_makes_up_for_a_short_handoff_at_its_end") {
        return;
    }
    let world = World::new();
    let name = format!("hf{}_cwe", std::process::id());
    let control = world.register(&name);
    assert!(control.nudges());
    let transfer = world.transfer(&name);
    let mut events = Vec::new();
    let mut before = 0;
    // Shorter than any timeout; on a busy machine the timer may win.
    wait_until("an extrapolation", || {
        wait_until("progress", || world.received() > before + (1 << 20));
        before = world.received();
        let mut begun = None;
        let earlier = world.hand_off(&control, &transfer, "some time", || {
            begun.get_or_insert_with(Instant::now).elapsed() >= 4 * DELAY
        });
        events.extend(earlier);
        events.extend(control.events().unwrap());
        events
            .iter()
            .any(|event: &Event| event.kind == EventKind::Extrapolated)
    });
    transfer.finish();
    for event in &events {
        check(event);
    }
    let grown = events
        .iter()
        .find(|event| event.kind == EventKind::Extrapolated)
        .unwrap();
    assert!(
        (grown.cwnd_after, grown.counted_after) != (grown.cwnd_before, grown.counted_before),
        "{grown:?}"
    );
}

/// What the child process of the next test does.
fn register_and_wait(name: &str) {
    let control = CongestionControl::register(name).unwrap();
    // Until it is killed, or its parent has ended.
    let _ = std::io::stdin().read(&mut [0; 1]);
    drop(control);
}

#[test]
fn a_killed_owner_leaves_no_registration() {
    let test = "a_killed_owner_leaves_no_registration";
    if let Ok(name) = std::env::var(CHILD_ENV) {
        return register_and_wait(&name);
    }
    if !available_or_skip(test) {
        return;
    }
    let name = format!("hf{}_kill", std::process::id());
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test])
        .env(CHILD_ENV, &name)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the child's registration", || is_available(&name));
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("the end of the registration", || !is_available(&name));
}
