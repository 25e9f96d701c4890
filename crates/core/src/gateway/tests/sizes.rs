// SPDX-License-Identifier: Apache-2.0
//! What a flow takes in memory.

use holdfast_wire::Header;

use crate::gateway::Connection;
use crate::schemes::mtcp::Mtcp;
use crate::schemes::mtcp_plus::MtcpPlus;
use crate::schemes::snoop::Snoop;
use crate::{Payload, Scheme};

/// As the daemon's: a pointer to the frame, and copies of headers as they came.
#[derive(Clone)]
struct Frame([usize; 2]);

impl Payload for Frame {
    type Header = Header;

    fn header(&self) -> Option<Header> {
        None
    }

    fn segment_len(&self) -> u32 {
        self.0[1] as u32
    }

    fn is_cacheable(&self) -> bool {
        true
    }
}

/// A row of the table, and what the scheme allocates beside it.
fn idle_bytes(scheme: Scheme) -> usize {
    let own = match scheme {
        Scheme::MtcpPlus | Scheme::Mtcp2007 => size_of::<MtcpPlus>(),
        Scheme::Mtcp => size_of::<Mtcp<Frame>>(),
        Scheme::Snoop | Scheme::Auto => size_of::<Snoop<Frame>>(),
        Scheme::Hold | Scheme::Observe => 0,
    };
    size_of::<Connection<Frame>>() + own
}

#[test]
fn a_flow_has_the_state_of_its_own_scheme_alone() {
    let headers = 2 * size_of::<Option<Header>>();
    for (scheme, bytes_max) in [
        (Scheme::Hold, 1_000),
        (Scheme::MtcpPlus, 1_100),
        (Scheme::Mtcp, 1_600),
        (Scheme::Snoop, 2_500),
    ] {
        let bytes = idle_bytes(scheme);
        println!("{scheme:?}: {bytes} bytes, {headers} of them copies of headers");
        assert!(bytes <= bytes_max, "{scheme:?}: {bytes} bytes");
    }
}
