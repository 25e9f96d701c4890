// SPDX-License-Identifier: Apache-2.0
//! HTTP for a daemon's pages: a thread of its own, which reads the status as any caller of the
//! control socket does. What HTTP clients do slows no packet and no signal.
//!
//! Each connection has one request and a limited time. When all slots are taken and a further
//! connection comes, the oldest one is closed.

use std::collections::VecDeque;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use axum::Router;
use axum::serve::Listener;
use holdfast_settings::text::Listen;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::control::{ControlListener, ControlReply, ControlRequest, ask_exactly};

/// The limit of connections.
const CONNECTIONS_MAX: usize = 32;
/// The longest time for a request and its answer.
const CONNECTION_LIFE: Duration = Duration::from_secs(10);
/// The longest time for the head of a request.
const HEAD_WAIT: Duration = Duration::from_secs(5);
/// The largest head of a request, bytes.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// A status is used for this time: however many ask, the daemon answers seldom.
const STATUS_LIFE: Duration = Duration::from_millis(500);

/// A server that runs as long as the process. Its socket file goes with this.
#[derive(Debug)]
pub(crate) struct HttpServer {
    _socket: Option<ControlListener>,
}

impl HttpServer {
    /// Serves `router` at `listen`, which `key` of the settings has named.
    ///
    /// Errors: one line; it cannot listen there.
    pub(crate) fn start(listen: &Listen, key: &str, router: Router) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(1)
            .build()?;
        let context = runtime.enter();
        let (serving, socket): (Serving, _) = match listen {
            Listen::Tcp(address) => {
                let listener = TcpListener::bind(address).with_context(|| {
                    format!("{address}: cannot listen there; name another with {key}")
                })?;
                listener.set_nonblocking(true)?;
                let listener = tokio::net::TcpListener::from_std(listener)?;
                (Box::pin(serve(listener, router)), None)
            }
            Listen::Unix(path) => {
                let socket = ControlListener::bind(Path::new(path), key)?;
                let listener = tokio::net::UnixListener::from_std(socket.try_clone()?)?;
                (Box::pin(serve(listener, router)), Some(socket))
            }
        };
        drop(context);
        std::thread::Builder::new()
            .name("http".into())
            .spawn(move || runtime.block_on(serving))?;
        Ok(Self { _socket: socket })
    }
}

type Serving = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

async fn serve<L: Listener>(mut listener: L, router: Router) {
    let mut connections: VecDeque<tokio::task::AbortHandle> = VecDeque::new();
    loop {
        let (stream, _) = listener.accept().await;
        connections.retain(|connection| !connection.is_finished());
        if connections.len() >= CONNECTIONS_MAX
            && let Some(oldest) = connections.pop_front()
        {
            oldest.abort();
        }
        let answering = tokio::spawn(answer(stream, router.clone()));
        connections.push_back(answering.abort_handle());
    }
}

async fn answer<S>(stream: S, router: Router)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WAIT)
        .max_buf_size(HEAD_BYTES_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    match timeout(CONNECTION_LIFE, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "http"),
        Err(_) => tracing::debug!("http: a connection took too long"),
    }
}

/// A status and when it was read.
type Read = Option<(Instant, Arc<ControlReply>)>;

/// The status of the daemon with this control socket, for pages.
#[derive(Clone, Debug)]
pub(crate) struct DaemonStatus {
    socket: PathBuf,
    request: ControlRequest,
    last: Arc<Mutex<Read>>,
}

impl DaemonStatus {
    /// `request` is a [`ControlRequest::Status`].
    pub(crate) fn new(socket: PathBuf, request: ControlRequest) -> Self {
        Self {
            socket,
            request,
            last: Arc::default(),
        }
    }

    /// What the daemon sees, or has seen a moment ago.
    ///
    /// Errors: it does not answer.
    pub(crate) async fn read(&self) -> anyhow::Result<Arc<ControlReply>> {
        // Whoever asks meanwhile waits, and gets the same answer.
        let mut last = self.last.lock().await;
        if let Some((at, status)) = &*last
            && at.elapsed() < STATUS_LIFE
        {
            return Ok(Arc::clone(status));
        }
        let (socket, request) = (self.socket.clone(), self.request.clone());
        let asked = tokio::task::spawn_blocking(move || ask_exactly(&socket, &request));
        let status = Arc::new(asked.await??);
        *last = Some((Instant::now(), Arc::clone(&status)));
        Ok(status)
    }
}
