// SPDX-License-Identifier: Apache-2.0
//! What a scenario's values may be, beside what their types say.

use super::{Conditions, CrossTraffic, GatewayConditions, SchemeChoice, Stretch};
use crate::document::DocumentError;

/// The longest run, in seconds.
pub(in crate::scenario) const LIMIT_MAX_S: f64 = 1_000_000.0;
/// Repetitions of one combination at most.
const REPETITIONS_MAX: u64 = 100_000;
/// Points of a time series at most.
const POINTS_MAX: f64 = 1e6;
/// The least and the most that the gateway takes for one flow's cache, in bytes; and the
/// most that it keeps of all flows unless told otherwise.
const FLOW_CACHE_BYTES: [u64; 2] = [64 << 10, 256 << 20];

/// An error unless the value is within its range.
pub(in crate::scenario) fn range(
    key: &str,
    value: f64,
    min: f64,
    max: f64,
    unit: &str,
) -> Result<(), DocumentError> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    let problem = format!("takes {min} to {max}{unit}");
    Err(DocumentError::at(key, problem))
}

impl Conditions {
    /// Refuses what no substrate could carry out as it is written.
    pub(super) fn check(&self, record_interval_ms: f64) -> Result<(), DocumentError> {
        if !(1..=REPETITIONS_MAX).contains(&self.repetitions) {
            let problem = format!("takes 1 to {REPETITIONS_MAX}");
            return Err(DocumentError::at("repetitions", problem));
        }
        self.transfer
            .check()
            .map_err(|error| error.within("transfer"))?;
        range("record_interval_ms", record_interval_ms, 1.0, 1e6, " ms")?;
        let points = self.transfer.limit_s * 1e3 / record_interval_ms;
        if !self.record.is_empty() && points > POINTS_MAX {
            let problem = "more than a million points in a run; take a longer interval";
            return Err(DocumentError::at("record_interval_ms", problem));
        }
        self.gateway
            .check()
            .map_err(|error| error.within("gateway"))?;
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

    /// What the base stations and the MH do is possible with these cells.
    fn check_mobile(&self) -> Result<(), DocumentError> {
        let within = |error: DocumentError| error.within("mobile");
        self.mobile.check().map_err(within)?;
        self.mobile.check_beside(&self.gateway).map_err(within)?;
        if self.mobile.is_on() && self.cells.len() > 1 {
            let problem = "the mobile's schemes are for one cell; leave out [[cells]]";
            return Err(DocumentError::at("mobile.scheme", problem));
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

impl GatewayConditions {
    /// The daemon's own ranges: what it would refuse, the model does not do either.
    fn check(&self) -> Result<(), DocumentError> {
        range(
            "signal_delay_ms",
            self.signal_delay_ms,
            0.0,
            60_000.0,
            " ms",
        )?;
        range("warning_ms", self.warning_ms, 0.0, 60_000.0, " ms")?;
        let dscp = f64::from(self.resend_dscp.unwrap_or_default());
        range("resend_dscp", dscp, 0.0, 63.0, "")?;
        let packets = f64::from(self.keep_packets.unwrap_or(1));
        range("keep_packets", packets, 1.0, 1024.0, "")?;
        if let Some(bandwidth) = &self.bandwidth {
            bandwidth
                .check()
                .map_err(|error| error.within("bandwidth"))?;
        }
        if let Some(mtcp) = &self.mtcp {
            mtcp.check().map_err(|error| error.within("mtcp"))?;
        }
        if let Some(snoop) = &self.snoop {
            snoop.check().map_err(|error| error.within("snoop"))?;
        }
        self.handoff
            .check()
            .map_err(|error| error.within("handoff"))?;
        let [least, most] = FLOW_CACHE_BYTES;
        match self.flow_cache_bytes_max {
            // The paper's SH may keep nothing; the daemon has not that scheme.
            Some(0) if self.scheme == SchemeChoice::Mtcp2007 => {}
            Some(bytes) if !(least..=most).contains(&bytes) => {
                let problem = format!("takes {least} to {most} bytes");
                return Err(DocumentError::at("flow_cache_bytes_max", problem));
            }
            _ => {}
        }
        self.check_times()
    }

    /// Silence, and the intervals of probes.
    fn check_times(&self) -> Result<(), DocumentError> {
        let times = [
            ("silence_min_ms", self.silence_min_ms, [10.0, 60_000.0]),
            (
                "probe_interval_min_ms",
                self.probe_interval_min_ms,
                [1.0, 60_000.0],
            ),
            (
                "probe_interval_max_ms",
                self.probe_interval_max_ms,
                [10.0, 600_000.0],
            ),
        ];
        for (key, value, [min, max]) in times {
            if let Some(value) = value {
                range(key, value, min, max, " ms")?;
            }
        }
        let own = holdfast_core::Settings::default();
        let millis = |own: std::time::Duration| own.as_secs_f64() * 1e3;
        let least = self
            .probe_interval_min_ms
            .unwrap_or(millis(own.probe_interval_min));
        let most = self
            .probe_interval_max_ms
            .unwrap_or(millis(own.probe_interval_max));
        if least > most {
            let (key, problem) = if self.probe_interval_min_ms.is_some() {
                (
                    "probe_interval_min_ms",
                    format!("takes at most probe_interval_max_ms, {most}"),
                )
            } else {
                (
                    "probe_interval_max_ms",
                    format!("takes at least probe_interval_min_ms, {least}"),
                )
            };
            return Err(DocumentError::at(key, problem));
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
        range("rate_mbit_per_s", self.rate_mbit_per_s, 1e-6, 1e5, " Mb/s")?;
        let bytes = f64::from(self.packet_bytes);
        range("packet_bytes", bytes, 28.0, 65_535.0, " bytes")?;
        range("start_s", self.start_s, 0.0, LIMIT_MAX_S, " s")?;
        let stop_s = self.stop_s.unwrap_or(LIMIT_MAX_S);
        range("stop_s", stop_s, self.start_s, LIMIT_MAX_S, " s")
    }
}
