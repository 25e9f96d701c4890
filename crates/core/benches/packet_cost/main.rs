// SPDX-License-Identifier: Apache-2.0
//! Instructions per packet, counted by callgrind: parser, engine and timers. For each scheme, without loss and with one
//! packet in a hundred lost, for downloads and uploads.
//!
//! ```text
//! cargo bench -p holdfast-core --bench packet_cost [-- --compare]
//! ```
//!
//! With `--compare` it fails if a packet takes 2% more than in `baseline.md`. Needs valgrind. Each case runs twice with different numbers of packets. The cost of one packet is the difference of
//! the instructions divided by the difference of the packets, so setup does not count. Only the gateway's work is
//! counted, not the hosts'. Each run gives the same numbers.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::process::{Command, ExitCode};

use holdfast_core::compression::{CompressionSettings, Method};
use holdfast_core::signal::Abilities;
use holdfast_core::{
    Action, Actions, BandwidthSettings, Direction, Gateway, Resend, Scheme, Settings,
    SnoopSettings, Verdict,
};
use holdfast_wire::{Header, Instant, Segment, parse};

mod baseline;
mod content;
mod ends;
mod segment;

use content::{Length, blocks, content_at, packet_of_made, packet_of_resend};
use ends::{Sink, Source};
use segment::{Packet, frame};

const SEGMENT_LEN: u32 = 1448;
/// Segments in flight at most.
const WINDOW: u32 = 150;
/// Nanoseconds per step: the time of a packet of 1,500 bytes at 20 Mb/s.
const STEP_NS: u64 = 600_000;
/// One-way delay of each half, in steps.
const WIRED_STEPS: u64 = 15;
const WIRELESS_STEPS: u64 = 15;
/// The sender retransmits after this many steps without progress.
const TIMEOUT_STEPS: u64 = 500;
/// Rate of the wireless half, in payload.
const CELL_BYTES_PER_S: u64 = 2_400_000;
/// Of this many data packets on the wireless half one is lost.
const LOSS_EVERY: u64 = 100;
/// Data packets in the two runs.
const COUNTS: [u64; 2] = [1_000, 3_000];
/// Callgrind counts the functions with this in their names.
const COUNTED: &str = "*gateways_own_*";

/// The work that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    /// The packet is only parsed.
    Parsed,
    /// The engine tracks the flow but serves it with no scheme: its segments have an unknown option.
    PassedThrough,
    Hold,
    Auto,
    Snoop1995,
    SnoopToday,
    /// M-TCP with today's settings.
    Mtcp,
    /// The same, in a cell of known capacity.
    MtcpCell,
    /// In the cell, to an MH that decompresses zstd: bytes that do not shrink, and text.
    MtcpTls,
    MtcpText,
}

const CASES: [(Case, &str); 10] = [
    (Case::Parsed, "parsed"),
    (Case::PassedThrough, "passed-through"),
    (Case::Hold, "hold"),
    (Case::Auto, "auto"),
    (Case::Snoop1995, "snoop-1995"),
    (Case::SnoopToday, "snoop-today"),
    (Case::Mtcp, "mtcp"),
    (Case::MtcpCell, "mtcp-cell"),
    (Case::MtcpTls, "mtcp-cell, zstd, TLS"),
    (Case::MtcpText, "mtcp-cell, zstd, text"),
];

/// Packets on a path, each with the step at which it arrives.
type Queue = VecDeque<(u64, Packet)>;

struct World {
    case: Case,
    gateway: Gateway<Length>,
    actions: Actions<Length>,
    /// The direction of the data.
    data_direction: Direction,
    loses: bool,
    step: u64,
    source: Source,
    sink: Sink,
    /// Packets on each half: from the FH and from the MH to the gateway, and from the gateway to each.
    from_fh: Queue,
    from_mh: Queue,
    to_fh: Queue,
    to_mh: Queue,
    /// The newest timestamps that the FH and the MH have seen.
    seen: [u32; 2],
    data_sent: u64,
    packets: u64,
    timeouts: u64,
    content: Option<&'static [u8]>,
}

impl World {
    fn new(case: Case, data_direction: Direction, loses: bool) -> Self {
        let settings = Settings {
            scheme: match case {
                Case::Auto => Scheme::Auto,
                Case::Snoop1995 | Case::SnoopToday => Scheme::Snoop,
                Case::Mtcp | Case::MtcpCell | Case::MtcpTls | Case::MtcpText => Scheme::Mtcp,
                _ => Scheme::Hold,
            },
            snoop: match case {
                Case::Snoop1995 => SnoopSettings::paper_1995(),
                _ => SnoopSettings::today(),
            },
            bandwidth: match case {
                Case::MtcpCell | Case::MtcpTls | Case::MtcpText => {
                    BandwidthSettings::one_cell(Some(CELL_BYTES_PER_S))
                }
                _ => BandwidthSettings::default(),
            },
            compression: case.is_compressed().then_some(CompressionSettings {
                method: Method::Zstd,
                level: 3,
            }),
            ..Settings::default()
        };
        let mut gateway = Gateway::new(settings);
        let mh = IpAddr::V4(Ipv4Addr::new(10, 2, 0, 2));
        let end = Instant::from_nanos(u64::MAX);
        gateway.handle_abilities(&[mh], Abilities::ZSTD, 1, end);
        let mut world = Self {
            case,
            gateway,
            actions: Actions::new(),
            data_direction,
            loses,
            step: 2 * WIRED_STEPS,
            source: Source {
                una: 1,
                nxt: 1,
                ..Source::default()
            },
            sink: Sink {
                nxt: 1,
                ..Sink::default()
            },
            from_fh: Queue::new(),
            from_mh: Queue::new(),
            to_fh: Queue::new(),
            to_mh: Queue::new(),
            seen: [0; 2],
            data_sent: 0,
            packets: 0,
            timeouts: 0,
            content: case.content(),
        };
        for (direction, ack) in [(Direction::Uplink, 0), (Direction::Downlink, 1)] {
            let syn = Packet {
                syn: true,
                ..world.packet(direction, 0, ack, 0, Vec::new())
            };
            world.at_gateway(direction, syn);
        }
        world
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.step * STEP_NS)
    }

    fn clock(&self) -> u32 {
        (self.step * STEP_NS / 1_000_000) as u32
    }

    fn packet(
        &self,
        direction: Direction,
        seq: u32,
        ack: u32,
        len: u32,
        sack: Vec<(u32, u32)>,
    ) -> Packet {
        Packet {
            seq,
            ack,
            len,
            tsval: self.clock(),
            tsecr: self.seen[usize::from(direction == Direction::Uplink)],
            sack,
            syn: false,
        }
    }

    fn lost(&mut self, packet: &Packet) -> bool {
        self.data_sent += u64::from(packet.len > 0);
        self.loses && packet.len > 0 && self.data_sent.is_multiple_of(LOSS_EVERY)
    }

    fn send_data(&mut self, seq: u32) {
        let packet = self.packet(self.data_direction, seq, 1, SEGMENT_LEN, Vec::new());
        if self.data_direction == Direction::Downlink {
            self.from_fh.push_back((self.step + WIRED_STEPS, packet));
        } else if !self.lost(&packet) {
            self.from_mh.push_back((self.step + WIRELESS_STEPS, packet));
        }
    }

    /// A packet leaves the gateway.
    fn leave_gateway(&mut self, direction: Direction, packet: Packet) {
        if direction == Direction::Uplink {
            self.to_fh.push_back((self.step + WIRED_STEPS, packet));
        } else if self.data_direction == Direction::Uplink || !self.lost(&packet) {
            self.to_mh.push_back((self.step + WIRELESS_STEPS, packet));
        }
    }

    fn at_gateway(&mut self, direction: Direction, mut packet: Packet) {
        let unknown = self.case == Case::PassedThrough && !packet.syn;
        let bytes = frame(direction, &packet, unknown);
        self.packets += u64::from(!packet.syn);
        let now = self.now();
        let verdict = if self.case == Case::Parsed {
            black_box(gateways_own_parsing(&bytes));
            Verdict::Forward
        } else {
            let content = content_at(self.content, packet.seq).filter(|_| packet.len > 0);
            let (gateway, actions) = (&mut self.gateway, &mut self.actions);
            gateways_own_packet(gateway, direction, &bytes, content, now, actions)
        };
        if packet.syn {
            self.actions.clear();
            return;
        }
        match verdict {
            // This is M-TCP's saved byte. The sender here counts whole segments, so it gets the full ACK at once.
            Verdict::Forward | Verdict::ForwardWithAck { .. } => {
                self.leave_gateway(direction, packet);
            }
            Verdict::ForwardWithSack(sack) => {
                packet.sack = blocks(&sack);
                self.leave_gateway(direction, packet);
            }
            Verdict::Suppress => {}
        }
        self.act();
    }

    fn act(&mut self) {
        for action in core::mem::take(&mut self.actions) {
            match action {
                Action::Resend(resend) => {
                    let now = self.now();
                    gateways_own_compression(&mut self.gateway, &resend, now);
                    let (direction, packet) = packet_of_resend(&resend);
                    self.leave_gateway(direction, packet);
                }
                Action::Send(made) => self.leave_gateway(made.direction, packet_of_made(&made)),
                Action::Repeat(_) | Action::Notify(_) | Action::Record(_) => {}
            }
        }
    }

    /// One step: packets arrive, and the source sends one segment.
    fn advance(&mut self) {
        let step = self.step;
        let due = |direction: &mut Queue| match direction.front() {
            Some((at, _)) if *at <= step => direction.pop_front().map(|(_, packet)| packet),
            _ => None,
        };
        while let Some(packet) = due(&mut self.from_fh) {
            self.at_gateway(Direction::Downlink, packet);
        }
        while let Some(packet) = due(&mut self.from_mh) {
            self.at_gateway(Direction::Uplink, packet);
        }
        while let Some(packet) = due(&mut self.to_mh) {
            self.at_end(Direction::Downlink, &packet);
        }
        while let Some(packet) = due(&mut self.to_fh) {
            self.at_end(Direction::Uplink, &packet);
        }
        let now = self.now();
        gateways_own_timers(&mut self.gateway, now, &mut self.actions);
        self.act();
        if self.source.is_overdue(step) {
            self.timeouts += 1;
            self.source.progress_at = step;
            self.send_data(self.source.una);
        } else if self.source.nxt - self.source.una < WINDOW * SEGMENT_LEN {
            let seq = self.source.nxt;
            self.source.nxt += SEGMENT_LEN;
            self.send_data(seq);
        }
        self.step += 1;
    }

    fn at_end(&mut self, direction: Direction, packet: &Packet) {
        let end = usize::from(direction == Direction::Downlink);
        self.seen[end] = self.seen[end].max(packet.tsval);
        if direction != self.data_direction {
            let lost = self.source.on_ack(packet.ack, &packet.sack, self.step);
            if let Some(seq) = lost {
                self.send_data(seq);
            }
            return;
        }
        if packet.len == 0 || !self.sink.on_data(packet.seq, packet.seq + packet.len) {
            return;
        }
        let sack = self.sink.ranges.iter().copied().take(3).collect();
        let back = self.packet(direction.back(), 1, self.sink.nxt, 0, sack);
        if direction == Direction::Downlink {
            self.from_mh.push_back((self.step + WIRELESS_STEPS, back));
        } else {
            self.from_fh.push_back((self.step + WIRED_STEPS, back));
        }
    }
}

/// Parses a packet and copies its headers.
#[inline(never)]
fn gateways_own_parsing(frame: &[u8]) -> Option<(Segment, Length)> {
    let (segment, layout) = parse(frame, 0).ok()?;
    let header = Header::copy_from(frame, &layout)?;
    Some((segment, Length(header, segment.payload_len, None)))
}

/// Parses a packet and gives it to the engine.
#[inline(never)]
fn gateways_own_packet(
    gateway: &mut Gateway<Length>,
    direction: Direction,
    frame: &[u8],
    content: Option<&'static [u8]>,
    now: Instant,
    actions: &mut Actions<Length>,
) -> Verdict {
    let Ok((segment, layout)) = parse(frame, 0) else {
        return Verdict::Forward;
    };
    let Some(header) = Header::copy_from(frame, &layout) else {
        return Verdict::Forward;
    };
    let payload = Length(header, segment.payload_len, content);
    gateway.handle_segment(direction, &segment, &payload, now, actions)
}

/// Sends a piece as segments, compressed if the engine wants it.
#[inline(never)]
fn gateways_own_compression(gateway: &mut Gateway<Length>, piece: &Resend<Length>, now: Instant) {
    let mut sent = 0;
    while piece.compress.is_some() && sent < piece.len {
        let len = SEGMENT_LEN.min(piece.len - sent);
        black_box(gateway.compress(piece, sent, len, piece.flags, now));
        sent += len;
    }
}

/// Runs the timers that are due.
#[inline(never)]
fn gateways_own_timers(gateway: &mut Gateway<Length>, now: Instant, actions: &mut Actions<Length>) {
    while gateway.poll_timeout().is_some_and(|at| at <= now) {
        gateway.handle_timeout(now, actions);
    }
}

/// Runs one case. The results go to standard output, where the parent process reads them.
fn run_case(case: Case, direction: Direction, loses: bool, data_packets: u64) {
    let mut world = World::new(case, direction, loses);
    while world.data_sent < data_packets {
        world.advance();
    }
    let delivered = u64::from(world.sink.nxt - 1) / u64::from(SEGMENT_LEN);
    assert!(
        delivered + 2 * u64::from(WINDOW) >= data_packets * 9 / 10,
        "{case:?}: {delivered} of {data_packets} delivered",
    );
    let counter = |name: &str| {
        let mut counters = world.gateway.counters();
        counters
            .find(|counter| counter.0 == name)
            .map_or(0, |counter| counter.1)
    };
    println!(
        "{} {} {} {} {}",
        world.packets,
        world.timeouts,
        counter("repaired") + counter("repaired_uplink"),
        counter("reports"),
        world.step,
    );
    if case.is_compressed() {
        let [tried, vain] = ["compressed", "compressed_in_vain"].map(counter);
        eprintln!("{case:?}: compressed {tried}, in vain {vain}");
    }
}

/// Returns the instructions, and the numbers that [`run_case`] printed.
fn count(
    case: &str,
    direction: &str,
    loses: bool,
    data_packets: u64,
) -> Result<(u64, Vec<u64>), String> {
    let me = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(format!("--toggle-collect={COUNTED}"))
        .arg(me)
        .args([
            case,
            direction,
            &loses.to_string(),
            &data_packets.to_string(),
        ])
        .output()
        .map_err(|error| format!("valgrind: {error}; install it"))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    let collected = stderr
        .lines()
        .find_map(|line| line.split("Collected :").nth(1)?.trim().parse().ok());
    let (Some(instructions), true) = (collected, output.status.success()) else {
        return Err(format!("{case}: callgrind counted nothing: {stderr}"));
    };
    let numbers = String::from_utf8_lossy(&output.stdout);
    let numbers = numbers.split_whitespace();
    let numbers: Vec<u64> = numbers.filter_map(|number| number.parse().ok()).collect();
    Ok((instructions, numbers))
}

/// One row of the table.
fn row(case: &str, direction: &str) -> Result<String, String> {
    let mut row = format!("| {case} | {direction} ");
    for loses in [false, true] {
        let few = count(case, direction, loses, COUNTS[0])?;
        let many = count(case, direction, loses, COUNTS[1])?;
        let packets = many.1[0] - few.1[0];
        let each = (many.0 - few.0) / packets;
        write!(row, "| {each} ").map_err(|error| error.to_string())?;
        if loses {
            let [timeouts, repaired, reports] = [1, 2, 3].map(|index| many.1[index]);
            write!(row, "| {repaired} | {reports} | {timeouts} ")
                .map_err(|error| error.to_string())?;
        }
    }
    Ok(row + "|")
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [case, direction, loses, packets] = arguments.as_slice() {
        let named = CASES.iter().find(|known| known.1 == case);
        let direction = if direction == "uplink" {
            Direction::Uplink
        } else {
            Direction::Downlink
        };
        let (Some((case, _)), Ok(packets)) = (named, packets.parse()) else {
            eprintln!("packet_cost: no such case: {case}");
            return ExitCode::FAILURE;
        };
        run_case(*case, direction, loses == "true", packets);
        return ExitCode::SUCCESS;
    }
    let compares = arguments.iter().any(|argument| argument == "--compare");
    let mut excess = Vec::new();
    println!("| | data | no loss | 1 % lost | repaired | reports | sender's timeouts |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for direction in ["downlink", "uplink"] {
        for (_, case) in CASES {
            let row = match row(case, direction) {
                Ok(row) => row,
                Err(error) => {
                    eprintln!("packet_cost: {error}");
                    return ExitCode::FAILURE;
                }
            };
            println!("{row}");
            excess.extend(baseline::excess(&row).unwrap_or_else(|error| vec![error]));
        }
    }
    if !compares || excess.is_empty() {
        return ExitCode::SUCCESS;
    }
    eprintln!("packet_cost: above the baseline:\n{}", excess.join("\n"));
    ExitCode::FAILURE
}
