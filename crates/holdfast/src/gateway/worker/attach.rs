// SPDX-License-Identifier: Apache-2.0
//! The worker leaves an interface, attaches to another one of the same name, and takes over other limits.

use std::io;

use holdfast_core::Direction;
use holdfast_net::datapath::{DataPath, now};
use holdfast_net::tun::LayerKind;

use super::{BATCH_FRAMES, Worker, ip_offset, pool_bytes_max};
use crate::command::{Attachment, Limits};

/// The data path as others see it. Errors: no descriptor is free.
pub(in crate::gateway) fn attachment(path: &DataPath) -> io::Result<Attachment> {
    let devices = [Direction::Downlink, Direction::Uplink].map(|way| path.device_ifindex(way));
    Ok(Attachment {
        counters: path.counters()?,
        link_ifindex: path.interface().ifindex,
        devices: devices.to_vec(),
        data_path: path_name(path),
    })
}

/// The data path's name in status and log.
pub(in crate::gateway) fn path_name(path: &DataPath) -> &'static str {
    match path.interface().kind {
        LayerKind::Ethernet => "tc-tap",
        LayerKind::RawIp => "tc-tun",
    }
}

impl Worker {
    /// Makes all packets pass. Frames that were taken are sent first, if the interface still exists.
    pub(super) fn detach(&mut self) {
        self.path.stop_taking();
        self.quota = [BATCH_FRAMES; 2];
        // The next turn meets the error again.
        while self.read_batches().unwrap_or_default() {}
        // A frame may have been taken while the last batch, which was not full, was read.
        let _ = self.read_batches();
        self.path.detach();
    }

    /// Attaches to the new interface of the same name. Flows and cached frames stay. If the new interface
    /// has another link header, cached frames are dropped and the flows restart from their records.
    pub(super) fn attach_again(&mut self) -> io::Result<Attachment> {
        let next = self.path.attach_again()?;
        let attachment = attachment(&next)?;
        let before = std::mem::replace(&mut self.path, next);
        let (before, interface) = (before.interface(), self.path.interface());
        let has_same_header = (before.kind, before.mac) == (interface.kind, interface.mac);
        tracing::info!(
            wireless = interface.name,
            data_path = attachment.data_path,
            has_same_header,
            "attached again"
        );
        self.ip = ip_offset(interface.kind);
        self.bounds.wireless_mtu = interface.mtu;
        if !has_same_header {
            let found = self.records.read();
            self.start_engine_again(&found, now());
        }
        Ok(attachment)
    }

    /// Takes over the limits of settings that were read again.
    pub(super) fn set_limits(&mut self, limits: &Limits) {
        self.settings = self.settings.with_limits_of(&limits.core);
        self.engine.set_limits(&self.settings);
        self.pool.set_bytes_max(pool_bytes_max(&self.settings));
        self.drain = limits.drain;
    }
}
