// SPDX-License-Identifier: Apache-2.0
//! The callers of a control socket, served at the same time and within limits.
//!
//! Each caller is read in a task of its own. When all slots are taken and a further caller comes, the
//! longest-silent caller is dropped. So callers without a request hinder no other. The daemon answers
//! requests in the order in which they arrive.

use std::collections::VecDeque;
use std::os::unix::net::UnixListener;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

use super::{ControlReply, ControlRequest, parse_request, refusal, reply_line};

/// Longest request line that a daemon reads, in bytes.
const REQUEST_BYTES_MAX: usize = 4096;

/// The limit of callers without a request yet, and of callers that are answered.
const CALLERS_MAX: usize = 16;

/// The longest time for a caller's request, and for reading the answer. In tests it is longer than any
/// test waits, so that a busy machine ends no call.
pub(crate) const CALLER_WAIT: Duration = Duration::from_secs(if cfg!(test) { 3600 } else { 5 });

/// The same if there are too many callers: a reply that fits into the socket's buffer is still sent.
pub(crate) const CROWDED_WAIT: Duration = Duration::from_millis(200);

/// The wait after a caller could not be accepted (no free descriptor). The caller stays the next one.
const TAKE_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// A caller and its request.
#[derive(Debug)]
pub(crate) struct Call {
    /// The request.
    pub(crate) request: ControlRequest,
    stream: UnixStream,
}

impl Call {
    /// Writes the reply, to a caller who may have left. Waits for it no longer than `wait`.
    pub(crate) async fn answer(self, reply: &ControlReply, wait: Duration) {
        let mut stream = self.stream;
        let line = reply_line(reply);
        match timeout(wait, stream.write_all(line.as_bytes())).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "control socket"),
            Err(_) => tracing::debug!("control socket: the caller does not read"),
        }
    }
}

/// The callers of a control socket.
#[derive(Debug)]
pub(crate) struct Callers {
    listener: tokio::net::UnixListener,
    /// When the next caller is accepted, after an attempt has failed.
    again_at: Option<tokio::time::Instant>,
    /// Callers without a request yet.
    reading: JoinSet<Option<Call>>,
    /// The same callers, the oldest first. Some may have a request by now.
    oldest: VecDeque<AbortHandle>,
    /// Callers that are answered.
    answering: JoinSet<()>,
}

impl Callers {
    /// The callers of a listener that does not block; needs a tokio runtime.
    pub(crate) fn of(listener: UnixListener) -> std::io::Result<Self> {
        Ok(Self {
            listener: tokio::net::UnixListener::from_std(listener)?,
            again_at: None,
            reading: JoinSet::new(),
            oldest: VecDeque::new(),
            answering: JoinSet::new(),
        })
    }

    /// The next caller with a request. May be dropped and called again.
    pub(crate) async fn next(&mut self) -> Call {
        loop {
            tokio::select! {
                Some(request) = self.reading.join_next() => {
                    if let Ok(Some(call)) = request {
                        return call;
                    }
                }
                Some(_) = self.answering.join_next() => {}
                stream = take(&self.listener, &mut self.again_at) => self.read(stream),
            }
        }
    }

    /// Reads a caller's request. If there are too many callers, the oldest is dropped.
    fn read(&mut self, stream: UnixStream) {
        self.oldest.retain(|caller| !caller.is_finished());
        if self.oldest.len() >= CALLERS_MAX
            && let Some(oldest) = self.oldest.pop_front()
        {
            tracing::debug!("control socket: a silent caller leaves for another");
            oldest.abort();
        }
        self.oldest.push_back(self.reading.spawn(ask(stream)));
    }

    /// Answers a caller while the daemon goes on.
    pub(crate) fn answer(&mut self, call: Call, reply: ControlReply) {
        // A reply is given up if too many callers do not read theirs.
        while self.answering.try_join_next().is_some() {}
        if self.answering.len() < CALLERS_MAX {
            self.answering
                .spawn(async move { call.answer(&reply, CALLER_WAIT).await });
        } else {
            tracing::debug!("control socket: too many callers do not read");
        }
    }
}

/// Takes the next caller. May be dropped and called again.
async fn take(
    listener: &tokio::net::UnixListener,
    again_at: &mut Option<tokio::time::Instant>,
) -> UnixStream {
    loop {
        if let Some(at) = *again_at {
            tokio::time::sleep_until(at).await;
            *again_at = None;
        }
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) => {
                tracing::warn!(%error, "control socket");
                *again_at = Some(tokio::time::Instant::now() + TAKE_AGAIN_AFTER);
            }
        }
    }
}

/// Reads a caller's request. A request that is not understood is answered here.
async fn ask(mut stream: UnixStream) -> Option<Call> {
    match request(&mut stream).await {
        Ok(request) => Some(Call { request, stream }),
        Err(reply) => {
            // The caller has its slot until then, but no longer.
            let line = reply_line(&reply);
            let _ = timeout(CALLER_WAIT, stream.write_all(line.as_bytes())).await;
            None
        }
    }
}

/// Reads a caller's request, within limits of length and time; the error is the reply.
async fn request(stream: &mut UnixStream) -> Result<ControlRequest, ControlReply> {
    let mut line = String::new();
    let mut limited = BufReader::new(stream.take(REQUEST_BYTES_MAX as u64));
    match timeout(CALLER_WAIT, limited.read_line(&mut line)).await {
        // The last line of a caller that has closed its side may lack the line end.
        Ok(Ok(_)) if !line.is_empty() && line.len() < REQUEST_BYTES_MAX => parse_request(&line),
        Ok(Ok(_)) => Err(refusal("no line, or one that is too long")),
        Ok(Err(_)) => Err(refusal("not a line of text")),
        Err(_) => Err(refusal("no line in time")),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, Write as _};
    use std::os::unix::net::UnixStream as Caller;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    fn ask_for(caller: &mut Caller, request: &[u8]) -> String {
        caller.set_read_timeout(Some(LIMIT)).unwrap();
        caller.write_all(request).unwrap();
        let mut answer = String::new();
        std::io::BufReader::new(caller)
            .read_line(&mut answer)
            .unwrap();
        answer
    }

    /// Runs a daemon that answers everything with [`ControlReply::Done`] while `work` runs.
    fn with_daemon(work: impl FnOnce(&std::path::Path) + Send) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        listener.set_nonblocking(true).unwrap();
        let (done, mut is_done) = tokio::sync::oneshot::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _done = done;
                work(&path);
            });
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.unwrap().block_on(async {
                let mut callers = Callers::of(listener).unwrap();
                loop {
                    tokio::select! {
                        call = callers.next() => callers.answer(call, ControlReply::Done),
                        _ = &mut is_done => break,
                    }
                }
            });
        });
    }

    #[test]
    fn silent_callers_prevent_no_answer() {
        with_daemon(|path| {
            let mut silent: Vec<_> = (0..40).map(|_| Caller::connect(path).unwrap()).collect();
            // Half a line is no request either.
            silent[39].write_all(b"{\"comm").unwrap();
            for _ in 0..10 {
                let mut caller = Caller::connect(path).unwrap();
                let answer = ask_for(&mut caller, b"{\"command\":\"status\"}\n");
                assert_eq!(answer, "{\"reply\":\"done\"}\n");
            }
            // Of those that are left one may still ask.
            assert_eq!(
                ask_for(&mut silent[39], b"and\":\"status\"}\n"),
                "{\"reply\":\"done\"}\n"
            );
        });
    }

    #[test]
    fn callers_that_do_not_read_prevent_no_answer() {
        with_daemon(|path| {
            // Each sends its request at once: of those that wait with it the oldest would have to leave.
            let ask = |_| {
                let mut caller = Caller::connect(path).unwrap();
                caller.write_all(b"{\"command\":\"status\"}\n").unwrap();
                caller
            };
            let _deaf: Vec<_> = (0..40).map(ask).collect();
            let mut caller = Caller::connect(path).unwrap();
            let answer = ask_for(&mut caller, b"{\"command\":\"status\"}\n");
            assert_eq!(answer, "{\"reply\":\"done\"}\n");
        });
    }

    #[test]
    fn a_request_that_is_too_long_is_refused() {
        with_daemon(|path| {
            let mut caller = Caller::connect(path).unwrap();
            let answer = ask_for(&mut caller, &[b'x'; REQUEST_BYTES_MAX]);
            assert!(answer.contains("too long"), "{answer}");
        });
    }
}
