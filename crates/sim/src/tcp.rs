// SPDX-License-Identifier: Apache-2.0
//! A TCP host's connection, sans-IO.
//!
//! [`Connection`] is one end. Its caller passes in segments and the time, and sends the segments
//! that it returns; it never waits. `handle_*` are inputs. [`Connection::poll_timeout`] returns
//! when to call [`Connection::handle_timeout`]. The variables have the names of RFC 9293
//! (`snd.una`, `rcv.nxt`, ...), but 64 bits. They count from the SYN, which is 0: the first byte
//! of a stream is 1. Only segments have sequence numbers of 32 bits.
//!
//! By file, in the order of a transfer: `handshake`, `output` (what may be sent),
//! `receive` (data in, ACKs out), `ack` (ACKs in), `congestion` (windows; `cubic` and `hystart`; `bbr` with `rate`, `pacer` and `paced`), `recovery`
//! (losses found by duplicate ACKs), `scoreboard` (RFC 6675's sets), `timeout` (losses found by
//! the retransmission timer; persist), `rto` (the timeout), `rack_ack`, `rack_tlp`, `probe`
//! (the same as in today's Linux, with `flight`, `rack`, `prr` and `undo`), `mobile` (M-TCP at a
//! host whose link has outages), `lccwe` (LC and CWE at such a host), `relay` (an end whose
//! application passes bytes on), `dup_acks` (duplicate ACKs that wait).
//!
//! Left out: urgent data, Nagle's algorithm (but for a relay), simultaneous open,
//! ECN, pacing (but for `linux-bbr`), timestamps older than 24 days (RFC 7323, 5.5), a limit on challenge ACKs
//! (RFC 5961, 7). Only today's systems have D-SACK, F-RTO, Eifel, RACK and proportional rate reduction.
//!
//! `docs/senders.md` compares this model with Linux.

mod ack;
mod bbr;
mod congestion;
mod connection;
mod cubic;
mod dup_acks;
mod flight;
mod handoffs;
mod handshake;
mod hystart;
mod lccwe;
mod mobile;
mod output;
mod paced;
mod pacer;
mod preset;
mod probe;
mod prr;
mod rack;
mod rack_ack;
mod rack_state;
mod rack_tlp;
mod rate;
mod reassembly;
mod receive;
mod recovery;
mod relay;
mod rto;
mod scoreboard;
pub mod settings;
mod timeout;
mod undo;
mod variables;

pub use connection::Connection;
pub use handoffs::Judged;
pub use preset::Preset;
pub use rto::RtoEstimator;
pub use settings::{DelayedAck, OnHandoff, TcpSettings};
pub use variables::{Application, Counters, End, Ending, Reading, Seconds, State, View};

#[cfg(test)]
#[expect(
    clippy::large_types_passed_by_value,
    reason = "settings are made for each script"
)]
mod tests;
