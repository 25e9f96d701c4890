// SPDX-License-Identifier: Apache-2.0
//! Interfaces, their carriers, addresses and routes, as the kernel tells them.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use anyhow::Context as _;
use holdfast_net::monitor::{LinkEvent, LinkMonitor, LinkState};
use holdfast_net::tun::query_ifindex;
use tokio::io::unix::AsyncFd;

use super::{LinkSource, Teller, Told};
use crate::mobile::addresses::AddressMonitor;

/// Netlink. Its first reports are the present states.
#[derive(Default)]
pub(super) struct CarrierSource {
    /// The interfaces that were told of, by number: what goes while nobody listens is in no
    /// answer of the kernel's.
    known: BTreeMap<u32, String>,
}

impl CarrierSource {
    /// What is there no longer, or has another number now.
    fn gone(&mut self) -> Vec<LinkState> {
        let is_gone = |ifindex: u32, name: &str| match query_ifindex(name) {
            Ok(found) => found != ifindex,
            // Any other failure says nothing of the interface.
            Err(error) => error.raw_os_error() == Some(libc::ENODEV),
        };
        let gone = self.known.iter();
        let gone = gone.filter(|(ifindex, name)| is_gone(**ifindex, name));
        let gone = gone.map(|(ifindex, name)| LinkState {
            ifindex: *ifindex,
            name: name.clone(),
            carrier: false,
            up: false,
            removed: true,
            mtu: 0,
        });
        let gone: Vec<_> = gone.collect();
        for state in &gone {
            self.known.remove(&state.ifindex);
        }
        gone
    }

    fn note(&mut self, state: &LinkState) {
        if state.removed {
            self.known.remove(&state.ifindex);
        } else {
            self.known.insert(state.ifindex, state.name.clone());
        }
    }
}

/// A netlink socket as tokio waits for it.
struct MonitorFd(LinkMonitor);

impl AsRawFd for MonitorFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl AsFd for MonitorFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl LinkSource for CarrierSource {
    async fn run(&mut self, teller: &Teller) -> anyhow::Result<Infallible> {
        let (mut links, changes) = open()?;
        teller.tell(Told::Runs).await?;
        // They may have changed while nobody listened.
        for state in self.gone() {
            teller.tell(Told::Interface(state)).await?;
        }
        teller.tell(Told::Addresses).await?;
        loop {
            tokio::select! {
                ready = links.readable_mut() => {
                    let mut ready = ready?;
                    let (mut states, mut has_missed) = (Vec::new(), false);
                    while let Some(event) = ready.get_inner_mut().0.poll_event()? {
                        match event {
                            LinkEvent::State(state) => {
                                self.note(&state);
                                states.push(state);
                            }
                            // What still waits is older; the present states follow it.
                            LinkEvent::Overrun => has_missed = true,
                        }
                    }
                    ready.clear_ready();
                    if has_missed {
                        let gone = self.gone();
                        let is_gone = |number| gone.iter().any(|gone| gone.ifindex == number);
                        states.retain(|state| !is_gone(state.ifindex));
                        states.splice(0..0, gone);
                    }
                    for state in states {
                        teller.tell(Told::Interface(state)).await?;
                    }
                }
                ready = changes.readable() => {
                    let mut ready = ready?;
                    ready.get_inner().drain()?;
                    ready.clear_ready();
                    teller.tell(Told::Addresses).await?;
                }
            }
        }
    }
}

#[expect(
    deprecated,
    reason = "its replacement is unsafe; these descriptors never change"
)]
fn open() -> anyhow::Result<(AsyncFd<MonitorFd>, AsyncFd<AddressMonitor>)> {
    let links = AsyncFd::new(MonitorFd(LinkMonitor::open().context("netlink: links")?))?;
    let changes = AsyncFd::new(AddressMonitor::open().context("netlink: addresses")?)?;
    Ok((links, changes))
}
