// SPDX-License-Identifier: Apache-2.0
//! The kernel's messages about a Wi-Fi interface.

use holdfast_net::nl80211::{StationSignal, access_points_in, events_in, signal_in};

/// The interface that the messages may be about.
const IFINDEX: u32 = 3;

/// A datagram of netlink.
pub fn nl80211(bytes: &[u8]) {
    let events = events_in(bytes, IFINDEX);
    // A message has 20 bytes at least, and is one event at most.
    assert!(events.len() * 20 <= bytes.len(), "events out of nothing");
    if let StationSignal::Dbm(dbm) = signal_in(bytes) {
        assert!(dbm < 0, "no signal of a radio");
    }
    for point in access_points_in(bytes) {
        let found = bytes.windows(point.network.len().max(1));
        assert!(
            point.network.is_empty() || found.into_iter().any(|part| part == point.network),
            "a network that no message names"
        );
    }
}
