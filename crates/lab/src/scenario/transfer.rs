// SPDX-License-Identifier: Apache-2.0
//! `[transfer]`: what is sent.

use serde::Deserialize;

use super::conditions::Way;
use super::conditions::check::{LIMIT_MAX_S, range};
use holdfast_files::document::DocumentError;

/// Connections of one transfer at most: each has two processes.
const FLOWS_MAX: f64 = 128.0;
/// What one transfer sends at most: in bytes.
const TRANSFER_BYTES_MAX: u64 = 1_000_000_000_000;
/// Requests of one connection at most.
const REQUESTS_MAX: f64 = 100_000.0;
/// The longest pause between an answer and the next request, in milliseconds.
const THINK_MAX_MS: f64 = 60_000.0;

/// The table.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransferConditions {
    /// How many bytes.
    pub bytes: u64,
    /// Which way.
    #[serde(default)]
    pub direction: Way,
    /// When it begins, in seconds since the start of the links' clocks.
    #[serde(default)]
    pub start_s: f64,
    /// The run ends here at the latest, in seconds since the start of the links' clocks.
    #[serde(default = "limit_s")]
    pub limit_s: f64,
    /// Bytes of the MH's request before the FH sends, on the downlink.
    #[serde(default)]
    pub request_bytes: u32,
    /// The MH asks so many times, one request after another, and gets an equal part of the bytes
    /// each time; 1: it asks once, or never if [`Self::request_bytes`] is 0. On the downlink, on
    /// live and linux.
    #[serde(default = "one_request")]
    pub requests: u32,
    /// From an answer's last byte to the next request, in milliseconds.
    #[serde(default)]
    pub think_ms: f64,
    /// So many bytes go the other way on the same connection meanwhile, as fast as it takes them; on
    /// live and linux.
    #[serde(default)]
    pub back_bytes: u64,
    /// The version of IP: 4, or 6 on live and linux.
    #[serde(default = "ip_version")]
    pub ip_version: u8,
    /// So many connections at once, each of that; on live and linux.
    #[serde(default = "one_flow")]
    pub flows: u16,
    /// So many of them, the last ones, are of a second mobile with an address of its own, which
    /// shares the link and the MH's host; not with several cells.
    #[serde(default)]
    pub flows_of_second_mobile: u16,
    /// The sender does not close: it stays silent until the run's limit, and the transfer has
    /// finished if its connection is alive then. On the model.
    #[serde(default)]
    pub stays_open: bool,
    /// What the bytes are, on the model: for a gateway that compresses them.
    #[serde(default)]
    pub content: ContentChoice,
}

/// What is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ContentChoice {
    /// Bytes that nobody looks at.
    #[default]
    Bulk,
    /// Prose.
    Text,
    /// Something like a program.
    Binary,
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
    /// Refuses what cannot be.
    pub(super) fn check(&self) -> Result<(), DocumentError> {
        if !(1..=TRANSFER_BYTES_MAX).contains(&self.bytes) {
            let problem = format!("takes 1 to {TRANSFER_BYTES_MAX}");
            return Err(DocumentError::at("bytes", problem));
        }
        if self.direction == Way::Uplink && self.request_bytes > 0 {
            let problem = "an uplink has no request; leave it out, or take downlink";
            return Err(DocumentError::at("request_bytes", problem));
        }
        range("flows", f64::from(self.flows), 1.0, FLOWS_MAX, "")?;
        let second = f64::from(self.flows_of_second_mobile);
        let first = f64::from(self.flows) - 1.0;
        range("flows_of_second_mobile", second, 0.0, first, "")?;
        range("limit_s", self.limit_s, 0.001, LIMIT_MAX_S, " s")?;
        range("start_s", self.start_s, 0.0, self.limit_s, " s")?;
        if !matches!(self.ip_version, 4 | 6) {
            return Err(DocumentError::at("ip_version", "takes 4 or 6"));
        }
        self.check_requests()
    }

    /// Requests and answers.
    fn check_requests(&self) -> Result<(), DocumentError> {
        range("requests", f64::from(self.requests), 1.0, REQUESTS_MAX, "")?;
        range("think_ms", self.think_ms, 0.0, THINK_MAX_MS, " ms")?;
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
        if self.back_bytes > TRANSFER_BYTES_MAX {
            let problem = format!("takes 0 to {TRANSFER_BYTES_MAX}");
            return Err(DocumentError::at("back_bytes", problem));
        }
        if self.back_bytes > 0 && self.request_bytes > 0 {
            let problem = "takes a transfer without request_bytes beside it";
            return Err(DocumentError::at("back_bytes", problem));
        }
        Ok(())
    }
}
