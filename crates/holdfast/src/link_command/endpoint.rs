// SPDX-License-Identifier: Apache-2.0
//! The two ends of the link: TUN devices in namespaces of the user's choice.

use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;

use anyhow::{Context as _, anyhow};
use holdfast_net::rtnl::{Rtnl, sysctl};
use holdfast_net::tun::{LayerKind, Tun, TunOptions};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::LinkArgs;
use crate::settings::SettingsError;

/// What the flags of namespaces take.
const NAMESPACE: &str = "takes a path as /run/netns/mh, or the number of a process";

/// An address with its prefix length.
type AddressPrefix = (IpAddr, u8);

/// Creates the device of one side, up and with its addresses. `flag` is the beginning of the
/// side's flags.
pub(super) fn open_endpoint(
    flag: &str,
    namespace: Option<&str>,
    name: &str,
    addresses: &[String],
    args: &LinkArgs,
) -> anyhow::Result<Tun> {
    let addresses = addresses
        .iter()
        .map(|text| parse_address(flag, text))
        .collect::<anyhow::Result<Vec<AddressPrefix>>>()?;
    let options = TunOptions {
        name: name.to_owned(),
        kind: LayerKind::RawIp,
        offload: false,
        queue_len: Some(args.device_queue),
        mtu: Some(args.mtu),
        up: false,
    };
    let namespace = namespace
        .map(|text| open_namespace(flag, text))
        .transpose()?;
    // A namespace belongs to a thread: enter it on one that ends afterwards.
    std::thread::scope(|scope| {
        let create = || -> anyhow::Result<Tun> {
            if let Some(namespace) = &namespace {
                move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                    .with_context(|| format!("{flag}-ns: is no network namespace; {NAMESPACE}"))?;
            }
            let tun = Tun::create(&options).with_context(|| format!("{flag}-if {name}"))?;
            // No link-local address, no solicitations: only its users' packets are on the link.
            // An error means that the kernel has no IPv6: then there are none anyway.
            drop(sysctl(
                &format!("net/ipv6/conf/{}/addr_gen_mode", tun.name()),
                "1",
            ));
            tun.set_up().with_context(|| format!("{flag}-if {name}"))?;
            add_addresses(&tun, &addresses)
                .with_context(|| format!("{flag}-address: cannot be set"))?;
            Ok(tun)
        };
        scope
            .spawn(create)
            .join()
            .map_err(|_| anyhow!("{flag}-if {name}: the thread failed"))?
    })
}

fn add_addresses(tun: &Tun, addresses: &[AddressPrefix]) -> io::Result<()> {
    if addresses.is_empty() {
        return Ok(());
    }
    let rtnl = Rtnl::open()?;
    for &(address, prefix_bits) in addresses {
        rtnl.add_address(tun.ifindex(), address, prefix_bits)?;
    }
    Ok(())
}

/// A process id means that process's network namespace.
fn open_namespace(flag: &str, text: &str) -> anyhow::Result<File> {
    let path = match text.parse::<u32>() {
        Ok(pid) => format!("/proc/{pid}/ns/net"),
        Err(_) => text.to_owned(),
    };
    File::open(&path).with_context(|| format!("{flag}-ns: {path} cannot be opened; {NAMESPACE}"))
}

fn parse_address(flag: &str, text: &str) -> anyhow::Result<AddressPrefix> {
    let parsed = text.split_once('/').and_then(|(address, prefix)| {
        let address: IpAddr = address.parse().ok()?;
        let prefix_max = if address.is_ipv4() { 32 } else { 128 };
        let prefix: u8 = prefix.parse().ok().filter(|&prefix| prefix <= prefix_max)?;
        Some((address, prefix))
    });
    parsed.ok_or_else(|| {
        let problem = format!("got `{text}`, takes ADDRESS/PREFIX as in 10.0.0.1/30");
        SettingsError::of(format!("{flag}-address: {problem}")).into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_take_both_families_and_a_prefix_that_fits() {
        assert!(matches!(
            parse_address("--fh", "10.0.0.1/30"),
            Ok((IpAddr::V4(_), 30))
        ));
        assert!(matches!(
            parse_address("--fh", "fd00::1/64"),
            Ok((IpAddr::V6(_), 64))
        ));
        for text in ["10.0.0.1", "10.0.0.1/33", "x/3", "fd00::1/129"] {
            let error = parse_address("--fh", text).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("--fh-address: got `{text}`")),
                "{error}"
            );
        }
    }

    #[test]
    fn a_namespace_that_is_not_there_is_named() {
        let error = open_namespace("--mh", "/nonexistent/ns")
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("--mh-ns: /nonexistent/ns cannot be opened; takes"));
    }
}
