// SPDX-License-Identifier: Apache-2.0
//! For tests with real sockets: a topology, a gateway in it that can be killed
//! and started again, and streams of seeded bytes.
//!
//! A socket belongs to the namespace in which it was made, whichever thread
//! uses it: tests hold the sockets of all three hosts side by side.

use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context as _, anyhow, ensure};
use holdfast_net::netns::{NetNs, available_or_skip};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use sha2::{Digest as _, Sha256};

use crate::daemons::{Daemon, GatewayOptions};
use crate::download::{DownloadWatch, Received, receive};
use crate::scratch::Scratch;
use crate::seeded_file::{SeededStream, Sha256Sum};
use crate::stop::StopFlag;
use crate::topology::{Topology, TopologySettings};

/// No socket waits longer than this: a test fails rather than hangs.
pub const SOCKET_LIMIT: Duration = Duration::from_secs(30);

/// A topology with or without a gateway, and the gateway's files.
#[derive(Debug)]
pub struct Harness {
    /// The running gateway, if there is one.
    pub gateway: Option<Daemon>,
    /// The namespaces.
    pub topology: Topology,
    folder: Scratch,
    options: GatewayOptions,
    stop: StopFlag,
}

impl Harness {
    /// Builds the topology and starts a gateway with `scheme`; none: plain
    /// forwarding. Returns none, and prints a line, if `test` cannot run here
    /// ([`available_or_skip`]).
    pub fn new(
        test: &str,
        settings: &TopologySettings,
        scheme: Option<&str>,
    ) -> anyhow::Result<Option<Self>> {
        if !available_or_skip(test) {
            return Ok(None);
        }
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
        };
        if scheme.is_some() {
            harness.start_gateway()?;
        }
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

    /// The scheme of gateways that are started from now on.
    pub fn set_gateway_scheme(&mut self, scheme: &str) {
        scheme.clone_into(&mut self.options.scheme);
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

    /// SIGTERM; an error if the gateway does not end with status 0.
    pub fn stop_gateway(&mut self) -> anyhow::Result<()> {
        self.gateway.take().context("no gateway runs")?.stop()
    }

    /// The test's own folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// Writes an executable file. A child writes it: another test's child would inherit a descriptor of this
/// process, and until it executes its program the file could not be executed ("Text file busy").
pub fn write_script(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "cat > \"$0\" && chmod 755 \"$0\""])
        .arg(path);
    let mut shell = shell.stdin(Stdio::piped()).spawn()?;
    let mut input = shell.stdin.take().context("no standard input")?;
    input.write_all(text.as_bytes())?;
    drop(input);
    let status = shell.wait()?;
    ensure!(status.success(), "{}: {status}", path.display());
    Ok(())
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

/// A pipe that takes no byte more, and its other end, which is not read.
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
pub fn send_seeded(stream: &TcpStream, bytes: u64, seed: u64) -> io::Result<Sha256Sum> {
    Ok(send_seeded_while(stream, bytes, seed, || true)?.1)
}

/// The same while `goes_on` is true; returns how many bytes it has sent, and their SHA-256.
fn send_seeded_while(
    mut stream: &TcpStream,
    bytes_max: u64,
    seed: u64,
    goes_on: impl Fn() -> bool,
) -> io::Result<(u64, Sha256Sum)> {
    let mut content = SeededStream::new(bytes_max, seed);
    let (mut bytes, mut hash) = (0, Sha256::new());
    while goes_on()
        && let Some(chunk) = content.next_chunk()
    {
        hash.update(chunk);
        stream.write_all(chunk)?;
        bytes += chunk.len() as u64;
    }
    stream.shutdown(Shutdown::Write)?;
    Ok((bytes, hash.finalize().into()))
}

/// Reads bytes that [`send_seeded`] sent until the stream ends or breaks: how many
/// came, and how it ended (`InvalidData`: with other bytes than those of `seed`).
pub fn receive_seeded(mut stream: &TcpStream, seed: u64) -> (u64, io::Result<()>) {
    let mut content = SeededStream::new(u64::MAX, seed);
    let (mut bytes, mut buffer) = (0, Vec::new());
    while let Some(expected) = content.next_chunk() {
        let mut left = expected;
        buffer.resize(expected.len(), 0);
        while !left.is_empty() {
            let len = match stream.read(&mut buffer[..left.len()]) {
                Ok(0) => return (bytes, Ok(())),
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return (bytes, Err(error)),
            };
            if buffer[..len] != left[..len] {
                return (bytes, Err(io::ErrorKind::InvalidData.into()));
            }
            bytes += len as u64;
            left = &left[len..];
        }
    }
    (bytes, Ok(()))
}

/// A stream of seeded bytes, sent and received by two threads of its own.
#[derive(Debug)]
pub struct Flow {
    sender: JoinHandle<io::Result<(u64, Sha256Sum)>>,
    receiver: JoinHandle<Received>,
    watch: DownloadWatch,
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
        let send = move || send_seeded_while(&from, bytes, seed, || true);
        Self::start_with(send, to, watch)
    }

    /// Sends bytes of `seed` until the flag is raised: so the flow goes on until its test has seen what it
    /// waits for.
    pub fn start_until(stop: &StopFlag, from: TcpStream, to: TcpStream, seed: u64) -> Self {
        let stop = stop.clone();
        let send = move || send_seeded_while(&from, u64::MAX, seed, || !stop.is_raised());
        Self::start_with(send, to, &DownloadWatch::default())
    }

    fn start_with(
        send: impl FnOnce() -> io::Result<(u64, Sha256Sum)> + Send + 'static,
        to: TcpStream,
        watch: &DownloadWatch,
    ) -> Self {
        let receiver_watch = watch.clone();
        Self {
            sender: thread::spawn(send),
            receiver: thread::spawn(move || receive(&to, &receiver_watch)),
            watch: watch.clone(),
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

    /// Waits for the end. Returns what arrived, and an error if that is not all that was sent.
    pub fn end(self) -> anyhow::Result<(Received, anyhow::Result<()>)> {
        let received = self
            .receiver
            .join()
            .map_err(|_| anyhow!("the receiver's thread failed"))?;
        let sent = self
            .sender
            .join()
            .map_err(|_| anyhow!("the sender's thread failed"))?;
        let arrived = received.bytes();
        let outcome = match sent {
            Err(error) => Err(anyhow!(error).context(format!(
                "the sender's connection broke; {arrived} bytes arrived"
            ))),
            Ok(sent) if sent == (arrived, received.sha256) => Ok(()),
            Ok((bytes, _)) if bytes == arrived => Err(anyhow!(
                "{arrived} of {bytes} bytes arrived, and they are others"
            )),
            Ok((bytes, _)) => Err(anyhow!("{arrived} of {bytes} bytes arrived")),
        };
        Ok((received, outcome))
    }
}
