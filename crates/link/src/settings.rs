// SPDX-License-Identifier: Apache-2.0
//! One direction's settings as the user writes them, and the plan that follows.

use std::sync::Arc;

use holdfast_wire::Duration;
use serde::{Deserialize, Serialize};

use crate::capacity::Capacity;
use crate::limits::{SettingsError, in_range, probability};
use crate::outage::{OutageEffect, OutagePlan, OutageSettings};
use crate::priority::Priority;
use crate::random::Stream;
use crate::rate_model::RateModel;
use crate::trace::{MBIT_PER_S_MAX, TRACE_SECONDS_MAX, Trace, TraceFormat};

/// Packets that a queue takes by default, as the queue of a Linux device.
pub const QUEUE_PACKETS_DEFAULT: u32 = 1000;

/// The longest delay and jitter, in milliseconds: ten minutes.
const DELAY_MAX_MS: f64 = 600_000.0;
/// The longest queue, in packets.
const QUEUE_PACKETS_MAX: f64 = 10_000_000.0;

/// The largest differentiated services codepoint: six bits (RFC 2474).
const DSCP_MAX: f64 = 63.0;

fn millis(key: &str, value: f64) -> Result<Duration, SettingsError> {
    let ms = in_range(key, value, 0.0, DELAY_MAX_MS, "ms")?;
    Ok(Duration::from_nanos((ms * 1e6).round() as u64))
}

/// What a bit error does to its packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BitErrorEffect {
    /// The link's own check sum finds it: the packet is lost.
    #[default]
    Lose,
    /// The packet arrives with the bits the other way round.
    Corrupt,
}

/// The two-state loss model of Gilbert and Elliott. Probabilities for each
/// packet.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GilbertElliott {
    /// From the good state to the bad one (p).
    pub good_to_bad: f64,
    /// From the bad state to the good one (r).
    pub bad_to_good: f64,
    /// Loss in the good state (1 - k); Gilbert's own model has 0.
    #[serde(default)]
    pub loss_good: f64,
    /// Loss in the bad state (1 - h).
    #[serde(default = "one")]
    pub loss_bad: f64,
}

fn one() -> f64 {
    1.0
}

impl GilbertElliott {
    fn check(&self) -> Result<(), SettingsError> {
        probability("good_to_bad", self.good_to_bad)?;
        probability("bad_to_good", self.bad_to_good)?;
        probability("loss_good", self.loss_good)?;
        probability("loss_bad", self.loss_bad).map(|_| ())
    }
}

/// What comes on top of the propagation delay, for each packet anew.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Jitter {
    /// Equal chances from 0 to `max_ms`.
    Uniform {
        /// The most, in milliseconds.
        max_ms: f64,
        /// A packet may overtake another; otherwise it waits for the one before.
        #[serde(default)]
        reorder: bool,
    },
    /// Normal; what is below 0 counts as 0.
    Normal {
        /// Mean in milliseconds.
        mean_ms: f64,
        /// Standard deviation in milliseconds.
        deviation_ms: f64,
        /// As above.
        #[serde(default)]
        reorder: bool,
    },
    /// Exponential.
    Exponential {
        /// Mean in milliseconds.
        mean_ms: f64,
        /// As above.
        #[serde(default)]
        reorder: bool,
    },
}

impl Jitter {
    /// The additional delay of the next packet.
    pub(crate) fn draw(&self, stream: &mut Stream) -> Duration {
        let ms = match *self {
            Self::Uniform { max_ms, .. } => stream.unit() * max_ms,
            Self::Normal {
                mean_ms,
                deviation_ms,
                ..
            } => stream.normal(mean_ms, deviation_ms),
            Self::Exponential { mean_ms, .. } => stream.exponential(mean_ms),
        };
        Duration::from_nanos((ms.max(0.0) * 1e6) as u64)
    }

    /// Whether packets may overtake each other.
    pub fn reorders(&self) -> bool {
        match *self {
            Self::Uniform { reorder, .. }
            | Self::Normal { reorder, .. }
            | Self::Exponential { reorder, .. } => reorder,
        }
    }

    fn check(&self) -> Result<(), SettingsError> {
        match *self {
            Self::Uniform { max_ms, .. } => millis("max_ms", max_ms)?,
            Self::Normal {
                mean_ms,
                deviation_ms,
                ..
            } => {
                millis("mean_ms", mean_ms)?;
                millis("deviation_ms", deviation_ms)?
            }
            Self::Exponential { mean_ms, .. } => millis("mean_ms", mean_ms)?,
        };
        Ok(())
    }
}

/// Spells in which the propagation delay is a multiple of its own (Liao, Kao and Chien,
/// 2005: a channel in the bad state for this time in every 10 s).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlowSpells {
    /// When the first one begins, in seconds.
    #[serde(default)]
    pub first_at_s: f64,
    /// From begin to begin, in seconds, above 0.
    pub every_s: f64,
    /// How long each lasts, in seconds, at most `every_s`.
    pub for_s: f64,
    /// Times the delay, 1 to 1000.
    pub factor: f64,
}

impl SlowSpells {
    fn plan(&self, delay: Duration) -> Result<SlowPlan, SettingsError> {
        let seconds = |key: &str, value: f64, min: f64, max: f64| {
            let s = in_range(key, value, min, max, "s")?;
            Ok(Duration::from_nanos((s * 1e9).round() as u64))
        };
        let factor = in_range("factor", self.factor, 1.0, 1000.0, "times")?;
        Ok(SlowPlan {
            first: seconds("first_at_s", self.first_at_s, 0.0, 1e6)?,
            every: seconds("every_s", self.every_s, 1e-3, 1e6)?,
            length: seconds("for_s", self.for_s, 0.0, self.every_s)?,
            more: Duration::from_nanos(
                (delay.as_nanos() as u64 as f64 * (factor - 1.0)).round() as u64
            ),
        })
    }
}

/// [`SlowSpells`] in integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowPlan {
    first: Duration,
    every: Duration,
    length: Duration,
    more: Duration,
}

impl SlowPlan {
    /// The additional delay of a packet that is sent `elapsed` after the link's clock started.
    pub fn more_at(&self, elapsed: Duration) -> Duration {
        let slow = elapsed.checked_sub(self.first).is_some_and(|since| {
            since.as_nanos() % self.every.as_nanos().max(1) < self.length.as_nanos()
        });
        if slow { self.more } else { Duration::ZERO }
    }
}

/// Retransmission by the link itself (ARQ), without knowledge of TCP.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArqSettings {
    /// From the end of a lost attempt until it may be retransmitted, in milliseconds.
    pub retransmit_after_ms: f64,
    /// Attempts for each packet; none: until it arrives.
    pub attempts_max: Option<u32>,
    /// How long the far end waits for a missing packet, in milliseconds; none: forever.
    pub reassembly_ms: Option<f64>,
    /// The far end delivers in order; otherwise as packets arrive.
    #[serde(default = "in_order_default")]
    pub in_order: bool,
}

fn in_order_default() -> bool {
    true
}

impl ArqSettings {
    fn plan(&self, loses_in_outages: bool) -> Result<ArqPlan, SettingsError> {
        if let Some(attempts) = self.attempts_max {
            in_range("attempts_max", f64::from(attempts), 1.0, 1000.0, "")?;
        }
        // A packet that never arrives would stop the link for good.
        let may_lose = self.attempts_max.is_some() || loses_in_outages;
        if self.in_order && self.reassembly_ms.is_none() && may_lose {
            let takes = "a time beside attempts_max, and beside outages that lose";
            return Err(SettingsError::new("reassembly_ms", "none", takes));
        }
        if !self.in_order && self.reassembly_ms.is_some() {
            let takes = "nothing beside in_order = false, where no packet waits for another";
            return Err(SettingsError::new("reassembly_ms", "a time", takes));
        }
        let timer = self.reassembly_ms;
        Ok(ArqPlan {
            // A link without a rate would otherwise repeat without end at one time.
            retransmit_after: millis("retransmit_after_ms", self.retransmit_after_ms)?
                .max(Duration::from_micros(1)),
            attempts_max: self.attempts_max,
            reassembly: timer.map(|ms| millis("reassembly_ms", ms)).transpose()?,
            in_order: self.in_order,
        })
    }
}

/// [`ArqSettings`] in integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArqPlan {
    /// From the end of a lost attempt until it may be retransmitted.
    pub retransmit_after: Duration,
    /// Attempts for each packet.
    pub attempts_max: Option<u32>,
    /// How long the far end waits for a missing packet.
    pub reassembly: Option<Duration>,
    /// The far end delivers in order.
    pub in_order: bool,
}

/// The keys of [`LinkSettings`] that give the rate: one of them at most.
pub const RATE_KEYS: [&str; 3] = ["rate_mbit_per_s", "rate_trace", "rate_model"];

/// One direction of a link, as the user writes it. Without any key: no limit of
/// rate, no delay, a queue of 1000 packets, no loss, no outages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LinkSettings {
    /// A constant rate in Mb/s (10^6 bit/s), of IP packets without framing.
    pub rate_mbit_per_s: Option<f64>,
    /// A trace's file instead of a constant rate.
    pub rate_trace: Option<String>,
    /// Statistics of a varying rate instead of a constant one.
    pub rate_model: Option<RateModel>,
    /// How traces are written; by the file's name if not given.
    pub trace_format: Option<TraceFormat>,
    /// Where traces are entered, in seconds since their start.
    pub trace_start_s: f64,
    /// Propagation delay in milliseconds.
    pub delay_ms: f64,
    /// Jitter on top of it.
    pub jitter: Option<Jitter>,
    /// Spells of a longer delay.
    pub slow: Option<SlowSpells>,
    /// Packets that may wait, besides the one being sent.
    pub queue_packets_max: Option<u32>,
    /// Bytes that may wait, besides the packet being sent.
    pub queue_bytes_max: Option<u64>,
    /// Packets whose DSCP (0 to 63) is at least this wait in a queue of their own, which
    /// has the same limits and is served first; none: one queue for all.
    pub priority_dscp_min: Option<u8>,
    /// Probability that a packet is lost.
    pub loss: f64,
    /// Probability that a bit is wrong, up to 0.1.
    pub bit_error_rate: f64,
    /// What a wrong bit does to its packet.
    pub bit_error_effect: BitErrorEffect,
    /// Two-state loss.
    pub gilbert_elliott: Option<GilbertElliott>,
    /// Retransmission by the link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arq: Option<ArqSettings>,
    /// When there are outages.
    pub outages: OutageSettings,
    /// What they do to the packets in the queue and on the way.
    pub outage_effect: OutageEffect,
}

/// A direction's settings, checked; traces read; in integer units.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkPlan {
    /// What the link can carry.
    pub capacity: Capacity,
    /// Propagation delay.
    pub delay: Duration,
    /// Jitter on top of it.
    pub jitter: Option<Jitter>,
    /// Spells of a longer delay.
    pub slow: Option<SlowPlan>,
    /// Packets that may wait.
    pub queue_packets_max: usize,
    /// Bytes that may wait.
    pub queue_bytes_max: u64,
    /// The least DSCP that goes ahead; none: no packet does.
    pub priority_dscp_min: Option<u8>,
    /// Probability that a packet is lost.
    pub loss: f64,
    /// Probability that a bit is wrong.
    pub bit_error_rate: f64,
    /// What a wrong bit does.
    pub bit_error_effect: BitErrorEffect,
    /// Two-state loss.
    pub gilbert_elliott: Option<GilbertElliott>,
    /// Retransmission by the link.
    pub arq: Option<ArqPlan>,
    /// When there are outages.
    pub outages: Arc<OutagePlan>,
    /// What they do to packets.
    pub outage_effect: OutageEffect,
}

impl LinkPlan {
    /// The queue in which a packet with this DSCP waits. None: it is no IP packet.
    pub fn priority_of(&self, dscp: Option<u8>) -> Priority {
        match (dscp, self.priority_dscp_min) {
            (Some(dscp), Some(min)) if dscp >= min => Priority::Ahead,
            _ => Priority::Ordinary,
        }
    }
}

impl LinkSettings {
    /// Checks the settings; `load` reads a file that they name as a trace.
    ///
    /// # Errors
    /// Names the key, what it got and what it takes; for a trace the file and the
    /// line too.
    pub fn plan_with(
        &self,
        mut load: impl FnMut(&str) -> Result<String, String>,
    ) -> Result<LinkPlan, SettingsError> {
        let rate_trace = match (&self.rate_model, self.rate_trace.as_deref()) {
            (None, file) => file
                .map(|file| self.trace("rate_trace", file, &mut load))
                .transpose()?,
            (Some(model), None) => {
                Some(self.entered(model.trace().map_err(|error| error.within("rate_model"))?)?)
            }
            (Some(_), Some(file)) => {
                let takes = "no file beside rate_model";
                return Err(SettingsError::new("rate_trace", file, takes));
            }
        };
        let gaps_of = match &self.outages {
            OutageSettings::Trace {
                file: Some(file), ..
            } => Some(self.trace("outages.file", file, &mut load)?),
            _ => rate_trace.clone(),
        };
        if let Some(jitter) = &self.jitter {
            jitter.check().map_err(|error| error.within("jitter"))?;
        }
        if let Some(loss) = &self.gilbert_elliott {
            loss.check()
                .map_err(|error| error.within("gilbert_elliott"))?;
        }
        if let Some(dscp) = self.priority_dscp_min {
            in_range(
                "priority_dscp_min",
                f64::from(dscp),
                0.0,
                DSCP_MAX,
                "(a DSCP)",
            )?;
        }
        let delay = millis("delay_ms", self.delay_ms)?;
        let loses =
            self.outages != OutageSettings::None && self.outage_effect == OutageEffect::Lose;
        Ok(LinkPlan {
            capacity: self.capacity(rate_trace.as_ref())?,
            delay,
            jitter: self.jitter,
            slow: self
                .slow
                .map(|slow| slow.plan(delay).map_err(|error| error.within("slow")))
                .transpose()?,
            queue_packets_max: self.queue_packets()?,
            queue_bytes_max: self.queue_bytes_max.unwrap_or(u64::MAX),
            priority_dscp_min: self.priority_dscp_min,
            loss: probability("loss", self.loss)?,
            bit_error_rate: in_range("bit_error_rate", self.bit_error_rate, 0.0, 0.1, "")?,
            bit_error_effect: self.bit_error_effect,
            gilbert_elliott: self.gilbert_elliott,
            arq: self
                .arq
                .map(|arq| arq.plan(loses).map_err(|error| error.within("arq")))
                .transpose()?,
            outages: OutagePlan::new(&self.outages, gaps_of.as_ref())
                .map_err(|error| error.within("outages"))?
                .into(),
            outage_effect: self.outage_effect,
        })
    }

    /// Checks settings that name no trace.
    ///
    /// # Errors
    /// As [`Self::plan_with`]; a trace is an error.
    pub fn plan(&self) -> Result<LinkPlan, SettingsError> {
        self.plan_with(|_| Err("no files are read here".to_owned()))
    }

    /// The trace in `file`, which `load` reads; an error names `key`.
    fn trace(
        &self,
        key: &str,
        file: &str,
        load: &mut impl FnMut(&str) -> Result<String, String>,
    ) -> Result<Trace, SettingsError> {
        let format = self
            .trace_format
            .unwrap_or_else(|| TraceFormat::of_file_name(file));
        let takes = |reason: String| SettingsError::new(key, file, format!("a trace ({reason})"));
        let trace = Trace::parse(&load(file).map_err(takes)?, format)
            .map_err(|error| takes(error.to_string()))?;
        self.entered(trace)
    }

    /// The trace, entered at `trace_start_s`.
    fn entered(&self, trace: Trace) -> Result<Trace, SettingsError> {
        let max_s = TRACE_SECONDS_MAX;
        let start_s = in_range("trace_start_s", self.trace_start_s, 0.0, max_s, "s")?;
        Ok(trace.starting_at((start_s * 1e9).round() as u64))
    }

    /// The queue's limit.
    fn queue_packets(&self) -> Result<usize, SettingsError> {
        let packets = self.queue_packets_max.unwrap_or(QUEUE_PACKETS_DEFAULT);
        in_range(
            "queue_packets_max",
            f64::from(packets),
            1.0,
            QUEUE_PACKETS_MAX,
            "packets",
        )?;
        Ok(packets as usize)
    }

    fn capacity(&self, trace: Option<&Trace>) -> Result<Capacity, SettingsError> {
        match (self.rate_mbit_per_s, trace) {
            (None, None) => Ok(Capacity::Unlimited),
            (None, Some(trace)) => Ok(trace.capacity()),
            (Some(rate), None) => {
                let rate = in_range("rate_mbit_per_s", rate, 1e-6, MBIT_PER_S_MAX, "Mb/s")?;
                Ok(Capacity::Constant((rate * 1e6).round() as u64))
            }
            (Some(rate), Some(_)) => Err(SettingsError::new(
                "rate_mbit_per_s",
                rate,
                "no value beside rate_trace or rate_model",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL_KEYS: &str = r#"
        rate_mbit_per_s = 20
        delay_ms = 25
        jitter = { kind = "normal", mean_ms = 1, deviation_ms = 0.5, reorder = true }
        queue_packets_max = 200
        queue_bytes_max = 300000
        priority_dscp_min = 40
        loss = 0.01
        bit_error_rate = 1e-6
        bit_error_effect = "corrupt"
        gilbert_elliott = { good_to_bad = 0.01, bad_to_good = 0.3 }
        outage_effect = "keep"
        [outages]
        kind = "list"
        list = [{ at_s = 4, for_s = 3 }]
    "#;

    fn error(text: &str) -> String {
        match toml::from_str::<LinkSettings>(text) {
            Ok(settings) => settings.plan().unwrap_err().to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn every_key_is_read() {
        let plan = toml::from_str::<LinkSettings>(ALL_KEYS)
            .unwrap()
            .plan()
            .unwrap();
        assert_eq!(plan.capacity, Capacity::Constant(20_000_000));
        assert_eq!(plan.delay, Duration::from_millis(25));
        assert_eq!(
            (plan.queue_packets_max, plan.queue_bytes_max),
            (200, 300_000)
        );
        assert_eq!(plan.priority_dscp_min, Some(40));
        assert_eq!(plan.outage_effect, OutageEffect::Keep);
        assert_eq!(
            plan.gilbert_elliott.map(|ge| (ge.loss_good, ge.loss_bad)),
            Some((0.0, 1.0))
        );
        assert_ne!(*plan.outages, OutagePlan::none());
    }

    #[test]
    fn a_slow_spell_multiplies_the_delay_while_it_lasts() {
        let text = "delay_ms = 100\nslow = { first_at_s = 3, every_s = 10, for_s = 2, factor = 2 }";
        let plan = toml::from_str::<LinkSettings>(text)
            .unwrap()
            .plan()
            .unwrap();
        let more = |ms: u64| plan.slow.unwrap().more_at(Duration::from_millis(ms));
        let twice = Duration::from_millis(100);
        for (ms, expected) in [
            (0, Duration::ZERO),
            (2999, Duration::ZERO),
            (3000, twice),
            (4999, twice),
            (5000, Duration::ZERO),
            (13_000, twice),
            (15_000, Duration::ZERO),
        ] {
            assert_eq!(more(ms), expected, "{ms} ms");
        }
        let error = error("slow = { every_s = 1, for_s = 2, factor = 2 }");
        assert_eq!(error, "slow.for_s: got 2, takes 0 to 1 s");
    }

    #[test]
    fn an_unknown_key_is_refused_at_every_depth() {
        for text in [
            "rate = 3",
            "jitter = { kind = \"uniform\", max_ms = 1, extra = 2 }",
            "gilbert_elliott = { good_to_bad = 0.1, bad_to_good = 0.1, p = 1 }",
            "outages = { kind = \"periodic\", first_at_s = 1, every_s = 2, for_s = 1, x = 1 }",
            "outages = { kind = \"list\", list = [{ at_s = 1, for_s = 1, x = 1 }] }",
        ] {
            assert!(
                error(text).contains("unknown field"),
                "{text}: {}",
                error(text)
            );
        }
    }

    #[test]
    fn a_value_out_of_range_names_its_key() {
        assert_eq!(
            error("delay_ms = -1"),
            "delay_ms: got -1, takes 0 to 600000 ms"
        );
        assert_eq!(
            error("rate_mbit_per_s = 0"),
            "rate_mbit_per_s: got 0, takes 0.000001 to 1000000 Mb/s"
        );
        assert_eq!(
            error("loss = nan"),
            "loss: got NaN, takes 0 to 1 (a probability)"
        );
        assert_eq!(
            error("priority_dscp_min = 64"),
            "priority_dscp_min: got 64, takes 0 to 63 (a DSCP)"
        );
        assert!(error("queue_packets_max = 0").starts_with("queue_packets_max: got 0"));
        assert!(
            error("jitter = { kind = \"exponential\", mean_ms = -2 }")
                .starts_with("jitter.mean_ms: got -2")
        );
        assert!(
            error("outages = { kind = \"exponential\", up_mean_s = 0, down_mean_s = 1 }")
                .starts_with("outages.up_mean_s: got 0")
        );
    }

    #[test]
    fn a_dscp_at_or_above_the_least_goes_ahead_and_without_a_least_none_does() {
        let plan = |min| LinkSettings {
            priority_dscp_min: min,
            ..LinkSettings::default()
        };
        let priority = |min, dscp| plan(min).plan().unwrap().priority_of(dscp);
        for (min, dscp, expected) in [
            (Some(40), Some(39), Priority::Ordinary),
            (Some(40), Some(40), Priority::Ahead),
            (Some(0), Some(0), Priority::Ahead),
            (Some(0), None, Priority::Ordinary),
            (None, Some(63), Priority::Ordinary),
        ] {
            assert_eq!(priority(min, dscp), expected, "{min:?} {dscp:?}");
        }
    }

    #[test]
    fn a_bad_trace_names_file_and_line() {
        let settings: LinkSettings = toml::from_str("rate_trace = \"cell.mm\"").unwrap();
        let error = settings.plan_with(|_| Ok("1\n0\n".to_owned())).unwrap_err();
        assert_eq!(
            error.to_string(),
            "rate_trace: got cell.mm, takes a trace (line 2: 0 ms is before the line above; times never fall)"
        );
        assert!(
            settings
                .plan_with(|_| Err("no such file".to_owned()))
                .unwrap_err()
                .to_string()
                .contains("no such file")
        );
    }
}
