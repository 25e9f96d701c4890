// SPDX-License-Identifier: Apache-2.0
//! One stream of seeded bytes over QUIC. As over TCP, the receiver hashes them and records the
//! times.
//!
//! QUIC is not in the kernel. An end is a thread with a runtime of its own, and its socket was made
//! in its host's namespace. The MH's end opens the connection. The receiver closes it when it has
//! all bytes. A connection breaks only after a silence of `IDLE_LIMIT`: an outage is only a stall.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use holdfast_core::Direction;
use holdfast_net::datapath::monotonic_ns;
use holdfast_net::netns::NetNs;
use holdfast_testbed::download::{DownloadWatch, Ledger, READ_BYTES_MAX, Received};
use holdfast_testbed::seeded_file::SeededStream;
use holdfast_testbed::stop::StopFlag;
use quinn::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn::{
    Connection, ConnectionError, Endpoint, EndpointConfig, TokioRuntime, TransportConfig, VarInt,
};
use tokio::runtime;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::endpoint::FlowResult;

mod tls;

/// A connection without a packet from the other end is broken after this time (RFC 9000, 10.1).
const IDLE_LIMIT: Duration = Duration::from_secs(120);
/// The most bytes that are in flight and not read: about what the kernel allows TCP.
const WINDOW_BYTES: u32 = 8 << 20;
/// The longest time that an end waits until its close is sent.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);
/// The error code with which a complete connection is closed.
const DONE: VarInt = VarInt::from_u32(0);
/// The error code with which an incomplete connection is closed.
const CUT_SHORT: VarInt = VarInt::from_u32(1);

/// The bytes that are sent.
#[derive(Clone, Copy, Debug)]
pub struct QuicStream<'a> {
    /// The direction of the bytes.
    pub direction: Direction,
    /// Number of bytes.
    pub bytes: u64,
    /// The seed of the bytes.
    pub seed: u64,
    /// The sender's congestion control, by the kernel's name.
    pub congestion_control: &'a str,
}

/// The result of an end.
#[derive(Debug, Default)]
struct EndReport {
    received: Received,
    lost_packets: u64,
    error: Option<String>,
}

impl QuicStream<'_> {
    /// Sends the stream between two namespaces, to the FH's address `at`. It begins at `begin_ns`
    /// (CLOCK_MONOTONIC), and ends within `limit` from now. `watch` shows the bytes that arrive.
    ///
    /// # Errors
    /// There is no socket, or the flag was raised. A connection that breaks is a result.
    pub fn run(
        &self,
        [fh, mh]: [&NetNs; 2],
        at: SocketAddr,
        (begin_ns, limit): (u64, Duration),
        watch: &DownloadWatch,
        stop: &StopFlag,
    ) -> anyhow::Result<FlowResult> {
        let socket = fh.run(|| UdpSocket::bind(at))?;
        let socket = socket.with_context(|| format!("{at}: cannot be listened at"))?;
        let at = socket.local_addr()?;
        let fh = End::start(socket, None, self, watch)?;
        let socket = mh.run(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)))?;
        let socket = socket.context("QUIC: cannot open a socket")?;
        let mh = End::start(socket, Some((at, begin_ns)), self, watch)?;
        self.wait(fh, mh, limit, stop)
    }

    fn wait(
        &self,
        fh: End,
        mh: End,
        limit: Duration,
        stop: &StopFlag,
    ) -> anyhow::Result<FlowResult> {
        let (sender, receiver) = match self.direction {
            Direction::Downlink => (fh, mh),
            Direction::Uplink => (mh, fh),
        };
        let waited = stop.wait_for("the transfer ends", limit, || {
            let has_ended = receiver.thread.is_finished() || sender.thread.is_finished();
            Ok(has_ended.then_some(()))
        });
        stop.check()?;
        // A sender ends before the receiver only if its connection broke.
        let (receiver, sender) = (receiver.end()?, sender.end()?);
        Ok(FlowResult {
            received: receiver.received,
            in_time: waited.is_ok(),
            is_whole: waited.is_ok() && receiver.error.is_none() && sender.error.is_none(),
            lost_packets: Some(sender.lost_packets),
            ..FlowResult::default()
        })
    }

    fn transport(&self) -> anyhow::Result<TransportConfig> {
        let congestion: Arc<dyn ControllerFactory + Send + Sync> = match self.congestion_control {
            "cubic" => Arc::new(CubicConfig::default()),
            "bbr" => Arc::new(BbrConfig::default()),
            "reno" => Arc::new(NewRenoConfig::default()),
            other => bail!("QUIC has no congestion control {other}; takes cubic, bbr or reno"),
        };
        let mut transport = TransportConfig::default();
        transport
            .max_idle_timeout(Some(IDLE_LIMIT.try_into()?))
            .stream_receive_window(WINDOW_BYTES.into())
            .send_window(WINDOW_BYTES.into())
            .congestion_controller_factory(congestion);
        Ok(transport)
    }
}

/// A running end; dropping this ends it.
struct End {
    /// Dropping this ends the thread's work.
    go_on: oneshot::Sender<()>,
    thread: JoinHandle<EndReport>,
}

impl End {
    /// Starts an end. The FH's end listens; the MH's end opens the connection to an address at a
    /// time.
    fn start(
        socket: UdpSocket,
        opens: Option<(SocketAddr, u64)>,
        stream: &QuicStream<'_>,
        watch: &DownloadWatch,
    ) -> anyhow::Result<Self> {
        let transport = Arc::new(stream.transport()?);
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let context = runtime.enter();
        let listening = match opens {
            None => Some(tls::listening(Arc::clone(&transport))?),
            Some(_) => None,
        };
        let config = EndpointConfig::default();
        let mut endpoint = Endpoint::new(config, listening, socket, Arc::new(TokioRuntime))?;
        endpoint.set_default_client_config(tls::connecting(transport)?);
        drop(context);
        let sends = opens.is_none() == (stream.direction == Direction::Downlink);
        let work = Work {
            endpoint,
            opens,
            sends: sends.then_some((stream.bytes, stream.seed)),
            watch: watch.clone(),
            ledger: Ledger::default(),
            connection: None,
        };
        let (go_on, over) = oneshot::channel();
        let thread = thread::spawn(move || runtime.block_on(work.run(over)));
        Ok(Self { go_on, thread })
    }

    /// Ends the end if it has not ended by itself, and returns its report.
    fn end(self) -> anyhow::Result<EndReport> {
        drop(self.go_on);
        let joined = self.thread.join();
        joined.map_err(|_| anyhow!("the thread of a QUIC end panicked"))
    }
}

/// The work of an end's thread.
struct Work {
    endpoint: Endpoint,
    opens: Option<(SocketAddr, u64)>,
    /// Number of bytes and seed, at the end that sends.
    sends: Option<(u64, u64)>,
    watch: DownloadWatch,
    ledger: Ledger,
    connection: Option<Connection>,
}

impl Work {
    /// Works until the exchange is over, or until the sender of `over` is dropped.
    async fn run(mut self, over: oneshot::Receiver<()>) -> EndReport {
        let ended = tokio::select! {
            biased;
            ended = self.exchange() => match ended {
                Err(error) if is_closed_well(&error) => Ok(()),
                ended => ended,
            },
            _ = over => Err(anyhow!("the time was over")),
        };
        let code = if ended.is_ok() { DONE } else { CUT_SHORT };
        self.endpoint.close(code, b"");
        // If this times out, the other end detects the end of the connection by itself.
        let _ = timeout(CLOSE_LIMIT, self.endpoint.wait_idle()).await;
        let lost = |connection: &Connection| connection.stats().path.lost_packets;
        EndReport {
            received: self.ledger.finish(),
            lost_packets: self.connection.as_ref().map_or(0, lost),
            error: ended.err().map(|error| format!("{error:#}")),
        }
    }

    async fn exchange(&mut self) -> anyhow::Result<()> {
        let connection = self.open().await?;
        self.connection = Some(connection.clone());
        let Some((bytes, seed)) = self.sends else {
            return self.receive(&connection).await;
        };
        let mut stream = connection.open_uni().await?;
        let mut content = SeededStream::new(bytes, seed);
        while let Some(chunk) = content.next_chunk() {
            stream.write_all(chunk).await?;
            // The window has room for many chunks at once. Yielding sends the first packets before
            // the last chunks.
            tokio::task::yield_now().await;
        }
        stream.finish()?;
        stream.stopped().await?;
        connection.closed().await;
        Ok(())
    }

    async fn open(&self) -> anyhow::Result<Connection> {
        let Some((to, begin_ns)) = self.opens else {
            let incoming = self.endpoint.accept().await;
            return Ok(incoming.context("the endpoint is closed")?.await?);
        };
        let left_ns = begin_ns.saturating_sub(monotonic_ns());
        sleep(Duration::from_nanos(left_ns)).await;
        Ok(self.endpoint.connect(to, tls::NAME)?.await?)
    }

    async fn receive(&mut self, connection: &Connection) -> anyhow::Result<()> {
        let mut stream = connection.accept_uni().await?;
        let mut buffer = vec![0; READ_BYTES_MAX];
        while let Some(len) = stream.read(&mut buffer).await? {
            self.ledger.enter(&buffer[..len]);
            self.watch.show(&self.ledger);
        }
        Ok(())
    }
}

/// Whether the other end has closed the connection after its work.
fn is_closed_well(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        matches!(
            cause.downcast_ref(),
            Some(ConnectionError::ApplicationClosed(close)) if close.error_code == DONE
        )
    })
}

#[cfg(test)]
mod tests;
