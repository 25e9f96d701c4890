// SPDX-License-Identifier: Apache-2.0
//! One end of a QUIC transfer: a thread with a runtime, an endpoint of quinn, and the one
//! connection that it has.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use holdfast_core::Side;
use holdfast_net::datapath::monotonic_ns;
use holdfast_net::netns::NetNs;
use holdfast_testbed::download::{DownloadWatch, Ledger, READ_BYTES_MAX};
use holdfast_testbed::seeded_file::SeededStream;
use quinn::{
    Connection, ConnectionError, Endpoint, EndpointConfig, ReadError, SendStream, TokioRuntime,
    VarInt, WriteError,
};
use tokio::runtime;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::{QuicCounts, QuicExchange, QuicReport, tls};

/// How long an end stays to say that it has closed.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);
/// What ends a connection, or a stream, that has done what it was to do.
const WELL: VarInt = VarInt::from_u32(0);
/// What ends one that has not.
const CUT_SHORT: VarInt = VarInt::from_u32(1);

/// How an end comes to its connection.
#[derive(Clone, Copy, Debug)]
pub(super) enum Opening {
    /// It takes the first that comes.
    Listen,
    /// It opens one to this address at that time, CLOCK_MONOTONIC.
    Connect { to: SocketAddr, begin_ns: u64 },
}

impl Opening {
    const fn side(self) -> Side {
        match self {
            Self::Listen => Side::Fh,
            Self::Connect { .. } => Side::Mh,
        }
    }
}

/// A running end; ended when dropped.
#[derive(Debug)]
pub struct QuicEnd {
    address: SocketAddr,
    /// Open as long as it is to go on.
    go_on: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<QuicReport>>,
}

impl QuicEnd {
    /// The FH's: waits in `ns` at this address; with port 0 at one that is free. `watch` shows
    /// what arrives, if it is the receiver.
    pub fn listen(
        ns: &NetNs,
        at: SocketAddr,
        exchange: &QuicExchange,
        watch: &DownloadWatch,
    ) -> anyhow::Result<Self> {
        let socket = ns.run(|| UdpSocket::bind(at))?;
        let socket = socket.with_context(|| format!("{at}: cannot be listened at"))?;
        Self::start(socket, Opening::Listen, exchange, watch)
    }

    /// The MH's: opens the connection to this address at `begin_ns`, CLOCK_MONOTONIC.
    pub fn connect(
        ns: &NetNs,
        to: SocketAddr,
        begin_ns: u64,
        exchange: &QuicExchange,
        watch: &DownloadWatch,
    ) -> anyhow::Result<Self> {
        let any: IpAddr = match to {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = ns.run(|| UdpSocket::bind((any, 0)))?;
        let socket = socket.context("QUIC: cannot open a socket")?;
        Self::start(socket, Opening::Connect { to, begin_ns }, exchange, watch)
    }

    pub(super) fn start(
        socket: UdpSocket,
        opening: Opening,
        exchange: &QuicExchange,
        watch: &DownloadWatch,
    ) -> anyhow::Result<Self> {
        let address = socket.local_addr()?;
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let transport = Arc::new(exchange.transport()?);
        let endpoint = {
            let _context = runtime.enter();
            let listening = match opening {
                Opening::Listen => Some(tls::listening(Arc::clone(&transport))?),
                Opening::Connect { .. } => None,
            };
            let config = EndpointConfig::default();
            let mut endpoint = Endpoint::new(config, listening, socket, Arc::new(TokioRuntime))?;
            endpoint.set_default_client_config(tls::connecting(transport)?);
            endpoint
        };
        let work = Work {
            endpoint,
            opening,
            exchange: *exchange,
            watch: watch.clone(),
            ledger: Ledger::default(),
            sent_bytes: 0,
            connection: None,
            stream: None,
        };
        let (go_on, over) = oneshot::channel();
        let thread = thread::Builder::new().name("quic".to_owned());
        Ok(Self {
            address,
            go_on: Some(go_on),
            thread: Some(thread.spawn(move || runtime.block_on(work.run(over)))?),
        })
    }

    /// The address of its socket.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether its connection has ended, well or not.
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for its end; what has become of it.
    pub fn finish(mut self) -> anyhow::Result<QuicReport> {
        let thread = self.thread.take().context("it has ended already")?;
        thread
            .join()
            .map_err(|_| anyhow!("the thread of a QUIC end is broken"))
    }

    /// Ends it, if it has not ended by itself; what has become of it until now.
    pub fn end(mut self) -> anyhow::Result<QuicReport> {
        self.go_on = None;
        self.finish()
    }
}

impl Drop for QuicEnd {
    fn drop(&mut self) {
        self.go_on = None;
        if let Some(thread) = self.thread.take() {
            // What broke it was to be had by `finish`.
            let _ = thread.join();
        }
    }
}

/// What an end's thread has.
struct Work {
    endpoint: Endpoint,
    opening: Opening,
    exchange: QuicExchange,
    watch: DownloadWatch,
    ledger: Ledger,
    sent_bytes: u64,
    connection: Option<Connection>,
    /// Of an end that sends.
    stream: Option<SendStream>,
}

impl Work {
    /// Does it until it is done, or nobody holds the other end of `over`.
    async fn run(mut self, over: oneshot::Receiver<()>) -> QuicReport {
        let ended = tokio::select! {
            // What is done is done, even if it was to be ended.
            biased;
            ended = self.exchange() => Some(ended),
            _ = over => None,
        };
        let well = match &ended {
            Some(ended) => ended.is_ok(),
            None => self.exchange.bytes.is_none(),
        };
        let code = if well { WELL } else { CUT_SHORT };
        if ended.is_none() {
            self.reset(code).await;
        }
        self.endpoint.close(code, b"");
        // Not in time: the other end finds out by itself.
        let _ = timeout(CLOSE_LIMIT, self.endpoint.wait_idle()).await;
        let error = match (ended, &self.connection) {
            (Some(Err(error)), _) => Some(format!("{error:#}")),
            (None, None) => Some("there was no connection".to_owned()),
            (Some(Ok(())), _) | (None, Some(_)) => None,
        };
        QuicReport {
            received: self.ledger.finish(),
            sent_bytes: self.sent_bytes,
            counts: self
                .connection
                .as_ref()
                .map(QuicCounts::of)
                .unwrap_or_default(),
            error,
        }
    }

    async fn exchange(&mut self) -> anyhow::Result<()> {
        let connection = self.open().await?;
        self.connection = Some(connection.clone());
        let ended = if self.opening.side() == self.exchange.direction.sender() {
            self.send(&connection).await
        } else {
            self.receive(&connection).await
        };
        match ended {
            Err(error) if is_closed_well(&error) => Ok(()),
            ended => ended,
        }
    }

    async fn open(&self) -> anyhow::Result<Connection> {
        Ok(match self.opening {
            Opening::Listen => {
                let incoming = self.endpoint.accept().await;
                incoming.context("the endpoint is closed")?.await?
            }
            Opening::Connect { to, begin_ns } => {
                let left_ns = begin_ns.saturating_sub(monotonic_ns());
                sleep(Duration::from_nanos(left_ns)).await;
                self.endpoint.connect(to, tls::NAME)?.await?
            }
        })
    }

    /// Ends a stream that is not sent whole, and waits for the other end to close: a close of
    /// ours would not be sent while the congestion window is full (quinn's issue 2785).
    async fn reset(&mut self, code: VarInt) {
        let (Some(stream), Some(connection)) = (&mut self.stream, &self.connection) else {
            return;
        };
        // An error: it is at its end already.
        let _ = stream.reset(code);
        // Not in time: perhaps the link is down.
        let _ = timeout(CLOSE_LIMIT, connection.closed()).await;
    }

    /// Sends all, and waits for the other end to close.
    async fn send(&mut self, connection: &Connection) -> anyhow::Result<()> {
        let stream = self.stream.insert(connection.open_uni().await?);
        let bytes = self.exchange.bytes.unwrap_or(u64::MAX);
        let mut content = SeededStream::new(bytes, self.exchange.seed);
        while let Some(chunk) = content.next_chunk() {
            match stream.write_all(chunk).await {
                Err(WriteError::Stopped(_)) => return self.unwanted(),
                written => written?,
            }
            self.sent_bytes += chunk.len() as u64;
            // The window takes many at once: the first one's packets do not wait for the last.
            tokio::task::yield_now().await;
        }
        stream.finish()?;
        match stream.stopped().await? {
            // All is acknowledged; whatever happens to the connection now, that stays.
            None => {
                connection.closed().await;
                Ok(())
            }
            Some(_) => self.unwanted(),
        }
    }

    /// A receiver that is ended stops the stream, perhaps before it closes.
    fn unwanted(&self) -> anyhow::Result<()> {
        let endless = self.exchange.bytes.is_none();
        ensure!(endless, "the receiver wants no more");
        Ok(())
    }

    /// Takes everything until the stream ends.
    async fn receive(&mut self, connection: &Connection) -> anyhow::Result<()> {
        let mut stream = connection.accept_uni().await?;
        let mut buffer = vec![0; READ_BYTES_MAX];
        loop {
            match stream.read(&mut buffer).await {
                Ok(Some(len)) => {
                    self.ledger.enter(&buffer[..len]);
                    self.watch.show(&self.ledger);
                }
                Ok(None) | Err(ReadError::Reset(WELL)) => return Ok(()),
                Err(ReadError::Reset(_)) => bail!("the sender has broken off"),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Whether it means that the other end has closed as it should.
fn is_closed_well(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        matches!(
            cause.downcast_ref(),
            Some(ConnectionError::ApplicationClosed(close)) if close.error_code == WELL
        )
    })
}
