// SPDX-License-Identifier: Apache-2.0
//! What a packet costs in instructions, by callgrind: parser, engine and timers, for each scheme,
//! without loss and with one packet in a hundred lost, data either way.
//!
//! ```text
//! cargo bench -p holdfast-core --bench packet_cost
//! ```
//!
//! Needs valgrind. Each case runs twice, with another number of packets; the difference of the
//! instructions divided by the difference of the packets is the cost of one, so that what
//! is done once does not count. Only the gateway's own work is counted, not the ends'.
//! The same numbers come out on each run.

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

mod content;
mod ends;
mod segment;

use content::{Length, blocks, content_at, of_made, of_resend};
use ends::{Sink, Source};
use segment::{Said, frame};

const SEGMENT_LEN: u32 = 1448;
/// Segments that the sender has on their way at most.
const WINDOW: u32 = 150;
/// A packet of 1,500 bytes at 20 Mb/s, in nanoseconds: the clock's step.
const STEP_NS: u64 = 600_000;
/// Steps of one way of each half.
const WIRED_STEPS: u64 = 15;
const WIRELESS_STEPS: u64 = 15;
/// Steps without news until the sender repeats what was not acknowledged.
const TIMEOUT_STEPS: u64 = 500;
/// Of the wireless half, in payload.
const CELL_BYTES_PER_S: u64 = 2_400_000;
/// Every so many data packets on the wireless half one is lost.
const LOSS_EVERY: u64 = 100;
/// Data packets of the two runs.
const COUNTS: [u64; 2] = [1_000, 3_000];
/// What callgrind counts: the functions with this in their names.
const COUNTED: &str = "*gateways_own_*";

/// What stands in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    /// The packet is parsed, and that is all.
    Parsed,
    /// The engine follows the flow and leaves it alone (an option that it does not know).
    PassedThrough,
    Hold,
    Snoop1995,
    SnoopToday,
    /// M-TCP of today.
    Mtcp,
    /// The same, in a cell of known capacity.
    MtcpCell,
    /// In the cell, to an MH that reads zstd: bytes that do not shrink, and text.
    MtcpTls,
    MtcpText,
}

const CASES: [(Case, &str); 9] = [
    (Case::Parsed, "parsed"),
    (Case::PassedThrough, "passed-through"),
    (Case::Hold, "hold"),
    (Case::Snoop1995, "snoop-1995"),
    (Case::SnoopToday, "snoop-today"),
    (Case::Mtcp, "mtcp"),
    (Case::MtcpCell, "mtcp-cell"),
    (Case::MtcpTls, "mtcp-cell, zstd, TLS"),
    (Case::MtcpText, "mtcp-cell, zstd, text"),
];

/// Segments on their way, each with the step at which it arrives.
type Way = VecDeque<(u64, Said)>;

struct World {
    case: Case,
    gateway: Gateway<Length>,
    actions: Actions<Length>,
    /// The way of the data.
    data_way: Direction,
    loses: bool,
    step: u64,
    source: Source,
    sink: Sink,
    /// From an end to the gateway: the FH's, the MH's; and from it: to the FH, to the MH.
    from_fh: Way,
    from_mh: Way,
    to_fh: Way,
    to_mh: Way,
    /// The newest timestamps that the FH and the MH have seen.
    seen: [u32; 2],
    data_sent: u64,
    packets: u64,
    timeouts: u64,
    content: Option<&'static [u8]>,
}

impl World {
    fn new(case: Case, data_way: Direction, loses: bool) -> Self {
        let settings = Settings {
            scheme: match case {
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
            data_way,
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
            from_fh: Way::new(),
            from_mh: Way::new(),
            to_fh: Way::new(),
            to_mh: Way::new(),
            seen: [0; 2],
            data_sent: 0,
            packets: 0,
            timeouts: 0,
            content: case.content(),
        };
        for (way, ack) in [(Direction::Uplink, 0), (Direction::Downlink, 1)] {
            let syn = Said {
                syn: true,
                ..world.said(way, 0, ack, 0, Vec::new())
            };
            world.at_gateway(way, syn);
        }
        world
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.step * STEP_NS)
    }

    fn clock(&self) -> u32 {
        (self.step * STEP_NS / 1_000_000) as u32
    }

    fn said(&self, way: Direction, seq: u32, ack: u32, len: u32, sack: Vec<(u32, u32)>) -> Said {
        Said {
            seq,
            ack,
            len,
            tsval: self.clock(),
            tsecr: self.seen[usize::from(way == Direction::Uplink)],
            sack,
            syn: false,
        }
    }

    fn lost(&mut self, said: &Said) -> bool {
        self.data_sent += u64::from(said.len > 0);
        self.loses && said.len > 0 && self.data_sent.is_multiple_of(LOSS_EVERY)
    }

    fn send_data(&mut self, seq: u32) {
        let said = self.said(self.data_way, seq, 1, SEGMENT_LEN, Vec::new());
        if self.data_way == Direction::Downlink {
            self.from_fh.push_back((self.step + WIRED_STEPS, said));
        } else if !self.lost(&said) {
            self.from_mh.push_back((self.step + WIRELESS_STEPS, said));
        }
    }

    /// A segment leaves the gateway.
    fn goes_on(&mut self, way: Direction, said: Said) {
        if way == Direction::Uplink {
            self.to_fh.push_back((self.step + WIRED_STEPS, said));
        } else if self.data_way == Direction::Uplink || !self.lost(&said) {
            self.to_mh.push_back((self.step + WIRELESS_STEPS, said));
        }
    }

    fn at_gateway(&mut self, way: Direction, mut said: Said) {
        let unknown = self.case == Case::PassedThrough && !said.syn;
        let bytes = frame(way, &said, unknown);
        self.packets += u64::from(!said.syn);
        let now = self.now();
        let verdict = if self.case == Case::Parsed {
            black_box(gateways_own_parsing(&bytes));
            Verdict::Forward
        } else {
            let content = content_at(self.content, said.seq).filter(|_| said.len > 0);
            let (gateway, actions) = (&mut self.gateway, &mut self.actions);
            gateways_own_packet(gateway, way, &bytes, content, now, actions)
        };
        if said.syn {
            self.actions.clear();
            return;
        }
        match verdict {
            // M-TCP's saved byte: the sender here counts whole segments, and gets it at once.
            Verdict::Forward | Verdict::ForwardWithAck { .. } => self.goes_on(way, said),
            Verdict::ForwardWithSack(sack) => {
                said.sack = blocks(&sack);
                self.goes_on(way, said);
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
                    let (way, said) = of_resend(&resend);
                    self.goes_on(way, said);
                }
                Action::Send(made) => self.goes_on(made.direction, of_made(&made)),
                Action::Repeat(_) | Action::Record(_) => {}
            }
        }
    }

    /// One step: what arrives now, and a new segment.
    fn advance(&mut self) {
        let step = self.step;
        let due = |way: &mut Way| match way.front() {
            Some((at, _)) if *at <= step => way.pop_front().map(|(_, said)| said),
            _ => None,
        };
        while let Some(said) = due(&mut self.from_fh) {
            self.at_gateway(Direction::Downlink, said);
        }
        while let Some(said) = due(&mut self.from_mh) {
            self.at_gateway(Direction::Uplink, said);
        }
        while let Some(said) = due(&mut self.to_mh) {
            self.at_end(Direction::Downlink, &said);
        }
        while let Some(said) = due(&mut self.to_fh) {
            self.at_end(Direction::Uplink, &said);
        }
        let now = self.now();
        gateways_own_timers(&mut self.gateway, now, &mut self.actions);
        self.act();
        if self.source.is_overdue(step) {
            self.timeouts += 1;
            self.source.heard_at = step;
            self.send_data(self.source.una);
        } else if self.source.nxt - self.source.una < WINDOW * SEGMENT_LEN {
            let seq = self.source.nxt;
            self.source.nxt += SEGMENT_LEN;
            self.send_data(seq);
        }
        self.step += 1;
    }

    fn at_end(&mut self, way: Direction, said: &Said) {
        let end = usize::from(way == Direction::Downlink);
        self.seen[end] = self.seen[end].max(said.tsval);
        if way != self.data_way {
            let lost = self.source.hear(said.ack, &said.sack, self.step);
            if let Some(seq) = lost {
                self.send_data(seq);
            }
            return;
        }
        if said.len == 0 || !self.sink.hear(said.seq, said.seq + said.len) {
            return;
        }
        let sack = self.sink.ranges.iter().copied().take(3).collect();
        let back = self.said(way.back(), 1, self.sink.nxt, 0, sack);
        if way == Direction::Downlink {
            self.from_mh.push_back((self.step + WIRELESS_STEPS, back));
        } else {
            self.from_fh.push_back((self.step + WIRED_STEPS, back));
        }
    }
}

/// The parser, and the copy of the headers.
#[inline(never)]
fn gateways_own_parsing(frame: &[u8]) -> Option<(Segment, Length)> {
    let (segment, layout) = parse(frame, 0).ok()?;
    let header = Header::copy_from(frame, &layout)?;
    Some((segment, Length(header, segment.payload_len, None)))
}

/// The same, and the engine.
#[inline(never)]
fn gateways_own_packet(
    gateway: &mut Gateway<Length>,
    way: Direction,
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
    gateway.handle_segment(way, &segment, &payload, now, actions)
}

/// A piece is written: its segments, compressed where that is to be.
#[inline(never)]
fn gateways_own_compression(gateway: &mut Gateway<Length>, piece: &Resend<Length>, now: Instant) {
    let mut sent = 0;
    while piece.compress.is_some() && sent < piece.len {
        let len = SEGMENT_LEN.min(piece.len - sent);
        black_box(gateway.compress(piece, sent, len, piece.flags, now));
        sent += len;
    }
}

/// What is due.
#[inline(never)]
fn gateways_own_timers(gateway: &mut Gateway<Length>, now: Instant, actions: &mut Actions<Length>) {
    while gateway.poll_timeout().is_some_and(|at| at <= now) {
        gateway.handle_timeout(now, actions);
    }
}

/// One run of one case; what it has done goes to the standard output, for the other process.
fn carry_out(case: Case, way: Direction, loses: bool, data_packets: u64) {
    let mut world = World::new(case, way, loses);
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

/// Instructions, and what [`carry_out`] has printed.
fn count(case: &str, way: &str, loses: bool, data_packets: u64) -> Result<(u64, Vec<u64>), String> {
    let me = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(format!("--toggle-collect={COUNTED}"))
        .arg(me)
        .args([case, way, &loses.to_string(), &data_packets.to_string()])
        .output()
        .map_err(|error| format!("valgrind: {error}; install it"))?;
    let told = String::from_utf8_lossy(&output.stderr);
    let collected = told
        .lines()
        .find_map(|line| line.split("Collected :").nth(1)?.trim().parse().ok());
    let (Some(instructions), true) = (collected, output.status.success()) else {
        return Err(format!("{case}: callgrind counted nothing: {told}"));
    };
    let numbers = String::from_utf8_lossy(&output.stdout);
    let numbers = numbers.split_whitespace();
    let numbers: Vec<u64> = numbers.filter_map(|number| number.parse().ok()).collect();
    Ok((instructions, numbers))
}

/// One row of the table.
fn row(case: &str, way: &str) -> Result<String, String> {
    let mut row = format!("| {case} | {way} ");
    for loses in [false, true] {
        let few = count(case, way, loses, COUNTS[0])?;
        let many = count(case, way, loses, COUNTS[1])?;
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
    if let [case, way, loses, packets] = arguments.as_slice() {
        let named = CASES.iter().find(|known| known.1 == case);
        let way = if way == "uplink" {
            Direction::Uplink
        } else {
            Direction::Downlink
        };
        let (Some((case, _)), Ok(packets)) = (named, packets.parse()) else {
            eprintln!("packet_cost: no such case: {case}");
            return ExitCode::FAILURE;
        };
        carry_out(*case, way, loses == "true", packets);
        return ExitCode::SUCCESS;
    }
    println!("| | data | no loss | 1 % lost | repaired | reports | sender's timeouts |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for way in ["downlink", "uplink"] {
        for (_, case) in CASES {
            match row(case, way) {
                Ok(row) => println!("{row}"),
                Err(error) => {
                    eprintln!("packet_cost: {error}");
                    return ExitCode::FAILURE;
                }
            }
        }
    }
    ExitCode::SUCCESS
}
