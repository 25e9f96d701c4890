// SPDX-License-Identifier: Apache-2.0
//! The mobile's data path with real sockets: a download over a veth pair, by TCX links and by
//! clsact filters.
#![allow(missing_docs, reason = "a test")]

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv6Addr, Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use holdfast_core::mobile_host::MadeAck;
use holdfast_net::datapath::{AttachMode, Interface, monotonic_ns};
use holdfast_net::mobile_path::{AckSender, FLOWS_MAX, FlowMaps, LentMaps, MobilePath, NotedFlow};
use holdfast_net::netns::{NetNs, available_or_skip};
use holdfast_net::rtnl::{Rtnl, sysctl};
use holdfast_net::tcp_info::TcpInfo;
use holdfast_wire::Instant as Clock;
use libbpf_rs::MapHandle;

/// An emulated processor is slow.
const LIMIT: Duration = Duration::from_secs(60);
/// The descriptors for a child process: a test that finds them is that child of its own.
const CHILD_ENV: &str = "HOLDFAST_MAPS_CHILD";
const MODES: [AttachMode; 2] = [AttachMode::Auto, AttachMode::Clsact];

/// FH and MH with a link between, and a download that never ends by itself.
struct Download {
    path: Option<MobilePath>,
    /// For as long as the test.
    _fh: NetNs,
    mh: NetNs,
    received: Arc<AtomicU64>,
    ends: [TcpStream; 2],
    threads: Vec<JoinHandle<()>>,
}

fn addresses(is_v6: bool) -> [IpAddr; 2] {
    if is_v6 {
        [1, 2].map(|last| Ipv6Addr::new(0xfd01, 0, 0, 0, 0, 0, 0, last).into())
    } else {
        [1, 2].map(|last| [10, 1, 0, last].into())
    }
}

fn await_that(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < deadline, "{what}: not within {LIMIT:?}");
        thread::sleep(Duration::from_millis(2));
    }
}

impl Download {
    fn new(mode: AttachMode, is_v6: bool) -> Self {
        let [fh, mh] = [(); 2].map(|()| NetNs::new().unwrap());
        for ns in [&fh, &mh] {
            ns.run(|| sysctl("net.ipv6.conf.default.accept_dad", "0").unwrap())
                .unwrap();
        }
        Rtnl::open()
            .unwrap()
            .add_veth("link", &fh, "link", &mh)
            .unwrap();
        let [fh_address, mh_address] = addresses(is_v6);
        for (ns, address) in [(&fh, fh_address), (&mh, mh_address)] {
            ns.run(|| {
                let rtnl = Rtnl::open().unwrap();
                let ifindex = rtnl.link_index("link").unwrap();
                rtnl.set_up(ifindex).unwrap();
                let prefix = if is_v6 { 64 } else { 24 };
                rtnl.add_address(ifindex, address, prefix).unwrap();
            })
            .unwrap();
        }
        let path = mh
            .run(|| MobilePath::attach("link", mode, FLOWS_MAX).unwrap())
            .unwrap();
        let listener = fh
            .run(|| TcpListener::bind((fh_address, 0)).unwrap())
            .unwrap();
        let to = listener.local_addr().unwrap();
        let at_mh = mh.run(|| TcpStream::connect(to).unwrap()).unwrap();
        let (at_fh, _) = listener.accept().unwrap();
        let ends = [at_mh.try_clone().unwrap(), at_fh.try_clone().unwrap()];
        let received = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&received);
        let threads = vec![
            thread::spawn(move || {
                let (mut at_fh, chunk) = (at_fh, vec![7; 1 << 16]);
                while at_fh.write_all(&chunk).is_ok() {}
            }),
            thread::spawn(move || {
                let (mut at_mh, mut buffer) = (at_mh, vec![0; 1 << 16]);
                while let Ok(bytes @ 1..) = at_mh.read(&mut buffer) {
                    counted.fetch_add(bytes as u64, Ordering::Relaxed);
                }
            }),
        ];
        Self {
            path: Some(path),
            _fh: fh,
            mh,
            received,
            ends,
            threads,
        }
    }

    fn path(&self) -> &MobilePath {
        self.path.as_ref().unwrap()
    }

    fn noted(&self) -> NotedFlow {
        let flows = self.path().maps().flows().unwrap();
        assert_eq!(flows.len(), 1, "{flows:?}");
        flows.into_iter().next().unwrap()
    }

    fn bytes(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    fn await_more(&self, what: &str) {
        let before = self.bytes();
        await_that(what, || self.bytes() > before + 1_000_000);
    }

    /// The window that the FH knows.
    fn window(&self) -> u32 {
        TcpInfo::of(&self.ends[1]).unwrap().snd_wnd
    }

    /// The MH's own packets get lost from now on, or leave again. A made ACK does not pass its routes.
    fn lose_uplink(&self, is_lost: bool) {
        let fh = self.ends[1].local_addr().unwrap().ip().to_string();
        let change = if is_lost { "add" } else { "del" };
        let mut command = self.mh.command("ip");
        let status = command.args(["route", change, "blackhole", &fh]).status();
        assert!(
            status.unwrap().success(),
            "ip route {change} blackhole {fh}"
        );
    }

    /// Whether the MH's application has all that the FH has sent, and nothing is on its way.
    fn is_all_read(&self) -> bool {
        let info = TcpInfo::of(&self.ends[1]).unwrap();
        info.bytes_acked == info.bytes_sent_once() && info.bytes_acked == self.bytes()
    }

    /// Closes the window until `until`, and waits until the FH has received that.
    fn close(&self, maps: &FlowMaps, until: Duration) {
        let flow = self.noted();
        maps.close(&flow.flow.key).unwrap();
        let deadline = monotonic_ns() + until.as_nanos() as u64;
        maps.set_orders_until(Clock::from_nanos(deadline));
        await_that("the FH receives a zero window", || self.window() == 0);
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        for end in &self.ends {
            let _ = end.shutdown(Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        // Filters are taken off by the interface's number, which is another's elsewhere.
        let path = self.path.take();
        let _ = self.mh.run(|| drop(path));
    }
}

#[test]
fn a_download_is_noted_closed_and_opened_again_by_a_made_ack() {
    let test = "a_download_is_noted_closed_and_opened_again_by_a_made_ack";
    if !available_or_skip(test) {
        return;
    }
    for mode in MODES {
        for is_v6 in [false, true] {
            let download = Download::new(mode, is_v6);
            download.await_more("it runs");
            await_that("its round trip is known", || {
                download.noted().flow.round_trip().is_some()
            });
            let noted = download.noted();
            assert!(noted.flow.round_trip().unwrap() < LIMIT);
            assert!(noted.flow.window_shift.is_some(), "its SYN was seen");
            assert!(noted.flow.timestamps.is_some() && noted.flow.data_at.is_some());
            let maps = download.path().maps();
            download.close(maps, LIMIT);
            // A reader that is late gives the MH's own window free, which is then noted.
            await_that("all is read", || download.is_all_read());
            // Only the made ACK can open it: the MH answers no probe and reports no window.
            download.lose_uplink(true);
            maps.open_window(&noted.flow.key).unwrap();
            let interface = download.path().interface();
            let sender = download.mh.run(|| AckSender::open(interface)).unwrap();
            let sender = sender.unwrap();
            assert_eq!(download.window(), 0, "it was not opened");
            sender.send(&download.noted(), MadeAck::Last, 3).unwrap();
            await_that("the FH receives the window", || download.window() > 0);
            download.lose_uplink(false);
            download.await_more("it goes on");
        }
    }
}

#[test]
fn a_deadline_that_is_not_renewed_opens_what_another_process_has_closed() {
    let test = "a_deadline_that_is_not_renewed_opens_what_another_process_has_closed";
    if !available_or_skip(test) {
        return;
    }
    for mode in MODES {
        let download = Download::new(mode, false);
        download.await_more("it runs");
        // Never started: the descriptors are this process's own.
        let mut command = Command::new("true");
        let lent = download.path().maps().lend(&mut command).unwrap();
        let maps = FlowMaps::inherited(&lent, download.path().interface()).unwrap();
        download.close(&maps, LIMIT);
        assert_eq!(maps.closed_flows().unwrap().len(), 1);
        let sent = TcpInfo::of(&download.ends[1]).unwrap().bytes_sent;
        let deadline = monotonic_ns() + 100_000_000;
        maps.set_orders_until(Clock::from_nanos(deadline));
        // The FH probes, and the MH's own window leaves. What the FH sent before needs no open window.
        await_that("it goes on by itself", || {
            download.bytes() > sent + 1_000_000
        });
    }
}

/// The child process of the next test: the descriptors are in `numbers`.
fn read_inherited(numbers: &str) {
    let numbers: Vec<i32> = numbers
        .split(' ')
        .map(|word| word.parse().unwrap())
        .collect();
    let lent: LentMaps = numbers.try_into().unwrap();
    let interface = Interface::query("link").unwrap();
    let maps = FlowMaps::inherited(&lent, &interface).unwrap();
    println!("inherited {} flows", maps.flows().unwrap().len());
}

#[test]
fn a_process_that_is_started_with_the_maps_reads_them_and_no_other_does() {
    let test = "a_process_that_is_started_with_the_maps_reads_them_and_no_other_does";
    if let Ok(numbers) = std::env::var(CHILD_ENV) {
        return read_inherited(&numbers);
    }
    if !available_or_skip(test) {
        return;
    }
    let download = Download::new(AttachMode::Auto, false);
    download.await_more("it runs");
    let maps = download.path().maps();
    // Kept: its numbers stay taken, so that the second child can have none by chance.
    let mut never_started = Command::new("true");
    let others = maps.lend(&mut never_started).unwrap();
    for is_lent in [true, false] {
        let mut command = download.mh.command(std::env::current_exe().unwrap());
        let lent = if is_lent {
            maps.lend(&mut command).unwrap()
        } else {
            others
        };
        let text = lent.map(|number| number.to_string()).join(" ");
        command
            .args(["--exact", "--nocapture", test])
            .env(CHILD_ENV, text);
        let output = command.output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        let has_read = printed.contains("inherited 1 flows");
        assert_eq!(has_read, is_lent, "{printed}");
    }
}

#[test]
fn numbers_that_are_no_maps_are_refused() {
    if !available_or_skip("numbers_that_are_no_maps_are_refused") {
        return;
    }
    let download = Download::new(AttachMode::Auto, false);
    let interface = download.path().interface();
    let file = std::fs::File::open("/dev/null").unwrap();
    for number in [file.as_raw_fd(), 1_000_000, -1] {
        let lent = [number; 5];
        assert!(
            FlowMaps::inherited(&lent, interface).is_err(),
            "descriptor {number}"
        );
    }
}

#[test]
fn nothing_stays_on_the_interface() {
    if !available_or_skip("nothing_stays_on_the_interface") {
        return;
    }
    for mode in MODES {
        let download = Download::new(mode, false);
        let ids = download.path().maps().ids().unwrap();
        drop(download);
        // The kernel frees programs and maps a moment after the last reference.
        await_that("the maps are gone", || {
            let mut ids = ids.iter();
            ids.all(|id| MapHandle::from_map_id(*id).is_err())
        });
    }
}
