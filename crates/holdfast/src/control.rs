// SPDX-License-Identifier: Apache-2.0
//! The daemons' control sockets: one JSON line asks, one JSON line answers.
//!
//! Both daemons listen on a Unix stream socket. A caller connects, writes one
//! line, reads one line, and is done; a line that is not understood gets
//! [`ControlReply::Error`] and changes nothing.

use std::fs::Permissions;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};

use crate::status::{MobileSessionStatus, StatusReply};
use crate::terminal::escape_within;

/// Longest request line that a daemon reads, in bytes.
pub(crate) const REQUEST_BYTES_MAX: usize = 4096;

/// Longest reply line that a caller reads, in bytes.
pub(crate) const REPLY_BYTES_MAX: u64 = 16 << 20;

/// How long a caller waits for a daemon's answer.
const REPLY_WAIT: Duration = Duration::from_secs(5);

/// After a caller could not be taken (no more descriptors): it stays the next one.
const TAKE_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// How long a mobile's daemon, which does one thing at a time, waits for a caller.
const REQUEST_WAIT: Duration = Duration::from_millis(200);

/// A state of a link as an operator or a mobile names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LinkEvent {
    /// The link carries nothing.
    Down,
    /// The link carries packets again.
    Up,
    /// The link is about to go.
    GoingDownSoon,
}

/// What a caller asks of a daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum ControlRequest {
    /// What the daemon sees.
    Status {
        /// Most flows to describe one by one; 0 for none.
        #[serde(default)]
        flows_max: usize,
    },
    /// Gateway: believe this of the link to the mobile with this address.
    Link {
        /// An address of the mobile.
        address: IpAddr,
        /// What happened to its link.
        event: LinkEvent,
    },
    /// Mobile: tell the gateway this of the own link.
    Signal {
        /// What happened to the link.
        event: LinkEvent,
        /// Time until the link goes, for `going-down-soon`; 0 if not known.
        #[serde(default)]
        lead_ms: u16,
        /// The gateway in whose cell the mobile is, for `up`; none: that of before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        gateway: Option<IpAddr>,
    },
}

/// What a daemon answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub(crate) enum ControlReply {
    /// A gateway's answer to [`ControlRequest::Status`].
    Gateway(Box<StatusReply>),
    /// A mobile's answer to [`ControlRequest::Status`].
    Mobile(Box<MobileSessionStatus>),
    /// Done as asked.
    Done,
    /// Not done.
    Error {
        /// Why, in one line.
        message: String,
    },
}

/// Reads a request line; the error is the reply to send.
pub(crate) fn parse_request(line: &str) -> Result<ControlRequest, ControlReply> {
    serde_json::from_str(line).map_err(|error| ControlReply::Error {
        message: format!("not a request: {error}"),
    })
}

/// A reply as the line that goes on the wire, with its line end.
pub(crate) fn reply_line(reply: &ControlReply) -> String {
    let mut line = serde_json::to_string(reply)
        .unwrap_or_else(|error| format!(r#"{{"reply":"error","message":"{error}"}}"#));
    line.push('\n');
    line
}

/// The callers of a control socket, one after the other.
#[derive(Debug)]
pub(crate) struct Callers {
    listener: tokio::net::UnixListener,
    /// When the next one is taken, after one could not be.
    again_at: Option<tokio::time::Instant>,
}

impl Callers {
    /// Those of a listener that does not block; within a tokio runtime.
    pub(crate) fn of(listener: UnixListener) -> std::io::Result<Self> {
        Ok(Self {
            listener: tokio::net::UnixListener::from_std(listener)?,
            again_at: None,
        })
    }

    /// The next one. May be dropped and asked again.
    pub(crate) async fn next(&mut self) -> tokio::net::UnixStream {
        loop {
            if let Some(again_at) = self.again_at {
                tokio::time::sleep_until(again_at).await;
                self.again_at = None;
            }
            match self.listener.accept().await {
                Ok((stream, _)) => return stream,
                Err(error) => {
                    tracing::warn!(%error, "control socket");
                    self.again_at = Some(tokio::time::Instant::now() + TAKE_AGAIN_AFTER);
                }
            }
        }
    }
}

/// A control socket that goes with its owner.
#[derive(Debug)]
pub(crate) struct ControlListener {
    listener: UnixListener,
    path: PathBuf,
}

impl ControlListener {
    /// Listens at `path`, in place of a daemon that died. Only the socket's owner and
    /// group may connect. Errors are one line and name the socket.
    pub(crate) fn bind(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        if UnixStream::connect(path).is_ok() {
            bail!("{shown}: another daemon listens there; stop it, or name another control socket");
        }
        let is_socket = path
            .symlink_metadata()
            .is_ok_and(|of| of.file_type().is_socket());
        if is_socket {
            std::fs::remove_file(path).with_context(|| format!("{shown}: cannot be replaced"))?;
        }
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)
                .with_context(|| format!("{}: cannot be made", directory.display()))?;
        }
        let listener = UnixListener::bind(path).with_context(|| {
            format!("{shown}: cannot listen there; name another control socket")
        })?;
        std::fs::set_permissions(path, Permissions::from_mode(0o660))?;
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener,
            path: path.to_owned(),
        })
    }

    /// The listening socket once more, for whoever waits for callers.
    pub(crate) fn try_clone(&self) -> std::io::Result<UnixListener> {
        self.listener.try_clone()
    }
}

impl Drop for ControlListener {
    fn drop(&mut self) {
        // Gone already is as good.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Reads a caller's request, within limits of length and time; the error is the reply.
pub(crate) async fn request_line(
    stream: &mut tokio::net::UnixStream,
) -> Result<ControlRequest, ControlReply> {
    use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _};
    let mut line = String::new();
    let mut limited = tokio::io::BufReader::new(stream.take(REQUEST_BYTES_MAX as u64));
    let error = |message: &str| ControlReply::Error {
        message: message.into(),
    };
    match tokio::time::timeout(REQUEST_WAIT, limited.read_line(&mut line)).await {
        Ok(Ok(_)) if line.ends_with('\n') => parse_request(&line),
        Ok(Ok(_)) => Err(error("no line, or one that is too long")),
        Ok(Err(_)) => Err(error("not a line of text")),
        Err(_) => Err(error("no line in time")),
    }
}

/// Writes the reply to a caller who may have left.
pub(crate) async fn answer_line(stream: &mut tokio::net::UnixStream, reply: &ControlReply) {
    use tokio::io::AsyncWriteExt as _;
    let line = reply_line(reply);
    let _ = tokio::time::timeout(REQUEST_WAIT, stream.write_all(line.as_bytes())).await;
}

/// Asks the daemon at `socket`, for people: no text of the reply controls a terminal.
///
/// Errors are one line and name the socket.
pub(crate) fn ask(socket: &Path, request: &ControlRequest) -> anyhow::Result<ControlReply> {
    let mut value = serde_json::to_value(ask_exactly(socket, request)?)?;
    escape_within(&mut value);
    Ok(serde_json::from_value(value)?)
}

/// The same, with each text as it is: for programs.
pub(crate) fn ask_exactly(socket: &Path, request: &ControlRequest) -> anyhow::Result<ControlReply> {
    let shown = socket.display();
    let mut stream = UnixStream::connect(socket).map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => {
            anyhow::anyhow!("{shown}: {error}; run as root, or as a member of the socket's group")
        }
        _ => anyhow::Error::new(error).context(format!(
            "{shown}: no daemon answers; start it, or name its socket with --socket"
        )),
    })?;
    stream.set_read_timeout(Some(REPLY_WAIT))?;
    stream.set_write_timeout(Some(REPLY_WAIT))?;
    let mut line = serde_json::to_string(request)?;
    line.push('\n');
    stream
        .write_all(line.as_bytes())
        .with_context(|| format!("{shown}: the daemon does not read"))?;
    let mut answer = String::new();
    BufReader::new(stream.take(REPLY_BYTES_MAX))
        .read_line(&mut answer)
        .with_context(|| format!("{shown}: no answer within {} s", REPLY_WAIT.as_secs()))?;
    if answer.is_empty() {
        bail!("{shown}: the daemon closed the connection without an answer");
    }
    serde_json::from_str(&answer)
        .with_context(|| format!("{shown}: the answer is not one of this version of holdfast"))
}

/// Asks for something that is answered by [`ControlReply::Done`].
pub(crate) fn command(socket: &Path, request: &ControlRequest) -> anyhow::Result<()> {
    match ask(socket, request)? {
        ControlReply::Done => Ok(()),
        ControlReply::Error { message } => bail!("{}: {message}", socket.display()),
        _ => bail!("{}: another kind of daemon answers there", socket.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_survives_its_line() {
        for request in [
            ControlRequest::Status { flows_max: 3 },
            ControlRequest::Link {
                address: IpAddr::from([10, 0, 0, 7]),
                event: LinkEvent::GoingDownSoon,
            },
            ControlRequest::Signal {
                event: LinkEvent::Down,
                lead_ms: 0,
                gateway: None,
            },
        ] {
            let line = serde_json::to_string(&request).expect("it is plain data");
            assert_eq!(parse_request(&line), Ok(request));
        }
    }

    #[test]
    fn the_shortest_status_request_is_understood() {
        assert_eq!(
            parse_request(r#"{"command":"status"}"#),
            Ok(ControlRequest::Status { flows_max: 0 })
        );
    }

    #[test]
    fn a_line_that_is_no_request_gets_an_error() {
        for line in [
            "",
            "{}",
            r#"{"command":"dance"}"#,
            r#"{"command":"status","x":1}"#,
        ] {
            let reply = parse_request(line).expect_err("no request");
            assert!(matches!(reply, ControlReply::Error { .. }), "{line}");
            assert!(reply_line(&reply).ends_with('\n'));
        }
    }
}
