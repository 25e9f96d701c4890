// SPDX-License-Identifier: Apache-2.0
//! Interfaces, their carriers, addresses and routes, by netlink.

use std::collections::BTreeMap;
use std::convert::Infallible;

use anyhow::Context as _;
use holdfast_net::addresses::AddressMonitor;
use holdfast_net::monitor::{InterfaceEvent, InterfaceState, LinkMonitor};
use tokio::io::unix::AsyncFd;

use super::{Reporter, SourceEvent, SourceTask};

/// Netlink. Its first reports are the present states.
#[derive(Default)]
pub(super) struct CarrierSource {
    /// The reported interfaces, by index: the kernel reports no removal that happens while no socket
    /// is open.
    known: BTreeMap<u32, String>,
}

impl CarrierSource {
    /// Interfaces that were removed, or have another index now.
    fn take_removed(&mut self) -> Vec<InterfaceState> {
        let known = self.known.iter();
        let removed =
            known.filter_map(|(ifindex, name)| InterfaceState::removed_unreported(*ifindex, name));
        let removed: Vec<_> = removed.collect();
        for state in &removed {
            self.known.remove(&state.ifindex);
        }
        removed
    }

    fn note(&mut self, state: &InterfaceState) {
        if state.removed {
            self.known.remove(&state.ifindex);
        } else {
            self.known.insert(state.ifindex, state.name.clone());
        }
    }
}

impl SourceTask for CarrierSource {
    async fn run(&mut self, reporter: &Reporter) -> anyhow::Result<Infallible> {
        let (mut links, changes) = open()?;
        reporter.report(SourceEvent::Runs).await?;
        // Interfaces may have been removed while no socket was open.
        for state in self.take_removed() {
            reporter.report(SourceEvent::Interface(state)).await?;
        }
        reporter.report(SourceEvent::Addresses).await?;
        loop {
            tokio::select! {
                ready = links.readable_mut() => {
                    let mut ready = ready?;
                    let (mut states, mut has_missed) = (Vec::new(), false);
                    while let Some(event) = ready.get_inner_mut().poll_event()? {
                        match event {
                            InterfaceEvent::State(state) => {
                                self.note(&state);
                                states.push(state);
                            }
                            // The queued reports are older; the present states follow them.
                            InterfaceEvent::Overrun => has_missed = true,
                        }
                    }
                    ready.clear_ready();
                    if has_missed {
                        let removed = self.take_removed();
                        let is_gone = |number| removed.iter().any(|removed| removed.ifindex == number);
                        states.retain(|state| !is_gone(state.ifindex));
                        states.splice(0..0, removed);
                    }
                    for state in states {
                        reporter.report(SourceEvent::Interface(state)).await?;
                    }
                }
                ready = changes.readable() => {
                    let mut ready = ready?;
                    ready.get_inner().drain()?;
                    ready.clear_ready();
                    reporter.report(SourceEvent::Addresses).await?;
                }
            }
        }
    }
}

#[expect(
    deprecated,
    reason = "its replacement is unsafe; these descriptors never change"
)]
fn open() -> anyhow::Result<(AsyncFd<LinkMonitor>, AsyncFd<AddressMonitor>)> {
    let links = AsyncFd::new(LinkMonitor::open().context("netlink: links")?)?;
    let changes = AsyncFd::new(AddressMonitor::open().context("netlink: addresses")?)?;
    Ok((links, changes))
}
