// SPDX-License-Identifier: Apache-2.0
//! Random events in any order. What a gateway believes was always made after all that it believed
//! before, also when both ends restart. When the network loses nothing any more, it is true.

use proptest::prelude::*;

use super::*;

/// One event. Indices are taken modulo the number of items.
#[derive(Clone, Debug)]
enum Step {
    /// The mobile's link goes up, goes down, or will go down soon.
    Up,
    Down,
    GoingDownSoon,
    /// The mobile has other addresses.
    Addresses(u8),
    /// Time passes, and everything due is sent.
    Wait(u16),
    /// A datagram in flight to the gateway arrives, in any order.
    ToGateway(u16),
    /// A datagram in flight to the mobile arrives.
    ToMobile(u16),
    /// A datagram in flight is lost.
    LoseToGateway(u16),
    LoseToMobile(u16),
    /// Any earlier datagram arrives, perhaps again, at either end.
    ReplayToGateway(u16),
    ReplayToMobile(u16),
    /// Any earlier datagram arrives with one bit changed.
    CorruptToGateway(u16, u16),
    CorruptToMobile(u16, u16),
    /// Forged bytes arrive at both ends.
    Forge(Vec<u8>),
    /// An end loses all that it knew.
    RestartGateway,
    RestartMobile,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => Just(Step::Up),
        2 => Just(Step::Down),
        1 => Just(Step::GoingDownSoon),
        1 => any::<u8>().prop_map(Step::Addresses),
        6 => any::<u16>().prop_map(Step::Wait),
        8 => any::<u16>().prop_map(Step::ToGateway),
        8 => any::<u16>().prop_map(Step::ToMobile),
        1 => any::<u16>().prop_map(Step::LoseToGateway),
        1 => any::<u16>().prop_map(Step::LoseToMobile),
        4 => any::<u16>().prop_map(Step::ReplayToGateway),
        2 => any::<u16>().prop_map(Step::ReplayToMobile),
        1 => any::<(u16, u16)>().prop_map(|(which, bit)| Step::CorruptToGateway(which, bit)),
        1 => any::<(u16, u16)>().prop_map(|(which, bit)| Step::CorruptToMobile(which, bit)),
        1 => prop::collection::vec(any::<u8>(), 0..400).prop_map(Step::Forge),
        1 => Just(Step::RestartGateway),
        1 => Just(Step::RestartMobile),
    ]
}

/// A datagram of the mobile, and its origin.
struct Sent {
    datagram: Vec<u8>,
    /// The state of the mobile when it made the datagram.
    truth: (LinkState, Vec<IpAddr>),
}

struct World {
    pair: Pair,
    /// All datagrams that the mobile ever made, in order; likewise the gateway.
    by_mobile: Vec<Sent>,
    by_gateway: Vec<Vec<u8>>,
    /// The datagrams in flight, by their index.
    to_gateway: Vec<usize>,
    to_mobile: Vec<usize>,
    /// The newest datagram believed, ever.
    believed: Option<usize>,
    /// The highest epoch that the running gateway believed.
    epoch: u64,
    /// The first datagram of the mobile's present run.
    run_first: usize,
}

impl World {
    fn new() -> Self {
        Self {
            pair: Pair::new(),
            by_mobile: Vec::new(),
            by_gateway: Vec::new(),
            to_gateway: Vec::new(),
            to_mobile: Vec::new(),
            believed: None,
            epoch: 0,
            run_first: 0,
        }
    }

    /// The mobile sends everything due.
    fn flush(&mut self) {
        while let Some(datagram) = self.pair.transmit() {
            let mobile = &self.pair.mobile;
            let truth = (mobile.state(), mobile.addresses().to_vec());
            self.to_gateway.push(self.by_mobile.len());
            self.by_mobile.push(Sent { datagram, truth });
        }
    }

    fn wait(&mut self, ms: u64) {
        self.pair.now += Duration::from_millis(ms);
        self.flush();
    }

    /// `index`: the number of the mobile's datagram, if it is unchanged.
    fn arrive_at_gateway(&mut self, datagram: &[u8], index: Option<usize>) {
        let id = key(1).id();
        let before = self.pair.gateway.view(id).cloned();
        let handled = self.pair.deliver(datagram);
        match handled.outcome {
            Outcome::Rejected(_) => {
                assert_eq!(handled.notice, None);
                assert_eq!(
                    self.pair.gateway.view(id),
                    before.as_ref(),
                    "a rejected datagram"
                );
            }
            Outcome::Believed => {
                let index = index.expect("nothing forged is believed");
                assert!(
                    self.believed.is_none_or(|newest| index > newest),
                    "an old datagram"
                );
                self.believed = Some(index);
                let view = self.pair.gateway.view(id).expect("it was believed");
                assert!(view.epoch >= self.epoch, "the epoch went back");
                self.epoch = view.epoch;
                let truth = &self.by_mobile[index].truth;
                assert_eq!((&view.state, &view.addresses), (&truth.0, &truth.1));
            }
        }
        if let Some(reply) = handled.reply {
            assert!(index.is_some(), "a reply to a stranger");
            assert!(reply.len() <= datagram.len(), "amplified");
            self.to_mobile.push(self.by_gateway.len());
            self.by_gateway.push(reply);
        }
    }

    fn arrive_at_mobile(&mut self, datagram: &[u8], genuine: bool) {
        let result = self.pair.mobile.handle_datagram(datagram, self.pair.now);
        assert!(genuine || result.is_err(), "nothing forged is believed");
        if result == Ok(MobileEvent::Acknowledged) {
            let believed = self.believed.expect("something was acknowledged");
            assert!(believed >= self.run_first, "that was an earlier run");
            let (mobile, truth) = (&self.pair.mobile, &self.by_mobile[believed].truth);
            assert_eq!(truth, &(mobile.state(), mobile.addresses().to_vec()));
        }
        self.flush();
    }

    fn corrupt(datagram: &[u8], bit: u16) -> Vec<u8> {
        let mut changed = datagram.to_vec();
        let bit = usize::from(bit) % (changed.len() * 8);
        changed[bit / 8] ^= 1 << (bit % 8);
        changed
    }

    /// Delivers one datagram in flight to the gateway.
    fn pass_to_gateway(&mut self, which: usize) {
        let index = self.to_gateway.remove(which);
        let datagram = self.by_mobile[index].datagram.clone();
        self.arrive_at_gateway(&datagram, Some(index));
    }

    fn pass_to_mobile(&mut self, which: usize) {
        let index = self.to_mobile.remove(which);
        let datagram = self.by_gateway[index].clone();
        self.arrive_at_mobile(&datagram, true);
    }

    fn apply(&mut self, step: Step) {
        let now = self.pair.now;
        match step {
            Step::Up => self.pair.mobile.link_up(now),
            Step::Down => self.pair.mobile.link_down(now),
            Step::GoingDownSoon => self.pair.mobile.going_down_soon(100, now),
            Step::Addresses(n) => self.pair.mobile.set_addresses(&[address(n % 8 + 1)], now),
            Step::Wait(ms) => self.wait(u64::from(ms) % 3000),
            Step::RestartGateway => {
                self.pair.gateway = gateway();
                self.epoch = 0;
            }
            Step::RestartMobile => {
                self.run_first = self.by_mobile.len();
                self.pair.mobile = mobile(1, &[address(2)], &mut self.pair.fresh, now);
            }
            Step::Forge(bytes) => {
                self.arrive_at_gateway(&bytes, None);
                self.arrive_at_mobile(&bytes, false);
            }
            step => self.apply_to_network(step),
        }
        self.flush();
    }

    fn apply_to_network(&mut self, step: Step) {
        match step {
            Step::ToGateway(n) => {
                if let Some(which) = pick(n, self.to_gateway.len()) {
                    self.pass_to_gateway(which);
                }
            }
            Step::ToMobile(n) => {
                if let Some(which) = pick(n, self.to_mobile.len()) {
                    self.pass_to_mobile(which);
                }
            }
            Step::LoseToGateway(n) => {
                pick(n, self.to_gateway.len()).map(|which| self.to_gateway.remove(which));
            }
            Step::LoseToMobile(n) => {
                pick(n, self.to_mobile.len()).map(|which| self.to_mobile.remove(which));
            }
            Step::ReplayToGateway(n) => {
                if let Some(which) = pick(n, self.by_mobile.len()) {
                    let datagram = self.by_mobile[which].datagram.clone();
                    self.arrive_at_gateway(&datagram, Some(which));
                }
            }
            Step::ReplayToMobile(n) => {
                if let Some(which) = pick(n, self.by_gateway.len()) {
                    let datagram = self.by_gateway[which].clone();
                    self.arrive_at_mobile(&datagram, true);
                }
            }
            Step::CorruptToGateway(n, bit) => {
                if let Some(which) = pick(n, self.by_mobile.len()) {
                    let changed = Self::corrupt(&self.by_mobile[which].datagram, bit);
                    self.arrive_at_gateway(&changed, None);
                }
            }
            Step::CorruptToMobile(n, bit) => {
                if let Some(which) = pick(n, self.by_gateway.len()) {
                    let changed = Self::corrupt(&self.by_gateway[which], bit);
                    self.arrive_at_mobile(&changed, false);
                }
            }
            other => unreachable!("not of the network: {other:?}"),
        }
    }

    /// The network loses nothing any more: within a keepalive and some round trips the gateway must
    /// know the mobile's state.
    fn heal(&mut self) {
        let until = self.pair.now + Duration::from_secs(33);
        loop {
            while !self.to_gateway.is_empty() || !self.to_mobile.is_empty() {
                if !self.to_gateway.is_empty() {
                    self.pass_to_gateway(0);
                }
                if !self.to_mobile.is_empty() {
                    self.pass_to_mobile(0);
                }
            }
            let next = self.pair.mobile.poll_timeout();
            if next > until {
                break;
            }
            self.pair.now = self.pair.now.max(next);
            self.flush();
        }
        let mobile = &self.pair.mobile;
        let view = self
            .pair
            .gateway
            .view(key(1).id())
            .expect("a message must have been received");
        assert_eq!(view.state, mobile.state());
        assert_eq!(view.epoch, mobile.epoch());
        assert_eq!(view.addresses, mobile.addresses());
        assert!(mobile.is_acknowledged());
        for address in mobile.addresses() {
            assert_eq!(self.pair.gateway.owner(*address), Some(key(1).id()));
        }
    }
}

fn pick(n: u16, count: usize) -> Option<usize> {
    (count > 0).then(|| usize::from(n) % count)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// A failure prints its steps, shrunk, and its seed.
    #[test]
    fn nothing_old_or_forged_is_ever_believed_and_the_truth_wins(
        steps in prop::collection::vec(step(), 1..120)
    ) {
        let mut world = World::new();
        world.flush();
        for step in steps {
            world.apply(step);
        }
        world.heal();
    }
}
