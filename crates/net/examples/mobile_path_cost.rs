// SPDX-License-Identifier: Apache-2.0
//! What the mobile's data path costs while it has nothing to do: a bulk download over a veth
//! pair between two namespaces, with the programs and without, in turns.
//!
//!     cargo run -p holdfast-net --example mobile_path_cost -- [PAIRS] [SECONDS]
//!
//! Prints each pair, the median of the pairs' ratios with its 95% interval (order statistics),
//! and the nanoseconds that each program took a packet (the kernel's BPF statistics; they are
//! on in extra runs alone, for they cost something themselves).
#![allow(missing_docs, reason = "a program")]

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use holdfast_net::bpf_stats::RunTimes;
use holdfast_net::datapath::AttachMode;
use holdfast_net::mobile_path::{FLOWS_MAX, MobilePath};
use holdfast_net::netns::NetNs;
use holdfast_net::rtnl::Rtnl;

const FH: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 1, 0, 1));
const MH: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 1, 0, 2));
const CHUNK_BYTES: usize = 1 << 18;

struct Place {
    fh: NetNs,
    mh: NetNs,
}

impl Place {
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

    /// Gb/s of one download of this length.
    fn download(&self, length: Duration) -> io::Result<f64> {
        let listener = self.fh.run(|| TcpListener::bind((FH, 0)))??;
        let address = listener.local_addr()?;
        let mut at_mh = self.mh.run(|| TcpStream::connect(address))??;
        let (mut at_fh, _) = listener.accept()?;
        let stop = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&stop);
        let sender = thread::spawn(move || {
            let chunk = vec![0x5a; CHUNK_BYTES];
            while !ended.load(Ordering::Relaxed) && at_fh.write_all(&chunk).is_ok() {}
        });
        let mut buffer = vec![0; CHUNK_BYTES];
        let started = Instant::now();
        let mut bytes = 0;
        while started.elapsed() < length {
            bytes += at_mh.read(&mut buffer)?;
        }
        let took = started.elapsed();
        stop.store(true, Ordering::Relaxed);
        drop(at_mh);
        let _ = sender.join();
        Ok(bytes as f64 * 8.0 / took.as_secs_f64() / 1e9)
    }

    fn attach(&self) -> io::Result<MobilePath> {
        self.mh
            .run(|| MobilePath::attach("link", AttachMode::Auto, FLOWS_MAX))?
    }
}

/// The median, and the order statistics between which the true one lies with 95%.
fn median(values: &mut [f64]) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    let count = values.len() as f64;
    let off = 0.98 * count.sqrt();
    let at = |place: f64| values[(place.max(0.0) as usize).min(values.len() - 1)];
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
    let (pairs, seconds) = (number(20.0) as usize, number(0.7));
    let length = Duration::from_secs_f64(seconds);
    let place = Place::new()?;
    place.download(length)?;
    let mut ratios = Vec::new();
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for pair in 0..pairs {
        let attached = || -> io::Result<f64> {
            let _path = place.attach()?;
            place.download(length)
        };
        // Each goes first in every other pair.
        let (plain, loaded) = if pair % 2 == 0 {
            let plain = place.download(length)?;
            (plain, attached()?)
        } else {
            let loaded = attached()?;
            (place.download(length)?, loaded)
        };
        println!("{plain:6.2} Gb/s without, {loaded:6.2} with");
        ratios.push(loaded / plain);
        without.push(plain);
        with.push(loaded);
    }
    let (middle, low, high) = median(&mut ratios);
    println!(
        "medians: {:.2} Gb/s without, {:.2} with; with/without {middle:.3} (95%: {low:.3} to {high:.3}), {pairs} pairs",
        median(&mut without).0,
        median(&mut with).0,
    );
    let path = place.attach()?;
    let times = RunTimes::measure()?;
    for _ in 0..3 {
        place.download(length)?;
    }
    for (program, runs, ns) in times.of(&path)? {
        println!("{program}: {runs} packets, {ns:.0} ns each");
    }
    Ok(())
}
