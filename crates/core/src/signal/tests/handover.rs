// SPDX-License-Identifier: Apache-2.0
//! A mobile between two gateways.

use super::*;

/// Passes the datagrams of the mobile and a gateway until nothing is due. Returns the notices, and
/// the number of the mobile's datagrams.
fn settle(
    mobile: &mut MobileSession,
    gateway: &mut GatewayPeers,
    fresh: &mut Fresh,
    now: Instant,
) -> (Vec<LinkNotice>, u32) {
    let (mut notices, mut sent) = (Vec::new(), 0);
    while let Some(datagram) = mobile.poll_transmit(now, &fresh.bytes()) {
        sent += 1;
        let handled = gateway.handle_datagram(&datagram, FROM, now, &fresh.entropy());
        notices.extend(handled.notice);
        if let Some(reply) = handled.reply {
            let _ = mobile.handle_datagram(&reply, now);
        }
    }
    (notices, sent)
}

#[test]
fn a_mobile_is_challenged_once_by_each_gateway_and_raises_its_epoch_at_every_move() {
    let mut fresh = Fresh::default();
    let now = Instant::from_millis(1);
    let mut gateways = [gateway(), gateway()];
    let mut mobile = mobile(1, &[address(2)], &mut fresh, now);
    let mut challenges = [None, None];
    let (_, sent) = settle(&mut mobile, &mut gateways[0], &mut fresh, now);
    assert_eq!(sent, 2, "challenged");
    for round in 1..6 {
        let (here, before) = (round % 2, (round + 1) % 2);
        challenges[before] = Some(mobile.hand_over(challenges[here], now));
        let (notices, sent) = settle(&mut mobile, &mut gateways[here], &mut fresh, now);
        assert_eq!(sent, if round == 1 { 2 } else { 1 }, "round {round}");
        let notice = notices.last().expect("it is there");
        assert_eq!(notice.epoch, mobile.epoch());
        assert!(mobile.is_acknowledged());
    }
    assert_eq!(mobile.epoch(), 6);
}

#[test]
fn a_gateway_believes_no_epoch_that_another_has_seen_and_challenges_the_mobile() {
    let mut pair = Pair::settled();
    let id = key(1).id();
    let before = pair.gateway.view(id).expect("settled").epoch;
    // The other gateway has also seen the next epoch of the mobile.
    pair.gateway.raise_epoch(id, before + 1);
    pair.mobile.link_up(pair.now);
    let same = pair.tampered(|request| request.epoch = before + 1);
    pair.expect_rejected(&same, Rejection::StaleEpoch);
    pair.gateway.raise_epoch(id, 40);
    pair.gateway.raise_epoch(id, 30);
    pair.mobile.link_up(pair.now);
    let stale = pair.sent();
    let handled = pair.deliver(&stale);
    assert_eq!(handled.outcome, Outcome::Rejected(Rejection::StaleEpoch));
    assert_eq!(pair.gateway.view(id).expect("as before").epoch, before);
    let reply = handled.reply.expect("it is challenged");
    let event = pair.mobile.handle_datagram(&reply, pair.now);
    assert_eq!(event, Ok(MobileEvent::Challenged));
    assert_eq!(pair.settle(), [LinkEvent::Up]);
    assert_eq!(pair.gateway.view(id).expect("believed").epoch, 41);
    // A warning is believed even with an epoch that is too low.
    pair.gateway.raise_epoch(id, 50);
    pair.mobile.going_down_soon(5, pair.now);
    let soon = LinkEvent::GoingDownSoon(Some(Duration::from_millis(5)));
    assert_eq!(pair.settle(), [soon]);
}
