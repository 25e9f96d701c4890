// SPDX-License-Identifier: Apache-2.0
//! The live page of a daemon and of the demo: one HTML page, its style, its script, and the status
//! as JSON, which the script reads each second. The page changes nothing.
//!
//! The page needs nothing from other sites, and its policy forbids the browser to load anything from
//! them. A page of another site cannot read the status: the browser shows it no answer of another
//! origin, and [`crate::http`] answers for no name of another site.

use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::map_response;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodRouter, get};
use holdfast_lab::demo::LiveDemo;
use holdfast_settings::kind::{Kind as _, takes};
use holdfast_settings::text::{Listen, ListenAt};
use holdfast_settings::web::WebSettings;

use crate::http::{HttpServer, serve_status};

/// Most outages that the page lists.
const OUTAGES_MAX: usize = 100;

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";
const JSON: &str = "application/json";

const FILES: [(&str, &str, &str); 4] = [
    ("/", HTML, include_str!("web/page.html")),
    ("/page.css", CSS, include_str!("web/page.css")),
    ("/page.js", SCRIPT, include_str!("web/page.js")),
    ("/icon.svg", SVG, include_str!("web/icon.svg")),
];

const HEADERS: [(&str, &str); 5] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("cross-origin-resource-policy", "same-origin"),
    ("referrer-policy", "no-referrer"),
    ("x-content-type-options", "nosniff"),
    ("cache-control", "no-store"),
];

/// For clap: where to serve the page.
pub(crate) fn listen(text: &str) -> Result<Listen, String> {
    ListenAt::of_text(text).ok_or_else(takes::<ListenAt, Listen>)
}

/// Where to open the page.
pub(crate) fn address(listen: &Listen) -> String {
    match listen {
        Listen::Tcp(address) => format!("http://{address}/"),
        Listen::Unix(path) => path.clone(),
    }
}

/// Serves the page of the daemon with this control socket, if the settings name an address.
///
/// Errors: one line; it cannot listen there.
pub(crate) fn serve(
    settings: &WebSettings,
    control_socket: &Path,
) -> anyhow::Result<Option<HttpServer>> {
    let listen = settings.listen.as_ref();
    serve_status(
        listen,
        "web.listen",
        control_socket,
        OUTAGES_MAX,
        |status| {
            pages(get(async move || match status.read().await {
                Ok(reply) => json(serde_json::to_string(&*reply)),
                Err(error) => {
                    (StatusCode::SERVICE_UNAVAILABLE, format!("{error:#}")).into_response()
                }
            }))
        },
    )
}

/// Serves the page of the demo.
///
/// Errors: one line; it cannot listen there.
pub(crate) fn serve_demo(listen: &Listen, demo: Arc<LiveDemo>) -> anyhow::Result<HttpServer> {
    let answer = get(async move || json(demo.json()));
    HttpServer::start(listen, "--web", pages(answer))
}

fn json(text: serde_json::Result<String>) -> Response {
    match text {
        Ok(text) => ([(header::CONTENT_TYPE, JSON)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// The page, with `status` as its data.
fn pages(status: MethodRouter) -> Router {
    let mut router = Router::new().route("/status.json", status);
    for (path, kind, text) in FILES {
        router = router.route(
            path,
            get(async move || ([(header::CONTENT_TYPE, kind)], text)),
        );
    }
    router.layer(map_response(async |response: Response| {
        with_policy(response)
    }))
}

fn with_policy(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::http::OwnHosts;

    /// The answer to the request, without its date.
    fn ask(socket: &Path, request: &str) -> String {
        let mut stream = UnixStream::connect(socket).unwrap();
        write!(stream, "{request}\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn the_page_is_read_only_by_its_own_name_and_with_its_policy() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("web.sock");
        // As at a TCP address, at a socket that no other program can have.
        let router = pages(get(async || json(Ok("{}".to_owned()))));
        let router = OwnHosts::default().only(router);
        let at = Listen::Unix(socket.to_str().unwrap().to_owned());
        let _server = HttpServer::start(&at, "--web", router).unwrap();
        for (request, expected) in [
            ("GET / HTTP/1.1\r\nHost: localhost:1", "HTTP/1.1 200"),
            ("HEAD /page.js HTTP/1.1\r\nHost: [::1]", "HTTP/1.1 200"),
            (
                "GET /status.json HTTP/1.1\r\nHost: 127.0.0.1",
                "HTTP/1.1 200",
            ),
            (
                "GET /status.json HTTP/1.1\r\nHost: evil.example",
                "HTTP/1.1 403",
            ),
            ("GET /status.json HTTP/1.0", "HTTP/1.0 403"),
            (
                "POST /status.json HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0",
                "HTTP/1.1 405",
            ),
            (
                "GET /../etc/passwd HTTP/1.1\r\nHost: localhost",
                "HTTP/1.1 404",
            ),
        ] {
            let answer = ask(&socket, request);
            assert!(answer.starts_with(expected), "{request}: {answer}");
            for (name, value) in HEADERS {
                // A refusal is one line of text.
                assert!(
                    expected.ends_with("403") || answer.contains(&format!("{name}: {value}\r\n")),
                    "{request}: {answer}"
                );
            }
        }
    }

    #[test]
    fn the_page_names_no_file_of_another_site_and_has_no_style_or_script_within() {
        let (_, _, page) = FILES[0];
        assert!(!page.contains("style=") && !page.contains("<style"));
        assert_eq!(page.matches("<script").count(), 1);
        for (path, _, text) in FILES {
            let addresses = text.replace("http://www.w3.org/2000/svg", "");
            assert!(!addresses.contains("://"), "{path}");
        }
    }
}
