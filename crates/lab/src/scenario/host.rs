// SPDX-License-Identifier: Apache-2.0
//! The TCP of a host: `[hosts]` for both ends, `[fh]` and `[mh]` for one of them.

use std::collections::BTreeMap;

use holdfast_sim::Preset;
use serde::{Deserialize, Serialize};

use super::lc_cwe::{LcCweConditions, OnHandoffChoice};
use holdfast_files::document::DocumentError;

/// The congestion control unless one is named: the one that every kernel has, and the
/// model too.
const CONGESTION_CONTROL_DEFAULT: &str = "reno";

/// What the model runs unless a preset is named: today's Linux with Reno.
pub(crate) const PRESET_DEFAULT: Preset = Preset::LinuxReno;

/// One host. What is not given is what the preset or the kernel has.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct HostConditions {
    /// A paper's or an RFC's host: what the model runs. Without one it runs today's
    /// Linux with Reno.
    pub preset: Option<Preset>,
    /// The congestion control of Linux hosts, by the kernel's name.
    pub congestion_control: String,
    /// Selective acknowledgements.
    pub sack: Option<bool>,
    /// Timestamps.
    pub timestamps: Option<bool>,
    /// Timestamps in microseconds (Linux 6.7 and later: `features tcp_usec_ts` of its routes).
    pub microsecond_timestamps: bool,
    /// Window scaling.
    pub window_scaling: Option<bool>,
    /// Delayed acknowledgements; `false`: each segment is acknowledged at once.
    pub delayed_ack: Option<bool>,
    /// The largest payload of a segment, options not deducted, bytes.
    pub mss: Option<u16>,
    /// The largest window that it advertises, bytes. On the model its send buffer is at
    /// least as large.
    pub window_bytes_max: Option<u32>,
    /// The initial congestion window, segments.
    pub initial_window_segments: Option<u32>,
    /// Retransmissions of one segment after which the connection is given up.
    pub retries_max: Option<u32>,
    /// The least retransmission timeout, seconds (Linux: of the variance's part).
    pub rto_min_s: Option<f64>,
    /// When a model host's slow timer ticks, seconds: below its tick.
    pub tick_phase_s: Option<f64>,
    /// What a model host does when its window shrinks to zero over bytes in flight, if not
    /// what its preset does.
    pub shrunk_window: Option<ShrunkWindow>,
    /// The send buffer of a model host, bytes, whatever the window; none: the preset's.
    pub send_buffer_bytes: Option<u32>,
    /// A model MH with M-TCP's mobile part: its timers stand still while its link is down,
    /// and it sends a marked ACK when that is back.
    pub m_tcp: bool,
    /// What a model MH's sender does about handoffs.
    pub on_handoff: OnHandoffChoice,
    /// Numbers and readings of its LC and CWE.
    pub lc_cwe: Option<LcCweConditions>,
    /// More kernel parameters of Linux hosts.
    pub sysctls: BTreeMap<String, String>,
}

/// The two known behaviours of senders over a window that shrinks to zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShrunkWindow {
    /// Persist begins at once (4.3BSD).
    PersistAtOnce,
    /// The retransmission timer keeps running over what is outstanding (Linux).
    TimerRuns,
    /// The same, and each expiry counts toward giving up (OPNET).
    TimerCounts,
}

impl Default for HostConditions {
    fn default() -> Self {
        Self {
            preset: None,
            congestion_control: CONGESTION_CONTROL_DEFAULT.to_owned(),
            sack: None,
            timestamps: None,
            microsecond_timestamps: false,
            window_scaling: None,
            delayed_ack: None,
            mss: None,
            window_bytes_max: None,
            initial_window_segments: None,
            retries_max: None,
            rto_min_s: None,
            tick_phase_s: None,
            shrunk_window: None,
            send_buffer_bytes: None,
            m_tcp: false,
            on_handoff: OnHandoffChoice::Nothing,
            lc_cwe: None,
            sysctls: BTreeMap::new(),
        }
    }
}

impl HostConditions {
    pub(super) fn check(&self) -> Result<(), DocumentError> {
        let name = &self.congestion_control;
        let is_name = (1..=15).contains(&name.len())
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
        if !is_name {
            let problem = "takes the kernel's name of a congestion control, such as cubic";
            return Err(DocumentError::at("congestion_control", problem));
        }
        let in_range = |key: &str, value: Option<u64>, min: u64, max: u64| match value {
            Some(value) if !(min..=max).contains(&value) => {
                Err(DocumentError::at(key, format!("takes {min} to {max}")))
            }
            _ => Ok(()),
        };
        in_range("mss", self.mss.map(u64::from), 64, 65_495)?;
        in_range(
            "window_bytes_max",
            self.window_bytes_max.map(u64::from),
            1_024,
            1 << 30,
        )?;
        in_range(
            "initial_window_segments",
            self.initial_window_segments.map(u64::from),
            1,
            1_000,
        )?;
        in_range(
            "send_buffer_bytes",
            self.send_buffer_bytes.map(u64::from),
            64,
            1 << 30,
        )?;
        if let Some(numbers) = &self.lc_cwe {
            numbers.check()?;
        }
        in_range("retries_max", self.retries_max.map(u64::from), 1, 255)?;
        for (key, value) in [
            ("rto_min_s", self.rto_min_s),
            ("tick_phase_s", self.tick_phase_s),
        ] {
            if value.is_some_and(|value| !(0.0..=60.0).contains(&value)) {
                return Err(DocumentError::at(key, "takes 0 to 60 seconds"));
            }
        }
        if self.microsecond_timestamps && !self.linux_route_options().is_empty() {
            let problem = "takes a host whose routes have no other options: without mss, window_bytes_max, \
                initial_window_segments, rto_min_s and delayed_ack";
            return Err(DocumentError::at("microsecond_timestamps", problem));
        }
        if let Some(name) = self.sysctls.keys().find(|name| !name.starts_with("net.")) {
            let problem = format!("`{name}` is no parameter of a network namespace; takes net.…");
            return Err(DocumentError::at("sysctls", problem));
        }
        Ok(())
    }

    /// The slow timer's phase is below the tick of the host's preset.
    pub(super) fn check_tick(&self) -> Result<(), DocumentError> {
        let preset = self.preset.unwrap_or(PRESET_DEFAULT);
        let Some(phase_s) = self.tick_phase_s else {
            return Ok(());
        };
        let problem = match preset.settings().rto.timer_tick {
            Some(tick) if phase_s < tick.as_secs_f64() => return Ok(()),
            Some(tick) => format!(
                "got {phase_s}, takes less than the tick of {}, {} s",
                preset.name(),
                tick.as_secs_f64()
            ),
            None if phase_s <= 0.0 => return Ok(()),
            None => format!(
                "got {phase_s}; the timer of {} has no tick: leave it out",
                preset.name()
            ),
        };
        Err(DocumentError::at("tick_phase_s", problem))
    }

    /// Kernel parameters of a Linux host of this kind.
    pub fn linux_sysctls(&self) -> Vec<(String, String)> {
        let switch = |on: bool| if on { "1" } else { "0" }.to_owned();
        let mut sysctls = Vec::new();
        let mut add = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                sysctls.push((format!("net.ipv4.{name}"), value));
            }
        };
        add("tcp_sack", self.sack.map(switch));
        add("tcp_timestamps", self.timestamps.map(switch));
        add("tcp_window_scaling", self.window_scaling.map(switch));
        add(
            "tcp_retries2",
            self.retries_max.map(|retries| retries.to_string()),
        );
        sysctls.extend(
            self.sysctls
                .iter()
                .map(|(name, value)| (name.clone(), value.clone())),
        );
        sysctls
    }

    /// Options of a Linux host's routes, as `ip route` takes them.
    pub fn linux_route_options(&self) -> Vec<String> {
        let mut options = Vec::new();
        let mut add = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                options.extend([name.to_owned(), value]);
            }
        };
        add("advmss", self.mss.map(|mss| mss.to_string()));
        add(
            "window",
            self.window_bytes_max.map(|bytes| bytes.to_string()),
        );
        add(
            "initcwnd",
            self.initial_window_segments
                .map(|segments| segments.to_string()),
        );
        add(
            "rto_min",
            self.rto_min_s.map(|s| format!("{}ms", (s * 1e3).round())),
        );
        add(
            "quickack",
            (self.delayed_ack == Some(false)).then(|| "1".to_owned()),
        );
        options
    }
}
