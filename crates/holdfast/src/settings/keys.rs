// SPDX-License-Identifier: Apache-2.0
//! What a key is, and the kinds of values that keys take.

use std::net::SocketAddr;
use std::time::Duration;

use toml::Value;

/// One key of a settings file.
#[derive(Debug)]
pub(crate) struct Key {
    /// Its full name: section and key; `[[...]]` sections without their number.
    pub(crate) path: &'static str,
    /// What it takes.
    pub(crate) kind: Kind,
    /// Its default as TOML; `None` if it has none.
    pub(crate) default: Option<&'static str>,
    /// A value as TOML, for errors and examples.
    pub(crate) example: &'static str,
    /// What it means.
    pub(crate) meaning: &'static str,
    /// What more of it costs, or less.
    pub(crate) cost: &'static str,
}

/// What a key takes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// A size, as a number or as text with a unit.
    Bytes { min: u64, max: u64 },
    /// A number of things.
    Count { min: u64, max: u64 },
    /// A time in seconds, whole or not.
    Seconds { min: f64, max: f64 },
    /// A time in milliseconds, whole or not.
    Millis { min: f64, max: f64 },
    /// A number that is a part or a multiple of something.
    Factor { min: f64, max: f64 },
    /// A differentiated services codepoint, by name or number.
    Dscp,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// The name of a network interface.
    Interface,
    /// An absolute path.
    Path,
    /// An address and a port.
    SocketAddr,
    /// Any text but the empty one.
    Text,
    /// A key of `holdfast mobile keygen`.
    SecretKey,
    /// A modem of ModemManager.
    Modem,
    /// A list of addresses or prefixes.
    Prefixes,
    /// A list of addresses, each with or without a port.
    Stations,
    /// A list of cells: an interface and a gateway each.
    Cells,
    /// A list of cells: their mobiles and what they carry.
    Capacities,
    /// A list of mobiles and how often their shares count.
    Weights,
    /// A multicast address.
    Group,
    /// Yes or no.
    Flag,
}

impl Kind {
    /// What the kind takes, for a sentence that starts with "takes".
    pub(crate) fn takes(self) -> String {
        match self {
            Self::Bytes { min, max } => {
                format!(
                    "a number of bytes from {} to {}",
                    size_text(min),
                    size_text(max)
                )
            }
            Self::Count { min, max } => format!("a whole number from {min} to {max}"),
            Self::Seconds { min, max } => format!("a number of seconds from {min} to {max}"),
            Self::Millis { min, max } => format!("a number of milliseconds from {min} to {max}"),
            Self::Factor { min, max } => format!("a number from {min} to {max}"),
            Self::Dscp => "a DSCP, by number from 0 to 63 or by name (ef, va, le, cs0 to cs7, \
                af11 to af43)"
                .into(),
            Self::Choice(words) => format!("one of {}", words.join(", ")),
            Self::Interface => "the name of a network interface, 1 to 15 characters".into(),
            Self::Path => "an absolute path".into(),
            Self::SocketAddr => "an address and a port".into(),
            Self::Text => "a text of 1 to 64 characters".into(),
            Self::SecretKey => "a key made by `holdfast mobile keygen`".into(),
            Self::Modem => "`auto` or the D-Bus path of a modem".into(),
            Self::Prefixes => "a list of 1 to 64 addresses or prefixes".into(),
            Self::Stations => "a list of 1 to 64 addresses, each with or without a port".into(),
            Self::Cells => "a list of 1 to 64 texts, each an interface and an address with or \
                without a port"
                .into(),
            Self::Capacities => {
                "a list of 1 to 64 texts, each an address, a prefix or `*` for all, and \
                kilobits a second from 1 to 100000000 or `estimate`"
                    .into()
            }
            Self::Weights => {
                "a list of 1 to 64 texts, each an address or a prefix, and a number from 1 to \
                1000"
                    .into()
            }
            Self::Group => "a multicast address".into(),
            Self::Flag => "true or false".into(),
        }
    }

    /// The size in `value` if the kind takes it.
    pub(crate) fn bytes(self, value: &Value) -> Option<u64> {
        let Self::Bytes { min, max } = self else {
            return None;
        };
        let bytes = match value {
            Value::Integer(bytes) => u64::try_from(*bytes).ok()?,
            Value::String(text) => parse_size(text)?,
            _ => return None,
        };
        (min..=max).contains(&bytes).then_some(bytes)
    }

    /// The number in `value` if the kind takes it.
    pub(crate) fn count(self, value: &Value) -> Option<u64> {
        let Self::Count { min, max } = self else {
            return None;
        };
        let count = u64::try_from(value.as_integer()?).ok()?;
        (min..=max).contains(&count).then_some(count)
    }

    /// The time in `value` if the kind takes it.
    pub(crate) fn duration(self, value: &Value) -> Option<Duration> {
        let number = match value {
            Value::Integer(number) => *number as f64,
            Value::Float(number) => *number,
            _ => return None,
        };
        match self {
            Self::Seconds { min, max } if (min..=max).contains(&number) => {
                Some(Duration::from_secs_f64(number))
            }
            Self::Millis { min, max } if (min..=max).contains(&number) => {
                Some(Duration::from_secs_f64(number / 1e3))
            }
            _ => None,
        }
    }

    /// The factor in `value` if the kind takes it.
    pub(crate) fn factor(self, value: &Value) -> Option<f64> {
        let Self::Factor { min, max } = self else {
            return None;
        };
        let number = match value {
            Value::Integer(number) => *number as f64,
            Value::Float(number) => *number,
            _ => return None,
        };
        (min..=max).contains(&number).then_some(number)
    }

    /// The DSCP in `value` if the kind takes it.
    pub(crate) fn dscp(self, value: &Value) -> Option<u8> {
        let Self::Dscp = self else { return None };
        match value {
            Value::Integer(number) => u8::try_from(*number).ok().filter(|dscp| *dscp < 64),
            Value::String(text) => parse_dscp(text),
            _ => None,
        }
    }

    /// The answer in `value` if the kind takes it.
    pub(crate) fn flag(self, value: &Value) -> Option<bool> {
        matches!(self, Self::Flag).then(|| value.as_bool())?
    }

    /// The text in `value` if the kind takes it.
    pub(crate) fn text(self, value: &Value) -> Option<String> {
        let text = value.as_str()?;
        let taken = match self {
            Self::Choice(words) => words.contains(&text),
            Self::Interface => is_interface_name(text),
            Self::Path => text.starts_with('/'),
            Self::SocketAddr => text.parse::<SocketAddr>().is_ok(),
            Self::Text => (1..=64).contains(&text.chars().count()),
            Self::Modem => text == "auto" || text.starts_with('/'),
            Self::SecretKey => text.parse::<holdfast_core::signal::MobileKey>().is_ok(),
            Self::Group => text
                .parse::<std::net::IpAddr>()
                .is_ok_and(|group| group.is_multicast()),
            _ => false,
        };
        taken.then(|| text.to_owned())
    }
}

/// What the kernel takes for an interface's name (`dev_valid_name`).
pub(crate) fn is_interface_name(text: &str) -> bool {
    (1..=15).contains(&text.len())
        && text != "."
        && text != ".."
        && !text.contains(|c: char| c == '/' || c == ':' || c.is_whitespace())
}

/// A DSCP by its name, of any case, or its number: class selectors (RFC 2474), assured
/// forwarding (RFC 2597), expedited forwarding (RFC 3246), voice-admit (RFC 5865), lower
/// effort (RFC 8622).
pub(crate) fn parse_dscp(text: &str) -> Option<u8> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok().filter(|dscp| *dscp < 64);
    }
    let digit = |byte: u8, max: u8| Some(byte.wrapping_sub(b'0')).filter(|digit| *digit <= max);
    match text.to_ascii_lowercase().as_bytes() {
        b"ef" => Some(46),
        b"va" => Some(44),
        b"le" => Some(1),
        [b'c', b's', class] => Some(digit(*class, 7)? * 8),
        [b'a', b'f', class @ b'1'..=b'4', drop @ b'1'..=b'3'] => {
            Some(digit(*class, 4)? * 8 + digit(*drop, 3)? * 2)
        }
        _ => None,
    }
}

const UNITS: [(&str, u64); 8] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("KB", 1_000),
    ("B", 1),
];

/// A size such as `256 MiB`, `64kB` or `4096`; whole numbers only.
pub(crate) fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let (number, unit) = UNITS
        .iter()
        .find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, *bytes)))
        .unwrap_or((text, 1));
    let number = number.trim_end();
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    number.parse::<u64>().ok()?.checked_mul(unit)
}

/// A size in the largest binary unit that divides it.
pub(crate) fn size_text(bytes: u64) -> String {
    UNITS[..3]
        .iter()
        .find(|(_, unit)| bytes >= *unit && bytes.is_multiple_of(*unit))
        .map_or(format!("{bytes} B"), |(name, unit)| {
            format!("{} {name}", bytes / unit)
        })
}
