// SPDX-License-Identifier: Apache-2.0
//! What the mobile's data path costs while it has nothing to do: one bulk download over a veth
//! pair between two namespaces, with the programs and without, in turns of a fraction of a second.
//! The FH's end runs on one processor, the MH's on the other.
//!
//!     cargo run -p holdfast-net --example mobile_path_cost -- [PAIRS] [SECONDS]
//!
//! Prints the median of the pairs' ratios with its 95% interval (order statistics), how much of the
//! time something else was running, and the nanoseconds that each program took a packet (the
//! kernel's BPF statistics; they are on in an extra turn alone, for they cost something themselves).
//!
//! On a machine that is not idle a real-time priority keeps other work away: `chrt -f 1 cargo run
//! ...`; the threads `ksoftirqd/N` then need one too.
#![allow(missing_docs, reason = "a program")]

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use holdfast_net::bpf_stats::RunTimes;
use holdfast_net::datapath::AttachMode;
use holdfast_net::mobile_path::{FLOWS_MAX, MobilePath};
use holdfast_net::netns::NetNs;
use holdfast_net::rtnl::Rtnl;
use rustix::thread::{CpuSet, sched_setaffinity};

const FH: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 1, 0, 1));
const MH: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 1, 0, 2));
const CHUNK_BYTES: usize = 1 << 18;
const FH_PROCESSOR: usize = 0;
const MH_PROCESSOR: usize = 1;
/// The time between a change of the attached programs and a measurement.
const SETTLING: Duration = Duration::from_millis(50);

struct Setup {
    fh: NetNs,
    mh: NetNs,
}

impl Setup {
    fn new() -> io::Result<Self> {
        let (fh, mh) = (NetNs::new()?, NetNs::new()?);
        Rtnl::open()?.add_veth("link", &fh, "link", &mh)?;
        for (ns, address) in [(&fh, FH), (&mh, MH)] {
            ns.run(|| {
                let rtnl = Rtnl::open()?;
                let ifindex = rtnl.link_index("link")?;
                rtnl.add_address(ifindex, address, 24)?;
                rtnl.set_up(ifindex)
            })??;
        }
        Ok(Self { fh, mh })
    }

    fn attach(&self) -> io::Result<MobilePath> {
        self.mh
            .run(|| MobilePath::attach("link", AttachMode::Auto, FLOWS_MAX))?
    }
}

fn run_on(processor: usize) {
    let mut own = CpuSet::new();
    own.set(processor);
    // With one processor alone there is no other choice.
    let _ = sched_setaffinity(None, &own);
}

/// A download without an end.
struct Download {
    received: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    ends: [Option<JoinHandle<()>>; 2],
}

impl Download {
    fn start(setup: &Setup) -> io::Result<Self> {
        let listener = setup.fh.run(|| TcpListener::bind((FH, 0)))??;
        let address = listener.local_addr()?;
        let mut at_mh = setup.mh.run(|| TcpStream::connect(address))??;
        let (mut at_fh, _) = listener.accept()?;
        let stop = Arc::new(AtomicBool::new(false));
        let received = Arc::new(AtomicU64::new(0));
        let ended = Arc::clone(&stop);
        let sender = thread::spawn(move || {
            run_on(FH_PROCESSOR);
            let chunk = vec![0x5a; CHUNK_BYTES];
            while !ended.load(Ordering::Relaxed) && at_fh.write_all(&chunk).is_ok() {}
        });
        let counted = Arc::clone(&received);
        let receiver = thread::spawn(move || {
            run_on(MH_PROCESSOR);
            let mut buffer = vec![0; CHUNK_BYTES];
            while let Ok(bytes @ 1..) = at_mh.read(&mut buffer) {
                counted.fetch_add(bytes as u64, Ordering::Relaxed);
            }
        });
        Ok(Self {
            received,
            stop,
            ends: [Some(sender), Some(receiver)],
        })
    }

    /// Measures Gb/s for this time from now on.
    fn measure(&self, length: Duration) -> f64 {
        thread::sleep(SETTLING);
        let (began, before) = (Instant::now(), self.received.load(Ordering::Relaxed));
        thread::sleep(length);
        let bytes = self.received.load(Ordering::Relaxed) - before;
        bytes as f64 * 8.0 / began.elapsed().as_secs_f64() / 1e9
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for end in self.ends.iter_mut().filter_map(Option::take) {
            // An error: it has panicked, and its output is on the terminal.
            let _ = end.join();
        }
    }
}

/// The processors' time of all that runs, and of this process, in ticks (proc(5)).
fn busy_ticks() -> io::Result<(u64, u64)> {
    let text = fs::read_to_string("/proc/stat")?;
    let all: Vec<u64> = text
        .lines()
        .next()
        .into_iter()
        .flat_map(str::split_whitespace)
        .filter_map(|word| word.parse().ok())
        .collect();
    // User, nice, system, interrupts and softirq; neither idle nor I/O wait.
    let busy = all.iter().take(7).sum::<u64>() - all.iter().skip(3).take(2).sum::<u64>();
    let text = fs::read_to_string("/proc/self/stat")?;
    let own = text.rsplit(')').next().unwrap_or_default();
    let own: Vec<u64> = own
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|word| word.parse().ok())
        .collect();
    Ok((busy, own.iter().sum()))
}

/// The median, and the order statistics between which the true one lies with 95%.
fn median(values: &mut [f64]) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    let count = values.len() as f64;
    let off = 0.98 * count.sqrt();
    let at = |rank: f64| values[(rank.max(0.0) as usize).min(values.len() - 1)];
    (
        at((count - 1.0) / 2.0),
        at((count / 2.0 - off).floor()),
        at((count / 2.0 + off).ceil()),
    )
}

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: f64| {
        let given = arguments.next().and_then(|text| text.parse().ok());
        given.unwrap_or(default)
    };
    let (pairs, seconds) = (number(100.0).max(1.0) as usize, number(0.2));
    let length = Duration::from_secs_f64(seconds);
    let setup = Setup::new()?;
    let download = Download::start(&setup)?;
    download.measure(Duration::from_secs(1));
    let mut ratios = Vec::new();
    let (mut without, mut with) = (Vec::new(), Vec::new());
    let (began, before) = (Instant::now(), busy_ticks()?);
    for pair in 0..pairs {
        let attached = || -> io::Result<f64> {
            let _path = setup.attach()?;
            Ok(download.measure(length))
        };
        // The two take turns in being the first.
        let (plain, loaded) = if pair % 2 == 0 {
            let plain = download.measure(length);
            (plain, attached()?)
        } else {
            let loaded = attached()?;
            (download.measure(length), loaded)
        };
        ratios.push(loaded / plain);
        without.push(plain);
        with.push(loaded);
    }
    let after = busy_ticks()?;
    let (middle, low, high) = median(&mut ratios);
    println!(
        "medians: {:.2} Gb/s without, {:.2} with; with/without {middle:.3} (95%: {low:.3} to {high:.3}), {pairs} pairs of {seconds} s",
        median(&mut without).0,
        median(&mut with).0,
    );
    let others = (after.0 - before.0).saturating_sub(after.1 - before.1) as f64;
    println!(
        "{:.0}% of a processor was used by others, the kernel's own threads included",
        others / began.elapsed().as_secs_f64()
    );
    let path = setup.attach()?;
    let times = RunTimes::measure()?;
    download.measure(Duration::from_secs(3));
    for (program, runs, ns) in times.of(&path)? {
        println!("{program}: {runs} packets, {ns:.0} ns each");
    }
    Ok(())
}
