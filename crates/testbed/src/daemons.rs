// SPDX-License-Identifier: Apache-2.0
//! `holdfast gateway` and `holdfast mobile` as guarded children.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use holdfast_net::netns::{ChildGuard, NetNs};
use serde_json::{Value, json};

use crate::link_process::{GATEWAY_IF, MH_IF};
use crate::stop::StopFlag;
use crate::topology::base_stations::{mh_device, station};
use crate::topology::{GATEWAY_WIRED_IF, GATEWAY_WIRELESS, MH, SECOND_MH, Topology};

/// How long a daemon may take until it answers.
const READY_LIMIT: Duration = Duration::from_secs(30);
/// How long it may take to answer one request.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// How long it may take to end after SIGTERM.
const END_LIMIT: Duration = Duration::from_secs(30);

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
    /// The file of the MH's key, made by [`make_key`]; none: its settings have no mobile.
    pub mobile_key: Option<PathBuf>,
    /// More lines for the `[gateway]` section of its settings file.
    pub settings: String,
    /// Its part among several base stations that hand MHs over.
    pub station: Option<StationOptions>,
}

/// What a base station needs to hand MHs over.
#[derive(Clone, Debug)]
pub struct StationOptions {
    /// The number of its cell, from 0; [`station`] has its address.
    pub cell: usize,
    /// The number of cells.
    pub cells: usize,
    /// The key that all of them have.
    pub key: PathBuf,
    /// More lines for the `[handoff]` section of its settings file.
    pub settings: String,
}

/// Makes the key that gateway and MH share, in `folder`.
pub fn make_key(holdfast: &Path, folder: &Path) -> anyhow::Result<PathBuf> {
    make_key_file(holdfast, folder.join("mobile.key"))
}

/// Makes a key in a new file.
pub fn make_key_file(holdfast: &Path, path: PathBuf) -> anyhow::Result<PathBuf> {
    let output = std::process::Command::new(holdfast)
        .args(["mobile", "keygen"])
        .output()?;
    ensure!(
        output.status.success(),
        "holdfast mobile keygen: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
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
        Self::start_gateway_in(topology.gateway(), options, folder, stop)
    }

    /// The same in the namespace of any base station.
    pub fn start_gateway_in(
        gateway: &NetNs,
        options: &GatewayOptions,
        folder: &Path,
        stop: &StopFlag,
    ) -> anyhow::Result<Self> {
        let socket = folder.join("gateway.sock");
        let config = folder.join("gateway.toml");
        fs::write(&config, gateway_file(options)?)
            .with_context(|| format!("{}: cannot be written", config.display()))?;
        let mut command = gateway.command(&options.holdfast);
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
        let mut daemon = Self::spawn(gateway, command, socket, folder.join("gateway.log"))?;
        daemon.wait_until(stop, "holdfast gateway is attached")?;
        Ok(daemon)
    }

    /// Starts the mobile's daemon at the MH and waits until it answers. It works for the gateway if
    /// there is a `key`, and for the MH's own flows if there is a scheme in `settings`, lines of its
    /// `[mobile]` section. With several cells it registers with the base station to which the MH's
    /// default route leads.
    pub fn start_mobile(
        topology: &Topology,
        holdfast: &Path,
        key: Option<&Path>,
        settings: &str,
        folder: &Path,
        stop: &StopFlag,
    ) -> anyhow::Result<Self> {
        let settings = if settings.is_empty() {
            "scheme = \"none\""
        } else {
            settings
        };
        let mut file = format!("[mobile]\ninterface = \"{MH_IF}\"\n{settings}\n");
        if let Some(key) = key {
            let _ = writeln!(file, "key_file = '{}'", utf8(key)?);
            if topology.cells.len() > 1 {
                let cells = (0..topology.cells.len())
                    .map(|cell| format!("\"{} {}\"", mh_device(cell), station(cell).v4));
                let cells: Vec<String> = cells.collect();
                let _ = writeln!(file, "cells = [{}]", cells.join(", "));
            } else {
                let _ = writeln!(file, "gateway = \"{}\"", GATEWAY_WIRELESS.v4);
            }
        }
        let (socket, config) = (folder.join("mobile.sock"), folder.join("mobile.toml"));
        fs::write(&config, file)
            .with_context(|| format!("{}: cannot be written", config.display()))?;
        let mut command = topology.mh.command(holdfast);
        command.arg("mobile").arg("--config").arg(config);
        command.arg("--control-socket").arg(&socket);
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
        status_at(&self.socket)
    }

    /// Where it takes commands.
    pub fn socket(&self) -> &Path {
        &self.socket
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
            return "(no output)".into();
        }
        lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
    }
}

/// What `holdfast` prints to standard error if a daemon did not answer in the few seconds that it waits.
const LATE: [&str; 3] = [
    "no answer within",
    "the daemon does not read",
    "the packet worker does not answer",
];

/// Whether this is an error of a command whose daemon was too late for it.
fn is_late(error: &[u8]) -> bool {
    let error = String::from_utf8_lossy(error);
    LATE.iter().any(|part| error.contains(part))
}

/// Runs a command that sends a request to a daemon; again, if the daemon was too late for it. Any other
/// failure is the result.
pub fn request_output(command: &mut Command) -> io::Result<Output> {
    let deadline = Instant::now() + ANSWER_LIMIT;
    loop {
        let output = command.output()?;
        if !is_late(&output.stderr) || Instant::now() >= deadline {
            return Ok(output);
        }
        eprintln!("again: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// What the daemon with this socket answers to a status request.
pub fn status_at(socket: &Path) -> anyhow::Result<Value> {
    ask(socket, &json!({"command": "status"}))
}

/// Gives the mobile with this socket a warning: its link goes down in `lead_ms` milliseconds.
pub fn announce_leaving(socket: &Path, lead_ms: u16) -> anyhow::Result<()> {
    let event = "going-down-soon";
    request(
        socket,
        &json!({"command": "signal", "event": event, "lead_ms": lead_ms}),
    )
}

/// Reports to the mobile with this socket that its link is `up` or `down`.
pub fn signal_link(socket: &Path, event: &str) -> anyhow::Result<()> {
    request(socket, &json!({"command": "signal", "event": event}))
}

/// Reports to the gateway with this socket that the link of the mobile at `address` is `up` or
/// `down`.
pub fn report_link(socket: &Path, address: IpAddr, event: &str) -> anyhow::Result<()> {
    request(
        socket,
        &json!({"command": "link", "address": address, "event": event}),
    )
}

/// Reports to the mobile with this socket that it is in the cell of `gateway`.
pub fn signal_cell(socket: &Path, gateway: IpAddr) -> anyhow::Result<()> {
    request(
        socket,
        &json!({"command": "signal", "event": "up", "gateway": gateway}),
    )
}

/// A request whose answer is only whether it was done.
fn request(socket: &Path, request: &Value) -> anyhow::Result<()> {
    ask(socket, request).map(|_| ())
}

fn ask(socket: &Path, request: &Value) -> anyhow::Result<Value> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(ANSWER_LIMIT))?;
    stream.write_all(format!("{request}\n").as_bytes())?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    let answer: Value = serde_json::from_str(&line)?;
    ensure!(
        answer["reply"] != "error",
        "{request}: {}",
        answer["message"]
    );
    Ok(answer)
}

/// A gateway's status has whether packets reach it; a mobile has nothing to attach.
fn is_ready(status: &Value) -> bool {
    status["reply"] != "gateway" || status["attached"] == true
}

fn utf8(path: &Path) -> anyhow::Result<&str> {
    path.to_str().context("the key file's path is not UTF-8")
}

/// The gateway's settings file.
fn gateway_file(options: &GatewayOptions) -> anyhow::Result<String> {
    let mut file = format!("[gateway]\n{}\n", options.settings);
    if let Some(own) = &options.station {
        let neighbours: Vec<String> = (0..own.cells)
            .filter(|cell| *cell != own.cell)
            .map(|cell| format!("\"{}\"", station(cell).v4))
            .collect();
        let _ = writeln!(
            file,
            "[handoff]\nname = \"cell-{}\"\nneighbours = [{}]\nkey_file = '{}'\n\
             interface = \"{GATEWAY_WIRED_IF}\"\n{}",
            own.cell + 1,
            neighbours.join(", "),
            utf8(&own.key)?,
            own.settings
        );
    }
    if let Some(key) = &options.mobile_key {
        let _ = writeln!(
            file,
            "[[mobile]]\nname = \"mh\"\nkey_file = '{}'\naddresses = [\"{}\", \"{}\", \"{}\", \"{}\"]",
            utf8(key)?,
            MH.v4,
            MH.v6,
            // They are on the same device: its daemon registers all of them, or none.
            SECOND_MH.v4,
            SECOND_MH.v6
        );
    }
    Ok(file)
}
