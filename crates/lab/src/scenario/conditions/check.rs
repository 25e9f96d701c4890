// SPDX-License-Identifier: Apache-2.0
//! Checks of a scenario's values that their types cannot make.

use super::{Conditions, CrossTraffic, Stretch};
use crate::scenario::gateway::SchemeChoice;
use holdfast_files::document::DocumentError;

/// The largest number of points of a time series.
const POINTS_MAX: f64 = 1e6;

impl Conditions {
    /// Refuses conditions that no substrate could execute as they are written.
    pub(super) fn check(&self, record_interval_ms: f64) -> Result<(), DocumentError> {
        self.transfer
            .check()
            .map_err(|error| error.within("transfer"))?;
        if self.transfer.encrypted && self.compressed_hop().is_some() {
            let problem =
                "takes false with a hop that compresses headers; leave out header_compression";
            return Err(DocumentError::at("transfer.encrypted", problem));
        }
        let points = self.transfer.limit_s * 1e3 / record_interval_ms;
        if !self.record.is_empty() && points > POINTS_MAX {
            let problem = "more than a million points in a run; take a longer interval";
            return Err(DocumentError::at("record_interval_ms", problem));
        }
        if self.cells.len() > 1 && self.wired.is_none() {
            let problem = "several cells are behind one wired link; give [wired]";
            return Err(DocumentError::at("cells", problem));
        }
        let hosts = [("fh", &self.fh), ("mh", &self.mh)];
        if let Some((name, _)) = hosts
            .into_iter()
            .find(|(_, host)| host.microsecond_timestamps && self.cells.len() > 1)
        {
            let problem = "takes one cell: a host that moves changes its routes";
            return Err(DocumentError::at("microsecond_timestamps", problem).within(name));
        }
        self.check_mobile()?;
        if let Some(movement) = &self.movement {
            movement
                .check(self.cells.len())
                .map_err(|error| error.within("movement"))?;
        }
        for (number, cross) in self.cross_traffic.iter().enumerate() {
            let within =
                |error: DocumentError| error.within(&number.to_string()).within("cross_traffic");
            cross.check(self.wired.is_some()).map_err(within)?;
        }
        Ok(())
    }

    /// The first hop that compresses headers, as the scenario names it.
    pub(crate) fn compressed_hop(&self) -> Option<String> {
        let wired = self.wired.iter().map(|hop| ("wired".to_owned(), hop));
        let cells = self.cells.iter().enumerate();
        let cells = cells.map(|(number, cell)| match self.cells.len() {
            1 => ("wireless".to_owned(), cell),
            _ => (format!("cells.{number}"), cell),
        });
        let mut hops = wired.chain(cells);
        hops.find_map(|(name, hop)| hop.header_compression.then_some(name))
    }

    /// Checks that the base stations' and the MH's schemes are possible with these cells.
    fn check_mobile(&self) -> Result<(), DocumentError> {
        let within = |error: DocumentError| error.within("mobile");
        self.mobile.check_beside(&self.gateway).map_err(within)?;
        if self.mobile.is_on() && self.cells.len() > 1 {
            let problem = "the mobile's schemes are for one cell; leave out [[cells]]";
            return Err(DocumentError::at("mobile.scheme", problem));
        }
        if matches!(
            self.gateway.scheme,
            SchemeChoice::Split | SchemeChoice::Ebsn
        ) && self.cells.len() > 1
        {
            let problem = "split and ebsn take one cell; leave out [[cells]]";
            return Err(DocumentError::at("gateway.scheme", problem));
        }
        let hands_over = matches!(
            self.gateway.scheme,
            SchemeChoice::Hold | SchemeChoice::Snoop | SchemeChoice::Mtcp
        );
        if self.gateway.handoff.is_on() && !(hands_over && self.cells.len() > 1) {
            let problem = "takes several [[cells]], and gateway.scheme hold, snoop or mtcp";
            return Err(DocumentError::at("gateway.handoff.kind", problem));
        }
        Ok(())
    }
}

impl CrossTraffic {
    fn check(&self, has_wired: bool) -> Result<(), DocumentError> {
        if self.over != Stretch::Wireless && !has_wired {
            let problem = "there is no [wired]; give one, or take wireless";
            return Err(DocumentError::at("over", problem));
        }
        if self.stop_s.is_some_and(|stop_s| stop_s < self.start_s) {
            return Err(DocumentError::at("stop_s", "takes start_s at least"));
        }
        Ok(())
    }
}
