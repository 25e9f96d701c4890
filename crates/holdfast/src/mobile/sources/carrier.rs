// SPDX-License-Identifier: Apache-2.0
//! Interfaces, their carriers, addresses and routes, as the kernel tells them.

use std::convert::Infallible;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use anyhow::Context as _;
use holdfast_net::monitor::{LinkEvent, LinkMonitor};
use tokio::io::unix::AsyncFd;

use super::{LinkSource, Teller, Told};
use crate::mobile::addresses::AddressMonitor;

/// Netlink. Its first reports are the present states.
pub(super) struct CarrierSource;

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
        teller.tell(Told::Addresses).await?;
        loop {
            tokio::select! {
                ready = links.readable_mut() => {
                    let mut ready = ready?;
                    let mut states = Vec::new();
                    while let Some(event) = ready.get_inner_mut().0.poll_event()? {
                        // After an overrun the present states follow.
                        if let LinkEvent::State(state) = event {
                            states.push(state);
                        }
                    }
                    ready.clear_ready();
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
