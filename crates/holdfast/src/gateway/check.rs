// SPDX-License-Identifier: Apache-2.0
//! `holdfast gateway --check`: what in the router's set-up goes round or against the
//! gateway, and what to do about it.
//!
//! Nothing is changed: the data path is attached for a moment without a heartbeat, in
//! which it passes everything on.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;

use holdfast_core::FLOW_RECORD_LEN;
use holdfast_net::datapath::{AttachMode, DataPath, Interface, tcx_program_count};
use holdfast_net::keep_path::{KeepPath, Peers, Protocols};
use holdfast_net::state_file::HEADER_BYTES;
use serde_json::Value;

use crate::runtime::RUNTIME_DIRECTORY;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Severity {
    /// As it should be.
    Fine,
    /// May matter; the operator knows.
    Note,
    /// The gateway cannot work, or packets go round it.
    Problem,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    severity: Severity,
    what: String,
    /// What to do about it; empty when there is nothing to do.
    remedy: String,
}

impl Finding {
    fn fine(what: impl Into<String>) -> Self {
        Self {
            severity: Severity::Fine,
            what: what.into(),
            remedy: String::new(),
        }
    }

    fn note(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            severity: Severity::Note,
            what: what.into(),
            remedy: remedy.into(),
        }
    }

    fn problem(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            severity: Severity::Problem,
            what: what.into(),
            remedy: remedy.into(),
        }
    }

    /// How bad it is.
    pub(super) const fn severity(&self) -> Severity {
        self.severity
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.severity {
            Severity::Fine => "ok",
            Severity::Note => "note",
            Severity::Problem => "PROBLEM",
        };
        write!(f, "{word:8}{}", self.what)?;
        if !self.remedy.is_empty() {
            write!(f, "; {}", self.remedy)?;
        }
        Ok(())
    }
}

/// What `--check` looks at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject<'a> {
    pub(super) wireless: &'a str,
    pub(super) wired: Option<&'a str>,
    /// The engine runs: it needs a cache and a state file.
    pub(super) engine: bool,
    /// What `keep` takes, if it runs.
    pub(super) kept: Option<Protocols>,
    pub(super) cache_bytes_max: usize,
    pub(super) flows_max: usize,
    pub(super) state_file: &'a Path,
    /// A gateway runs on the wireless interface.
    pub(super) is_running: bool,
}

/// Looks at everything.
pub(super) fn run(subject: &Subject<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let interface = match Interface::query(subject.wireless) {
        Ok(interface) => interface,
        Err(error) => {
            findings.push(Finding::problem(error.to_string(), "see: ip link"));
            return findings;
        }
    };
    if let Some(wired) = subject.wired
        && let Err(error) = Interface::query(wired)
    {
        findings.push(Finding::problem(error.to_string(), "see: ip link"));
    }
    findings.extend(check_forwarding(subject.wireless));
    findings.extend(check_master(subject.wireless));
    findings.extend(check_other_programs(&interface, subject.is_running));
    findings.extend(check_flowtables(subject));
    findings.extend(check_hardware_offload(subject.wireless));
    if subject.engine {
        findings.extend(check_memory(subject.cache_bytes_max));
        findings.extend(check_state_file(subject.state_file, subject.flows_max));
    }
    findings.push(check_data_path(subject));
    findings
}

fn read_sysctl(path: &str) -> Option<String> {
    fs::read_to_string(format!("/proc/sys/net/{path}"))
        .ok()
        .map(|text| text.trim().to_owned())
}

fn check_forwarding(wireless: &str) -> Vec<Finding> {
    let is_on = |family: &str| {
        read_sysctl(&format!("{family}/conf/{wireless}/forwarding")).is_some_and(|on| on != "0")
    };
    match (is_on("ipv4"), is_on("ipv6")) {
        (false, false) => vec![Finding::problem(
            format!("this machine does not forward packets that arrive on {wireless}"),
            "sysctl -w net.ipv4.ip_forward=1 (and net.ipv6.conf.all.forwarding=1)",
        )],
        (true, true) => vec![Finding::fine("forwarding of IPv4 and IPv6 is on")],
        (v4, _) => vec![Finding::note(
            format!(
                "only {} is forwarded from {wireless}",
                if v4 { "IPv4" } else { "IPv6" }
            ),
            "the other takes net.ipv4.ip_forward=1 or net.ipv6.conf.all.forwarding=1",
        )],
    }
}

/// A port's packets may be switched without the router's hooks.
fn check_master(wireless: &str) -> Option<Finding> {
    let master = fs::read_link(format!("/sys/class/net/{wireless}/master")).ok()?;
    let master = master.file_name()?.to_string_lossy().into_owned();
    Some(Finding::problem(
        format!("{wireless} is a port of {master}: what is routed to it leaves by {master}"),
        format!("use --wireless {master}"),
    ))
}

fn check_other_programs(interface: &Interface, is_running: bool) -> Vec<Finding> {
    let name = &interface.name;
    let mut findings = Vec::new();
    if is_running {
        findings.push(Finding::fine(format!("a gateway runs on {name}")));
    }
    for (side, count) in tcx_program_count(interface.ifindex) {
        // One on each side is the running gateway's.
        let count = count.saturating_sub(u32::from(is_running));
        if count > 0 {
            findings.push(Finding::note(
                format!("{count} other TCX program(s) on {name}, {side}"),
                "they run after the gateway and see its packets; see: bpftool net show",
            ));
        }
    }
    for side in ["ingress", "egress"] {
        let listed = tool_json("tc", &["-j", "filter", "show", "dev", name, side]);
        let count = listed
            .as_ref()
            .and_then(Value::as_array)
            .map_or(0, |filters| {
                filters
                    .iter()
                    .filter(|filter| filter.get("options").is_some())
                    .count()
            });
        if count > 0 {
            findings.push(Finding::note(
                format!("{count} tc filter(s) on {name}, {side}"),
                "they run after the gateway; with skip_sw the hardware goes round it",
            ));
        }
    }
    let link = tool_json("ip", &["-j", "link", "show", "dev", name]);
    if link
        .as_ref()
        .is_some_and(|link| link.pointer("/0/xdp").is_some())
    {
        findings.push(Finding::note(
            format!("an XDP program on {name} sees packets before the gateway"),
            "what it redirects goes round the gateway",
        ));
    }
    findings
}

fn check_flowtables(subject: &Subject<'_>) -> Vec<Finding> {
    match tool_json("nft", &["-j", "list", "ruleset"]) {
        Some(ruleset) => judge_flowtables(&ruleset, subject.wireless),
        None => vec![Finding::note(
            "nft is not there or may not list the rules: flowtables were not looked for",
            "install nftables, or see that no flowtable has flags offload",
        )],
    }
}

/// Flowtables of the ruleset that have the wireless interface among their devices.
fn judge_flowtables(ruleset: &Value, wireless: &str) -> Vec<Finding> {
    let objects = ruleset.get("nftables").and_then(Value::as_array);
    let tables = objects
        .into_iter()
        .flatten()
        .filter_map(|object| object.get("flowtable"));
    let mut findings = Vec::new();
    for table in tables {
        let text = |key: &str| table.get(key).and_then(Value::as_str).unwrap_or("?");
        let named = |value: &Value, name: &str| match value {
            Value::String(one) => one == name,
            Value::Array(many) => many.iter().any(|one| one == name),
            _ => false,
        };
        if !table
            .get("dev")
            .is_some_and(|devices| named(devices, wireless))
        {
            continue;
        }
        let name = format!(
            "flowtable {} {} {}",
            text("family"),
            text("table"),
            text("name")
        );
        if table
            .get("flags")
            .is_some_and(|flags| named(flags, "offload"))
        {
            findings.push(Finding::problem(
                format!(
                    "{name} offloads flows of {wireless} to hardware, which go round the gateway"
                ),
                format!("take {wireless} out of its devices, or remove 'flags offload'"),
            ));
        } else {
            findings.push(Finding::note(
                format!("{name} shortens the way of flows of {wireless} (in software)"),
                format!("that passes the gateway's hooks, unless {wireless} is a bridge or a VLAN"),
            ));
        }
    }
    if findings.is_empty() {
        findings.push(Finding::fine(format!(
            "no nft flowtable has {wireless} among its devices"
        )));
    }
    findings
}

fn check_hardware_offload(wireless: &str) -> Option<Finding> {
    let output = Command::new("ethtool")
        .args(["-k", wireless])
        .output()
        .ok()?;
    let features = String::from_utf8_lossy(&output.stdout).into_owned();
    features.lines().any(|line| line.trim() == "hw-tc-offload: on").then(|| {
        Finding::note(
            format!("{wireless} can offload tc rules to hardware (hw-tc-offload)"),
            format!("flows offloaded by it go round the gateway: ethtool -K {wireless} hw-tc-offload off"),
        )
    })
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

/// Whether the state file can be there, and what it takes.
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
    // One that is there has its space.
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

/// Tries what the daemon will do, without taking a packet: whether the programs detach by
/// themselves.
fn check_data_path(subject: &Subject<'_>) -> Finding {
    let wireless = subject.wireless;
    match attach(subject) {
        Ok(true) => Finding::fine(format!("the data path attaches to {wireless} (TCX)")),
        Ok(false) => Finding::note(
            format!("the data path attaches to {wireless} by clsact: this kernel has no TCX"),
            "after a kill its programs stay, and pass everything on",
        ),
        Err(error) => Finding::problem(format!("the data path: {error}"), remedy_for(&error)),
    }
}

/// Whether the programs detach by themselves when the daemon dies.
fn attach(subject: &Subject<'_>) -> io::Result<bool> {
    let mut detaches = true;
    if subject.engine {
        let path = DataPath::attach(subject.wireless, AttachMode::Auto)?;
        detaches &= path.detaches_on_death();
    }
    if let Some(protocols) = subject.kept {
        let taken = (Peers::ByAddress, protocols);
        let path = KeepPath::attach(subject.wireless, AttachMode::Auto, taken, 0)?;
        detaches &= path.detaches_on_death();
    }
    Ok(detaches)
}

fn remedy_for(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "run as root, or with CAP_NET_ADMIN and CAP_BPF in the first user namespace"
        }
        io::ErrorKind::NotFound if error.to_string().contains("/dev/net/tun") => {
            "modprobe tun, or give the container /dev/net/tun"
        }
        _ => "the kernel takes CONFIG_BPF_SYSCALL, CONFIG_NET_CLS_ACT, CONFIG_TUN",
    }
}

/// A tool's output; none if it is not there, fails or prints no JSON.
fn tool_json(tool: &str, arguments: &[&str]) -> Option<Value> {
    let output = Command::new(tool).args(arguments).output().ok()?;
    serde_json::from_slice(&output.stdout)
        .ok()
        .filter(|_| output.status.success())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn ruleset(flags: &Value) -> Value {
        json!({"nftables": [
            {"metainfo": {"version": "1.0.6"}},
            {"table": {"family": "inet", "name": "filter", "handle": 1}},
            {"flowtable": {"family": "inet", "name": "fast", "table": "filter", "handle": 2,
                "hook": "ingress", "prio": 0, "dev": ["eth0", "wlan0"], "flags": flags}},
        ]})
    }

    #[test]
    fn a_hardware_flowtable_with_the_wireless_interface_is_a_problem() {
        for flags in [json!("offload"), json!(["offload", "counter"])] {
            let findings = judge_flowtables(&ruleset(&flags), "wlan0");
            assert_eq!(findings.len(), 1);
            assert_eq!(findings[0].severity, Severity::Problem);
            assert!(
                findings[0]
                    .to_string()
                    .contains("flowtable inet filter fast")
            );
        }
    }

    #[test]
    fn a_software_flowtable_is_noted_and_one_of_others_is_not() {
        let findings = judge_flowtables(&ruleset(&Value::Null), "wlan0");
        assert_eq!(findings[0].severity, Severity::Note);
        let findings = judge_flowtables(&ruleset(&json!("offload")), "wlan1");
        assert_eq!(findings[0].severity, Severity::Fine);
    }

    #[test]
    fn an_interface_that_does_not_exist_is_the_only_finding() {
        let findings = run(&Subject {
            wireless: "hf-nowhere",
            wired: None,
            engine: true,
            kept: None,
            cache_bytes_max: 1 << 20,
            flows_max: 1,
            state_file: Path::new("/run/holdfast/flows"),
            is_running: false,
        });
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].severity(), Severity::Problem);
        assert!(findings[0].to_string().contains("hf-nowhere"));
    }

    #[test]
    fn a_state_file_without_a_directory_or_space_is_a_problem() {
        let folder = tempfile::tempdir().unwrap();
        let severity = |path: &Path, flows_max| {
            check_state_file(path, flows_max).map(|finding| finding.severity)
        };
        let missing = folder.path().join("nope/state");
        assert_eq!(severity(&missing, 1), Some(Severity::Problem));
        let path = folder.path().join("state");
        assert_eq!(severity(&path, 1), None);
        assert_eq!(severity(&path, 1 << 50), Some(Severity::Problem));
    }
}
