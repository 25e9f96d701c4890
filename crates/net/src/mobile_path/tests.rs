// SPDX-License-Identifier: Apache-2.0
//! The programs in the kernel's verifier and in BPF_PROG_RUN: what they note, what they
//! change, and what they do with invented packets.

use holdfast_core::FlowKey;
use holdfast_core::mobile_host::MadeAck;
use holdfast_wire::{
    Endpoint, Flags, Header, SackBlocks, SeqNum, Timestamps, checksum_is_right, parse,
};

use super::*;
use crate::bpf::{run_once, run_super};
use crate::datapath::monotonic_ns;
use crate::netns::available_or_skip;
use crate::virtual_kernel::goes_on_in_virtual_time;

mod cases;
mod forged;
mod held;
pub(crate) mod hostile;
mod limits;
mod noted;
mod orders;
mod ways;

use hostile::{SEED, TestRng, damaged, hostile};

/// TCX_NEXT.
const NEXT: i32 = -1;
/// TCX_REDIRECT.
const REDIRECT: i32 = 7;
const LINK: usize = 14;
const FLOWS: u32 = 512;

/// For the virtual kernel only: elsewhere it may be much later.
fn sleep_until(at_ns: u64) {
    let left_ns = at_ns.saturating_sub(monotonic_ns());
    std::thread::sleep(Duration::from_nanos(left_ns));
}

fn interface() -> Interface {
    Interface {
        name: "none".into(),
        ifindex: 1,
        kind: LayerKind::Ethernet,
        mtu: 1500,
        mac: [0; 6],
    }
}

struct Loaded {
    programs: Programs,
    maps: FlowMaps,
}

impl Loaded {
    fn new(test: &str) -> Option<Self> {
        Self::with(test, None)
    }

    /// With a daemon that lives, behind this device.
    fn with_daemon(test: &str) -> Option<Self> {
        let loaded = Self::with(test, Some(1))?;
        loaded.beat(monotonic_ns() + 3_600_000_000_000);
        Some(loaded)
    }

    fn beat(&self, at_ns: u64) {
        let heartbeat = self.programs.map("heartbeat").unwrap();
        SharedValues::map(&heartbeat).unwrap().store(0, at_ns);
    }

    fn counted(&self, name: &str) -> u64 {
        let counters = Counters::of(&self.programs, MOBILE_PATH).unwrap();
        let all = counters.read().unwrap();
        all.iter().find(|(known, _)| *known == name).unwrap().1
    }

    fn with(test: &str, device: Option<u32>) -> Option<Self> {
        let settings = settings(&interface(), FLOWS, device);
        available_or_skip(test).then(|| Self::of(&interface(), settings))
    }

    fn of(interface: &Interface, settings: ProgramSettings) -> Self {
        let programs = settings.load().unwrap();
        let maps = FlowMaps::of(&programs, interface).unwrap();
        Self { programs, maps }
    }

    fn run(&self, program: &str, frame: &[u8]) -> Vec<u8> {
        let (answer, left, _) = run_once(&self.programs, program, frame, 1).unwrap();
        assert_eq!(answer, NEXT);
        left
    }

    fn egress(&self, frame: &[u8]) -> Vec<u8> {
        self.run("mobile_egress", frame)
    }

    fn ingress(&self, frame: &[u8]) {
        assert_eq!(self.run("mobile_ingress", frame), frame);
    }

    /// Whether the frame goes to the daemon. It is unchanged in any case.
    fn is_taken(&self, spec: &Spec) -> bool {
        let frame = spec.frame();
        let (answer, left, _) = run_once(&self.programs, "mobile_ingress", &frame, 1).unwrap();
        assert_eq!(left, frame);
        assert!([NEXT, REDIRECT].contains(&answer), "{answer}");
        answer == REDIRECT
    }

    /// Plain segments of the flow go to the daemon too.
    fn follow(&self, flow: &FlowKey) -> io::Result<()> {
        let followed = self.programs.map("followed")?;
        followed
            .update(&record::key(flow), &1_u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(io::Error::other)?;
        self.maps.values.store(FOLLOWED, 1);
        Ok(())
    }

    fn close(&self, flow: &FlowKey) {
        self.maps.close(flow).unwrap();
        let until = monotonic_ns() + 3_600_000_000_000;
        self.maps.set_orders_until(Instant::from_nanos(until));
    }
}

fn flow(is_v6: bool, port: u16) -> FlowKey {
    let [fh, mh] = if is_v6 {
        ["fd01::2", "fd02::2"]
    } else {
        ["10.1.0.2", "10.2.0.2"]
    };
    let end = |address: &str, port| Endpoint {
        address: address.parse().unwrap(),
        port,
    };
    FlowKey {
        fh: end(fh, 443),
        mh: end(mh, port),
    }
}

/// A segment as it stands in a test.
#[derive(Clone, Copy, Debug)]
struct Spec {
    flow: FlowKey,
    downlink: bool,
    seq: u32,
    ack: u32,
    flags: Flags,
    window: u16,
    clocks: Option<(u32, u32)>,
    payload: usize,
}

impl Spec {
    fn uplink(flow: FlowKey) -> Self {
        Self {
            flow,
            downlink: false,
            seq: 1_000,
            ack: 70_000,
            flags: Flags::ACK,
            window: 501,
            clocks: Some((40, 30)),
            payload: 0,
        }
    }

    fn downlink(flow: FlowKey) -> Self {
        Self {
            downlink: true,
            seq: 70_000,
            ack: 1_000,
            clocks: Some((31, 40)),
            payload: 1_000,
            ..Self::uplink(flow)
        }
    }

    fn frame(&self) -> Vec<u8> {
        self.frame_with(&SackBlocks::default())
    }

    fn frame_with(&self, sack: &SackBlocks) -> Vec<u8> {
        [self.link(), self.packet(sack)].concat()
    }

    /// The link layer's header. At ingress frames are for the loopback device, with an address of zeros: the
    /// kernel runs the program on it.
    fn link(&self) -> Vec<u8> {
        let is_v4 = self.flow.fh.address.is_ipv4();
        let kind = if is_v4 { [8, 0] } else { [0x86, 0xdd] };
        let addresses: [u8; 12] = if self.downlink {
            [0; 12]
        } else {
            std::array::from_fn(|index| 0x10 + index as u8)
        };
        [&addresses[..], &kind].concat()
    }

    /// What follows it.
    fn packet(&self, sack: &SackBlocks) -> Vec<u8> {
        let (from, to) = if self.downlink {
            (self.flow.fh, self.flow.mh)
        } else {
            (self.flow.mh, self.flow.fh)
        };
        let mut header = Header::made(&[], from, to).unwrap();
        header.set_seq(SeqNum::new(self.seq));
        header.set_ack(SeqNum::new(self.ack));
        header.set_flags(self.flags);
        header.set_window(self.window);
        let clocks = self
            .clocks
            .map(|(tsval, tsecr)| Timestamps { tsval, tsecr });
        header.set_options(clocks, sack);
        let payload = vec![0x5a; self.payload];
        assert!(header.set_payload_len(payload.len()));
        header.set_checksum(&payload);
        [header.as_bytes(), &payload].concat()
    }
}

const PSH_ACK: Flags = Flags(0x18);
const SYN_ACK: Flags = Flags(0x12);
const FIN_ACK: Flags = Flags(0x11);
