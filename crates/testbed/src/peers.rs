// SPDX-License-Identifier: Apache-2.0
//! Programs that an operator would use instead of Holdfast, for the same experiments.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use holdfast_net::netns::{ChildGuard, NetNs};
use holdfast_net::rtnl::{RouteOptions, Rtnl};

use crate::link_process::GATEWAY_IF;
use crate::stop::StopFlag;
use crate::topology::{GATEWAY_WIRED_IF, HOST_SYSCTLS, Topology, load_rules};

/// How long a server may take to listen.
const READY_LIMIT: Duration = Duration::from_secs(30);

/// The port to which TPROXY leads.
const PORT: u16 = 5000;

const CONFIGURATION: &str = "global
  maxconn 4096
  nbthread 2
defaults
  mode tcp
  option splice-auto
  timeout connect 10s
  timeout client 1h
  timeout server 1h
frontend f
  bind :5000 transparent
  default_backend b
backend b
  source 0.0.0.0 usesrc clientip
  server s 0.0.0.0:0
";

/// A running HAProxy; killed when dropped. Its rules are the namespace's.
#[derive(Debug)]
pub struct HaProxy {
    _child: ChildGuard,
}

impl HaProxy {
    /// Starts HAProxy at the gateway as a transparent split TCP proxy for what
    /// comes from the MH by IPv4. Its connections have the congestion control that the
    /// sender's would have had.
    pub fn start(
        topology: &Topology,
        folder: &Path,
        congestion_control: &str,
        stop: &StopFlag,
    ) -> anyhow::Result<Self> {
        let config = folder.join("haproxy.cfg");
        fs::write(&config, CONFIGURATION)?;
        let gateway = topology.gateway();
        for arguments in [
            ["rule", "add", "fwmark", "1", "lookup", "100"].as_slice(),
            &[
                "route", "add", "local", "default", "dev", "lo", "table", "100",
            ],
        ] {
            let status = gateway
                .command("ip")
                .args(arguments)
                .status()
                .context("cannot start ip")?;
            ensure!(status.success(), "ip {}: {status}", arguments.join(" "));
        }
        load_rules(
            topology.gateway(),
            &format!(
                "table ip haproxy_peer {{
    chain pre {{
        type filter hook prerouting priority mangle; policy accept;
        meta l4proto tcp socket transparent 1 meta mark set 1 accept
        meta l4proto tcp iifname \"{GATEWAY_IF}\" tproxy to 127.0.0.1:{PORT} meta mark set 1 accept
    }}
}}
"
            ),
        )?;
        gateway.run(|| send_like_a_host(congestion_control))??;
        let mut command = gateway.command("haproxy");
        command.arg("-f").arg(&config).arg("-db");
        let log = folder.join("haproxy.log");
        let child = start_server(gateway, command, &log, stop, || {
            gateway.run(is_listening)?
        })?;
        Ok(Self { _child: child })
    }
}

/// Starts a server with its output in a log, and waits until it listens.
pub(crate) fn start_server(
    ns: &NetNs,
    mut command: Command,
    log: &Path,
    stop: &StopFlag,
    mut is_listening: impl FnMut() -> anyhow::Result<bool>,
) -> anyhow::Result<ChildGuard> {
    let output = fs::File::create(log)?;
    command.stdout(output.try_clone()?).stderr(output);
    let mut child = ns.spawn_guarded(command)?;
    let program = child.program().to_owned();
    stop.wait_for(&format!("{program} listens"), READY_LIMIT, || {
        if let Some(status) = child.try_wait()? {
            let log = fs::read_to_string(log).unwrap_or_default();
            let last = log.lines().last().unwrap_or("(no output)");
            bail!("{program}: {status}: {last}");
        }
        Ok(is_listening()?.then_some(()))
    })?;
    Ok(child)
}

/// Sets the hosts' TCP parameters for the gateway's own TCP.
fn send_like_a_host(congestion_control: &str) -> anyhow::Result<()> {
    for (path, value) in HOST_SYSCTLS {
        holdfast_net::rtnl::sysctl(path, value)?;
    }
    let rtnl = Rtnl::open()?;
    let options = RouteOptions {
        congestion_control: Some(congestion_control.to_owned()),
        mtu: None,
        microsecond_timestamps: false,
    };
    // The /25 networks with MH and FH in them, more specific than the interfaces' own /24.
    for (interface, net) in [(GATEWAY_IF, 2), (GATEWAY_WIRED_IF, 1)] {
        let net = IpAddr::V4(Ipv4Addr::new(10, net, 0, 0));
        let ifindex = rtnl.link_index(interface)?;
        rtnl.add_route_with(net, 25, None, ifindex, &options)?;
    }
    Ok(())
}

/// Whether a program listens on [`PORT`] in the calling thread's namespace.
fn is_listening() -> anyhow::Result<bool> {
    /// `TCP_LISTEN` (`include/net/tcp_states.h`) as `/proc/net/tcp` has it.
    const LISTEN: &str = "0A";
    let text = fs::read_to_string("/proc/thread-self/net/tcp")?;
    let port = format!(":{PORT:04X}");
    Ok(text.lines().skip(1).any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        fields.next().is_some_and(|own| own.ends_with(&port)) && fields.nth(1) == Some(LISTEN)
    }))
}
