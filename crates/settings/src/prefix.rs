// SPDX-License-Identifier: Apache-2.0
//! Address prefixes: what a key may register.

use core::fmt;
use core::net::IpAddr;
use core::str::FromStr;

/// All addresses that share the first bits with one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    /// The address with all bits after the prefix zero.
    address: IpAddr,
    /// Bits that count, at most 32 or 128.
    bits: u8,
}

/// A text that is not `ADDRESS` or `ADDRESS/BITS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixFormatError;

impl Prefix {
    /// The prefix of `bits` bits of `address`; `None` if the address has fewer.
    /// The bits after it are ignored.
    pub fn new(address: IpAddr, bits: u8) -> Option<Self> {
        if bits > width(address) {
            return None;
        }
        let address = match address {
            IpAddr::V4(v4) => {
                let keep = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
                IpAddr::from((u32::from(v4) & keep).to_be_bytes())
            }
            IpAddr::V6(v6) => {
                let keep = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
                IpAddr::from((u128::from(v6) & keep).to_be_bytes())
            }
        };
        Some(Self { address, bits })
    }

    /// The prefix of one address alone.
    pub const fn host(address: IpAddr) -> Self {
        let bits = width(address);
        Self { address, bits }
    }

    /// The address of the prefix's first host: the prefix's own address is that of a network.
    pub fn first_host(self) -> IpAddr {
        let host = u8::from(self.bits < width(self.address) - 1);
        match self.address {
            IpAddr::V4(v4) => IpAddr::from((u32::from(v4) | u32::from(host)).to_be_bytes()),
            IpAddr::V6(v6) => IpAddr::from((u128::from(v6) | u128::from(host)).to_be_bytes()),
        }
    }

    /// Whether `address` lies in the prefix.
    pub fn contains(self, address: IpAddr) -> bool {
        Self::new(address, self.bits).is_some_and(|prefix| prefix == self)
            && width(address) == width(self.address)
    }
}

/// Bits of an address.
const fn width(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl fmt::Debug for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Prefix {
    type Err = PrefixFormatError;

    fn from_str(text: &str) -> Result<Self, PrefixFormatError> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| PrefixFormatError)?;
        match bits {
            None => Ok(Self::host(address)),
            Some(bits) => bits
                .parse()
                .ok()
                .and_then(|bits| Self::new(address, bits))
                .ok_or(PrefixFormatError),
        }
    }
}

impl fmt::Display for PrefixFormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not an address or a prefix such as 10.9.0.0/24")
    }
}

impl core::error::Error for PrefixFormatError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Prefix {
        text.parse().expect("a prefix")
    }

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn a_prefix_holds_its_addresses_and_no_others() {
        let four = prefix("10.9.0.77/24");
        assert!(four.contains(address("10.9.0.0")) && four.contains(address("10.9.0.255")));
        assert!(!four.contains(address("10.9.1.0")) && !four.contains(address("::")));
        let six = prefix("2001:db8::/32");
        assert!(six.contains(address("2001:db8:ffff::1")));
        assert!(!six.contains(address("2001:db9::")) && !six.contains(address("10.9.0.1")));
    }

    #[test]
    fn prefixes_of_all_bits_and_of_none_work() {
        assert!(prefix("0.0.0.0/0").contains(address("203.0.113.9")));
        assert!(
            !prefix("0.0.0.0/0").contains(address("::1")),
            "of its own family only"
        );
        assert!(prefix("::/0").contains(address("2001:db8::1")));
        assert_eq!(prefix("10.0.0.1"), prefix("10.0.0.1/32"));
        assert!(prefix("2001:db8::1").contains(address("2001:db8::1")));
        assert!(!prefix("2001:db8::1").contains(address("2001:db8::2")));
    }

    #[test]
    fn the_first_host_of_a_network_is_not_the_network() {
        for (text, host) in [
            ("10.9.0.2", "10.9.0.2"),
            ("10.9.0.0/31", "10.9.0.0"),
            ("10.9.0.0/24", "10.9.0.1"),
            ("0.0.0.0/0", "0.0.0.1"),
            ("2001:db8::/32", "2001:db8::1"),
        ] {
            assert_eq!(prefix(text).first_host(), address(host));
        }
    }

    #[test]
    fn what_is_no_prefix_is_refused() {
        for text in [
            "",
            "/",
            "10.0.0.0/33",
            "::/129",
            "10.0.0/8",
            "10.0.0.0/",
            "10.0.0.0/-1",
        ] {
            assert_eq!(text.parse::<Prefix>(), Err(PrefixFormatError), "{text:?}");
        }
    }

    #[test]
    fn a_prefix_prints_as_it_is_written() {
        assert_eq!(prefix("10.9.0.77/24").to_string(), "10.9.0.0/24");
    }
}
