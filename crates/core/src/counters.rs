// SPDX-License-Identifier: Apache-2.0
//! Counters: each is declared once, with its name and its description, by [`counters!`](crate::counters!).

/// A counter as operators see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterInfo {
    /// Its name within its group. `_bytes` and `_ms` at its end are its unit; without one it counts
    /// what the description names.
    pub name: &'static str,
    /// What it counts: the comment of its declaration.
    pub description: &'static str,
    /// It is a present value, which may fall.
    pub is_gauge: bool,
}

/// Declares counters: as a struct, or as a list of those that a BPF program counts. The comment of a
/// counter is its description. `gauge` stands before a struct of present values. A struct may have
/// other fields behind a semicolon.
///
/// A struct also gets `INFO`, and `named()`: each value by its name.
#[macro_export]
macro_rules! counters {
    (gauge $($struct:tt)+) => { $crate::counters! { @ true, $($struct)+ } };
    (@ $is_gauge:literal, $(#[$meta:meta])* $vis:vis struct $name:ident {
        $($(#[doc = $text:literal])+ $field_vis:vis $field:ident = $key:literal,)*
        $(; $($(#[$other_meta:meta])* $other_vis:vis $other:ident: $other_type:ty,)+)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        $vis struct $name {
            $($(#[doc = $text])+ $field_vis $field: u64,)*
            $($($(#[$other_meta])* $other_vis $other: $other_type,)+)?
        }

        impl $name {
            /// The counters' names and descriptions.
            pub const INFO: &[$crate::CounterInfo] = $crate::counters! { @ $is_gauge;
                $($(#[doc = $text])+ $key,)*
            };

            /// Each counter by its name.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$(($key, self.$field),)*].into_iter()
            }
        }
    };
    (@ $is_gauge:literal; $($(#[doc = $text:literal])+ $key:literal,)*) => {
        &[$($crate::CounterInfo {
            name: $key,
            description: concat!($($text),+).trim_ascii_start(),
            is_gauge: $is_gauge,
        },)*]
    };
    ($(#[doc = $first:literal])+ $key:literal, $($rest:tt)*) => {
        $crate::counters! { @ false; $(#[doc = $first])+ $key, $($rest)* }
    };
    ($($struct:tt)+) => { $crate::counters! { @ false, $($struct)+ } };
}

counters! {
    /// What the engine counts.
    pub struct Counters {
        /// TCP segments that the engine received.
        pub(crate) segments = "segments",
        /// Flows that were seen in both directions and are served from then on.
        pub(crate) flows_adopted = "flows_adopted",
        /// Segments that passed because the flow table was full.
        pub(crate) table_full = "passed.table_full",
        /// Flows that left a full table for others.
        pub(crate) evicted = "evicted",
        /// Segments that passed and were not cached, because the cache was full.
        pub(crate) cache_full = "passed.cache_full",
        /// Segments with numbers that do not fit their flow; they passed and changed nothing.
        pub(crate) implausible = "passed.implausible",
        /// Segments of FHs that were not forwarded, because they were cached.
        pub(crate) segments_queued = "segments_queued",
        /// Pieces sent from the cache after an outage or a timeout of the gateway.
        pub(crate) sent_on = "sent_on",
        /// Pieces retransmitted to MHs that reports have shown as lost, and timeouts of the gateway.
        pub(crate) repaired = "repaired",
        /// MHs that were taken for silent.
        pub(crate) silences = "silences",
        /// Of these, those whose link had lost nothing.
        pub(crate) false_silences = "false_silences",
        /// Segments sent as probes to MHs in an outage.
        pub(crate) probes = "probes",
        /// Recoveries begun: a link was up again.
        pub(crate) recoveries = "recoveries",
        /// Times that a sender at an MH was woken after an outage.
        pub(crate) wake_ups = "wake_ups",
        /// Outages that are not in the list of outages: too many had ended at the same time.
        pub(crate) outages_lost = "outages_lost",
        /// Connections that were reset because owed bytes could not be delivered.
        pub(crate) owed_lost = "owed_lost",
        /// Recoveries in which the link delivered what it had queued before the outage.
        pub(crate) links_that_kept = "links_that_kept",
        /// Reports of congestion to FHs: one hole, or everything for a window.
        pub(crate) congested = "congested",
        /// Times that an FH was shown everything late.
        pub(crate) shown_late = "shown_late",
        /// ACKs made for MHs that report holes in their data.
        pub(crate) reports = "reports",
        /// Pieces of MHs' data that were retransmitted to FHs after a report.
        pub(crate) repaired_uplink = "repaired_uplink",
        /// Holes in MHs' data by their own overload, which were left alone.
        pub(crate) congested_uplink = "congested_uplink",
        /// ACKs of FHs that let an MH undo its window reduction.
        pub(crate) undone_uplink = "undone_uplink",
        /// Times that a split connection stopped sending to its MH in an outage.
        pub(crate) freezes = "freezes",
        /// FHs whose window was closed.
        pub(crate) shrinks = "shrinks",
        /// Connections that the gateway set up with each end first.
        pub(crate) early_joined = "early_joined",
        /// Set-ups that the other end refused.
        pub(crate) early_refused = "early_refused",
        /// Segments that could not be renumbered, and were dropped.
        pub(crate) early_lost = "early_lost",
        /// Deadlines that no part served: a defect wherever it is not 0.
        pub(crate) unserved = "unserved",
        /// Segments that were sent compressed.
        pub(crate) compressed = "compressed",
        /// Segments that compression did not make smaller.
        pub(crate) compressed_in_vain = "compressed_in_vain",
        /// Payload of the compressed segments before compression.
        pub(crate) compressed_from_bytes = "compressed_from_bytes",
        /// Payload of the compressed segments after compression.
        pub(crate) compressed_to_bytes = "compressed_to_bytes",
        /// ACKs that have shown that an MH restores compressed segments.
        pub(crate) compression_proofs = "compression_proofs",
    }
}
