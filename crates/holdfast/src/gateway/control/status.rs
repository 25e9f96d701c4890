// SPDX-License-Identifier: Apache-2.0
//! The gateway's status: one for all its workers, interfaces and mobiles.

use std::cmp::Reverse;
use std::io;

use holdfast_net::datapath::{interface_bytes, now};

use super::super::worker_status::QueriedWorker;
use super::Control;
use crate::control::{LinkBytes, MobileStatus, StatusReply};

impl Control {
    pub(super) async fn status(&self, flows_max: usize, outages_max: usize) -> Option<StatusReply> {
        let (workers, are_attached) = {
            let links = self.links.borrow();
            let workers = links.iter().flat_map(QueriedWorker::of_link);
            let workers: Vec<_> = workers.collect::<io::Result<_>>().ok()?;
            (workers, links.iter().all(|link| link.workers.is_attached()))
        };
        let serving = if are_attached {
            Vec::new()
        } else {
            self.serving()
        };
        let names_interfaces = self.settings.borrow().wireless.len() > 1;
        let data_path = workers.first().map_or("none", |worker| worker.data_path);
        let mut seen: Option<StatusReply> = None;
        let mut before = None;
        for worker in &workers {
            let mut status = worker.status(flows_max, self.peer_addresses()).await?;
            if names_interfaces {
                for mobile in &mut status.mobiles {
                    mobile.interface = Some(worker.interface.clone());
                }
            }
            match &mut seen {
                None => seen = Some(status),
                Some(seen) => seen.add(status, before == Some(&worker.interface)),
            }
            before = Some(&worker.interface);
        }
        let seen = seen.unwrap_or_else(|| StatusReply {
            keeps_records: true,
            ..StatusReply::default()
        });
        let settings = self.settings.borrow();
        let mut status = StatusReply {
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            uptime_s: self.started.elapsed().as_secs_f64(),
            scheme: settings.daemon.scheme.name().into(),
            wireless: settings.wireless.join(", "),
            wired: settings.daemon.wired.clone(),
            data_path: data_path.into(),
            attached: seen.attached && are_attached,
            serving,
            outages: self.outages.borrow().status(outages_max),
            link_bytes: link_bytes(&settings.wireless),
            ..seen
        };
        drop(settings);
        // The list has the flows of all workers.
        status
            .flow_list
            .sort_by_key(|flow| Reverse(flow.cached_bytes));
        status.flow_list.truncate(flows_max);
        self.add_peers(&mut status);
        Some(status)
    }

    /// The addresses of all mobiles with a key. The signals' limits bound their number.
    fn peer_addresses(&self) -> Vec<std::net::IpAddr> {
        let peers = self.peers.borrow();
        let views = peers.iter().filter_map(|(_, view)| view);
        views.flat_map(|view| view.addresses.clone()).collect()
    }

    /// Adds what the mobiles' signals report: names, epochs, and mobiles without flows.
    fn add_peers(&self, status: &mut StatusReply) {
        let now = now();
        let peers = self.peers.borrow();
        for (config, view) in peers.iter() {
            let addresses = view.map(|view| view.addresses.clone()).unwrap_or_default();
            let known = status
                .mobiles
                .iter_mut()
                .find(|mobile| mobile.addresses.iter().any(|one| addresses.contains(one)));
            let mobile = if let Some(mobile) = known {
                mobile
            } else {
                status.mobiles.push(MobileStatus::default());
                status.mobiles.last_mut().expect("just pushed")
            };
            mobile.name = Some(config.name.clone());
            if let Some(view) = view {
                mobile.addresses = addresses;
                mobile.epoch = view.epoch;
                mobile.signal_age_s = Some(now.saturating_since(view.received).as_secs_f64());
            }
        }
        let counters = peers.counters();
        status
            .counters
            .insert("signals.believed".into(), counters.believed);
        status
            .counters
            .insert("signals.challenges".into(), counters.challenges);
        for (rejection, count) in counters.rejections.iter() {
            status
                .counters
                .insert(format!("signals.{}", rejection.name()), count);
        }
    }
}

/// The bytes of all interfaces together. None if an interface does not exist.
fn link_bytes(interfaces: &[String]) -> Option<LinkBytes> {
    interfaces.iter().try_fold(
        LinkBytes {
            downlink: 0,
            uplink: 0,
        },
        |sum, interface| {
            let (uplink, downlink) = interface_bytes(interface).ok()?;
            Some(LinkBytes {
                downlink: sum.downlink + downlink,
                uplink: sum.uplink + uplink,
            })
        },
    )
}
