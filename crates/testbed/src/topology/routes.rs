// SPDX-License-Identifier: Apache-2.0
//! Changes routes while a transfer runs. A process waits for the changes, so that none has to be
//! started at the moment of a move.

use std::io::{Read as _, Write as _};
use std::process::{ChildStdin, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use holdfast_net::netns::{ChildGuard, NetNs};

/// How long the process may take to end.
const END_LIMIT: Duration = Duration::from_secs(30);

/// `ip -batch -` in a namespace; killed when dropped.
#[derive(Debug)]
pub struct RouteChanger {
    child: ChildGuard,
    input: Option<ChildStdin>,
}

impl RouteChanger {
    /// Starts it.
    pub fn start(ns: &NetNs) -> anyhow::Result<Self> {
        let mut command = ns.command("ip");
        command.args(["-batch", "-"]);
        command.stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut child = ns.spawn_guarded(command).context("cannot start ip")?;
        let input = child.child().stdin.take();
        Ok(Self { child, input })
    }

    /// Adds or changes a route for each family: `routes` are the arguments of
    /// `ip route replace`.
    ///
    /// # Errors
    /// The process has ended, at a route that the kernel refused.
    pub fn replace(&mut self, routes: &[String; 2]) -> anyhow::Result<()> {
        let [first, second] = routes;
        let lines = format!("route replace {first}\nroute replace {second}\n");
        let input = self.input.as_mut().context("ip: ended before")?;
        if input.write_all(lines.as_bytes()).is_err() {
            bail!("ip route replace: {}", self.complaint());
        }
        Ok(())
    }

    /// Ends it.
    ///
    /// # Errors
    /// The kernel has refused a route.
    pub fn finish(mut self) -> anyhow::Result<()> {
        self.input = None;
        match self.child.wait_at_most(END_LIMIT)? {
            Some(status) if status.success() => Ok(()),
            _ => bail!("ip route replace: {}", self.complaint()),
        }
    }

    fn complaint(&mut self) -> String {
        let mut text = String::new();
        // An error: the process has closed its output, and there is no text.
        if let Some(mut output) = self.child.child().stderr.take() {
            self.input = None;
            let _ = output.read_to_string(&mut text);
        }
        text.trim().replace('\n', " ")
    }
}
