// SPDX-License-Identifier: Apache-2.0
//! What two ends say to each other on their connection: all at once, or request by request, and
//! perhaps bytes the other way meanwhile.

use std::io::{self, Read, Write as _};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::Duration;

use anyhow::anyhow;
use holdfast_net::datapath::monotonic_ns;
use holdfast_testbed::download::{Arrival, Intake, READ_BYTES_MAX, Received};
use holdfast_testbed::seeded_file::{SeededStream, Sha256Sum};

use super::{EndpointReport, Work};

/// The seed of what goes the other way.
pub(super) const BACK_SEED: u64 = 2;
/// Bytes of an answer that are written at a time, at most.
const WRITE_BYTES_MAX: u64 = 1 << 20;

/// Sends everything, closes, and takes what comes until the other end closes.
pub(super) fn send(
    stream: &TcpStream,
    work: Work,
    report: &mut EndpointReport,
) -> anyhow::Result<()> {
    let Work::Send { back_bytes, .. } = work else {
        return Err(anyhow!("only an end that sends can send"));
    };
    if back_bytes == 0 {
        send_parts(stream, work)?;
        stream.shutdown(Shutdown::Write)?;
        io::copy(&mut &*stream, &mut io::sink())?;
        return Ok(());
    }
    let back = stream.try_clone()?;
    let taker = thread::spawn(move || take_all(&back));
    let sent = send_parts(stream, work).and_then(|()| stream.shutdown(Shutdown::Write));
    let (bytes, sha256) = taker
        .join()
        .map_err(|_| anyhow!("the thread that takes bytes is broken"))?;
    report.back = Some((bytes, sha256));
    Ok(sent?)
}

fn take_all(stream: &TcpStream) -> (u64, Sha256Sum) {
    let mut intake = Intake::new(stream);
    while intake.read_some(READ_BYTES_MAX) > 0 {}
    let received = intake.finish();
    (received.bytes(), received.sha256)
}

/// Each part when it has been asked for.
fn send_parts(mut stream: &TcpStream, work: Work) -> io::Result<()> {
    let Work::Send {
        bytes,
        seed,
        after_bytes,
        parts,
        ..
    } = work
    else {
        return Ok(());
    };
    let mut content = Parts::new(bytes, seed);
    for _ in 0..parts {
        let mut request = stream.take(after_bytes);
        if io::copy(&mut request, &mut io::sink())? < after_bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut left = bytes / u64::from(parts);
        while left > 0 {
            let piece = content.next(left.min(WRITE_BYTES_MAX) as usize);
            stream.write_all(piece)?;
            left -= piece.len() as u64;
        }
    }
    Ok(())
}

/// Seeded bytes in pieces of any length.
struct Parts {
    stream: SeededStream,
    /// What was made and not taken, from `taken` on.
    made: Vec<u8>,
    taken: usize,
}

impl Parts {
    fn new(bytes: u64, seed: u64) -> Self {
        Self {
            stream: SeededStream::new(bytes, seed),
            made: Vec::new(),
            taken: 0,
        }
    }

    /// The next `len` bytes; fewer only at the end.
    fn next(&mut self, len: usize) -> &[u8] {
        if self.made.len() - self.taken < len {
            self.made.drain(..self.taken);
            self.taken = 0;
            while self.made.len() < len
                && let Some(chunk) = self.stream.next_chunk()
            {
                self.made.extend_from_slice(chunk);
            }
        }
        let from = self.taken;
        self.taken = (from + len).min(self.made.len());
        &self.made[from..self.taken]
    }
}

/// Asks as it is told and takes everything until the other end closes.
pub(super) fn receive(
    stream: &TcpStream,
    work: Work,
    report: &mut EndpointReport,
) -> anyhow::Result<()> {
    let Work::Receive {
        request_bytes,
        requests,
        think_ns,
        back_bytes,
        ..
    } = work
    else {
        return Err(anyhow!("only an end that receives can receive"));
    };
    let back = stream.try_clone()?;
    let sender = (back_bytes > 0).then(|| thread::spawn(move || send_back(&back, back_bytes)));
    let mut intake = Intake::new(stream);
    let asked = if requests > 1 {
        let think = Duration::from_nanos(think_ns);
        ask_again_and_again(&mut intake, stream, work, think, &mut report.latencies_ns)
    } else {
        ask(stream, request_bytes)
    };
    while intake.read_some(READ_BYTES_MAX) > 0 {}
    // Whatever happens now, this came.
    note(report, intake.finish());
    let sent = sender.map_or(Ok(Ok(())), thread::JoinHandle::join);
    asked?;
    sent.map_err(|_| anyhow!("the thread that sends back is broken"))??;
    match stream.take_error()? {
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}

/// Request by request, with a pause between.
fn ask_again_and_again(
    intake: &mut Intake<&TcpStream>,
    stream: &TcpStream,
    work: Work,
    think: Duration,
    latencies_ns: &mut Vec<u64>,
) -> io::Result<()> {
    let Work::Receive {
        request_bytes,
        requests,
        answer_bytes,
        ..
    } = work
    else {
        return Ok(());
    };
    for number in 0..requests {
        if number > 0 && !think.is_zero() {
            thread::sleep(think);
        }
        let asked_ns = monotonic_ns();
        ask(stream, request_bytes)?;
        if !take(intake, answer_bytes) {
            break;
        }
        latencies_ns.push(intake.last_ns().saturating_sub(asked_ns));
    }
    Ok(())
}

fn note(report: &mut EndpointReport, received: Received) {
    let pair = |arrival: &Arrival| (arrival.at_ns, arrival.bytes_total);
    report.arrivals = received.arrivals.iter().map(pair).collect();
    report.sha256 = received.sha256;
}

fn ask(mut stream: &TcpStream, request_bytes: u64) -> io::Result<()> {
    let mut request = SeededStream::new(request_bytes, 0);
    while let Some(chunk) = request.next_chunk() {
        stream.write_all(chunk)?;
    }
    Ok(())
}

/// Takes an answer; false: it does not come whole.
fn take(intake: &mut Intake<&TcpStream>, bytes: u64) -> bool {
    let mut left = bytes;
    while left > 0 {
        match intake.read_some(left.min(READ_BYTES_MAX as u64) as usize) {
            0 => return false,
            len => left -= len as u64,
        }
    }
    true
}

fn send_back(mut stream: &TcpStream, bytes: u64) -> io::Result<()> {
    let mut content = SeededStream::new(bytes, BACK_SEED);
    while let Some(chunk) = content.next_chunk() {
        stream.write_all(chunk)?;
    }
    stream.shutdown(Shutdown::Write)
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_testbed::seeded_file::SeededContent;
    use std::net::TcpListener;

    /// Both ends over the loopback device: what the sender says, and what the receiver does.
    fn talk(sends: Work, receives: Work) -> (EndpointReport, EndpointReport) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let sender = thread::spawn(move || {
            let stream = listener.accept().unwrap().0;
            let mut report = EndpointReport::default();
            send(&stream, sends, &mut report).unwrap();
            report
        });
        let stream = TcpStream::connect(at).unwrap();
        let mut report = EndpointReport::default();
        receive(&stream, receives, &mut report).unwrap();
        drop(stream);
        (sender.join().unwrap(), report)
    }

    #[test]
    fn each_request_is_answered_by_its_part_of_the_bytes() {
        let (bytes, parts) = (300_000, 100);
        let sends = Work::Send {
            bytes,
            seed: 1,
            after_bytes: 70,
            parts,
            back_bytes: 0,
            series_interval_ns: None,
        };
        let receives = Work::Receive {
            request_bytes: 70,
            requests: parts,
            answer_bytes: bytes / u64::from(parts),
            think_ns: 0,
            back_bytes: 0,
        };
        let (_, report) = talk(sends, receives);
        assert_eq!(report.latencies_ns.len(), 100);
        assert_eq!(report.sha256, SeededContent::of(bytes, 1).sha256);
        assert_eq!(report.arrivals.last().unwrap().1, bytes);
    }

    #[test]
    fn what_came_before_the_connection_broke_is_told_with_what_broke_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let sender = thread::spawn(move || {
            let stream = listener.accept().unwrap().0;
            let sends = Work::Send {
                bytes: 3_000,
                seed: 1,
                after_bytes: 70,
                parts: 3,
                back_bytes: 0,
                series_interval_ns: None,
            };
            send_parts(&stream, sends).unwrap();
            // Three of ten, and no more requests are taken.
            stream.shutdown(Shutdown::Both).unwrap();
        });
        let receives = Work::Receive {
            request_bytes: 70,
            requests: 10,
            answer_bytes: 1_000,
            think_ns: 20_000_000,
            back_bytes: 0,
        };
        let stream = TcpStream::connect(at).unwrap();
        let mut report = EndpointReport::default();
        // An error or none, by whether the next request meets the end or the reset.
        let _ = receive(&stream, receives, &mut report);
        sender.join().unwrap();
        assert_eq!(report.latencies_ns.len(), 3);
        assert_eq!(report.sha256, SeededContent::of(3_000, 1).sha256);
    }

    #[test]
    fn bytes_go_both_ways_at_once() {
        let sends = Work::Send {
            bytes: 3_000_000,
            seed: 1,
            after_bytes: 0,
            parts: 1,
            back_bytes: 2_000_000,
            series_interval_ns: None,
        };
        let receives = Work::Receive {
            request_bytes: 0,
            requests: 1,
            answer_bytes: 0,
            think_ns: 0,
            back_bytes: 2_000_000,
        };
        let (sent, received) = talk(sends, receives);
        let back = SeededContent::of(2_000_000, BACK_SEED);
        assert_eq!(sent.back, Some((back.bytes, back.sha256)));
        assert_eq!(received.sha256, SeededContent::of(3_000_000, 1).sha256);
    }
}
