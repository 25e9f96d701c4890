// SPDX-License-Identifier: Apache-2.0
//! The engine, packet in and packet out; and a whole flow through all that can happen.

mod adversary;
mod agenda;
mod bench;
mod cell;
mod closing;
mod compression;
mod crowded;
mod dice;
mod early;
mod forged;
mod handoff;
mod hold;
mod host;
mod limits;
mod mtcp;
mod mtcp_2007;
mod mtcp_plus;
mod observe;
mod property;
mod silence;
mod sizes;
mod snoop_1995;
mod snoop_hostile;
mod snoop_overload;
mod snoop_today;
mod snoop_uplink;
mod successor;
mod world;
