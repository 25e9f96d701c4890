// SPDX-License-Identifier: Apache-2.0
//! One stream of seeded bytes, by TCP or by QUIC, in either direction.

use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use anyhow::bail;
use holdfast_core::Direction;
use holdfast_net::datapath::monotonic_ns;
use holdfast_testbed::download::DownloadWatch;
use holdfast_testbed::harness::{Flow, accept, connect, listen};
use holdfast_testbed::stop::StopFlag;
use holdfast_testbed::topology::{FH, Topology};

use super::ended::Ended;
use crate::quic::{QuicCongestionControl, QuicExchange, QuicPair};

/// Where the FH listens.
const PORT: u16 = 4433;

/// By what the bytes are carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// The kernel's.
    Tcp,
    /// quinn's.
    Quic,
}

/// A stream to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// By what.
    pub protocol: Protocol,
    /// Which way.
    pub direction: Direction,
    /// How many bytes.
    pub bytes: u64,
    /// Of which seed.
    pub seed: u64,
}

impl Stream {
    /// Sends it: from `begin_ns` on, CLOCK_MONOTONIC, until `limit` from now at the latest.
    pub(super) fn run(
        &self,
        topology: &Topology,
        congestion_control: &str,
        (begin_ns, limit): (u64, Duration),
        watch: &DownloadWatch,
        stop: &StopFlag,
    ) -> anyhow::Result<Ended> {
        match self.protocol {
            Protocol::Tcp => self.run_tcp(topology, (begin_ns, limit), watch, stop),
            Protocol::Quic => {
                let congestion_control = quic_congestion_control(congestion_control)?;
                let exchange = QuicExchange {
                    direction: self.direction,
                    bytes: Some(self.bytes),
                    seed: self.seed,
                    congestion_control,
                    segmentation_offload: true,
                };
                let at = SocketAddr::new(FH.v4.into(), PORT);
                let pair = QuicPair::prepare(&topology.fh, &topology.mh, at, &exchange, watch)?;
                let ended = pair.run(begin_ns, limit, stop)?;
                let errors = [&ended.sender_error, &ended.receiver_error];
                Ok(Ended {
                    whole: ended.ended && errors.iter().all(|error| error.is_none()),
                    resent: Some(ended.sender.lost_packets),
                    ..Ended::of(ended.received, ended.ended)
                })
            }
        }
    }

    fn run_tcp(
        &self,
        topology: &Topology,
        (begin_ns, limit): (u64, Duration),
        watch: &DownloadWatch,
        stop: &StopFlag,
    ) -> anyhow::Result<Ended> {
        let fh: IpAddr = FH.v4.into();
        let listener: TcpListener = listen(&topology.fh, fh, PORT)?;
        stop.wait_for("the time of the transfer", limit, || {
            Ok((monotonic_ns() >= begin_ns).then_some(()))
        })?;
        let at_mh = connect(&topology.mh, fh, PORT)?;
        let (at_fh, _) = accept(&listener)?;
        // An outage may be long.
        for end in [&at_mh, &at_fh] {
            wait_for_ever(end)?;
        }
        let ends = [at_mh.try_clone()?, at_fh.try_clone()?];
        let (from, to) = match self.direction {
            Direction::Downlink => (at_fh, at_mh),
            Direction::Uplink => (at_mh, at_fh),
        };
        let flow = Flow::start_watched(from, to, self.bytes, self.seed, watch);
        let waited = stop.wait_for("the transfer ends", limit, || {
            Ok(flow.is_finished().then_some(()))
        });
        for end in ends {
            // One that has ended already needs it no more.
            let _ = end.shutdown(Shutdown::Both);
        }
        stop.check()?;
        let (received, outcome) = flow.end()?;
        Ok(Ended {
            whole: outcome.is_ok(),
            ..Ended::of(received, waited.is_ok())
        })
    }
}

fn wait_for_ever(end: &TcpStream) -> io::Result<()> {
    end.set_read_timeout(None)?;
    end.set_write_timeout(None)
}

/// The same by quinn as the kernel's of this name.
fn quic_congestion_control(name: &str) -> anyhow::Result<QuicCongestionControl> {
    Ok(match name {
        "cubic" => QuicCongestionControl::Cubic,
        "bbr" => QuicCongestionControl::Bbr,
        "reno" => QuicCongestionControl::NewReno,
        other => bail!("QUIC has no congestion control {other}; takes cubic, bbr or reno"),
    })
}
