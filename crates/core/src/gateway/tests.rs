// SPDX-License-Identifier: Apache-2.0
//! The engine, packet in and packet out; and a whole flow through all that can happen.

mod adversary;
mod agenda;
mod auto;
pub(crate) mod bench;
mod both_roles;
mod cell;
mod closing;
mod compression;
mod crowded;
mod departed;
mod dice;
mod early;
mod forged;
mod handoff;
mod hold;
mod host;
mod limits;
mod long_pause;
mod mtcp;
mod mtcp_2007;
mod mtcp_plus;
mod next_hop;
mod opened_by_fh;
mod outages;
mod property;
mod recovery_window;
mod replay;
mod shared_queue;
mod silence;
mod sizes;
mod slow_link;
mod snoop_1995;
mod snoop_hostile;
mod snoop_overload;
mod snoop_today;
mod snoop_uplink;
mod successor;
mod uploads;
mod world;

/// The flow of a gateway that has one.
fn first_flow<P: crate::Payload>(gateway: &super::Gateway<P>) -> &crate::flow::Flow<P> {
    &gateway.flows.iter().next().expect("a flow").flow
}
