// SPDX-License-Identifier: Apache-2.0
//! HTTP for a daemon's pages: a thread of its own, which reads the status at the control socket as
//! `holdfast status` does. What HTTP clients do slows no packet and no signal.
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
/// The longest time for a request and its answer. Longer than a test waits: what ends by it there is
/// not what the test is about.
const CONNECTION_LIFE: Duration = Duration::from_secs(if cfg!(test) { 3600 } else { 10 });
/// The longest time for the head of a request.
const HEAD_WAIT: Duration = Duration::from_secs(if cfg!(test) { 3600 } else { 5 });
/// The largest head of a request, bytes.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// A status is used for this time: the daemon answers seldom, whatever the number of requests.
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

/// The last reading, and when it ended. An error is its text.
type Read = Option<(Instant, Result<Arc<ControlReply>, String>)>;

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

    /// What the daemon sees, or saw a moment before.
    ///
    /// Errors: it does not answer.
    pub(crate) async fn read(&self) -> anyhow::Result<Arc<ControlReply>> {
        let status = self.clone();
        // A task of its own: a connection that is closed early leaves its result to others.
        let reading = tokio::spawn(async move { status.read_in_turn().await });
        reading.await?.map_err(anyhow::Error::msg)
    }

    /// Requests that arrive during a reading wait, and get the same answer.
    async fn read_in_turn(&self) -> Result<Arc<ControlReply>, String> {
        let mut last = self.last.lock().await;
        if let Some((at, read)) = &*last
            && at.elapsed() < STATUS_LIFE
        {
            return read.clone();
        }
        let (socket, request) = (self.socket.clone(), self.request.clone());
        let reading = tokio::task::spawn_blocking(move || ask_exactly(&socket, &request)).await;
        let read = match reading {
            Ok(Ok(reply)) => Ok(Arc::new(reply)),
            Ok(Err(error)) => Err(format!("{error:#}")),
            Err(error) => Err(error.to_string()),
        };
        *last = Some((Instant::now(), read.clone()));
        read
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;

    use axum::routing::get;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);
    const REQUEST: &[u8] = b"GET /small HTTP/1.1\r\nhost: a\r\n\r\n";
    /// More than socket buffers hold.
    const LARGE: usize = 4 << 20;

    /// A server with a small page and a large one.
    fn serving(work: impl FnOnce(&Path)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let router = Router::new()
            .route("/small", get(async || "small"))
            .route("/large", get(async || "x".repeat(LARGE)));
        let listen = Listen::Unix(path.to_str().unwrap().to_owned());
        let server = HttpServer::start(&listen, "metrics.listen", router).unwrap();
        work(&path);
        drop(server);
        assert!(!path.exists(), "the socket file goes with the server");
    }

    fn connect(path: &Path) -> UnixStream {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.set_write_timeout(Some(LIMIT)).unwrap();
        stream
    }

    /// All that the server answers.
    fn ask(path: &Path, request: &[u8]) -> String {
        let mut stream = connect(path);
        // The server may refuse before it has read everything.
        let _ = stream.write_all(request);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn assert_serves(path: &Path) {
        let answer = ask(path, REQUEST);
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        assert!(answer.ends_with("small"), "{answer}");
    }

    #[test]
    fn silent_connections_prevent_no_answer() {
        serving(|path| {
            let mut silent: Vec<_> = (0..3 * CONNECTIONS_MAX).map(|_| connect(path)).collect();
            for stream in &mut silent[CONNECTIONS_MAX..] {
                // Half a head is no request either. The connection may be closed by now.
                let _ = stream.write_all(&REQUEST[..9]);
            }
            for _ in 0..10 {
                assert_serves(path);
            }
        });
    }

    #[test]
    fn connections_that_do_not_read_prevent_no_answer() {
        serving(|path| {
            let deaf: Vec<_> = (0..2 * CONNECTIONS_MAX)
                .map(|_| {
                    let mut stream = connect(path);
                    let _ = stream.write_all(b"GET /large HTTP/1.1\r\nhost: a\r\n\r\n");
                    stream
                })
                .collect();
            assert_serves(path);
            drop(deaf);
            let answer = ask(path, b"GET /large HTTP/1.1\r\nhost: a\r\n\r\n");
            assert!(answer.len() > LARGE, "one that reads gets everything");
        });
    }

    #[test]
    fn what_is_no_small_request_is_refused() {
        serving(|path| {
            let long = [
                b"GET /",
                "a".repeat(HEAD_BYTES_MAX).as_bytes(),
                b" HTTP/1.1\r\n\r\n",
            ]
            .concat();
            let header = "a: b\r\n".repeat(HEAD_BYTES_MAX);
            let many = [b"GET /small HTTP/1.1\r\n", header.as_bytes(), b"\r\n"].concat();
            for (request, status) in [
                (&long[..], "431"),
                (&many[..], "431"),
                (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", "400"),
                (b"GET /other HTTP/1.1\r\nhost: a\r\n\r\n", "404"),
                (
                    b"POST /small HTTP/1.1\r\nhost: a\r\ncontent-length: 99999999999\r\n\r\nx",
                    "405",
                ),
            ] {
                let answer = ask(path, request);
                let head = String::from_utf8_lossy(&request[..request.len().min(20)]).into_owned();
                assert!(
                    answer.starts_with(&format!("HTTP/1.1 {status} ")),
                    "{head}: {answer}"
                );
                assert_serves(path);
            }
        });
    }

    #[test]
    fn a_connection_has_one_request() {
        serving(|path| {
            let answer = ask(path, &REQUEST.repeat(3));
            assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{answer}");
        });
    }

    #[test]
    fn where_it_cannot_listen_the_error_names_address_and_key() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let error = HttpServer::start(&Listen::Tcp(address), "metrics.listen", Router::new());
        let error = format!("{:#}", error.unwrap_err());
        assert!(error.contains(&address.to_string()), "{error}");
        assert!(error.contains("metrics.listen"), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
}
