// SPDX-License-Identifier: Apache-2.0
//! `[transfer]`: the bytes that are sent, and when.

use holdfast_settings::kind::{As, Count, Number};
use holdfast_sim::ContentKind;
use serde::{Deserialize, Serialize};

use super::direction::DirectionChoice;
use holdfast_files::document::DocumentError;

/// The longest run, in seconds.
pub(super) const LIMIT_MAX_S: i64 = 1_000_000;
/// The most bytes of one transfer.
const BYTES_MAX: u64 = 1_000_000_000_000;

/// The table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransferConditions {
    /// How many bytes.
    #[serde(with = "As::<Count<1, BYTES_MAX>>")]
    pub bytes: u64,
    /// Which way.
    #[serde(default)]
    pub direction: DirectionChoice,
    /// When it begins, in seconds since the start of the links' clocks.
    #[serde(default, with = "As::<Number<0, LIMIT_MAX_S>>")]
    pub start_s: f64,
    /// The run ends here at the latest, in seconds since the start of the links' clocks.
    #[serde(
        default = "limit_s",
        with = "As::<Number<1, { LIMIT_MAX_S * 1_000 }, 1_000>>"
    )]
    pub limit_s: f64,
    /// Bytes of the MH's request before the FH sends, on the downlink.
    #[serde(default)]
    pub request_bytes: u32,
    /// The number of requests of the MH, one after another, each for an equal part of the
    /// bytes; 1: one request, or none if [`Self::request_bytes`] is 0. On the downlink, on
    /// live and linux.
    #[serde(default = "one_request", with = "As::<Count<1, 100_000>>")]
    pub requests: u32,
    /// From an answer's last byte to the next request, in milliseconds.
    #[serde(default, with = "As::<Number<0, 60_000>>")]
    pub think_ms: f64,
    /// Number of bytes in the other direction on the same connection, as fast as possible; on
    /// live and linux.
    #[serde(default, with = "As::<Count<0, BYTES_MAX>>")]
    pub back_bytes: u64,
    /// The version of IP: 4, or 6 on live and linux.
    #[serde(default = "ip_version")]
    pub ip_version: u8,
    /// Number of connections at once, each of all bytes; on live and linux.
    #[serde(default = "one_flow", with = "As::<Count<1, 128>>")]
    pub flows: u16,
    /// How many of them, the last ones, are of a second mobile with an address of its own, which
    /// shares the link and the MH's host; not with several cells.
    #[serde(default)]
    pub flows_of_second_mobile: u16,
    /// The sender does not close: it stays silent until the run's limit, and the transfer has
    /// finished if its connection is alive then. On the model.
    #[serde(default)]
    pub stays_open: bool,
    /// TCP headers are encrypted from end to end, so that only the two ends read segments; ESP's own
    /// bytes are not counted. On the model.
    #[serde(default)]
    pub encrypted: bool,
    /// What the bytes are, on the model: for a gateway that compresses them.
    #[serde(default)]
    pub content: ContentKind,
}

const fn one_flow() -> u16 {
    1
}

const fn one_request() -> u32 {
    1
}

const fn ip_version() -> u8 {
    4
}

fn limit_s() -> f64 {
    600.0
}

impl TransferConditions {
    /// Refuses impossible values.
    pub(super) fn check(&self) -> Result<(), DocumentError> {
        if self.direction == DirectionChoice::Uplink && self.request_bytes > 0 {
            let problem = "an uplink has no request; leave it out, or take downlink";
            return Err(DocumentError::at("request_bytes", problem));
        }
        if self.flows_of_second_mobile >= self.flows {
            let problem = "takes fewer than all flows";
            return Err(DocumentError::at("flows_of_second_mobile", problem));
        }
        if self.start_s > self.limit_s {
            return Err(DocumentError::at("start_s", "takes limit_s at most"));
        }
        if !matches!(self.ip_version, 4 | 6) {
            return Err(DocumentError::at("ip_version", "takes 4 or 6"));
        }
        self.check_requests()
    }

    /// Checks requests and answers.
    fn check_requests(&self) -> Result<(), DocumentError> {
        if self.requests > 1 && self.request_bytes == 0 {
            let problem = "takes request_bytes of 1 or more, on the downlink";
            return Err(DocumentError::at("requests", problem));
        }
        if !self.bytes.is_multiple_of(self.requests.into()) {
            let problem = "takes what divides the bytes into equal answers";
            return Err(DocumentError::at("requests", problem));
        }
        if self.think_ms > 0.0 && self.requests == 1 {
            let problem = "takes requests of 2 or more beside it";
            return Err(DocumentError::at("think_ms", problem));
        }
        if self.back_bytes > 0 && self.request_bytes > 0 {
            let problem = "takes a transfer without request_bytes beside it";
            return Err(DocumentError::at("back_bytes", problem));
        }
        Ok(())
    }
}
