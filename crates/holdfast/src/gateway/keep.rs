// SPDX-License-Identifier: Apache-2.0
//! The gateway with the scheme `keep`: another worker below the same control thread. It needs no
//! records for a successor, for it knows nothing of a flow that outlives an outage.

use anyhow::Context as _;
use holdfast_net::keep_path::Peers;
use holdfast_net::monitor::LinkMonitor;

use super::control::{Channels, Control, Interfaces};
use super::open_signal_socket;
use crate::control::ControlListener;
use crate::settings::GatewaySettings;

/// Serves until a signal of the operating system ends it.
pub(super) fn serve(settings: GatewaySettings) -> anyhow::Result<()> {
    let socket = ControlListener::bind(settings.daemon.control_socket.as_ref())?;
    let signals = open_signal_socket(&settings)?;
    let running = crate::keep::start(&settings.wireless, Peers::ByAddress, settings.keep)
        .context("cannot take packets; see: holdfast gateway --check")?;
    // After the device came up, or its coming up would look like a change.
    let monitor = LinkMonitor::open().context("watching the wireless interface")?;
    // There is no base station that would report anything.
    let (_, reports) = tokio::sync::mpsc::channel(1);
    let channels = Channels {
        listener: socket.try_clone()?,
        signals,
        monitor,
        reports,
    };
    let interfaces = Interfaces {
        wireless: running.link_ifindex,
        devices: [running.device_ifindex; 2],
        injector: None,
    };
    let control = Control::new(
        settings,
        running.worker,
        running.counters,
        interfaces,
        running.data_path,
    )?;
    super::run_control(control, channels, running.done, running.thread)
}
