// SPDX-License-Identifier: Apache-2.0
//! `holdfast gateway --check`.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use holdfast_core::FLOW_RECORD_LEN;
use holdfast_net::datapath::{AttachMode, DataPath, Interface};
use holdfast_net::keep_path::{KeepPath, Peers};
use holdfast_net::state_file::HEADER_BYTES;

use super::kept_protocols;
use crate::check::interface::Subject;
use crate::check::{Finding, check_data_path, interface, offload, signals};
use crate::runtime::{DaemonKind, InterfaceLock, RUNTIME_DIRECTORY};
use crate::settings::{GatewaySettings, SchemeName};

/// Runs all checks.
pub(crate) fn run(settings: &GatewaySettings) -> Vec<Finding> {
    let mut findings = Vec::new();
    for wireless in &settings.wireless {
        for finding in run_at(wireless, settings) {
            // Findings about the whole router come from each interface.
            if !findings.contains(&finding) {
                findings.push(finding);
            }
        }
    }
    findings
}

fn run_at(wireless: &str, settings: &GatewaySettings) -> Vec<Finding> {
    let mut findings = Vec::new();
    let subject = match Subject::find(wireless) {
        Ok(subject) => subject,
        Err(error) => {
            findings.push(Finding::problem(error.to_string(), "see: ip link"));
            return findings;
        }
    };
    if let Some(wired) = &settings.daemon.wired
        && let Err(error) = Interface::query(wired)
    {
        findings.push(Finding::problem(error.to_string(), "see: ip link"));
    }
    let is_running = InterfaceLock::is_held(DaemonKind::Gateway, wireless);
    findings.push(check_forwarding(&subject));
    findings.extend(interface::check(&subject, DaemonKind::Gateway, is_running));
    findings.extend(offload::check(&subject));
    if is_running {
        let socket = Path::new(&settings.daemon.control_socket);
        findings.extend(signals::check_running(socket, &settings.mobiles));
    } else {
        let listen = settings.signals.listen;
        findings.extend(signals::check(&subject, listen, &settings.mobiles));
    }
    if has_engine(settings) {
        findings.extend(check_memory(settings.core.cache_bytes_max));
        let state_file = settings.state_file(wireless);
        findings.extend(check_state_file(&state_file, settings.core.flows_max));
    }
    // Without TCX the check would replace the running daemon's programs, and then remove its own.
    if !is_running {
        findings.push(check_data_path(wireless, attach(wireless, settings)));
    }
    findings
}

/// The engine needs a cache and a state file.
fn has_engine(settings: &GatewaySettings) -> bool {
    settings.daemon.scheme != SchemeName::Keep
}

fn read_sysctl(path: &str) -> Option<String> {
    fs::read_to_string(format!("/proc/sys/net/{path}"))
        .ok()
        .map(|text| text.trim().to_owned())
}

fn check_forwarding(subject: &Subject) -> Finding {
    let name = &subject.routed().name;
    let is_on = |family: &str| {
        read_sysctl(&format!("{family}/conf/{name}/forwarding")).is_some_and(|on| on != "0")
    };
    let is_port = *name != subject.interface.name;
    match (is_on("ipv4"), is_on("ipv6")) {
        (false, false) if is_port => Finding::note(
            format!("this machine routes nothing from {name}: only what {name} switches is served"),
            "if it is to route: sysctl -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1",
        ),
        (false, false) => Finding::problem(
            format!("this machine does not forward packets that arrive on {name}"),
            "sysctl -w net.ipv4.ip_forward=1 (and net.ipv6.conf.all.forwarding=1)",
        ),
        (true, true) => Finding::fine("forwarding of IPv4 and IPv6 is on"),
        (v4, _) => Finding::note(
            format!(
                "only {} is forwarded from {name}",
                if v4 { "IPv4" } else { "IPv6" }
            ),
            "the other takes net.ipv4.ip_forward=1 or net.ipv6.conf.all.forwarding=1",
        ),
    }
}

fn check_memory(cache_bytes_max: usize) -> Option<Finding> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let line = meminfo
        .lines()
        .find(|line| line.starts_with("MemAvailable:"))?;
    let available: usize = line.split_whitespace().nth(1)?.parse().ok()?;
    let (available_mib, cache_mib) = (available >> 10, cache_bytes_max >> 20);
    (cache_mib > available_mib / 2).then(|| {
        Finding::note(
            format!("the cache may take {cache_mib} MiB of {available_mib} MiB available memory"),
            "set a smaller cache",
        )
    })
}

/// Whether the state file can be created, and has the space that it needs.
fn check_state_file(path: &Path, flows_max: usize) -> Option<Finding> {
    let directory = path.parent()?;
    let shown = directory.display();
    if !directory.is_dir() {
        return Some(if directory == Path::new(RUNTIME_DIRECTORY) {
            Finding::note(
                format!("{shown} does not exist yet"),
                "it is made at the start, if that is allowed",
            )
        } else {
            Finding::problem(
                format!("{shown}, for the state file, does not exist"),
                "make it, or set another state_file",
            )
        });
    }
    let needed = (HEADER_BYTES + flows_max * FLOW_RECORD_LEN) as u64;
    // An existing file has its blocks already.
    let has = path.metadata().map_or(0, |found| found.blocks() * 512);
    let free = rustix::fs::statvfs(directory).ok()?;
    let free = free.f_bavail * free.f_frsize;
    (free + has < needed).then(|| {
        Finding::problem(
            format!(
                "{shown} has {} KiB free, the state file takes {}",
                free >> 10,
                needed.div_ceil(1024)
            ),
            "free some, or set a smaller flows_max",
        )
    })
}

/// Attaches for a moment. True if the programs detach by themselves when the daemon dies.
fn attach(wireless: &str, settings: &GatewaySettings) -> io::Result<bool> {
    let mut detaches = true;
    if has_engine(settings) {
        let path = DataPath::attach(wireless, AttachMode::Auto)?;
        detaches &= path.detaches_on_death();
    }
    if let Some(protocols) = kept_protocols(settings.daemon.scheme) {
        let taken = (Peers::ByAddress, protocols);
        let path = KeepPath::attach(wireless, AttachMode::Auto, taken, 0)?;
        detaches &= path.detaches_on_death();
    }
    Ok(detaches)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Severity;

    #[test]
    fn an_interface_that_does_not_exist_is_the_only_finding() {
        let text = "[gateway]\nwireless = \"hf-nowhere\"\n";
        let settings = GatewaySettings::of_text(Path::new("hf.toml"), text).expect("good");
        let findings = run(&settings);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].severity(), Severity::Problem);
        assert!(findings[0].to_string().contains("hf-nowhere"));
    }

    #[test]
    fn a_state_file_without_a_directory_or_space_is_a_problem() {
        let folder = tempfile::tempdir().unwrap();
        let severity = |path: &Path, flows_max| {
            check_state_file(path, flows_max).map(|finding| finding.severity())
        };
        let missing = folder.path().join("nope/state");
        assert_eq!(severity(&missing, 1), Some(Severity::Problem));
        let path = folder.path().join("state");
        assert_eq!(severity(&path, 1), None);
        assert_eq!(severity(&path, 1 << 50), Some(Severity::Problem));
    }
}
