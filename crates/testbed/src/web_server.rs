// SPDX-License-Identifier: Apache-2.0
//! A real web server at the FH: nginx, one process, sendfile.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;

use anyhow::Context as _;
use holdfast_net::netns::{ChildGuard, NetNs};

use crate::peers::start_server;
use crate::stop::StopFlag;

/// The port it listens on, of both families.
pub const PORT: u16 = 80;

/// A running nginx; killed when dropped.
#[derive(Debug)]
pub struct WebServer {
    _child: ChildGuard,
}

impl WebServer {
    /// Starts it in `ns` and waits until it listens. It serves the files in
    /// `files`; `folder`, which must exist, is for its own.
    pub fn start(ns: &NetNs, folder: &Path, files: &Path, stop: &StopFlag) -> anyhow::Result<Self> {
        let config = folder.join("nginx.conf");
        fs::write(&config, configuration(folder, files))
            .with_context(|| format!("{}: cannot be written", config.display()))?;
        let mut command = ns.command("nginx");
        command.arg("-p").arg(folder).arg("-c").arg(&config);
        command.args(["-e", "stderr"]);
        let address = SocketAddr::from((IpAddr::V4(Ipv4Addr::LOCALHOST), PORT));
        let log = folder.join("nginx.log");
        let child = start_server(ns, command, &log, stop, || {
            Ok(ns.run(|| TcpStream::connect(address).is_ok())?)
        })?;
        Ok(Self { _child: child })
    }
}

fn configuration(folder: &Path, files: &Path) -> String {
    let folder = folder.display();
    let files = files.display();
    format!(
        "daemon off;
master_process off;
worker_processes 1;
pid {folder}/nginx.pid;
events {{ worker_connections 2048; }}
http {{
    access_log off;
    sendfile on;
    tcp_nopush on;
    send_timeout 300s;
    keepalive_timeout 300s;
    default_type application/octet-stream;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen {PORT} backlog=1024;
        listen [::]:{PORT} backlog=1024;
        root {files};
    }}
}}
"
    )
}
