// SPDX-License-Identifier: Apache-2.0
//! The settings of a link whose two directions share one medium.

use crate::settings::LinkSettings;

/// A key that a link with `half_duplex` does not take, and why. The value is not in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HalfDuplexError {
    /// The key, with the table that it is in.
    pub key: String,
    /// The reason and the remedy.
    pub problem: &'static str,
}

/// The keys whose values differ.
macro_rules! differing {
    ($one:ident, $other:ident, $($key:ident)*) => {{
        // All keys: a new key does not compile here until it is added.
        let LinkSettings { $($key: _),* } = $one;
        let pairs = [$((stringify!($key), differ(&$one.$key, &$other.$key))),*];
        pairs.into_iter().filter(|(_, differs)| *differs).map(|(key, _)| key)
    }};
}

fn differ<T: PartialEq>(one: &T, other: &T) -> bool {
    one != other
}

/// Checks a link with `half_duplex`. Its medium is the downlink's, so a key that `is_given` for the
/// uplink must have the downlink's value.
///
/// # Errors
/// A key would be ignored, or the link has `arq`.
pub fn check_half_duplex(
    downlink: &LinkSettings,
    uplink: &LinkSettings,
    is_given: impl Fn(&str) -> bool,
) -> Result<(), HalfDuplexError> {
    if downlink.arq.is_some() || uplink.arq.is_some() {
        return Err(HalfDuplexError {
            key: "arq".into(),
            problem: "stands beside half_duplex, and both directions would share one order of delivery; \
                      leave one of the two out",
        });
    }
    let mut ignored = differing!(downlink, uplink,
        rate_mbit_per_s rate_trace rate_model trace_format trace_start_s delay_ms jitter slow
        queue_packets_max queue_bytes_max priority_dscp_min loss bit_error_rate bit_error_effect
        gilbert_elliott arq outages outage_effect);
    ignored.find(|key| is_given(key)).map_or(Ok(()), |key| {
        Err(HalfDuplexError {
            key: format!("uplink.{key}"),
            problem: "half_duplex would ignore it: both directions have the downlink's values; \
                      remove it, or half_duplex",
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_the_uplink_that_the_medium_ignores_is_refused() {
        let settings = |text: &str| toml::from_str::<LinkSettings>(text).unwrap();
        let downlink = settings("rate_mbit_per_s = 20\nloss = 0.1");
        let check = |text: &str| {
            let given: toml::Table = toml::from_str(text).unwrap();
            check_half_duplex(&downlink, &settings(text), |key| given.contains_key(key))
        };
        for text in ["", "rate_mbit_per_s = 20", "loss = 0.1", "delay_ms = 0"] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
        for (text, key) in [
            ("rate_mbit_per_s = 5", "uplink.rate_mbit_per_s"),
            ("rate_trace = \"a.mm\"", "uplink.rate_trace"),
            ("loss = 0", "uplink.loss"),
        ] {
            assert_eq!(check(text).unwrap_err().key, key);
        }
    }
}
