// SPDX-License-Identifier: Apache-2.0
//! Answers the callers of the control socket of the mobile's daemon.

use std::collections::BTreeMap;
use std::time::Duration;

use holdfast_core::{LinkSource, LinkState};
use holdfast_net::datapath::interface_bytes;

use super::Daemon;
use crate::control::{
    ControlReply, ControlRequest, LinkBytes, MobileSessionStatus, UNKNOWN_STATE, refusal,
};

holdfast_core::counters! {
    /// What the daemon counts beside its session with the gateway.
    pub(in crate::mobile) struct DaemonCounters {
        /// Signals that could not be sent.
        send_errors = "send-errors",
        /// Times that the mobile came into another cell.
        handovers = "handovers",
    }
}

impl Daemon {
    /// Executes a request on the control socket.
    pub(super) async fn obey(&mut self, request: &ControlRequest) -> ControlReply {
        match request {
            ControlRequest::Status { outages_max, .. } => {
                ControlReply::Mobile(Box::new(self.status(*outages_max).await))
            }
            ControlRequest::Signal {
                event,
                lead_ms,
                gateway,
            } => {
                let cell = gateway.map(|gateway| self.cells.of_gateway(gateway));
                if let (Some(gateway), Some(None)) = (gateway, cell) {
                    return ControlReply::Error {
                        message: format!(
                            "{gateway} is no gateway of this mobile; see mobile.cells"
                        ),
                    };
                }
                let present = self.cells.number();
                if let (Some(gateway), Some(Some(cell))) = (gateway, cell)
                    && *event != LinkState::Up
                    && cell != present
                {
                    return ControlReply::Error {
                        message: format!(
                            "the mobile is not in the cell of {gateway}; leave out --gateway to \
                             name the one in which it is"
                        ),
                    };
                }
                let lead = (*lead_ms > 0).then(|| Duration::from_millis((*lead_ms).into()));
                let Some(event) = event.event(lead) else {
                    return refusal(UNKNOWN_STATE);
                };
                match cell.flatten() {
                    Some(cell) if cell != present => self.enter(cell),
                    _ => self.handle_event(LinkSource::Command, event),
                }
                tracing::info!(?event, "command on the control socket");
                ControlReply::Done
            }
            ControlRequest::Link { .. } => ControlReply::Error {
                message: "this is a mobile's daemon; a gateway's takes that".into(),
            },
        }
    }

    async fn status(&self, outages_max: usize) -> MobileSessionStatus {
        let counters = self.session.counters();
        let own = DaemonCounters {
            send_errors: self.send_errors,
            handovers: self.handovers,
        };
        let named = counters.named().chain(own.named());
        let mut by_name: BTreeMap<_, _> = named
            .map(|(name, count)| (name.to_owned(), count))
            .collect();
        let rejections = counters.rejections.iter();
        by_name.extend(
            rejections.map(|(rejection, count)| (format!("rejected.{}", rejection.name()), count)),
        );
        if let Some(host) = &self.host {
            by_name.extend(host.counters());
        }
        if let Some(uplink) = &self.uplink {
            by_name.extend(uplink.counters().await);
        }
        MobileSessionStatus {
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            uptime_s: self.started.elapsed().as_secs_f64(),
            interface: self.cells.present().interface.clone(),
            scheme: self.settings.scheme.name().to_owned(),
            gateway: self.cells.present().gateway,
            link: match (self.cells.present().carrier, self.session.state()) {
                (None, _) => LinkState::Unknown,
                (Some(_), state) => state,
            },
            epoch: self.session.epoch(),
            acknowledged: self.session.is_acknowledged(),
            refused: self.session.refusal().map(|reason| format!("{reason:?}")),
            addresses: self.session.addresses().to_vec(),
            link_bytes: interface_bytes(&self.cells.present().interface)
                .ok()
                .map(|(downlink, uplink)| LinkBytes { downlink, uplink }),
            sources: self.link.status(),
            outages: self.outages.status(outages_max),
            counters: by_name,
        }
    }
}
