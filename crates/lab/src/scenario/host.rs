// SPDX-License-Identifier: Apache-2.0
//! The TCP of a host: `[hosts]` for both ends, `[fh]` and `[mh]` for one of them.

use std::collections::BTreeMap;

use holdfast_settings::kind::{Count, Maybe, Number};
use holdfast_sim::Preset;
use holdfast_sim::tcp::settings::OnShrunkWindow;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

use super::lc_cwe::{LcCweConditions, OnHandoffChoice};
use holdfast_files::document::DocumentError;

/// The model's preset unless a scenario names one: today's Linux with Reno.
pub(crate) const PRESET_DEFAULT: Preset = Preset::LinuxReno;

/// One host. Missing values are those of the preset or of the kernel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HostConditions {
    /// A paper's or an RFC's host: what the model runs. Without one it runs today's
    /// Linux with Reno.
    pub preset: Option<Preset>,
    /// The congestion control of Linux hosts, by the kernel's name. The model, without a
    /// preset, has `reno`, `cubic` and `bbr`.
    #[serde(deserialize_with = "congestion_control")]
    pub congestion_control: Option<String>,
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
    #[serde(with = "Maybe::<Count<64, 65_495>>")]
    pub mss: Option<u16>,
    /// The largest window that it advertises, bytes. On the model its send buffer is at
    /// least as large.
    #[serde(with = "Maybe::<Count<1_024, { 1 << 30 }>>")]
    pub window_bytes_max: Option<u32>,
    /// The initial congestion window, segments.
    #[serde(with = "Maybe::<Count<1, 1_000>>")]
    pub initial_window_segments: Option<u32>,
    /// Retransmissions of one segment after which the connection is given up.
    #[serde(with = "Maybe::<Count<1, 255>>")]
    pub retries_max: Option<u32>,
    /// The least retransmission timeout, seconds (Linux: of the variance's part).
    #[serde(with = "Maybe::<Number<0, 60>>")]
    pub rto_min_s: Option<f64>,
    /// When a model host's slow timer ticks, seconds: below its tick.
    #[serde(with = "Maybe::<Number<0, 60>>")]
    pub tick_phase_s: Option<f64>,
    /// What a model host does when its window shrinks to zero over bytes in flight, if not
    /// what its preset does.
    pub shrunk_window: Option<OnShrunkWindow>,
    /// The send buffer of a model host, bytes, whatever the window; none: the preset's.
    #[serde(with = "Maybe::<Count<64, { 1 << 30 }>>")]
    pub send_buffer_bytes: Option<u32>,
    /// How long a model MH's third and later duplicate ACKs wait for the missing segment,
    /// milliseconds; none: they go at once.
    #[serde(with = "Maybe::<Number<0, 60_000>>")]
    pub dup_ack_delay_ms: Option<f64>,
    /// A model MH with M-TCP's mobile part: its timers stand still while its link is down,
    /// and it sends a marked ACK when that is up again.
    pub m_tcp: bool,
    /// What a model MH's sender does about handoffs.
    pub on_handoff: OnHandoffChoice,
    /// Numbers and readings of its LC and CWE.
    pub lc_cwe: Option<LcCweConditions>,
    /// More kernel parameters of Linux hosts.
    pub sysctls: BTreeMap<String, String>,
}

fn congestion_control<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let name = String::deserialize(from)?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if (1..=15).contains(&name.len()) && name.bytes().all(is_plain) {
        return Ok(Some(name));
    }
    let problem = "takes the kernel's name of a congestion control, such as cubic";
    Err(D::Error::custom(problem))
}

impl HostConditions {
    /// The congestion control; by default Reno, which every kernel and the model have.
    pub fn congestion_control(&self) -> &str {
        self.congestion_control.as_deref().unwrap_or("reno")
    }

    /// The model's preset: the named one, or that of the congestion control. None: the model does
    /// not have this congestion control.
    pub(crate) fn model_preset(&self) -> Option<Preset> {
        self.preset.or_else(|| match self.congestion_control() {
            "reno" => Some(PRESET_DEFAULT),
            "cubic" => Some(Preset::LinuxCubic),
            "bbr" => Some(Preset::LinuxBbr),
            _ => None,
        })
    }

    pub(super) fn check(&self) -> Result<(), DocumentError> {
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

    /// Checks that the slow timer's phase is below the tick of the host's preset.
    pub(super) fn check_tick(&self) -> Result<(), DocumentError> {
        let preset = self.model_preset().unwrap_or(PRESET_DEFAULT);
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

    /// The kernel parameters that these keys set on a Linux host.
    pub fn linux_sysctls(&self) -> Vec<(String, String)> {
        let own = [
            ("tcp_sack", self.sack.map(u32::from)),
            ("tcp_timestamps", self.timestamps.map(u32::from)),
            ("tcp_window_scaling", self.window_scaling.map(u32::from)),
            ("tcp_retries2", self.retries_max),
        ];
        let own = own
            .into_iter()
            .filter_map(|(name, value)| Some((format!("net.ipv4.{name}"), value?.to_string())));
        own.chain(self.sysctls.clone()).collect()
    }

    /// Options of a Linux host's routes, as `ip route` takes them.
    pub fn linux_route_options(&self) -> Vec<String> {
        let rto_min_ms = self.rto_min_s.map(|s| (s * 1e3).round());
        let options = [
            ("advmss", self.mss.map(|mss| mss.to_string())),
            (
                "window",
                self.window_bytes_max.map(|bytes| bytes.to_string()),
            ),
            (
                "initcwnd",
                self.initial_window_segments.map(|count| count.to_string()),
            ),
            ("rto_min", rto_min_ms.map(|ms| format!("{ms}ms"))),
            (
                "quickack",
                (self.delayed_ack == Some(false)).then(|| "1".to_owned()),
            ),
        ];
        let options = options
            .into_iter()
            .filter_map(|(name, value)| Some([name.to_owned(), value?]));
        options.flatten().collect()
    }
}
