// SPDX-License-Identifier: Apache-2.0
//! Kinds of texts, and of lists of texts.

use core::fmt;
use core::net::{IpAddr, SocketAddr};

use serde::ser::{SerializeSeq as _, Serializer};

pub use crate::entries::Listen;
use crate::entries::{Cell, CellSettings, Station};
use crate::kind::Kind;
use crate::prefix::Prefix;

/// A kind of texts that are used as they are: what it takes, and whether a text is one.
macro_rules! text {
    ($(#[$doc:meta])* $kind:ident, $takes:literal, $is_one:expr) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $kind;

        impl Kind<String> for $kind {
            fn takes(f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str($takes)
            }

            fn of_text(text: &str) -> Option<String> {
                let is_one: fn(&str) -> bool = $is_one;
                is_one(text).then(|| text.to_owned())
            }

            fn write<S: Serializer>(value: &String, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(value)
            }
        }
    };
}

text!(
    /// The name of a network interface.
    InterfaceName,
    "the name of a network interface, 1 to 15 characters",
    is_interface_name
);
text!(
    /// An absolute path.
    AbsolutePath,
    "an absolute path",
    |text| text.starts_with('/')
);
text!(
    /// Any text but the empty one.
    Name,
    "a text of 1 to 64 characters",
    |text| (1..=64).contains(&text.chars().count())
);
text!(
    /// A filter of the log. The reader of the file checks its form.
    LogFilter,
    "a level of the log such as `debug`, or levels of parts such as `info,holdfast::mobile=trace`",
    |text| !text.is_empty()
);
text!(
    /// A secret key as text. The reader of the file checks its form.
    SecretKey,
    "a key made by `holdfast mobile keygen`",
    |text| !text.is_empty()
);
text!(
    /// A modem of ModemManager.
    Modem,
    "`auto` or the D-Bus path of a modem",
    |text| text == "auto" || text.starts_with('/')
);

/// One network interface, or several.
#[derive(Debug)]
pub struct Interfaces;

/// Interfaces of one gateway at most; the text below names it.
const INTERFACES_MAX: usize = 16;

impl Kind<Vec<String>> for Interfaces {
    fn takes(f: &mut fmt::Formatter<'_>) -> fmt::Result {
        InterfaceName::takes(f)?;
        f.write_str(", or a list of up to 16 of them")
    }

    fn of_text(text: &str) -> Option<Vec<String>> {
        Some(vec![InterfaceName::of_text(text)?])
    }

    fn of_list(texts: &[String]) -> Option<Vec<String>> {
        let is_new = |(index, text): (usize, &String)| !texts[..index].contains(text);
        let are_names = texts.iter().all(|text| is_interface_name(text));
        let are_several = (1..=INTERFACES_MAX).contains(&texts.len());
        let is_list = are_several && are_names && texts.iter().enumerate().all(is_new);
        is_list.then(|| texts.to_vec())
    }

    /// None stands for a key that is not given.
    fn write<S: Serializer>(values: &Vec<String>, serializer: S) -> Result<S::Ok, S::Error> {
        match values.as_slice() {
            [] => serializer.serialize_none(),
            [one] => serializer.serialize_str(one),
            several => serializer.collect_seq(several),
        }
    }
}

/// Whether the kernel takes the text for an interface's name (`dev_valid_name`).
fn is_interface_name(text: &str) -> bool {
    (1..=15).contains(&text.len())
        && text != "."
        && text != ".."
        && !text.contains(|c: char| c == '/' || c == ':' || c.is_whitespace())
}

/// A kind of texts that are parsed: its value, what it takes, how it is parsed
/// and how it is written.
macro_rules! parsed {
    ($(#[$doc:meta])* $kind:ident, $value:ty, $takes:literal, $parse:expr, $show:expr) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $kind;

        impl Kind<$value> for $kind {
            fn takes(f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str($takes)
            }

            fn of_text(text: &str) -> Option<$value> {
                let parse: fn(&str) -> Option<$value> = $parse;
                parse(text)
            }

            fn write<S: Serializer>(value: &$value, serializer: S) -> Result<S::Ok, S::Error> {
                let show: fn(&$value) -> String = $show;
                serializer.serialize_str(&show(value))
            }
        }
    };
}

/// The same for lists of texts.
macro_rules! list {
    ($(#[$doc:meta])* $kind:ident, $value:ty, $takes:literal, $parse:expr, $show:expr) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $kind;

        impl Kind<Vec<$value>> for $kind {
            fn takes(f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str($takes)
            }

            fn of_list(texts: &[String]) -> Option<Vec<$value>> {
                let parse: fn(&str) -> Option<$value> = $parse;
                (1..=ENTRIES_MAX).contains(&texts.len()).then_some(())?;
                texts.iter().map(|text| parse(text)).collect()
            }

            /// An empty list stands for a key that is not given.
            fn write<S: Serializer>(values: &Vec<$value>, serializer: S) -> Result<S::Ok, S::Error> {
                if values.is_empty() {
                    return serializer.serialize_none();
                }
                let show: fn(&$value) -> String = $show;
                let mut list = serializer.serialize_seq(Some(values.len()))?;
                for value in values {
                    list.serialize_element(&show(value))?;
                }
                list.end()
            }
        }
    };
}

/// Entries of a list at most; the texts below name it.
const ENTRIES_MAX: usize = 64;
const KBPS_MAX: u64 = 100_000_000;
const WEIGHT_MAX: u32 = 1000;

parsed!(
    /// An address and a port.
    AddressAndPort,
    SocketAddr,
    "an address and a port",
    |text| text.parse().ok(),
    SocketAddr::to_string
);
parsed!(
    /// A multicast address.
    MulticastGroup,
    IpAddr,
    "a multicast address",
    |text| text.parse().ok().filter(IpAddr::is_multicast),
    IpAddr::to_string
);
parsed!(
    /// A TCP address, or the path of a Unix socket.
    ListenAt,
    Listen,
    "an address and a port, or the absolute path of a Unix socket",
    |text| match text.strip_prefix('/') {
        Some(_) => Some(Listen::Unix(text.to_owned())),
        None => text.parse().ok().map(Listen::Tcp),
    },
    Listen::to_string
);
list!(
    /// Addresses and prefixes.
    Prefixes,
    Prefix,
    "a list of 1 to 64 addresses or prefixes",
    |text| text.parse().ok(),
    Prefix::to_string
);
list!(
    /// Base stations.
    Stations,
    Station,
    "a list of 1 to 64 addresses, each with or without a port",
    |text| text.parse().ok(),
    Station::to_string
);
list!(
    /// The cells of a mobile.
    Cells,
    Cell,
    "a list of 1 to 64 texts, each an interface and an address with or without a port",
    |text| {
        let (interface, gateway) = text.split_once(' ')?;
        let gateway = gateway.trim();
        let is_one_word = !gateway.is_empty() && !gateway.contains(' ');
        (is_interface_name(interface) && is_one_word).then(|| Cell {
            interface: interface.into(),
            gateway: Some(gateway.into()),
        })
    },
    |cell| format!("{} {}", cell.interface, cell.gateway.as_deref().unwrap_or_default())
);
list!(
    /// The cells of a gateway.
    Capacities,
    CellSettings,
    "a list of 1 to 64 texts, each an address, a prefix or `*`, and kilobits a second from \
     1 to 100000000 or `estimate`",
    |text| {
        let (mobiles, rate) = two_parts(text)?;
        let bytes_per_s = match rate {
            "estimate" => None,
            kbps => {
                let kbps = kbps.parse().ok().filter(|kbps| (1..=KBPS_MAX).contains(kbps))?;
                Some(kbps * 1000 / 8)
            }
        };
        let mobiles = match mobiles {
            "*" => None,
            prefix => Some(prefix.parse().ok()?),
        };
        Some(CellSettings { mobiles, bytes_per_s })
    },
    |cell| {
        let mobiles = cell.mobiles.map_or("*".to_owned(), |prefix| prefix.to_string());
        let rate = cell.bytes_per_s.map_or("estimate".to_owned(), |rate| (rate * 8 / 1000).to_string());
        format!("{mobiles} {rate}")
    }
);
list!(
    /// Mobiles and their weights.
    Weights,
    (Prefix, u32),
    "a list of 1 to 64 texts, each an address or a prefix, and a number from 1 to 1000",
    |text| {
        let (mobile, weight) = two_parts(text)?;
        let weight = weight.parse().ok().filter(|weight| (1..=WEIGHT_MAX).contains(weight))?;
        Some((mobile.parse().ok()?, weight))
    },
    |(mobile, weight)| format!("{mobile} {weight}")
);

fn two_parts(text: &str) -> Option<(&str, &str)> {
    let mut parts = text.split_whitespace();
    let two = (parts.next()?, parts.next()?);
    parts.next().is_none().then_some(two)
}

/// A differentiated services codepoint, by name or number.
#[derive(Debug)]
pub struct Dscp;

impl Kind<u8> for Dscp {
    fn takes(f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a DSCP, by number from 0 to 63 or by name (ef, va, le, cs0 to cs7, af11 to af43)",
        )
    }

    fn of_integer(number: i64) -> Option<u8> {
        u8::try_from(number).ok().filter(|dscp| *dscp < 64)
    }

    /// Class selectors (RFC 2474), assured forwarding (RFC 2597), expedited forwarding (RFC 3246),
    /// voice-admit (RFC 5865), lower effort (RFC 8622); names of any case, and numbers.
    fn of_text(text: &str) -> Option<u8> {
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Self::of_integer(text.parse().ok()?);
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

    fn write<S: Serializer>(value: &u8, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(*value)
    }
}
