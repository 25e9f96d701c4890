// SPDX-License-Identifier: Apache-2.0
//! For tests with real sockets: a topology, a gateway in it that can be killed
//! and started again, and streams of seeded bytes.
//!
//! A socket belongs to the namespace in which it was made, whichever thread
//! uses it: tests hold the sockets of all three hosts side by side.

use std::fs;
use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use holdfast_net::netns::{NetNs, available_or_skip};
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore as _, SeedableRng as _};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use sha2::{Digest as _, Sha256};

use crate::daemons::{Daemon, GatewayOptions};
use crate::download::{DownloadWatch, Received, receive};
use crate::punctuality;
use crate::scratch::Scratch;
use crate::seeded_file::Sha256Sum;
use crate::stop::StopFlag;
use crate::topology::{Topology, TopologySettings};

/// No socket waits longer than this: a test fails rather than hangs.
pub const SOCKET_LIMIT: Duration = Duration::from_secs(30);

/// Bytes written at a time.
const CHUNK_BYTES: usize = 1 << 16;

/// The thread that made the harness that there is: of one process one at a time. With more, what
/// they measure is how busy the machine is; with two, a test on two slow processors failed now and
/// then.
static HARNESS_OF: Mutex<Option<ThreadId>> = Mutex::new(None);
static HARNESS_ENDED: Condvar = Condvar::new();

/// The right to have a harness.
#[derive(Debug)]
struct Permit;

impl Permit {
    /// Waits for its turn.
    ///
    /// # Panics
    /// The same thread has a harness: it would wait for itself.
    fn take() -> Self {
        let own = thread::current().id();
        let held = HARNESS_OF.lock().unwrap_or_else(PoisonError::into_inner);
        assert_ne!(*held, Some(own), "this thread has a harness already");
        let held = HARNESS_ENDED.wait_while(held, |held| held.is_some());
        *held.unwrap_or_else(PoisonError::into_inner) = Some(own);
        Self
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        punctuality::measurement_ends();
        *HARNESS_OF.lock().unwrap_or_else(PoisonError::into_inner) = None;
        HARNESS_ENDED.notify_one();
    }
}

/// A topology with or without a gateway, and the gateway's files. Of one process
/// one exists; another waits.
#[derive(Debug)]
pub struct Harness {
    /// The running gateway, if there is one.
    pub gateway: Option<Daemon>,
    /// The namespaces.
    pub topology: Topology,
    folder: Scratch,
    options: GatewayOptions,
    stop: StopFlag,
    // The last to go.
    _permit: Permit,
}

impl Harness {
    /// Builds the topology and starts a gateway with `scheme`; none: plain
    /// forwarding. None, and a loud line, where `test` cannot run
    /// ([`available_or_skip`]).
    pub fn new(
        test: &str,
        settings: &TopologySettings,
        scheme: Option<&str>,
    ) -> anyhow::Result<Option<Self>> {
        if !available_or_skip(test) {
            return Ok(None);
        }
        let permit = Permit::take();
        let topology = Topology::build(settings)?;
        let folder = Scratch::new("holdfast-test-")?;
        let options = GatewayOptions {
            holdfast: settings.holdfast.clone(),
            scheme: scheme.unwrap_or("hold").to_owned(),
            mobile_key: None,
            settings: String::new(),
            station: None,
        };
        let stop = StopFlag::default();
        let mut harness = Self {
            gateway: None,
            topology,
            folder,
            options,
            stop,
            _permit: permit,
        };
        if scheme.is_some() {
            harness.start_gateway()?;
        }
        punctuality::measurement_begins();
        Ok(Some(harness))
    }

    /// Starts the gateway, or its successor with the same files.
    pub fn start_gateway(&mut self) -> anyhow::Result<()> {
        let folder = self.folder.path();
        let daemon = Daemon::start_gateway(&self.topology, &self.options, folder, &self.stop)?;
        self.gateway = Some(daemon);
        Ok(())
    }

    /// More lines for the `[gateway]` section of the settings of gateways that are
    /// started from now on.
    pub fn set_gateway_settings(&mut self, lines: &str) {
        lines.clone_into(&mut self.options.settings);
    }

    /// `kill -9`.
    pub fn kill_gateway(&mut self) -> anyhow::Result<()> {
        let mut gateway = self.gateway.take().context("no gateway runs")?;
        gateway.child.kill()?;
        Ok(())
    }

    /// Sends the gateway a signal.
    pub fn signal_gateway(&mut self, signal: i32) -> anyhow::Result<()> {
        Ok(self
            .gateway
            .as_mut()
            .context("no gateway runs")?
            .child
            .signal(signal)?)
    }

    /// SIGTERM; an error if it does not end well.
    pub fn stop_gateway(&mut self) -> anyhow::Result<()> {
        self.gateway.take().context("no gateway runs")?.stop()
    }

    /// The test's own folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A folder in it for `name`.
    pub fn make_folder(&self, name: &str) -> anyhow::Result<PathBuf> {
        let path = self.folder.path().join(name);
        fs::create_dir(&path)?;
        Ok(path)
    }
}

/// A listener of `ns`.
pub fn listen(ns: &NetNs, address: IpAddr, port: u16) -> anyhow::Result<TcpListener> {
    ns.run(|| TcpListener::bind((address, port)))?
        .with_context(|| format!("cannot listen on {address} port {port}"))
}

/// A connection from `ns`, with limits on all that it waits for.
pub fn connect(ns: &NetNs, address: IpAddr, port: u16) -> io::Result<TcpStream> {
    let address = SocketAddr::new(address, port);
    let stream = ns.run(|| TcpStream::connect_timeout(&address, SOCKET_LIMIT))??;
    limit(&stream)?;
    Ok(stream)
}

/// Accepts one connection, with limits on all that it waits for. The listener
/// itself waits for as long as it takes.
pub fn accept(listener: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
    let (stream, from) = listener.accept()?;
    limit(&stream)?;
    Ok((stream, from))
}

fn limit(stream: &TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(SOCKET_LIMIT))?;
    stream.set_write_timeout(Some(SOCKET_LIMIT))
}

/// A pipe that takes no byte more, and its other end, which nobody reads.
pub fn full_pipe() -> io::Result<(PipeReader, PipeWriter)> {
    let (reader, mut writer) = io::pipe()?;
    let flags = fcntl_getfl(&writer)?;
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK)?;
    loop {
        match writer.write(b"\n") {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    fcntl_setfl(&writer, flags)?;
    Ok((reader, writer))
}

/// Sends `bytes` seeded bytes and then FIN; returns their SHA-256.
pub fn send_seeded(mut stream: &TcpStream, bytes: u64, seed: u64) -> io::Result<Sha256Sum> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut hash = Sha256::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut left = bytes;
    while left > 0 {
        let part = &mut chunk[..left.min(CHUNK_BYTES as u64) as usize];
        rng.fill_bytes(part);
        hash.update(&*part);
        stream.write_all(part)?;
        left -= part.len() as u64;
    }
    stream.shutdown(Shutdown::Write)?;
    Ok(hash.finalize().into())
}

/// Reads bytes that [`send_seeded`] sent until the stream ends or breaks: how many
/// came, and how it ended (`InvalidData`: with other bytes than those of `seed`).
pub fn receive_seeded(mut stream: &TcpStream, seed: u64) -> (u64, io::Result<()>) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut expected = vec![0; CHUNK_BYTES];
    let mut buffer = vec![0; CHUNK_BYTES];
    let (mut bytes, mut made) = (0, 0);
    loop {
        let at = (bytes % CHUNK_BYTES as u64) as usize;
        if bytes == made {
            rng.fill_bytes(&mut expected);
            made += CHUNK_BYTES as u64;
        }
        let len = match stream.read(&mut buffer[at..]) {
            Ok(0) => return (bytes, Ok(())),
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return (bytes, Err(error)),
        };
        if buffer[at..at + len] != expected[at..at + len] {
            return (bytes, Err(io::ErrorKind::InvalidData.into()));
        }
        bytes += len as u64;
    }
}

/// A stream of seeded bytes on its way, by two threads of its own.
#[derive(Debug)]
pub struct Flow {
    sender: JoinHandle<io::Result<Sha256Sum>>,
    receiver: JoinHandle<Received>,
    watch: DownloadWatch,
    bytes: u64,
}

impl Flow {
    /// Sends `bytes` bytes of `seed` from the one socket to the other.
    pub fn start(from: TcpStream, to: TcpStream, bytes: u64, seed: u64) -> Self {
        Self::start_watched(from, to, bytes, seed, &DownloadWatch::default())
    }

    /// The same, and `watch` shows what arrives.
    pub fn start_watched(
        from: TcpStream,
        to: TcpStream,
        bytes: u64,
        seed: u64,
        watch: &DownloadWatch,
    ) -> Self {
        let receiver_watch = watch.clone();
        Self {
            sender: thread::spawn(move || send_seeded(&from, bytes, seed)),
            receiver: thread::spawn(move || receive(&to, &receiver_watch)),
            watch: watch.clone(),
            bytes,
        }
    }

    /// Whether the receiver has all, or its connection has broken.
    pub fn is_finished(&self) -> bool {
        self.receiver.is_finished()
    }

    /// Waits until this many bytes have arrived.
    pub fn wait_bytes(&self, bytes: u64) -> anyhow::Result<()> {
        StopFlag::default().wait_for(&format!("{bytes} bytes arrive"), SOCKET_LIMIT, || {
            Ok((self.watch.bytes() >= bytes).then_some(()))
        })
    }

    /// What can be seen while it runs.
    pub fn watch(&self) -> &DownloadWatch {
        &self.watch
    }

    /// Waits for the end; an error if the bytes that arrived are not the ones
    /// that were sent, or a socket failed.
    pub fn finish(self) -> anyhow::Result<Received> {
        let (received, outcome) = self.end()?;
        outcome?;
        Ok(received)
    }

    /// Waits for the end: what arrived, and an error if it is not all that was sent.
    pub fn end(self) -> anyhow::Result<(Received, anyhow::Result<()>)> {
        let received = self
            .receiver
            .join()
            .map_err(|_| anyhow!("the receiver's thread failed"))?;
        let sent = self
            .sender
            .join()
            .map_err(|_| anyhow!("the sender's thread failed"))?;
        let (bytes, arrived) = (self.bytes, received.bytes());
        let outcome = match sent {
            Err(error) => Err(anyhow!(error).context(format!(
                "the sender's connection broke; {arrived} of {bytes} bytes arrived"
            ))),
            Ok(sent) if arrived == bytes && received.sha256 == sent => Ok(()),
            Ok(_) if arrived == bytes => Err(anyhow!(
                "{arrived} of {bytes} bytes arrived, and they are others"
            )),
            Ok(_) => Err(anyhow!("{arrived} of {bytes} bytes arrived")),
        };
        Ok((received, outcome))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_second_harness_waits_for_its_turn_and_a_threads_own_second_is_an_error() {
        let first = Permit::take();
        let own = std::panic::catch_unwind(Permit::take);
        assert!(own.is_err());
        let (told, has) = mpsc::channel();
        let other = thread::spawn(move || {
            let permit = Permit::take();
            told.send(()).unwrap();
            permit
        });
        assert!(has.recv_timeout(Duration::from_millis(100)).is_err());
        let holder = *HARNESS_OF.lock().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(holder, Some(thread::current().id()));
        drop(first);
        has.recv_timeout(SOCKET_LIMIT).unwrap();
        drop(other.join().unwrap());
        drop(Permit::take());
    }
}
