// SPDX-License-Identifier: Apache-2.0
use std::io::Write as _;
use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};

use clap::Parser;
use holdfast_net::netns::{NetNs, available_or_skip};
use holdfast_net::rtnl::Rtnl;
use holdfast_net::virtual_kernel::goes_on_in_virtual_time;
use serde_json::Value;

use super::*;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    args: LinkArgs,
}

/// A wait for anything ends in a failure after this.
const DEADLINE: Duration = Duration::from_secs(60);
/// Between two looks at a condition.
const POLL: Duration = Duration::from_millis(2);

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = now() + DEADLINE;
    while !condition() {
        assert!(now() < deadline, "{what}: not within {DEADLINE:?}");
        thread::sleep(POLL);
    }
}

/// A link on a thread of its own between two namespaces.
struct RunningLink {
    fh_ns: NetNs,
    mh_ns: NetNs,
    fh: UdpSocket,
    mh: UdpSocket,
    /// What would be the standard input.
    input: UnixStream,
    /// What a signal would write to.
    signal: UnixStream,
    log: PathBuf,
    _folder: tempfile::TempDir,
    thread: JoinHandle<anyhow::Result<()>>,
}

impl RunningLink {
    fn new(flags: &[&str]) -> Self {
        Self::started_by("line", flags)
    }

    fn started_by(start: &str, flags: &[&str]) -> Self {
        let (fh_ns, mh_ns) = (NetNs::new().unwrap(), NetNs::new().unwrap());
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let path = |ns: &NetNs| format!("/proc/self/fd/{}", ns.as_fd().as_raw_fd());
        let (fh_path, mh_path) = (path(&fh_ns), path(&mh_ns));
        let fixed = [
            "link",
            "--fh-ns",
            &fh_path,
            "--mh-ns",
            &mh_path,
            "--start",
            start,
            "--fh-address",
            "10.255.78.1/30",
            "--mh-address",
            "10.255.78.2/30",
            "--log",
            log.to_str().unwrap(),
        ];
        let args = Command::try_parse_from(fixed.iter().chain(flags))
            .unwrap()
            .args;
        let (input, input_end) = UnixStream::pair().unwrap();
        let (signal, received) = UnixStream::pair().unwrap();
        let thread = thread::spawn(move || {
            let mut emulator = Emulator::open(&args, &LinkConfig::from_args(&args)?)?;
            emulator.input = Some(File::from(OwnedFd::from(input_end)));
            emulator.run(&Signals { received })
        });
        wait_until("the devices", || {
            thread.is_finished()
                || std::fs::read_to_string(&log).is_ok_and(|log| log.contains("ready"))
        });
        let socket = |ns: &NetNs, address: &str| {
            let socket = ns
                .run(|| UdpSocket::bind((address, 7000)))
                .unwrap()
                .unwrap();
            socket.set_read_timeout(Some(DEADLINE)).unwrap();
            socket
        };
        let (fh, mh) = (socket(&fh_ns, "10.255.78.1"), socket(&mh_ns, "10.255.78.2"));
        fh.connect("10.255.78.2:7000").unwrap();
        mh.connect("10.255.78.1:7000").unwrap();
        Self {
            fh_ns,
            mh_ns,
            fh,
            mh,
            input,
            signal,
            log,
            _folder: folder,
            thread,
        }
    }

    /// The log's lines for one kind of event.
    fn events(&self, event: &str) -> Vec<Value> {
        let log = std::fs::read_to_string(&self.log).unwrap();
        log.lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .filter(|value| value["event"] == event)
            .collect()
    }

    fn wait_for(&self, event: &str) -> Value {
        wait_until(event, || !self.events(event).is_empty());
        self.events(event).remove(0)
    }

    fn carriers(&self) -> [bool; 2] {
        let carrier = |ns: &NetNs, name: &str| {
            let look = || {
                let rtnl = Rtnl::open()?;
                rtnl.link(rtnl.link_index(name)?)
            };
            ns.run(look).unwrap().unwrap().carrier
        };
        [
            carrier(&self.fh_ns, "link-fh"),
            carrier(&self.mh_ns, "link-mh"),
        ]
    }

    /// Ends the link as a signal does; what it counted.
    fn end(self) -> Value {
        (&self.signal).write_all(b"x").unwrap();
        wait_until("the end", || self.thread.is_finished());
        let end = self.events("end").remove(0);
        self.thread.join().unwrap().unwrap();
        let gone = |ns: &NetNs, name: &str| {
            ns.run(|| Rtnl::open().and_then(|rtnl| rtnl.link_index(name)))
                .unwrap()
                .is_err()
        };
        // A process that another test is starting has their descriptors until it executes its program.
        wait_until("the end of the devices", || {
            gone(&self.fh_ns, "link-fh") && gone(&self.mh_ns, "link-mh")
        });
        end
    }
}

fn receive(socket: &UdpSocket) -> (String, Instant) {
    let mut buffer = [0; 2048];
    let len = socket.recv(&mut buffer).unwrap();
    (String::from_utf8_lossy(&buffer[..len]).into_owned(), now())
}

#[test]
fn packets_cross_both_ways_no_sooner_than_in_the_model() {
    if !goes_on_in_virtual_time() {
        return;
    }
    let link = RunningLink::new(&[
        "--rate",
        "1",
        "--downlink",
        "delay_ms = 40",
        "--uplink",
        "delay_ms = 10",
    ]);
    for (from, to, least_ms) in [(&link.fh, &link.mh, 48), (&link.mh, &link.fh, 18)] {
        // 1000 bytes with headers: 8 ms at 1 Mb/s.
        let sent = now();
        from.send(&[b'a'; 972]).unwrap();
        let (packet, arrived) = receive(to);
        assert_eq!(packet.len(), 972);
        let took = arrived.saturating_since(sent);
        assert!(took >= Duration::from_millis(least_ms), "{took:?}");
        assert!(took < Duration::from_millis(least_ms + 2000), "{took:?}");
    }
    let end = link.end();
    assert_eq!(
        end["downlink"]["delivered_packets"],
        end["downlink"]["offered_packets"]
    );
    assert!(end["uplink"]["delivered_bytes"].as_u64() >= Some(1000));
}

#[test]
fn the_carrier_of_the_mhs_device_alone_follows_if_set_so() {
    if !goes_on_in_virtual_time() {
        return;
    }
    let link = RunningLink::new(&["--outage", "0.1+0.5", "--carrier=mh"]);
    (&link.input).write_all(b"start\n").unwrap();
    wait_until("carrier off", || link.carriers() == [true, false]);
    wait_until("carrier on", || link.carriers() == [true, true]);
    link.end();
}

#[test]
fn the_carrier_follows_the_outage_and_the_log_has_it() {
    if !goes_on_in_virtual_time() {
        return;
    }
    let link = RunningLink::new(&["--outage", "0.3+0.5", "--carrier"]);
    link.fh.send(b"before").unwrap();
    assert_eq!(receive(&link.mh).0, "before");
    assert_eq!(link.carriers(), [true, true]);
    (&link.input).write_all(b"sta").unwrap();
    (&link.input).write_all(b"rt\n").unwrap();
    let begin = link.wait_for("outage_begin");
    wait_until("carrier off", || link.carriers() == [false, false]);
    let end = link.wait_for("outage_end");
    let start = link.wait_for("start");
    wait_until("carrier on", || link.carriers() == [true, true]);
    let t_ns = |event: &Value| event["t_ns"].as_u64().unwrap();
    assert_eq!(t_ns(&begin) - t_ns(&start), 300_000_000);
    assert_eq!(t_ns(&end) - t_ns(&begin), 500_000_000);
    assert_eq!(begin["direction"], "both");
    // The kernel's queues may need a moment after the carrier returns.
    link.mh.set_read_timeout(Some(POLL)).unwrap();
    wait_until("a packet after the outage", || {
        drop(link.fh.send(b"after"));
        link.mh.recv(&mut [0; 16]).is_ok()
    });
    assert!(link.wait_for("first_packet")["t_ns"].as_u64().unwrap() >= t_ns(&end));
    link.end();
}

#[test]
fn an_outage_that_keeps_delivers_in_order_when_it_is_over() {
    if !goes_on_in_virtual_time() {
        return;
    }
    let link = RunningLink::new(&["--rate", "10", "--outage", "0+1", "--outage-effect", "keep"]);
    let start_ns = monotonic_ns() + 50_000_000;
    (&link.input)
        .write_all(format!("start {start_ns}\n").as_bytes())
        .unwrap();
    let begin = link.wait_for("outage_begin");
    assert_eq!(
        begin["t_ns"].as_u64(),
        Some(start_ns),
        "an outage may begin with the start"
    );
    for packet in ["first", "second", "third"] {
        link.fh.send(packet.as_bytes()).unwrap();
    }
    let over = Instant::from_nanos(start_ns + 1_000_000_000);
    for packet in ["first", "second", "third"] {
        let (got, at) = receive(&link.mh);
        assert_eq!(got, packet);
        assert!(at >= over, "delivered in the outage");
    }
    link.end();
}

#[test]
fn an_outage_that_loses_loses_what_is_sent_in_it_and_counts_it() {
    if !goes_on_in_virtual_time() {
        return;
    }
    let link = RunningLink::new(&["--outage", "0+1"]);
    (&link.input).write_all(b"start\n").unwrap();
    link.wait_for("outage_begin");
    link.fh.send(b"lost").unwrap();
    link.wait_for("outage_end");
    link.fh.send(b"arrives").unwrap();
    assert_eq!(receive(&link.mh).0, "arrives");
    let end = link.end();
    assert!(
        end["downlink"]["dropped_outage_arrival"].as_u64() >= Some(1),
        "{end}"
    );
}

#[test]
fn flipped_bits_arrive_flipped_and_the_receivers_checksum_finds_them() {
    if !available_or_skip("flipped_bits_arrive_flipped_and_the_receivers_checksum_finds_them") {
        return;
    }
    // 1e-4 of 8224 bits: a little over half of the packets have a wrong bit.
    let link = RunningLink::new(&[
        "--downlink",
        "bit_error_rate = 1e-4, bit_error_effect = 'corrupt'",
    ]);
    link.mh.set_read_timeout(Some(POLL)).unwrap();
    let mut sound = 0;
    // No more at a time than the receiver's buffer holds, however late it reads.
    for batch in 0..10 {
        for _ in 0..20 {
            link.fh.send(&[b'a'; 1000]).unwrap();
        }
        // The link keeps the order. A mark may have a wrong bit, too.
        let mark = format!("batch {batch}");
        let mut buffer = [0; 2048];
        wait_until(&mark, || {
            link.fh.send(mark.as_bytes()).unwrap();
            while let Ok(len) = link.mh.recv(&mut buffer) {
                let packet = &buffer[..len];
                if packet == mark.as_bytes() {
                    return true;
                }
                if !packet.starts_with(b"batch") {
                    assert_eq!(packet, [b'a'; 1000]);
                    sound += 1;
                }
            }
            false
        });
    }
    let end = link.end();
    assert_eq!(
        end["downlink"]["delivered_packets"],
        end["downlink"]["offered_packets"]
    );
    assert!(
        end["downlink"]["corrupted_packets"].as_u64() > Some(70),
        "{end}"
    );
    assert!((40..130).contains(&sound), "{sound}");
}

#[test]
fn the_first_unicast_packet_starts_the_outages_on_request() {
    if !available_or_skip("the_first_unicast_packet_starts_the_outages_on_request") {
        return;
    }
    let flags = [
        "--outage",
        "0.2+0.2",
        "--mh-address",
        "fd00::2/64",
        "--delay",
        "1",
    ];
    let link = RunningLink::started_by("first-packet", &flags);
    let multicast = link
        .fh_ns
        .run(|| UdpSocket::bind("10.255.78.1:0"))
        .unwrap()
        .unwrap();
    multicast.send_to(b"multicast", "224.0.0.1:7000").unwrap();
    let before = now();
    link.mh.send(b"unicast").unwrap();
    assert_eq!(receive(&link.fh).0, "unicast");
    let start = link.wait_for("start")["t_ns"].as_u64().unwrap();
    assert!(start >= before.as_nanos(), "something else has started it");
    let begin = link.wait_for("outage_begin")["t_ns"].as_u64().unwrap();
    assert_eq!(begin - start, 200_000_000);
    link.end();
}

#[test]
fn on_a_half_duplex_link_both_directions_take_turns_and_frames_cost_their_overhead() {
    if !goes_on_in_virtual_time() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("link.toml");
    let text = "half_duplex = true\nframe_overhead_bytes = 1000\n[downlink]\nrate_mbit_per_s = 1\n";
    std::fs::write(&config, text).unwrap();
    let packets = folder.path().join("packets.pcapng");
    let [config, packets] = [&config, &packets].map(|path| path.to_str().unwrap());
    let link = RunningLink::new(&["--config", config, "--pcap", packets]);
    // 1000 bytes with headers, and as much again around them: 16 ms each at 1 Mb/s.
    let sent = now();
    link.fh.send(&[b'a'; 972]).unwrap();
    let (_, down_arrived) = receive(&link.mh);
    let took = down_arrived.saturating_since(sent);
    assert!((16..18).contains(&took.as_millis()), "{took:?}");
    let sent = now();
    for _ in 0..2 {
        link.fh.send(&[b'b'; 972]).unwrap();
        link.mh.send(&[b'c'; 972]).unwrap();
    }
    let (_, last_down) = [receive(&link.mh), receive(&link.mh)]
        .into_iter()
        .next_back()
        .unwrap();
    let (packet, last_up) = [receive(&link.fh), receive(&link.fh)]
        .into_iter()
        .next_back()
        .unwrap();
    assert_eq!(packet, "c".repeat(972));
    let took = last_down.max(last_up).saturating_since(sent);
    assert!((64..66).contains(&took.as_millis()), "{took:?}");
    let end = link.end();
    assert_eq!(end["uplink"]["offered_packets"], 0);
    // Five packets in, five out, besides the kernels' own packets.
    assert!(std::fs::metadata(packets).unwrap().len() > 10 * 100);
}

#[test]
fn what_has_the_dscp_goes_ahead_of_what_waits() {
    if !goes_on_in_virtual_time() {
        return;
    }
    // 1028 bytes take 82 ms, in which the others are sent.
    let link = RunningLink::new(&["--rate", "0.1", "--downlink", "priority_dscp_min = 40"]);
    let rules = "table inet dscp { chain out { type filter hook output priority 0;
        udp length 13 ip dscp set ef; }; }";
    let status = link.fh_ns.command("nft").arg(rules).status().unwrap();
    assert!(status.success());
    let packets = ["1", "2", "3"].map(|digit| digit.repeat(1000));
    for packet in &packets {
        link.fh.send(packet.as_bytes()).unwrap();
    }
    link.fh.send(b"ahead").unwrap();
    let order = [(); 4].map(|()| receive(&link.mh).0);
    let [first, second, third] = packets;
    assert_eq!(order, [first, "ahead".to_owned(), second, third]);
    let end = link.end();
    // The kernel's own IGMP has CS6 (RFC 2474).
    assert!(
        end["downlink"]["ahead_packets"].as_u64() >= Some(1),
        "{end}"
    );
}

#[test]
fn samples_stand_at_multiples_of_the_interval_with_what_waits_then() {
    if !goes_on_in_virtual_time() {
        return;
    }
    let link = RunningLink::new(&[
        "--outage",
        "0+1",
        "--outage-effect",
        "keep",
        "--sample-interval",
        "50",
    ]);
    (&link.input).write_all(b"start\n").unwrap();
    link.wait_for("outage_begin");
    for _ in 0..5 {
        link.fh.send(b"waits").unwrap();
    }
    for _ in 0..5 {
        assert_eq!(receive(&link.mh).0, "waits");
    }
    let log = link.log.clone();
    let start_ns = link.wait_for("start")["t_ns"].as_u64().unwrap();
    // The log's end writes what is buffered.
    let kept = std::fs::File::open(&log).unwrap();
    link.end();
    let text = io::read_to_string(kept).unwrap();
    let samples: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|event| event["event"] == "sample")
        .collect();
    assert!(samples.len() >= 20, "{text}");
    for (number, sample) in samples.iter().enumerate() {
        let since_ns = sample["t_ns"].as_u64().unwrap() - start_ns;
        assert_eq!(since_ns, number as u64 * 50_000_000);
        let up = since_ns >= 1_000_000_000;
        assert_eq!(sample["up"], serde_json::json!([up, up]), "{sample}");
    }
    // Half a second after the begin all five are there, and at the end none.
    assert_eq!(samples[19]["queue_packets"], serde_json::json!([5, 0]));
    assert_eq!(samples.last().unwrap()["queue_packets"][0], 0);
}

#[test]
fn the_ends_of_a_half_duplex_medium_take_turns() {
    if !goes_on_in_virtual_time() {
        return;
    }
    let config = tempfile::NamedTempFile::new().unwrap();
    let text = "half_duplex = true\noutage_effect = \"keep\"\n[downlink]\nrate_mbit_per_s = 0.1\n";
    std::fs::write(config.path(), text).unwrap();
    let config = config.path().to_str().unwrap();
    let link = RunningLink::new(&["--config", config, "--outage", "0+0.5"]);
    (&link.input).write_all(b"start\n").unwrap();
    link.wait_for("outage_begin");
    // All of the one first, and then all of the other: 10 ms each on the medium.
    for socket in [&link.fh, &link.mh] {
        for _ in 0..4 {
            socket.send(&[b'a'; 97]).unwrap();
        }
        // Virtual time goes on when the link has read them all, and not before.
        let later = now() + POLL;
        wait_until("virtual time goes on", || now() >= later);
    }
    let (fh, mh) = (link.fh.try_clone().unwrap(), link.mh.try_clone().unwrap());
    let arrivals = |socket: UdpSocket| thread::spawn(move || [(); 4].map(|()| receive(&socket).1));
    let (at_fh, at_mh) = (arrivals(fh), arrivals(mh));
    let (at_fh, at_mh) = (at_fh.join().unwrap(), at_mh.join().unwrap());
    assert!(
        at_fh[0] < at_mh[3] && at_mh[0] < at_fh[3],
        "{at_fh:?} {at_mh:?}"
    );
    let end = link.end();
    assert!(
        end["downlink"]["delivered_packets"].as_u64() >= Some(8),
        "{end}"
    );
}
