// SPDX-License-Identifier: Apache-2.0
//! Maps `[fh]` and `[mh]` to the simulator's settings.

use holdfast_sim::tcp::settings::{DelayedAck, IdleRestart, LossRecovery, RtoFloor};
use holdfast_sim::{Preset, TcpSettings};

use crate::scenario::{HostConditions, PRESET_DEFAULT, seconds};

/// The one kernel parameter that the model reads; `0`: the window does not restart after silence.
const AFTER_IDLE: &str = "net.ipv4.tcp_slow_start_after_idle";

/// A host's TCP: that of its preset or congestion control, changed by the scenario's keys.
pub(super) fn tcp(conditions: &HostConditions) -> TcpSettings {
    let preset = conditions.model_preset().unwrap_or(PRESET_DEFAULT);
    let mut tcp = preset.settings();
    if let Some(sack) = conditions.sack {
        tcp.sack = sack;
        if !sack && tcp.recovery == LossRecovery::Sack {
            tcp.recovery = LossRecovery::NewReno;
        }
    }
    if let Some(timestamps) = conditions.timestamps {
        tcp.timestamps = timestamps;
    }
    match conditions.window_scaling {
        Some(true) => tcp.window_scale = tcp.window_scale.or(Some(7)),
        Some(false) => tcp.window_scale = None,
        None => {}
    }
    match conditions.delayed_ack {
        Some(false) => tcp.delayed_ack = DelayedAck::Off,
        Some(true) if tcp.delayed_ack == DelayedAck::Off => tcp.delayed_ack = DelayedAck::RFC5681,
        _ => {}
    }
    if let Some(mss) = conditions.mss {
        tcp.mss = mss;
    }
    if let Some(bytes) = conditions.window_bytes_max {
        tcp.receive_buffer_bytes = bytes;
        // `[hosts]` sets this window at both ends: a smaller send buffer could not fill it.
        tcp.send_buffer_bytes = tcp.send_buffer_bytes.map(|own| own.max(bytes));
    }
    if let Some(bytes) = conditions.send_buffer_bytes {
        tcp.send_buffer_bytes = Some(bytes);
    }
    if let (Some(Preset::Reno2005), Some(bytes)) = (conditions.preset, conditions.window_bytes_max)
    {
        // ns-2's `window_` limits the sender itself, and sets its first `ssthresh_`.
        tcp.initial_ssthresh_bytes = Some(bytes);
    }
    tcp.dup_ack_delay = conditions.dup_ack_delay_ms.map(|ms| seconds(ms / 1e3));
    tcp.m_tcp = conditions.m_tcp;
    tcp.on_handoff = conditions.on_handoff.settings(conditions.lc_cwe);
    set_timers_and_windows(&mut tcp, conditions);
    tcp
}

/// A host with a preset, and a value for each key: missing values are those of the preset.
pub(in crate::substrate) fn in_full(conditions: &HostConditions) -> HostConditions {
    let tcp = tcp(conditions);
    let (RtoFloor::Timeout(floor) | RtoFloor::Variance(floor)) = tcp.rto.floor;
    let tick = tcp.rto.timer_tick;
    let restarts = tcp.idle_restart != IdleRestart::Never;
    let numbers = conditions.on_handoff.reads_numbers();
    // With ns-2's preset a given window is also the first `ssthresh`, so none is added.
    let window_bytes_max = match conditions.model_preset() {
        Some(Preset::Reno2005) => conditions.window_bytes_max,
        _ => Some(tcp.receive_buffer_bytes),
    };
    HostConditions {
        preset: conditions.model_preset(),
        sack: Some(tcp.sack),
        timestamps: Some(tcp.timestamps),
        window_scaling: Some(tcp.window_scale.is_some()),
        delayed_ack: Some(tcp.delayed_ack != DelayedAck::Off),
        mss: Some(tcp.mss),
        window_bytes_max,
        initial_window_segments: Some(tcp.initial_window_segments),
        retries_max: Some(tcp.rto.retries_max),
        rto_min_s: Some(floor.as_secs_f64()),
        tick_phase_s: tick.map(|_| tcp.rto.tick_phase.as_secs_f64()),
        shrunk_window: Some(tcp.on_shrunk_window),
        send_buffer_bytes: tcp.send_buffer_bytes,
        lc_cwe: numbers.then(|| conditions.lc_cwe.unwrap_or_default().in_full()),
        sysctls: [(AFTER_IDLE.to_owned(), u8::from(restarts).to_string())].into(),
        ..conditions.clone()
    }
}

fn set_timers_and_windows(tcp: &mut TcpSettings, conditions: &HostConditions) {
    if let Some(segments) = conditions.initial_window_segments {
        tcp.initial_window_segments = segments;
    }
    if let Some(retries) = conditions.retries_max {
        tcp.rto.retries_max = retries;
    }
    if let Some(s) = conditions.rto_min_s {
        tcp.rto.floor = match tcp.rto.floor {
            RtoFloor::Timeout(_) => RtoFloor::Timeout(seconds(s)),
            RtoFloor::Variance(_) => RtoFloor::Variance(seconds(s)),
        };
    }
    if let Some(behaviour) = conditions.shrunk_window {
        tcp.on_shrunk_window = behaviour;
    }
    if let Some(s) = conditions.tick_phase_s {
        tcp.rto.tick_phase = seconds(s);
    }
    if conditions.sysctls.get(AFTER_IDLE).is_some_and(|v| v == "0") {
        tcp.idle_restart = IdleRestart::Never;
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::scenario::Scenario;

    fn fh(keys: &str) -> TcpSettings {
        let text = format!("[transfer]\nbytes = 1000\n[wireless]\n[hosts]\n{keys}");
        let scenario = Scenario::parse(Path::new("s.toml"), &text).unwrap();
        tcp(&scenario.runs(None).unwrap().remove(0).conditions.fh)
    }

    #[test]
    fn a_congestion_control_without_a_preset_is_todays_linux_with_it() {
        assert_eq!(fh(""), Preset::LinuxReno.settings());
        let with = |control: &str| fh(&format!("congestion_control = \"{control}\""));
        assert_eq!(with("reno"), Preset::LinuxReno.settings());
        assert_eq!(with("cubic"), Preset::LinuxCubic.settings());
        assert_eq!(with("bbr"), Preset::LinuxBbr.settings());
        // A preset wins.
        let both = fh("congestion_control = \"cubic\"\npreset = \"sack\"");
        assert_eq!(both, Preset::Sack.settings());
    }

    #[test]
    fn a_larger_window_is_not_kept_small_by_the_presets_send_buffer() {
        let get = |bytes: u32| {
            let host = fh(&format!(
                "preset = \"reno43bsd\"\nwindow_bytes_max = {bytes}"
            ));
            (host.receive_buffer_bytes, host.send_buffer_bytes)
        };
        let own = fh("preset = \"reno43bsd\"").send_buffer_bytes;
        assert_eq!(own, Some(16 << 10));
        assert_eq!(get(65_535), (65_535, Some(65_535)));
        // A host with a small receive window may have a large send buffer.
        assert_eq!(get(4096), (4096, own));
        // A host without a bound gets none.
        let unbounded = fh("preset = \"linux-reno\"\nwindow_bytes_max = 65535");
        assert_eq!(unbounded.send_buffer_bytes, None);
    }
}
