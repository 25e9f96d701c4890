// SPDX-License-Identifier: Apache-2.0
//! `holdfast gateway` and `holdfast mobile` as guarded children.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use holdfast_net::netns::{ChildGuard, NetNs};
use serde_json::Value;

use crate::link_process::{GATEWAY_IF, MH_IF};
use crate::stop::StopFlag;
use crate::topology::{GATEWAY_WIRED_IF, GATEWAY_WIRELESS, MH, Topology};

/// How long a daemon may take until it answers.
const READY_LIMIT: Duration = Duration::from_secs(10);
/// How long it may take to answer one request.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// How long it may take to end after SIGTERM.
const END_LIMIT: Duration = Duration::from_secs(10);

/// A running daemon; killed when dropped.
#[derive(Debug)]
pub struct Daemon {
    /// The process.
    pub child: ChildGuard,
    socket: PathBuf,
    log: PathBuf,
}

/// How the gateway is to be run.
#[derive(Clone, Debug)]
pub struct GatewayOptions {
    /// Our own binary.
    pub holdfast: PathBuf,
    /// What `--scheme` takes.
    pub scheme: String,
    /// Whether the MH's key is in its settings, made by [`make_key`].
    pub mobile_key: Option<PathBuf>,
    /// More lines for the `[gateway]` section of its settings file.
    pub settings: String,
}

/// Makes the key that gateway and MH share, in `folder`.
pub fn make_key(holdfast: &Path, folder: &Path) -> anyhow::Result<PathBuf> {
    let output = std::process::Command::new(holdfast)
        .args(["mobile", "keygen"])
        .output()?;
    ensure!(
        output.status.success(),
        "holdfast mobile keygen: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    let path = folder.join("mobile.key");
    let mut file = fs::File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)?;
    file.write_all(&output.stdout)?;
    Ok(path)
}

impl Daemon {
    /// Starts the gateway in the topology's gateway namespace and waits until
    /// packets reach it. `folder`, which must exist, holds its files; a
    /// successor with the same folder finds its predecessor's state there.
    pub fn start_gateway(
        topology: &Topology,
        options: &GatewayOptions,
        folder: &Path,
        stop: &StopFlag,
    ) -> anyhow::Result<Self> {
        let socket = folder.join("gateway.sock");
        let config = folder.join("gateway.toml");
        fs::write(&config, gateway_file(options)?)
            .with_context(|| format!("{}: cannot be written", config.display()))?;
        let mut command = topology.gateway.command(&options.holdfast);
        command.args([
            "gateway",
            "--wireless",
            GATEWAY_IF,
            "--wired",
            GATEWAY_WIRED_IF,
        ]);
        command
            .args(["--scheme", &options.scheme])
            .arg("--config")
            .arg(&config);
        command.arg("--control-socket").arg(&socket);
        command
            .arg("--state-file")
            .arg(folder.join("gateway.state"));
        let mut daemon = Self::spawn(
            &topology.gateway,
            command,
            socket,
            folder.join("gateway.log"),
        )?;
        daemon.wait_until(stop, "holdfast gateway is attached")?;
        Ok(daemon)
    }

    /// Starts the mobile's daemon at the MH and waits until it answers.
    pub fn start_mobile(
        topology: &Topology,
        holdfast: &Path,
        key: &Path,
        folder: &Path,
        stop: &StopFlag,
    ) -> anyhow::Result<Self> {
        let socket = folder.join("mobile.sock");
        let mut command = topology.mh.command(holdfast);
        command.args(["mobile", "--interface", MH_IF]);
        command.args(["--gateway", &GATEWAY_WIRELESS.v4.to_string()]);
        command
            .arg("--key-file")
            .arg(key)
            .arg("--control-socket")
            .arg(&socket);
        let mut daemon = Self::spawn(&topology.mh, command, socket, folder.join("mobile.log"))?;
        daemon.wait_until(stop, "holdfast mobile answers")?;
        Ok(daemon)
    }

    fn spawn(
        ns: &NetNs,
        mut command: std::process::Command,
        socket: PathBuf,
        log: PathBuf,
    ) -> anyhow::Result<Self> {
        let output = fs::File::options().create(true).append(true).open(&log)?;
        command.stdin(std::process::Stdio::null());
        command.stdout(output.try_clone()?).stderr(output);
        Ok(Self {
            child: ns.spawn_guarded(command)?,
            socket,
            log,
        })
    }

    fn wait_until(&mut self, stop: &StopFlag, what: &str) -> anyhow::Result<()> {
        let ready = stop.wait_for(what, READY_LIMIT, || {
            if let Some(status) = self.child.try_wait()? {
                bail!("{what}: no, it ended: {status}");
            }
            Ok(self.status().ok().filter(is_ready).map(|_| ()))
        });
        ready.with_context(|| format!("its log ends: {}", self.log_end()))
    }

    /// What the daemon answers to a status request.
    pub fn status(&self) -> anyhow::Result<Value> {
        let mut stream = UnixStream::connect(&self.socket)?;
        stream.set_read_timeout(Some(ANSWER_LIMIT))?;
        stream.write_all(b"{\"command\":\"status\"}\n")?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line)?;
        let status: Value = serde_json::from_str(&line)?;
        ensure!(status["reply"] != "error", "status: {}", status["message"]);
        Ok(status)
    }

    /// SIGTERM, and waits for the end; an error if it does not end by itself
    /// or not with status 0.
    pub fn stop(&mut self) -> anyhow::Result<()> {
        let (status, by_itself) = self.child.terminate(END_LIMIT)?;
        let name = self.child.program().to_owned();
        ensure!(
            by_itself,
            "{name}: did not end within {} s of SIGTERM",
            END_LIMIT.as_secs()
        );
        ensure!(status.success(), "{name}: {status}: {}", self.log_end());
        Ok(())
    }

    /// The last lines of its log.
    pub fn log_end(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(5).collect();
        if lines.is_empty() {
            return "(it said nothing)".into();
        }
        lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
    }
}

/// A gateway says whether packets reach it; a mobile has nothing to attach.
fn is_ready(status: &Value) -> bool {
    status["reply"] != "gateway" || status["attached"] == true
}

/// The gateway's settings file.
fn gateway_file(options: &GatewayOptions) -> anyhow::Result<String> {
    let gateway = format!("[gateway]\n{}\n", options.settings);
    let Some(key) = &options.mobile_key else {
        return Ok(gateway);
    };
    let key = key.to_str().context("the key file's path is not UTF-8")?;
    Ok(format!(
        "{gateway}[[mobile]]\nname = \"mh\"\nkey_file = '{key}'\naddresses = [\"{}\", \"{}\"]\n",
        MH.v4, MH.v6
    ))
}
