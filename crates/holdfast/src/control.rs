// SPDX-License-Identifier: Apache-2.0
//! The daemons' control sockets: one JSON line is the request, one JSON line the reply.
//!
//! Both daemons listen on a Unix stream socket. A caller connects, writes one
//! line, reads one line, and is done; a line that is not understood gets
//! [`ControlReply::Error`] and changes nothing.

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser as _};
use holdfast_core::LinkState;
use serde::{Deserialize, Serialize};

use crate::terminal::{escape_within, escaped_line};

mod callers;
mod listener;
mod reply;

pub(crate) use callers::{CALLER_WAIT, CROWDED_WAIT, Call, Callers};
#[cfg(test)]
pub(crate) use listener::leave_abandoned;
pub(crate) use listener::{CONTROL_SOCKET_FLAG, ControlListener};
pub(crate) use reply::{
    BucketStatus, CacheStatus, FlowStatus, FlowTableStatus, HandoffMobileStatus, HandoffStatus,
    LinkBytes, MobileSessionStatus, MobileStatus, OutageStatus, OutagesStatus, SourceStatus,
    StatusReply,
};

/// Longest reply line that a caller reads, in bytes.
pub(crate) const REPLY_BYTES_MAX: u64 = 16 << 20;

/// Why a report of the state `unknown` is refused.
pub(crate) const UNKNOWN_STATE: &str = "a link goes down, up or going-down-soon";

/// How long a caller waits for a daemon's answer. Tests run on busy machines.
const REPLY_WAIT: Duration = Duration::from_secs(if cfg!(test) { 120 } else { 5 });

/// For clap: the state of a link, as an operator or a mobile names it.
pub(crate) fn link_state() -> impl clap::builder::TypedValueParser<Value = LinkState> {
    use LinkState::{Down, GoingDownSoon, Up};
    let states = [
        ("down", Down, "The link delivers nothing"),
        ("up", Up, "The link delivers packets again"),
        ("going-down-soon", GoingDownSoon, "The link is about to go"),
    ];
    let values = states.map(|(name, _, help)| PossibleValue::new(name).help(help));
    PossibleValuesParser::new(values).map(move |name| {
        let named = states.iter().find(|state| state.0 == name);
        named.map_or(LinkState::Unknown, |state| state.1)
    })
}

/// A request of a caller to a daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum ControlRequest {
    /// Report the daemon's status.
    Status {
        /// Most flows to describe one by one; 0 for none.
        #[serde(default)]
        flows_max: usize,
        /// Most outages to describe one by one; 0 for none.
        #[serde(default)]
        outages_max: usize,
    },
    /// Gateway: take this as a report about the link to the mobile with this address.
    Link {
        /// An address of the mobile.
        address: IpAddr,
        /// What happened to its link.
        event: LinkState,
    },
    /// Mobile: report this about the mobile's own link to the gateway.
    Signal {
        /// What happened to the link.
        event: LinkState,
        /// Time until the link goes, for `going-down-soon`; 0 if not known.
        #[serde(default)]
        lead_ms: u16,
        /// The gateway in whose cell the mobile is, for `up`. None: the same gateway as before.
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
    /// Done as requested.
    Done,
    /// Not done.
    Error {
        /// Why, in one line.
        message: String,
    },
}

/// Reads a request line; the error is the reply to send.
fn parse_request(line: &str) -> Result<ControlRequest, ControlReply> {
    serde_json::from_str(line).map_err(|error| ControlReply::Error {
        message: format!("not a request: {error}"),
    })
}

/// A reply as the line that goes on the wire, with its line end.
fn reply_line(reply: &ControlReply) -> String {
    let mut line = serde_json::to_string(reply)
        .unwrap_or_else(|error| format!(r#"{{"reply":"error","message":"{error}"}}"#));
    line.push('\n');
    line
}

/// A request that is not done, and why.
pub(crate) fn refusal(message: &str) -> ControlReply {
    ControlReply::Error {
        message: message.into(),
    }
}

/// Queries the daemon at `socket`, for people: no text of the reply controls a terminal.
///
/// Errors are one line and name the socket.
pub(crate) fn ask(socket: &Path, request: &ControlRequest) -> anyhow::Result<ControlReply> {
    let mut value = serde_json::to_value(query_unescaped(socket, request)?)?;
    escape_within(&mut value);
    Ok(serde_json::from_value(value)?)
}

/// The same for programs: the texts of a status are not escaped.
pub(crate) fn query_unescaped(
    socket: &Path,
    request: &ControlRequest,
) -> anyhow::Result<ControlReply> {
    let shown = socket.display();
    let mut stream = UnixStream::connect(socket).map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => {
            anyhow::anyhow!("{shown}: {error}; run as root, or as a member of the socket's group")
        }
        _ if socket
            .metadata()
            .is_ok_and(|found| !found.file_type().is_socket()) =>
        {
            anyhow::anyhow!("{shown}: is no socket; name the daemon's with --socket")
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
    match serde_json::from_str(&answer) {
        Ok(ControlReply::Error { message }) => bail!("{shown}: {}", escaped_line(&message)),
        Ok(reply) => Ok(reply),
        Err(error) => Err(error)
            .with_context(|| format!("{shown}: the answer is not one of this version of holdfast")),
    }
}

/// Sends a request whose reply is [`ControlReply::Done`].
pub(crate) fn command(socket: &Path, request: &ControlRequest) -> anyhow::Result<()> {
    match ask(socket, request)? {
        ControlReply::Done => Ok(()),
        _ => bail!("{}: another kind of daemon answers there", socket.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_survives_its_line() {
        for request in [
            ControlRequest::Status {
                flows_max: 3,
                outages_max: 0,
            },
            ControlRequest::Link {
                address: IpAddr::from([10, 0, 0, 7]),
                event: LinkState::GoingDownSoon,
            },
            ControlRequest::Signal {
                event: LinkState::Down,
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
            Ok(ControlRequest::Status {
                flows_max: 0,
                outages_max: 0,
            })
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
