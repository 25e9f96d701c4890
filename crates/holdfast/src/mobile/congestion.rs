// SPDX-License-Identifier: Apache-2.0
//! The congestion control of LC and CWE, told of the link by the daemon.

use std::collections::BTreeMap;

use holdfast_core::mobile_host::HostLinkEvent;
use holdfast_net::lccwe::{CongestionControl, DefaultControl, Scope};
use holdfast_net::monitor::LinkState;

use crate::settings::MobileSettings;

/// Tells the kernel's congestion control when a handoff begins and ends; its registration
/// goes with this.
#[derive(Debug)]
pub(super) struct HandoffTimes {
    // Dropped first: nobody is given what is no more.
    _default: Option<DefaultControl>,
    control: CongestionControl,
    /// The indices of the interfaces that the cells have, the last ones known.
    indices: BTreeMap<String, Option<u32>>,
}

impl HandoffTimes {
    /// Registers it if the settings want it. None, with a line in the log, if the kernel
    /// cannot: nothing else of the daemon needs it.
    pub(super) fn open(settings: &MobileSettings) -> Option<Self> {
        let name = settings.congestion_control.as_deref()?;
        match CongestionControl::register(name) {
            Ok(control) => {
                tracing::info!(
                    name,
                    linked = control.is_linked(),
                    nudges = control.nudges(),
                    adopts = control.adopts(),
                    "congestion control registered"
                );
                let cells = settings.cells.iter();
                let indices = cells.map(|cell| (cell.interface.clone(), None));
                let scope = settings.congestion_control_default.clone();
                Some(Self {
                    _default: scope.and_then(|scope| make_default(&control, scope)),
                    control,
                    indices: indices.collect(),
                })
            }
            Err(error) => {
                tracing::warn!("{error}");
                None
            }
        }
    }

    /// An interface has this index now. If it had another one, as a modem that was away has,
    /// a handoff that goes on is the new one's.
    pub(super) fn note_interface(&mut self, state: &LinkState) {
        let ifindex = state.ifindex;
        let Some(known) = self.indices.get_mut(&state.name).filter(|_| !state.removed) else {
            return;
        };
        let Some(old) = known.replace(ifindex).filter(|old| *old != ifindex) else {
            return;
        };
        say(self.control.rename(old, ifindex));
    }

    /// Something became of the interface `name`.
    pub(super) fn handle_link(&self, event: HostLinkEvent, name: &str) {
        let Some(&Some(ifindex)) = self.indices.get(name) else {
            return;
        };
        say(match event {
            HostLinkEvent::Down => self.control.handoff_started(ifindex),
            HostLinkEvent::Up => self.control.handoff_finished(ifindex),
            // The handoff begins when the link goes.
            HostLinkEvent::GoingDownSoon(_) => return,
        });
    }
}

/// None, with a line in the log, if it cannot be: sockets can still select it.
fn make_default(control: &CongestionControl, scope: Scope) -> Option<DefaultControl> {
    match control.make_default(scope) {
        Ok(default) => {
            tracing::info!(?default, "congestion control made a default");
            Some(default)
        }
        Err(error) => {
            tracing::warn!("mobile.congestion_control_default: {error}");
            None
        }
    }
}

fn say(told: std::io::Result<()>) {
    if let Err(error) = told {
        tracing::warn!(%error, "the congestion control does not hear of the link");
    }
}
