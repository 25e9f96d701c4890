// SPDX-License-Identifier: Apache-2.0
//! The exchange of the two ends on their connection: all bytes at once, or request by request.
//! Bytes in the other direction may be sent at the same time.

use std::io::{self, Read, Write as _};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::Duration;

use anyhow::anyhow;
use holdfast_net::datapath::monotonic_ns;
use holdfast_net::tcp_window::ClampedReader;
use holdfast_testbed::download::{Intake, READ_BYTES_MAX, Received};
use holdfast_testbed::seeded_file::SeededStream;

use super::{BACK_SEED, EndpointReport, Exchange};

/// The most bytes of an answer that are written at a time.
const WRITE_BYTES_MAX: u64 = 1 << 20;

/// Sends everything, closes, and receives until the other end closes.
pub(super) fn send(
    stream: &TcpStream,
    exchange: &Exchange,
    report: &mut EndpointReport,
) -> anyhow::Result<()> {
    if exchange.back_bytes == 0 {
        send_parts(stream, exchange)?;
        stream.shutdown(Shutdown::Write)?;
        io::copy(&mut &*stream, &mut io::sink())?;
        return Ok(());
    }
    let back = stream.try_clone()?;
    let [_, window] = exchange.receiver_and_sender_window();
    let receiver = thread::spawn(move || {
        let reader = ClampedReader::new(&back, window)?;
        Ok::<_, io::Error>(receive_all(Intake::new(reader)))
    });
    let sent = send_parts(stream, exchange).and_then(|()| stream.shutdown(Shutdown::Write));
    report.received = receiver
        .join()
        .map_err(|_| anyhow!("the thread that receives panicked"))??;
    Ok(sent?)
}

/// Sends each part when it has been requested.
fn send_parts(mut stream: &TcpStream, exchange: &Exchange) -> io::Result<()> {
    let mut content = Parts::new(exchange.bytes, exchange.seed);
    for _ in 0..exchange.requests {
        let mut request = stream.take(exchange.request_bytes);
        if io::copy(&mut request, &mut io::sink())? < exchange.request_bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut left = exchange.bytes / u64::from(exchange.requests);
        while left > 0 {
            let piece = content.next(left.min(WRITE_BYTES_MAX) as usize);
            stream.write_all(piece)?;
            left -= piece.len() as u64;
        }
    }
    Ok(())
}

/// Seeded bytes, in pieces of any length.
struct Parts {
    stream: SeededStream,
    made: Vec<u8>,
    /// Number of bytes of `made` that were used.
    used: usize,
}

impl Parts {
    fn new(bytes: u64, seed: u64) -> Self {
        Self {
            stream: SeededStream::new(bytes, seed),
            made: Vec::new(),
            used: 0,
        }
    }

    /// The next `len` bytes; fewer only at the end of the content.
    fn next(&mut self, len: usize) -> &[u8] {
        if self.made.len() - self.used < len {
            self.made.drain(..self.used);
            self.used = 0;
            while self.made.len() < len
                && let Some(chunk) = self.stream.next_chunk()
            {
                self.made.extend_from_slice(chunk);
            }
        }
        let from = self.used;
        self.used = (from + len).min(self.made.len());
        &self.made[from..self.used]
    }
}

/// Sends the requests and receives everything until the other end closes.
pub(super) fn receive(
    stream: &TcpStream,
    exchange: &Exchange,
    report: &mut EndpointReport,
) -> anyhow::Result<()> {
    let (back, back_bytes) = (stream.try_clone()?, exchange.back_bytes);
    let sender = (back_bytes > 0).then(|| {
        thread::spawn(move || {
            send_seeded(&back, back_bytes, BACK_SEED)?;
            back.shutdown(Shutdown::Write)
        })
    });
    let [window, _] = exchange.receiver_and_sender_window();
    let mut intake = Intake::new(ClampedReader::new(stream, window)?);
    let requested = if exchange.requests > 1 {
        request_each(&mut intake, stream, exchange, &mut report.latencies_ns)
    } else {
        send_seeded(stream, exchange.request_bytes, 0)
    };
    report.received = receive_all(intake);
    let sent = sender.map_or(Ok(Ok(())), thread::JoinHandle::join);
    requested?;
    sent.map_err(|_| anyhow!("the thread that sends back panicked"))??;
    match stream.take_error()? {
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}

/// Sends one request after another, with a pause after each answer.
fn request_each(
    intake: &mut Intake<ClampedReader<'_>>,
    stream: &TcpStream,
    exchange: &Exchange,
    latencies_ns: &mut Vec<u64>,
) -> io::Result<()> {
    for number in 0..exchange.requests {
        if number > 0 && exchange.think_ns > 0 {
            thread::sleep(Duration::from_nanos(exchange.think_ns));
        }
        let sent_ns = monotonic_ns();
        send_seeded(stream, exchange.request_bytes, 0)?;
        let mut left = exchange.bytes / u64::from(exchange.requests);
        while left > 0 {
            match intake.read_some(left.min(READ_BYTES_MAX as u64) as usize) {
                0 => return Ok(()),
                len => left -= len as u64,
            }
        }
        latencies_ns.push(intake.last_ns().saturating_sub(sent_ns));
    }
    Ok(())
}

fn receive_all(mut intake: Intake<ClampedReader<'_>>) -> Received {
    while intake.read_some(READ_BYTES_MAX) > 0 {}
    intake.finish()
}

fn send_seeded(mut stream: &TcpStream, bytes: u64, seed: u64) -> io::Result<()> {
    let mut content = SeededStream::new(bytes, seed);
    while let Some(chunk) = content.next_chunk() {
        stream.write_all(chunk)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::seeded_sum;
    use std::net::TcpListener;

    /// Runs both ends over the loopback device; returns the sender's report, and the receiver's.
    fn talk(exchange: Exchange) -> (EndpointReport, EndpointReport) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let sender = thread::spawn(move || {
            let stream = listener.accept().unwrap().0;
            let mut report = EndpointReport::default();
            send(&stream, &exchange, &mut report).unwrap();
            report
        });
        let stream = TcpStream::connect(at).unwrap();
        let mut report = EndpointReport::default();
        receive(&stream, &exchange, &mut report).unwrap();
        drop(stream);
        (sender.join().unwrap(), report)
    }

    #[test]
    fn each_request_is_answered_by_its_part_of_the_bytes() {
        let (_, report) = talk(Exchange {
            bytes: 300_000,
            seed: 1,
            request_bytes: 70,
            requests: 100,
            ..Exchange::default()
        });
        assert_eq!(report.latencies_ns.len(), 100);
        assert_eq!(report.received.sha256, seeded_sum(300_000, 1));
        assert_eq!(report.received.bytes(), 300_000);
    }

    #[test]
    fn a_broken_connection_is_reported_with_what_arrived_before() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let of_three = Exchange {
            bytes: 3_000,
            seed: 1,
            request_bytes: 70,
            requests: 3,
            ..Exchange::default()
        };
        let sender = thread::spawn(move || {
            let stream = listener.accept().unwrap().0;
            send_parts(&stream, &of_three).unwrap();
            // After three of ten answers this end accepts no more requests.
            stream.shutdown(Shutdown::Both).unwrap();
        });
        let of_ten = Exchange {
            bytes: 10_000,
            requests: 10,
            think_ns: 20_000_000,
            ..of_three
        };
        let stream = TcpStream::connect(at).unwrap();
        let mut report = EndpointReport::default();
        // The next request meets the end or a reset: an error is allowed.
        let _ = receive(&stream, &of_ten, &mut report);
        sender.join().unwrap();
        assert_eq!(report.latencies_ns.len(), 3);
        assert_eq!(report.received.sha256, seeded_sum(3_000, 1));
    }

    #[test]
    fn bytes_go_both_ways_at_once() {
        let (sent, received) = talk(Exchange {
            bytes: 3_000_000,
            seed: 1,
            requests: 1,
            back_bytes: 2_000_000,
            ..Exchange::default()
        });
        assert_eq!(sent.received.bytes(), 2_000_000);
        assert_eq!(sent.received.sha256, seeded_sum(2_000_000, BACK_SEED));
        assert_eq!(received.received.sha256, seeded_sum(3_000_000, 1));
    }
}
