// SPDX-License-Identifier: Apache-2.0
//! Both halves against each other: first each reason for a rejection, then everything that a
//! network, an eavesdropper and two restarting ends can do.

mod bytes;
mod handover;
mod property;
mod replace;

use core::net::{IpAddr, SocketAddr};

use holdfast_wire::{Duration, Instant};

use super::message::{Reply, Request};
use super::seal::{self, Recipient};
use super::*;
use crate::link_state::{LinkEvent, LinkState};

/// Fresh bytes from a counter: as different as a test needs.
#[derive(Default)]
struct Fresh(u64);

impl Fresh {
    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        self.0 += 1;
        let seed = self.0.to_be_bytes();
        core::array::from_fn(|i| seed[i % 8] ^ (i as u8 / 8 + 1))
    }

    fn entropy(&mut self) -> Entropy {
        Entropy {
            nonce: self.bytes(),
            challenge: self.bytes(),
        }
    }
}

/// A mobile and a gateway. The test is the network between them.
struct Pair {
    gateway: GatewayPeers,
    mobile: MobileSession,
    fresh: Fresh,
    now: Instant,
}

const FROM: SocketAddr = SocketAddr::new(IpAddr::V4(core::net::Ipv4Addr::new(10, 9, 0, 2)), 5000);
const LIFETIME: Duration = Duration::from_secs(90);

fn address(last: u8) -> IpAddr {
    IpAddr::from([10, 9, 0, last])
}

fn key(byte: u8) -> MobileKey {
    MobileKey::from_random([byte; 36])
}

fn config(byte: u8) -> PeerConfig {
    PeerConfig {
        name: format!("mobile-{byte}"),
        key: key(byte),
        allowed: vec!["10.9.0.0/28".parse().expect("a prefix")],
    }
}

fn gateway() -> GatewayPeers {
    GatewayPeers::new([config(1), config(2)], LIFETIME).expect("two keys")
}

fn mobile(byte: u8, addresses: &[IpAddr], fresh: &mut Fresh, now: Instant) -> MobileSession {
    MobileSession::new(
        key(byte),
        fresh.bytes(),
        addresses,
        MobileTimers::default(),
        now,
    )
}

impl Pair {
    /// Both ends are new.
    fn new() -> Self {
        let mut fresh = Fresh::default();
        let now = Instant::from_millis(1);
        let mobile = mobile(1, &[address(2)], &mut fresh, now);
        Self {
            gateway: gateway(),
            mobile,
            fresh,
            now,
        }
    }

    /// Both ends have a session.
    fn settled() -> Self {
        let mut pair = Self::new();
        pair.settle();
        pair
    }

    fn transmit(&mut self) -> Option<Vec<u8>> {
        let nonce = self.fresh.bytes();
        self.mobile.poll_transmit(self.now, &nonce)
    }

    fn sent(&mut self) -> Vec<u8> {
        self.transmit().expect("a datagram is due")
    }

    fn deliver(&mut self, datagram: &[u8]) -> Handled {
        let entropy = self.fresh.entropy();
        self.gateway
            .handle_datagram(datagram, FROM, self.now, &entropy)
    }

    /// Passes their datagrams until nothing is due. Returns the events that were noticed.
    fn settle(&mut self) -> Vec<LinkEvent> {
        let mut notices = Vec::new();
        while let Some(datagram) = self.transmit() {
            let handled = self.deliver(&datagram);
            notices.extend(handled.notice.map(|notice| notice.event));
            if let Some(reply) = handled.reply {
                let _ = self.mobile.handle_datagram(&reply, self.now);
            }
        }
        notices
    }

    /// Expects that `datagram` is rejected so and counted so, and changes nothing.
    fn expect_rejected(&mut self, datagram: &[u8], rejection: Rejection) -> Handled {
        let view = self.gateway.view(key(1).id()).cloned();
        let count = self.gateway.counters().rejections.count(rejection);
        let handled = self.deliver(datagram);
        assert_eq!(handled.outcome, Outcome::Rejected(rejection));
        assert_eq!(handled.notice, None);
        assert_eq!(self.gateway.view(key(1).id()), view.as_ref());
        assert_eq!(
            self.gateway.counters().rejections.count(rejection),
            count + 1
        );
        handled
    }

    /// The message of the mobile's next datagram, changed and sealed.
    fn tampered(&mut self, change: impl FnOnce(&mut Request)) -> Vec<u8> {
        let datagram = self.sent();
        let message = seal::open(&key(1), &datagram).expect("the mobile's own");
        let mut request = Request::parse(&message).expect("the mobile's own");
        change(&mut request);
        seal::seal(
            &key(1),
            Recipient::Gateway,
            &self.fresh.bytes(),
            &request.emit(),
        )
    }

    fn view(&self) -> (LinkState, u64) {
        let view = self
            .gateway
            .view(key(1).id())
            .expect("a message was received");
        (view.state, view.epoch)
    }
}

#[test]
fn a_new_mobile_is_challenged_once_and_then_believed() {
    let mut pair = Pair::new();
    assert_eq!(pair.settle(), [LinkEvent::Up]);
    assert!(pair.mobile.is_acknowledged());
    assert_eq!(pair.view(), (LinkState::Up, 1));
    assert_eq!(pair.gateway.owner(address(2)), Some(key(1).id()));
    assert_eq!(
        pair.mobile.counters().sent,
        2,
        "one to be challenged, one to be believed"
    );
    assert_eq!(pair.gateway.counters().challenges, 1);
}

#[test]
fn an_outage_takes_one_datagram_each_way_and_raises_the_epoch() {
    let mut pair = Pair::settled();
    pair.mobile.going_down_soon(250, pair.now);
    assert_eq!(
        pair.settle(),
        [LinkEvent::GoingDownSoon(Some(Duration::from_millis(250)))]
    );
    pair.mobile.link_down(pair.now);
    assert_eq!(pair.settle(), [LinkEvent::Down]);
    assert_eq!(pair.view(), (LinkState::Down, 1));
    let sent = pair.mobile.counters().sent;
    pair.mobile.link_up(pair.now);
    assert_eq!(pair.settle(), [LinkEvent::Up]);
    assert_eq!(pair.view(), (LinkState::Up, 2));
    assert_eq!(pair.mobile.counters().sent, sent + 1);
}

#[test]
fn a_late_down_cannot_follow_an_up() {
    let mut pair = Pair::settled();
    pair.mobile.link_down(pair.now);
    let late = pair.sent();
    pair.mobile.link_up(pair.now);
    assert_eq!(pair.settle(), [LinkEvent::Up]);
    pair.expect_rejected(&late, Rejection::Replayed);
    // A counter of its own does not help: the epoch is too old.
    pair.mobile.link_down(pair.now);
    let forged = pair.tampered(|request| request.epoch = 1);
    pair.expect_rejected(&forged, Rejection::StaleEpoch);
}

#[test]
fn within_an_epoch_the_link_does_not_come_back() {
    let mut pair = Pair::settled();
    pair.mobile.link_down(pair.now);
    pair.settle();
    for kind in [
        SignalKind::Up,
        SignalKind::Register,
        SignalKind::GoingDownSoon,
    ] {
        pair.mobile.link_down(pair.now);
        let back = pair.tampered(|request| request.kind = kind);
        pair.expect_rejected(&back, Rejection::StaleEpoch);
    }
}

#[test]
fn an_up_after_an_unheard_down_is_still_news() {
    let mut pair = Pair::settled();
    pair.mobile.link_down(pair.now);
    let _lost = pair.sent();
    pair.mobile.link_up(pair.now);
    assert_eq!(pair.settle(), [LinkEvent::Up]);
}

#[test]
fn a_replayed_datagram_gets_no_reply() {
    let mut pair = Pair::new();
    let first = pair.sent();
    let reply = pair.deliver(&first).reply.expect("a challenge");
    pair.mobile
        .handle_datagram(&reply, pair.now)
        .expect("awaited");
    let second = pair.sent();
    assert_eq!(pair.deliver(&second).outcome, Outcome::Believed);
    assert_eq!(
        pair.expect_rejected(&second, Rejection::Replayed).reply,
        None
    );
    pair.expect_rejected(&first, Rejection::NoSession);
}

#[test]
fn a_gateway_that_restarted_believes_nothing_recorded() {
    let mut pair = Pair::settled();
    pair.mobile.link_down(pair.now);
    let recorded = pair.sent();
    assert_eq!(pair.deliver(&recorded).outcome, Outcome::Believed);
    pair.mobile.link_up(pair.now);
    pair.settle();
    pair.gateway = gateway();
    pair.expect_rejected(&recorded, Rejection::NoSession);
    pair.mobile.register(pair.now);
    assert_eq!(pair.settle(), [LinkEvent::Up]);
    assert_eq!(pair.view(), (LinkState::Up, 2), "the epoch is the mobile's");
    pair.expect_rejected(&recorded, Rejection::NoSession);
}

#[test]
fn a_mobile_that_restarted_goes_on_above_the_epoch_it_forgot() {
    let mut pair = Pair::settled();
    for _ in 0..5 {
        pair.mobile.link_down(pair.now);
        pair.settle();
        pair.mobile.link_up(pair.now);
        pair.settle();
    }
    assert_eq!(pair.view(), (LinkState::Up, 6));
    pair.mobile.link_down(pair.now);
    let recorded = pair.sent();
    pair.mobile = mobile(1, &[address(2)], &mut pair.fresh, pair.now);
    assert_eq!(
        pair.settle(),
        [LinkEvent::Up],
        "it may have lost what was on the link"
    );
    assert_eq!(pair.view(), (LinkState::Up, 7));
    pair.expect_rejected(&recorded, Rejection::NoSession);
}

#[test]
fn another_run_of_a_mobile_is_believed_only_above_the_epoch_that_is_known() {
    for (ahead, is_believed) in [(0, false), (1, true)] {
        let mut pair = Pair::settled();
        let (_, known) = pair.view();
        pair.mobile = mobile(1, &[address(2)], &mut pair.fresh, pair.now);
        let greeting = pair.sent();
        let handled = pair.expect_rejected(&greeting, Rejection::NoSession);
        let challenge = handled.reply.expect("a challenge");
        let _ = pair.mobile.handle_datagram(&challenge, pair.now);
        let answer = pair.tampered(|request| request.epoch = known + ahead);
        let outcome = pair.deliver(&answer).outcome;
        assert_eq!(outcome == Outcome::Believed, is_believed, "{ahead}");
    }
}

#[test]
fn an_epoch_that_no_higher_one_can_follow_is_answered_all_the_same() {
    let mut pair = Pair::settled();
    pair.gateway.raise_epoch(key(1).id(), u64::MAX);
    pair.mobile.link_up(pair.now);
    let datagram = pair.sent();
    let handled = pair.expect_rejected(&datagram, Rejection::StaleEpoch);
    let challenge = handled.reply.expect("a challenge");
    let event = pair.mobile.handle_datagram(&challenge, pair.now);
    assert_eq!(event, Ok(MobileEvent::Challenged));
    assert_eq!(pair.mobile.epoch(), u64::MAX);
    pair.mobile.link_up(pair.now);
    assert_eq!(pair.mobile.epoch(), u64::MAX);
}

#[test]
fn recorded_greetings_do_not_keep_a_mobile_from_answering() {
    let mut pair = Pair::new();
    let greeting = pair.sent();
    let challenge = pair.deliver(&greeting).reply.expect("a challenge");
    for _ in 0..100 {
        pair.expect_rejected(&greeting, Rejection::NoSession);
    }
    pair.mobile
        .handle_datagram(&challenge, pair.now)
        .expect("awaited");
    let answer = pair.sent();
    assert_eq!(pair.deliver(&answer).outcome, Outcome::Believed);
}

#[test]
fn an_address_outside_the_prefixes_is_refused_and_the_mobile_notified() {
    let mut pair = Pair::settled();
    pair.mobile
        .set_addresses(&[address(2), address(200)], pair.now);
    let datagram = pair.sent();
    let handled = pair.expect_rejected(&datagram, Rejection::AddressNotAllowed);
    let event = pair
        .mobile
        .handle_datagram(&handled.reply.expect("a refusal"), pair.now);
    assert_eq!(
        event,
        Ok(MobileEvent::Refused(RefusalReason::AddressNotAllowed))
    );
    assert_eq!(
        pair.mobile.refusal(),
        Some(RefusalReason::AddressNotAllowed)
    );
    assert_eq!(pair.transmit(), None, "it does not insist");
    assert_eq!(
        pair.mobile.poll_timeout(),
        pair.now + MobileTimers::default().keepalive
    );
}

#[test]
fn an_address_belongs_to_the_mobile_that_speaks_for_it() {
    let mut pair = Pair::settled();
    let first = core::mem::replace(
        &mut pair.mobile,
        mobile(2, &[address(2)], &mut pair.fresh, pair.now),
    );
    pair.settle();
    assert_eq!(pair.mobile.refusal(), Some(RefusalReason::AddressTaken));
    assert_eq!(
        pair.gateway
            .counters()
            .rejections
            .count(Rejection::AddressTaken),
        1
    );
    assert_eq!(pair.gateway.owner(address(2)), Some(key(1).id()));

    pair.now += LIFETIME;
    pair.settle();
    assert!(
        pair.mobile.is_acknowledged(),
        "the first sent nothing for its lifetime"
    );
    assert_eq!(pair.gateway.owner(address(2)), Some(key(2).id()));
    assert!(
        pair.gateway
            .view(first_id())
            .expect("one message received")
            .addresses
            .is_empty()
    );
    drop(first);
}

fn first_id() -> KeyId {
    key(1).id()
}

#[test]
fn a_change_of_addresses_names_those_that_went() {
    let mut pair = Pair::settled();
    pair.mobile
        .set_addresses(&[address(3), address(4)], pair.now);
    let datagram = pair.sent();
    let notice = pair.deliver(&datagram).notice.expect("news");
    assert_eq!(notice.event, LinkEvent::Up);
    assert_eq!(notice.addresses, [address(3), address(4)]);
    assert_eq!(notice.removed, [address(2)]);
    assert_eq!(pair.gateway.owner(address(2)), None);
    assert_eq!(pair.gateway.owner(address(4)), Some(key(1).id()));
}

#[test]
fn datagrams_of_strangers_are_counted_and_get_no_reply() {
    let mut pair = Pair::settled();
    pair.mobile.register(pair.now);
    let good = pair.sent();
    let stranger = mobile(9, &[address(2)], &mut pair.fresh, pair.now)
        .poll_transmit(pair.now, &[7; 24])
        .expect("a greeting");
    let to_mobile = {
        let reply = Reply::parse(&[&[0x82][..], &[0; 43]].concat()).expect("an ack");
        seal::seal(&key(1), Recipient::Mobile, &[8; 24], &reply.emit())
    };
    let with = |at: usize| {
        let mut changed = good.clone();
        changed[at] ^= 0x10;
        changed
    };
    let sealed = |message: &[u8]| seal::seal(&key(1), Recipient::Gateway, &[9; 24], message);
    for (datagram, rejection) in [
        (vec![], Rejection::BadLength),
        (good[..47].to_vec(), Rejection::BadLength),
        (with(0), Rejection::BadMagic),
        (with(2), Rejection::UnknownVersion),
        (to_mobile, Rejection::WrongWay),
        (stranger, Rejection::UnknownKey),
        (with(20), Rejection::BadSeal),
        (with(good.len() - 1), Rejection::BadSeal),
        (sealed(&[1; 10]), Rejection::BadLength),
        (sealed(&[0; 44]), Rejection::UnknownKind),
    ] {
        assert_eq!(pair.expect_rejected(&datagram, rejection).reply, None);
    }
    let bad = pair_address(&mut pair);
    assert_eq!(
        pair.expect_rejected(&bad, Rejection::BadAddress).reply,
        None
    );
}

fn pair_address(pair: &mut Pair) -> Vec<u8> {
    pair.mobile.register(pair.now);
    pair.tampered(|request| request.addresses = vec![IpAddr::from([224, 0, 0, 1])])
}

#[test]
fn two_mobiles_cannot_have_keys_of_one_id() {
    let error = GatewayPeers::new([config(1), config(1)], LIFETIME).expect_err("the same key");
    assert_eq!(
        error,
        PeersError::SameKeyId("mobile-1".into(), "mobile-1".into())
    );
}

#[test]
fn an_unanswered_up_is_repeated_from_50_ms_on_and_never_given_up() {
    let mut pair = Pair::settled();
    pair.mobile.link_up(pair.now);
    let start = pair.now;
    let mut times_ms = Vec::new();
    while times_ms.len() < 40 {
        if pair.transmit().is_some() {
            times_ms.push(pair.now.saturating_since(start).as_millis());
        }
        pair.now = pair.mobile.poll_timeout();
    }
    assert_eq!(times_ms[..8], [0, 50, 150, 350, 750, 1550, 3150, 5150]);
    assert!(times_ms.windows(2).all(|pair| pair[1] - pair[0] <= 2000));
    assert_eq!(pair.settle(), [LinkEvent::Up]);
}

#[test]
fn a_down_is_sent_three_times_and_then_only_as_keepalive() {
    let mut pair = Pair::settled();
    pair.mobile.link_down(pair.now);
    let start = pair.now;
    let mut times_ms = Vec::new();
    while times_ms.len() < 5 {
        if pair.transmit().is_some() {
            times_ms.push(pair.now.saturating_since(start).as_millis());
        }
        pair.now = pair.mobile.poll_timeout();
    }
    assert_eq!(times_ms, [0, 50, 150, 30_000, 30_050]);
}

#[test]
fn a_keepalive_does_not_change_since_when_the_link_is_up_or_down() {
    let mut pair = Pair::settled();
    for is_up in [true, false] {
        pair.now += Duration::from_secs(3);
        if !is_up {
            pair.mobile.link_down(pair.now);
            pair.settle();
        }
        let id = key(1).id();
        let before = pair.gateway.view(id).expect("settled").clone();
        for _ in 0..3 {
            pair.now = pair.mobile.poll_timeout();
            assert_eq!(pair.settle(), []);
        }
        let view = pair.gateway.view(id).expect("settled");
        assert!(view.received > before.received, "a keepalive was received");
        assert_eq!(view.since, before.since);
    }
}

#[test]
fn an_up_in_doubt_stays_an_up_when_addresses_change() {
    let mut pair = Pair::settled();
    pair.mobile.link_down(pair.now);
    pair.settle();
    pair.mobile.link_up(pair.now);
    let _lost = pair.sent();
    pair.mobile.set_addresses(&[address(5)], pair.now);
    assert_eq!(pair.settle(), [LinkEvent::Up]);
    assert_eq!(pair.gateway.owner(address(5)), Some(key(1).id()));
}

#[test]
fn a_gateways_old_answers_mean_nothing_to_a_mobile() {
    let mut pair = Pair::new();
    let greeting = pair.sent();
    let challenge = pair.deliver(&greeting).reply.expect("a challenge");
    assert_eq!(
        pair.mobile.handle_datagram(&challenge, pair.now),
        Ok(MobileEvent::Challenged)
    );
    let awaited = |pair: &mut Pair, reply: &[u8]| pair.mobile.handle_datagram(reply, pair.now);
    assert_eq!(awaited(&mut pair, &challenge), Err(Rejection::NotAwaited));
    let answer = pair.sent();
    let ack = pair.deliver(&answer).reply.expect("an ack");
    pair.mobile.link_up(pair.now);
    let _lost = pair.sent();
    assert_eq!(
        awaited(&mut pair, &ack),
        Err(Rejection::NotAwaited),
        "of an earlier message"
    );
    assert!(!pair.mobile.is_acknowledged());
    assert_eq!(awaited(&mut pair, &greeting), Err(Rejection::WrongWay));
    let mut changed = ack.clone();
    changed[40] ^= 1;
    assert_eq!(awaited(&mut pair, &changed), Err(Rejection::BadSeal));
    assert_eq!(
        pair.mobile
            .counters()
            .rejections
            .count(Rejection::NotAwaited),
        2
    );
}

#[test]
fn addresses_beyond_the_most_are_not_sent() {
    let mut pair = Pair::settled();
    let many: Vec<IpAddr> = (1..=40).map(address).collect();
    pair.mobile.set_addresses(&many, pair.now);
    assert_eq!(pair.mobile.addresses().len(), ADDRESSES_MAX);
    let longest: Vec<IpAddr> = (0..40_u8)
        .map(|i| IpAddr::from([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, i]))
        .collect();
    pair.mobile.set_addresses(&longest, pair.now);
    assert_eq!(pair.sent().len(), DATAGRAM_BYTES_MAX);
}

#[test]
fn an_answer_to_an_earlier_run_of_the_mobile_means_nothing() {
    let mut pair = Pair::new();
    let greeting = pair.sent();
    let challenge = pair.deliver(&greeting).reply.expect("a challenge");
    pair.mobile = mobile(1, &[address(2)], &mut pair.fresh, pair.now);
    let _greeting_with_the_same_counter = pair.sent();
    let result = pair.mobile.handle_datagram(&challenge, pair.now);
    assert_eq!(result, Err(Rejection::NotAwaited));
}
