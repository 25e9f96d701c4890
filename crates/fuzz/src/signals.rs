// SPDX-License-Identifier: Apache-2.0
//! Link signals: a mobile's datagrams to the gateway and its answers back, as they are, damaged,
//! damaged within the seal, or invented.

use core::net::{IpAddr, SocketAddr};

use holdfast_core::signal::{
    ADDRESSES_MAX, Abilities, Entropy, GatewayPeers, MobileSession, MobileTimers, Outcome,
    PeerConfig, Prefix,
};
use holdfast_wire::{Duration, Instant};

use crate::dice::Dice;
use crate::sealed::{self, Nonces};
use crate::{Subject, Tally};

const MAGIC: [u8; 2] = *b"HF";
const TO_GATEWAY: u8 = 0;
const TO_MOBILE: u8 = 1;
/// How long an address stays with a mobile that sends nothing.
const LIFETIME: Duration = Duration::from_secs(90);

/// A mobile and its gateway.
pub struct Signals {
    now: Instant,
    session: MobileSession,
    gateway: GatewayPeers,
    nonces: Nonces,
    tally: Tally,
}

impl Default for Signals {
    fn default() -> Self {
        let now = Instant::from_millis(1000);
        Self {
            now,
            session: session([1; 8], now),
            gateway: gateway(),
            nonces: Nonces::default(),
            tally: Tally::default(),
        }
    }
}

fn session(incarnation: [u8; 8], now: Instant) -> MobileSession {
    MobileSession::new(
        sealed::key(),
        incarnation,
        &[],
        MobileTimers::default(),
        now,
    )
}

fn gateway() -> GatewayPeers {
    let config = PeerConfig {
        name: "mobile".to_owned(),
        key: sealed::key(),
        allowed: vec![Prefix::new(IpAddr::from([10, 0, 0, 0]), 8).expect("a prefix")],
    };
    GatewayPeers::new([config], LIFETIME).expect("one key")
}

impl Subject for Signals {
    fn step(&mut self, dice: &mut Dice) {
        self.tally.inputs += 1;
        self.now += Duration::from_micros(dice.below(20_000));
        self.act(dice);
        let sent = self.session.poll_transmit(self.now, &self.nonces.next());
        let datagram = match sent {
            Some(datagram) => sealed::disturb(datagram, dice),
            None => self.invent(TO_GATEWAY, dice),
        };
        self.tally.last.clone_from(&datagram);
        let from = SocketAddr::from(([10, 0, 0, 1], 4848));
        let entropy = Entropy {
            nonce: self.nonces.next(),
            challenge: self.nonces.next(),
        };
        let handled = self
            .gateway
            .handle_datagram(&datagram, from, self.now, &entropy);
        self.tally.parsed += u64::from(handled.outcome == Outcome::Believed);
        let answer = match handled.reply {
            Some(reply) => {
                assert!(reply.len() <= datagram.len(), "a reply that is longer");
                sealed::disturb(reply, dice)
            }
            None if dice.once_in(4) => self.invent(TO_MOBILE, dice),
            None => return,
        };
        let _ = self.session.handle_datagram(&answer, self.now);
        let view = self.gateway.view(sealed::key().id());
        let registered = view.map_or(0, |view| view.addresses.len());
        assert!(registered <= ADDRESSES_MAX, "too many addresses");
    }

    fn tally(&self) -> &Tally {
        &self.tally
    }
}

impl Signals {
    /// Any bytes, sealed or not.
    fn invent(&mut self, path: u8, dice: &mut Dice) -> Vec<u8> {
        let len = dice.below(400);
        let bytes = dice.bytes(len);
        if dice.once_in(4) {
            return bytes;
        }
        sealed::seal(MAGIC, path, self.nonces.next(), &bytes)
    }

    /// Something happens at the mobile, or at another gateway.
    fn act(&mut self, dice: &mut Dice) {
        let now = self.now;
        match dice.below(8) {
            0 => self.session.link_up(now),
            1 => self.session.link_down(now),
            2 => {
                let lead = dice.word() as u16;
                self.session.going_down_soon(lead, now);
            }
            3 => {
                let count = dice.below(ADDRESSES_MAX as u64 + 2);
                let address = |_| IpAddr::from([10, 0, 0, dice.below(256) as u8]);
                let addresses: Vec<_> = (0..count).map(address).collect();
                self.session.set_addresses(&addresses, now);
            }
            4 => self
                .session
                .set_abilities(Abilities::ZSTD.with(Abilities::DEFLATE), now),
            5 if dice.once_in(8) => {
                let before = self.session.hand_over(None, now);
                self.session.hand_over(Some(before), now);
            }
            6 if dice.once_in(8) => {
                let epoch = self.session.epoch().saturating_add(dice.below(3));
                self.gateway.raise_epoch(sealed::key().id(), epoch);
            }
            // One of them restarts.
            7 if dice.once_in(100) => {
                if dice.once_in(2) {
                    self.session = session(self.nonces.next(), now);
                } else {
                    self.gateway = gateway();
                }
            }
            _ => self.session.register(now),
        }
    }
}
