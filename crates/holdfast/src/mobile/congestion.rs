// SPDX-License-Identifier: Apache-2.0
//! The congestion control of LC and CWE: the daemon reports handoffs to it.

use std::collections::BTreeMap;

use holdfast_core::LinkEvent;
use holdfast_net::lccwe::CongestionControl;
use holdfast_net::monitor::InterfaceState;

use crate::settings::MobileSettings;

/// Reports to the kernel's congestion control when a handoff begins and ends. Its registration
/// ends when this is dropped.
#[derive(Debug)]
pub(super) struct HandoffTimes {
    control: CongestionControl,
    /// The last known index of each cell's interface.
    indices: BTreeMap<String, Option<u32>>,
}

impl HandoffTimes {
    /// Registers the congestion control if the settings name one. None, with a line in the log, if the
    /// kernel cannot: the daemon works without it.
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
                Some(Self {
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

    /// Notes an interface's index. A modem that was away has a new index: a handoff in progress
    /// continues under it.
    pub(super) fn note_interface(&mut self, state: &InterfaceState) {
        let ifindex = state.ifindex;
        let Some(known) = self.indices.get_mut(&state.name).filter(|_| !state.removed) else {
            return;
        };
        let Some(old) = known.replace(ifindex).filter(|old| *old != ifindex) else {
            return;
        };
        warn_if_failed(self.control.rename(old, ifindex));
    }

    /// Reports an event of the link on the interface `name`.
    pub(super) fn handle_link(&self, event: LinkEvent, name: &str) {
        let Some(&Some(ifindex)) = self.indices.get(name) else {
            return;
        };
        warn_if_failed(match event {
            LinkEvent::Down => self.control.handoff_started(ifindex),
            LinkEvent::Up => self.control.handoff_finished(ifindex),
            // The handoff begins at link down.
            LinkEvent::GoingDownSoon(_) => return,
        });
    }
}

fn warn_if_failed(report: std::io::Result<()>) {
    if let Err(error) = report {
        tracing::warn!(%error, "the congestion control got no report of the link");
    }
}
