// SPDX-License-Identifier: Apache-2.0
//! The senders of the papers, by name.

use holdfast_wire::Duration;
use serde::{Deserialize, Serialize};

use super::settings::{
    DelayedAck, HalfOf, IdleRestart, LossRecovery, OnFullAck, OnPersistExit, OnShrunkWindow,
    PersistSettings, ProbeKind, RtoFloor, RtoSettings, RttClock, TcpSettings, WindowIncrease,
    WindowUpdates,
};

/// A host that a paper or an RFC describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// RFC 5681 without SACK, timestamps and NewReno.
    Reno,
    /// RFC 6582, without SACK, with timestamps.
    NewReno,
    /// RFC 6675 with timestamps: [`TcpSettings::default`].
    Sack,
    /// 4.3BSD-Reno (Wright and Stevens, TCP/IP Illustrated 2): M-TCP's and Snoop's
    /// time. No options but the MSS, 16 KiB of buffers, ticks of 500 ms.
    Reno43bsd,
    /// The same with the `snd.max` that goes back when persist ends, for which M-TCP
    /// has its state RECOVERING (Brown and Singh, 1997).
    Reno43bsdResetsSndMax,
    /// Linux 2.1 (Freeze-TCP's senders): SACK, timestamps, a clock of 10 ms, at least
    /// 200 ms, persist at once.
    Linux21,
    /// Solaris 2.6 (Freeze-TCP's near sender): no SACK, timestamps if they are offered, a send buffer of
    /// 8 KiB, at least 200 ms, 240 s at most, persist at once.
    Solaris26,
    /// What is known of today's Linux with Reno: windows grow by what is acknowledged, are
    /// halved in whole segments and set to `ssthresh` when recovery ends; the floor of the
    /// timeout; the shrunk window. No tail loss probes, RACK, F-RTO, undo or proportional
    /// rate reduction. Compared with it in docs/senders.md.
    LinuxReno,
    /// Today's Linux as it comes: CUBIC with HyStart, RACK-TLP, proportional rate reduction,
    /// F-RTO, undo by timestamps and D-SACK; otherwise as `LinuxReno`. Compared with it in
    /// docs/senders.md.
    LinuxCubic,
    /// The same with BBR, version 1, instead of CUBIC. Compared with Linux in docs/senders.md.
    LinuxBbr,
    /// What Darwin's published source has: CUBIC, RACK-TLP without F-RTO, its timers. The rest is as
    /// `LinuxCubic`. Not compared with a Mac.
    MacosLike,
    /// What Microsoft has published of Windows: CUBIC, RACK-TLP, no timestamps, its timers. The rest is
    /// as `LinuxCubic`. Not compared with Windows.
    WindowsLike,
    /// OPNET's TCP NewReno with the parameters printed in M-TCP+ (Omueti and
    /// Trajković, 2007).
    #[serde(rename = "newreno-2007")]
    NewReno2007,
    /// OPNET's TCP SACK with the same.
    #[serde(rename = "sack-2007")]
    Sack2007,
    /// ns-2's Agent/TCP/Reno with its defaults of 2003 (LC and CWE: Liao, Kao and Chien,
    /// 2005), but for the window, which it limits to 20 segments: that is a host's setting
    /// here.
    #[serde(rename = "reno-2005")]
    Reno2005,
}

impl Preset {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::Reno,
        Self::NewReno,
        Self::Sack,
        Self::Reno43bsd,
        Self::Reno43bsdResetsSndMax,
        Self::Linux21,
        Self::Solaris26,
        Self::LinuxReno,
        Self::LinuxCubic,
        Self::LinuxBbr,
        Self::MacosLike,
        Self::WindowsLike,
        Self::NewReno2007,
        Self::Sack2007,
        Self::Reno2005,
    ];

    /// Its name in scenarios and results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reno => "reno",
            Self::NewReno => "new-reno",
            Self::Sack => "sack",
            Self::Reno43bsd => "reno43bsd",
            Self::Reno43bsdResetsSndMax => "reno43bsd-resets-snd-max",
            Self::Linux21 => "linux21",
            Self::Solaris26 => "solaris26",
            Self::LinuxReno => "linux-reno",
            Self::LinuxCubic => "linux-cubic",
            Self::LinuxBbr => "linux-bbr",
            Self::MacosLike => "macos-like",
            Self::WindowsLike => "windows-like",
            Self::NewReno2007 => "newreno-2007",
            Self::Sack2007 => "sack-2007",
            Self::Reno2005 => "reno-2005",
        }
    }

    /// The settings.
    pub fn settings(self) -> TcpSettings {
        match self {
            Self::Reno => TcpSettings {
                recovery: LossRecovery::Reno,
                sack: false,
                timestamps: false,
                limited_transmit: false,
                ..TcpSettings::default()
            },
            Self::NewReno => TcpSettings {
                recovery: LossRecovery::NewReno,
                sack: false,
                ..TcpSettings::default()
            },
            Self::Sack => TcpSettings::default(),
            Self::Reno43bsd => reno_4_3bsd(),
            Self::Reno43bsdResetsSndMax => TcpSettings {
                on_persist_exit: OnPersistExit::ResetSndMax,
                ..reno_4_3bsd()
            },
            Self::Linux21 => linux_2_1(),
            Self::Solaris26 => solaris_2_6(),
            Self::LinuxReno => linux_reno(),
            Self::LinuxCubic => linux_cubic(),
            Self::LinuxBbr => TcpSettings {
                increase: WindowIncrease::Bbr,
                idle_restart: IdleRestart::Never,
                ..linux_cubic()
            },
            Self::MacosLike => macos_like(),
            Self::WindowsLike => windows_like(),
            Self::NewReno2007 => opnet_2007(LossRecovery::NewReno),
            Self::Sack2007 => opnet_2007(LossRecovery::Sack),
            Self::Reno2005 => ns_2_reno(),
        }
    }
}

/// TCP/IP Illustrated 2, chapters 25 to 29.
fn reno_4_3bsd() -> TcpSettings {
    TcpSettings {
        mss: 1460,
        timestamps: false,
        window_scale: None,
        sack: false,
        receive_buffer_bytes: 16 << 10,
        send_buffer_bytes: Some(16 << 10),
        recovery: LossRecovery::Reno,
        limited_transmit: false,
        increase: WindowIncrease::Bsd,
        increase_when_limited_only: false,
        initial_window_segments: 1,
        initial_ssthresh_bytes: Some(65_535),
        half_of: HalfOf::Window,
        idle_restart: IdleRestart::SinceReceived,
        rto: RtoSettings::BSD,
        delayed_ack: DelayedAck::BSD,
        persist: PersistSettings::BSD,
        on_shrunk_window: OnShrunkWindow::PersistAtOnce,
        on_persist_exit: OnPersistExit::KeepSndMax,
        window_updates: WindowUpdates::Rfc9293,
        ..TcpSettings::default()
    }
}

fn linux_2_1() -> TcpSettings {
    TcpSettings {
        timestamp_clock: Duration::from_millis(10),
        window_scale: Some(0),
        receive_buffer_bytes: 32_767,
        send_buffer_bytes: Some(64 << 10),
        recovery: LossRecovery::Reno,
        limited_transmit: false,
        increase: WindowIncrease::PerAck,
        initial_window_segments: 1,
        increase_when_limited_only: false,
        rto: RtoSettings {
            initial: Duration::from_secs(3),
            floor: RtoFloor::Timeout(Duration::from_millis(200)),
            max: Duration::from_secs(120),
            clock: RttClock::Rfc6298 {
                granularity: Duration::from_millis(10),
            },
            samples_share_weight: false,
            syn_retries_max: 10,
            ..RtoSettings::RFC6298
        },
        // `tcp_delack_estimator`: quick until there is a second segment to estimate from.
        quick_acks: 2,
        persist: PersistSettings {
            probe: ProbeKind::Empty,
            ..PersistSettings::RFC9293
        },
        ..TcpSettings::default()
    }
}

/// The defaults of its `tcp.c` (`tcp_rexmit_interval_min` and `_max`, `tcp_xmit_hiwat`, `tcp_recv_hiwat`,
/// `tcp_deferred_ack_interval`). The rest is as Linux of that time.
fn solaris_2_6() -> TcpSettings {
    let linux = linux_2_1();
    TcpSettings {
        sack: false,
        receive_buffer_bytes: 8 << 10,
        send_buffer_bytes: Some(8 << 10),
        rto: RtoSettings {
            max: Duration::from_secs(240),
            ..linux.rto
        },
        delayed_ack: DelayedAck::On {
            every: 2,
            delay: Duration::from_millis(50),
            heartbeat: false,
        },
        quick_acks: 0,
        persist: PersistSettings {
            probe: ProbeKind::NextByte,
            ..linux.persist
        },
        ..linux
    }
}

fn linux_reno() -> TcpSettings {
    TcpSettings {
        receive_buffer_bytes: 6 << 20,
        impatient: false,
        increase: WindowIncrease::AllAcked,
        half_of: HalfOf::CongestionWindow,
        on_full_ack: OnFullAck::Ssthresh,
        rto: RtoSettings {
            floor: RtoFloor::Variance(Duration::from_millis(200)),
            max: Duration::from_secs(120),
            clock: RttClock::Rfc6298 {
                granularity: Duration::from_millis(1),
            },
            samples_share_weight: false,
            // tcp_syn_retries: gives up sooner than RFC 9293, 3.8.3 allows.
            syn_retries_max: 6,
            ..RtoSettings::RFC6298
        },
        delayed_ack: DelayedAck::On {
            every: 2,
            delay: Duration::from_millis(40),
            heartbeat: false,
        },
        persist: PersistSettings {
            probe: ProbeKind::Empty,
            max: Duration::from_secs(120),
            unanswered_max: Some(15),
            ..PersistSettings::RFC9293
        },
        on_shrunk_window: OnShrunkWindow::RetransmissionTimerRuns,
        ..TcpSettings::default()
    }
}

fn linux_cubic() -> TcpSettings {
    TcpSettings {
        recovery: LossRecovery::RackTlp,
        dsack: true,
        increase: WindowIncrease::Cubic,
        idle_restart: IdleRestart::HalvedEachTimeout,
        ..linux_reno()
    }
}

/// xnu-11417.101.15, `bsd/netinet`. CUBIC: `tcp_newtcpcb`. RACK: `tcp_sysctls.c`. F-RTO is in none of
/// the files. Timers: `tcp_timer.h` (`TCPTV_RTOBASE`, `TCPTV_REXMTSLOP`, `TCPTV_REXMTMAX`, `TCPTV_PERSMIN`,
/// `TCPTV_PERSMAX`, `TCP_MAXRXTSHIFT`), `tcp_timer.c` (`tcp_backoff`, `tcp_delack`), `tcp_subr.c`
/// (`tcp_TCPTV_MIN`). Buffers: `autosndbufmax`, `autorcvbufmax`.
fn macos_like() -> TcpSettings {
    TcpSettings {
        f_rto: false,
        receive_buffer_bytes: 2 << 20,
        send_buffer_bytes: Some(2 << 20),
        rto: RtoSettings {
            initial: Duration::from_secs(1),
            floor: RtoFloor::Timeout(Duration::from_millis(100)),
            slop: Duration::from_millis(200),
            max: Duration::from_secs(64),
            doublings_max: 6,
            retries_max: 12,
            ..linux_cubic().rto
        },
        delayed_ack: DelayedAck::On {
            every: 2,
            delay: Duration::from_millis(100),
            heartbeat: false,
        },
        persist: PersistSettings::BSD,
        ..linux_cubic()
    }
}

/// - Least RTO, CUBIC, ACKs, no restart after idle times: `Get-NetTCPSetting`, template Internet, in
///   Microsoft's "TCP Templates for Windows Server 2019" (2018).
/// - Timestamps: none. It is an assumption; the texts named here were not seen to state it.
/// - RACK and tail loss probes: Microsoft's announcement of Windows 10, version 1607 (2016).
/// - D-SACK and F-RTO (RFC 2883, RFC 4138): "Next Generation TCP/IP Stack" (Windows Vista).
/// - Five retransmissions of a segment: `TcpMaxDataRetransmissions`.
fn windows_like() -> TcpSettings {
    TcpSettings {
        timestamps: false,
        rto: RtoSettings {
            floor: RtoFloor::Timeout(Duration::from_millis(300)),
            retries_max: 5,
            ..linux_cubic().rto
        },
        idle_restart: IdleRestart::Never,
        ..linux_cubic()
    }
}

/// `ns-default.tcl` and `tcp.cc`, `tcp-reno.cc`: segments of 1000 bytes, a sink that
/// acknowledges each, ticks of 10 ms, a least timeout below that of all our paths, limited transmit (`singledup_`),
/// one fast retransmit a window (`bug_fix_`), half of the window after each loss.
fn ns_2_reno() -> TcpSettings {
    TcpSettings {
        mss: 1000,
        timestamps: false,
        sack: false,
        recovery: LossRecovery::Reno,
        recovers_once: true,
        limited_transmit: true,
        increase: WindowIncrease::PerAck,
        increase_when_limited_only: false,
        initial_window_segments: 2,
        half_of: HalfOf::Window,
        rto: RtoSettings {
            initial: Duration::from_secs(6),
            floor: RtoFloor::Timeout(Duration::from_millis(200)),
            max: Duration::from_secs(64),
            clock: RttClock::Rfc6298 {
                granularity: Duration::from_millis(10),
            },
            samples_share_weight: false,
            doublings_max: 6,
            retries_max: 100,
            ..RtoSettings::RFC6298
        },
        delayed_ack: DelayedAck::Off,
        idle_restart: IdleRestart::Never,
        ..TcpSettings::default()
    }
}

/// "TCP simulation parameters" of the slides.
fn opnet_2007(recovery: LossRecovery) -> TcpSettings {
    TcpSettings {
        mss: 1460,
        timestamps: false,
        window_scale: None,
        sack: recovery == LossRecovery::Sack,
        receive_buffer_bytes: 65_535,
        recovery,
        dup_ack_threshold: 3,
        limited_transmit: false,
        increase: WindowIncrease::PerAck,
        increase_when_limited_only: false,
        initial_window_segments: 2,
        initial_ssthresh_bytes: Some(65_535),
        rto: RtoSettings {
            initial: Duration::from_secs(3),
            floor: RtoFloor::Timeout(Duration::from_secs(1)),
            slop: Duration::ZERO,
            max: Duration::from_secs(64),
            clock: RttClock::Rfc6298 {
                granularity: Duration::ZERO,
            },
            samples_share_weight: false,
            timer_tick: Some(Duration::from_millis(500)),
            tick_phase: Duration::ZERO,
            doublings_max: 16,
            retries_max: 6,
            syn_retries_max: 6,
        },
        delayed_ack: DelayedAck::RFC5681,
        persist: PersistSettings {
            initial: Some(Duration::from_secs(1)),
            ..PersistSettings::RFC9293
        },
        idle_restart: IdleRestart::Never,
        ..TcpSettings::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_that_of_its_settings_file_form() {
        for preset in Preset::ALL {
            let settings = preset.settings();
            assert!(settings.mss >= 64, "{}", preset.name());
            assert!(
                preset
                    .name()
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'),
                "{}",
                preset.name()
            );
        }
        let mut names: Vec<_> = Preset::ALL.iter().map(|preset| preset.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Preset::ALL.len());
    }
}
