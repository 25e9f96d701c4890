// SPDX-License-Identifier: Apache-2.0
//! `holdfast mobile` at a real kernel's Wi-Fi: two access points of hostapd, a station of
//! `wpa_supplicant`, radios of `mac80211_hwsim`.
//!
//! They load and unload that module, which a machine in use should be spared:
//! `scripts/kernel_tests.sh wifi` runs them in one of their own.
//!
//! ```text
//!   wlan0 (channel 1) AP --.
//!                           >-- air of mac80211_hwsim --- wlan2 station, holdfast mobile
//!   wlan1 (channel 6) AP --'
//! ```

mod air;
mod keep;
mod station;
mod stronger;
