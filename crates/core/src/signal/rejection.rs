// SPDX-License-Identifier: Apache-2.0
//! Why a datagram changed nothing, and how often.

/// Declares the reasons with their names in one list, so that none is forgotten.
macro_rules! rejections {
    ($($(#[doc = $help:literal])+ $name:ident = $text:literal,)*) => {
        /// Why a datagram changed nothing.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Rejection { $($(#[doc = $help])+ $name,)* }

        impl Rejection {
            /// All reasons, in their order.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The reasons as counters.
            pub const INFO: &'static [crate::CounterInfo] =
                crate::counters! { $($(#[doc = $help])+ $text,)* };

            /// The reason as counters and logs name it.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

rejections! {
    /// Shorter or longer than any datagram, or not of the length that its content has.
    BadLength = "bad-length",
    /// Not a link signal.
    BadMagic = "bad-magic",
    /// Of another version of the format.
    UnknownVersion = "unknown-version",
    /// A gateway's datagram at a gateway, or a mobile's at a mobile.
    WrongWay = "wrong-way",
    /// Sealed, by its header, with a key that is not known here.
    UnknownKey = "unknown-key",
    /// Not sealed with the key that it names, or changed on the way.
    BadSeal = "bad-seal",
    /// Sealed, yet of no known kind.
    UnknownKind = "unknown-kind",
    /// Sealed, yet with an address that no host can have.
    BadAddress = "bad-address",
    /// Made before the newest session, or without one: answered by a challenge.
    NoSession = "no-session",
    /// The session's, but not newer than what was believed already.
    Replayed = "replayed",
    /// Newer by its counter, but about an earlier link epoch or an earlier state of it.
    StaleEpoch = "stale-epoch",
    /// With an address outside the prefixes of its key.
    AddressNotAllowed = "address-not-allowed",
    /// With an address that another mobile has registered and still speaks for.
    AddressTaken = "address-taken",
    /// At a mobile: about a message that waits for no answer.
    NotAwaited = "not-awaited",
}

/// How often each reason occurred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RejectionCounters {
    counts: [u64; Rejection::ALL.len()],
}

impl RejectionCounters {
    /// How often `rejection` occurred.
    pub const fn count(&self, rejection: Rejection) -> u64 {
        self.counts[rejection as usize]
    }

    /// All reasons with their counts, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (Rejection, u64)> + '_ {
        Rejection::ALL
            .iter()
            .map(|rejection| (*rejection, self.count(*rejection)))
    }

    pub(super) const fn add(&mut self, rejection: Rejection) {
        self.counts[rejection as usize] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_a_counter_and_a_name_of_its_own() {
        let mut counters = RejectionCounters::default();
        for rejection in Rejection::ALL {
            counters.add(*rejection);
        }
        assert!(counters.iter().all(|(_, count)| count == 1));
        let mut names: Vec<_> = Rejection::ALL
            .iter()
            .map(|rejection| rejection.name())
            .collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Rejection::ALL.len());
    }
}
