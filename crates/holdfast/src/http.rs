// SPDX-License-Identifier: Apache-2.0
//! HTTP for a daemon's pages: a thread of its own, which reads the status at the control socket as
//! `holdfast status` does. What HTTP clients do slows no packet and no signal.
//!
//! Each connection has one request and a limited time. When all slots are taken and a further
//! connection comes, the oldest one is closed.
//!
//! At a TCP address only requests for an address or for a name of this network are answered: a web
//! site whose name is rebound to this machine reads nothing ([`OwnHosts`]).

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use axum::serve::Listener;
use holdfast_settings::text::Listen;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::control::{ControlListener, ControlReply, ControlRequest, query_unescaped};
use crate::listen;

/// The limit of connections.
const CONNECTIONS_MAX: usize = 32;
/// The longest time for a request and its answer. In tests it is longer than any test waits, so that
/// a busy machine ends no request.
const CONNECTION_LIFE: Duration = Duration::from_secs(if cfg!(test) { 3600 } else { 10 });
/// The longest time for the head of a request.
const HEAD_WAIT: Duration = Duration::from_secs(if cfg!(test) { 3600 } else { 5 });
/// The largest head of a request, bytes.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// A status is reused for this time: the daemon is queried seldom, whatever the number of requests.
const STATUS_LIFE: Duration = Duration::from_millis(500);

/// A server that runs as long as the process. Dropping this removes its socket file.
#[derive(Debug)]
pub(crate) struct HttpServer {
    _socket: Option<ControlListener>,
}

impl HttpServer {
    /// Serves `router` at `listen`, which `key` of the settings has named.
    ///
    /// Errors: one line; it cannot listen there.
    pub(crate) fn start(listen: &Listen, key: &str, router: Router) -> anyhow::Result<Self> {
        Self::start_by(TcpListener::bind, listen, key, router)
    }

    /// The same, with `bind` for a TCP address.
    fn start_by(
        bind: impl FnOnce(SocketAddr) -> io::Result<TcpListener>,
        listen: &Listen,
        key: &str,
        router: Router,
    ) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(1)
            .build()?;
        let context = runtime.enter();
        let (serving, socket): (Serving, _) = match listen {
            Listen::Tcp(address) => {
                let listener = bind(*address).with_context(|| {
                    format!("{address}: cannot listen there; name another with {key}")
                })?;
                listener.set_nonblocking(true)?;
                let listener = tokio::net::TcpListener::from_std(listener)?;
                let router = OwnHosts::of_this_machine().only(router);
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

/// Serves pages made of the status of the daemon with this control socket, if the settings name an
/// address with `key`. `routes` makes the pages. No interface needs to have the address yet.
///
/// Errors: one line; it cannot listen there.
pub(crate) fn serve_status(
    listen: Option<&Listen>,
    key: &str,
    control_socket: &Path,
    outages_max: usize,
    routes: impl FnOnce(DaemonStatus) -> Router,
) -> anyhow::Result<Option<HttpServer>> {
    let Some(listen) = listen else {
        return Ok(None);
    };
    let request = ControlRequest::Status {
        flows_max: 0,
        outages_max,
    };
    let status = DaemonStatus::new(control_socket.to_owned(), request);
    HttpServer::start_by(listen::tcp, listen, key, routes(status)).map(Some)
}

/// The names for which requests at a TCP address are answered.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnHosts {
    /// This machine's name, which may have a domain.
    machine: Option<String>,
}

impl OwnHosts {
    fn of_this_machine() -> Self {
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
        Self {
            machine: name.map(|name| name.trim().to_owned()),
        }
    }

    /// The router, which refuses requests for other names.
    pub(crate) fn only(self, router: Router) -> Router {
        router.layer(from_fn(move |request: Request, next: Next| {
            let own = request.headers().get(header::HOST);
            let is_own = own.is_some_and(|host| self.has(host));
            async move {
                if is_own {
                    next.run(request).await
                } else {
                    refused()
                }
            }
        }))
    }

    /// Whether a `Host` is an address, a name without a domain, or this machine's name. Any port is right:
    /// a tunnel has another one. A web site's owner can point only names with a domain to this machine.
    fn has(&self, host: &HeaderValue) -> bool {
        let Ok(host) = host.to_str() else {
            return false;
        };
        // `[::1]:8484`, `127.0.0.1:8484`, `localhost`
        if let Some(rest) = host.strip_prefix('[') {
            let address = rest.split_once(']').map(|(address, _)| address);
            return address.is_some_and(|address| address.parse::<IpAddr>().is_ok());
        }
        let name = host.split(':').next().unwrap_or_default();
        let machine = self.machine.as_deref();
        let is_machine = machine.is_some_and(|machine| name.eq_ignore_ascii_case(machine));
        let has_domain = name.contains('.');
        !name.is_empty() && (!has_domain || is_machine || name.parse::<IpAddr>().is_ok())
    }
}

fn refused() -> Response {
    let problem =
        "this name is not served here; use the address, localhost or the name of the machine\n";
    (StatusCode::FORBIDDEN, problem).into_response()
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

/// The last reply, and when it was read. An error is its text.
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

    /// The daemon's status, which may be [`STATUS_LIFE`] old.
    ///
    /// Errors: it does not answer.
    pub(crate) async fn read(&self) -> anyhow::Result<Arc<ControlReply>> {
        let status = self.clone();
        // A task of its own: if this connection is closed early, others still get the result.
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
        let reading = tokio::task::spawn_blocking(move || query_unescaped(&socket, &request)).await;
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
    fn names_that_a_web_site_can_have_are_not_answered_for() {
        let own = OwnHosts {
            machine: Some("gw1.example.net".to_owned()),
        };
        let has = |host: &'static str| own.has(&HeaderValue::from_static(host));
        for host in [
            "localhost",
            "LOCALHOST:9000",
            "127.0.0.1:8484",
            "10.0.0.1:8484",
            "[::1]:8484",
            "[2001:db8::1]",
            "router-1:9848",
            "GW1.example.net:9848",
        ] {
            assert!(has(host), "{host}");
        }
        for host in [
            "",
            ":8484",
            "evil.example:8484",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "gw1.evil.example",
            "gw1.example.net.evil.example",
            "localhost.",
            "[::1",
            "[evil.example]",
        ] {
            assert!(!has(host), "{host}");
        }
    }

    #[test]
    fn at_a_tcp_address_another_name_is_refused() {
        let router = Router::new().route("/small", get(async || "small"));
        // The port is chosen by the kernel, and may be taken again before the server listens.
        let (_server, address) = (0..10)
            .find_map(|_| {
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                let address = listener.local_addr().unwrap();
                drop(listener);
                let listen = Listen::Tcp(address);
                let server = HttpServer::start(&listen, "metrics.listen", router.clone());
                Some((server.ok()?, address))
            })
            .unwrap();
        for (host, status) in [
            (format!("host: {address}\r\n"), "200"),
            ("host: router-1:9848\r\n".to_owned(), "200"),
            ("host: evil.example\r\n".to_owned(), "403"),
            (String::new(), "403"),
        ] {
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(LIMIT)).unwrap();
            write!(stream, "GET /small HTTP/1.0\r\n{host}\r\n").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.contains(&format!(" {status} ")), "{host}: {answer}");
        }
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
