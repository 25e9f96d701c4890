// SPDX-License-Identifier: Apache-2.0
//! M-TCP at the mobile: stopped timers, and the marked ACK.

use holdfast_core::RECONNECTION_FLAGS;

use super::*;

fn m_tcp() -> TcpSettings {
    TcpSettings {
        m_tcp: true,
        ..plain()
    }
}

impl Script {
    /// The host's link goes down or up; what the end sends then, with its flags.
    fn link(&mut self, up: bool) -> Vec<(String, Flags)> {
        self.end.handle_link(up, self.now, &mut self.out);
        let out = std::mem::take(&mut self.out);
        let sent = out.iter().filter_map(Packet::segment);
        sent.map(|segment| (describe(segment), segment.flags))
            .collect()
    }
}

#[test]
fn retransmission_timer_stands_still_while_the_link_is_down() {
    let mut plain_one = Script::sender(plain(), 10);
    assert_eq!(plain_one.sent(), "0 1");
    assert_eq!(plain_one.wait(ms(2900)), "1000: 0");
    let mut script = Script::sender(m_tcp(), 10);
    assert_eq!(script.sent(), "0 1");
    assert_eq!(script.wait(ms(400)), "");
    assert_eq!(script.link(false), []);
    assert_eq!(script.wait(ms(60_000)), "");
    assert_eq!(script.link(true).len(), 1);
    // 600 ms of the second were left.
    assert_eq!(script.wait(ms(700)), "600: 0");
}

#[test]
fn at_link_up_one_marked_ack_has_the_highest_byte_in_sequence() {
    let mut script = Script::receiver(m_tcp());
    assert_eq!(script.data(0, 1000), "=1000");
    assert_eq!(script.data(2000, 3000), "=1000");
    assert_eq!(script.link(false), []);
    assert_eq!(script.link(false), [], "reported twice");
    script.now += ms(5000);
    assert_eq!(
        script.link(true),
        [("=1000".to_owned(), RECONNECTION_FLAGS)]
    );
    assert_eq!(script.link(true), [], "it was up already");
    assert_eq!(script.data(1000, 2000), "=3000");
}

#[test]
fn a_delayed_ack_that_waited_goes_with_the_marked_one() {
    let settings = TcpSettings {
        delayed_ack: DelayedAck::RFC5681,
        ..m_tcp()
    };
    let mut script = Script::receiver(settings);
    assert_eq!(script.data(0, 1000), "");
    script.link(false);
    assert_eq!(script.wait(ms(1000)), "");
    assert_eq!(
        script.link(true),
        [("=1000".to_owned(), RECONNECTION_FLAGS)]
    );
    assert_eq!(script.wait(ms(1000)), "");
}

#[test]
fn a_round_trip_is_measured_without_the_disconnection() {
    let mut script = Script::sender(m_tcp(), 10);
    assert_eq!(script.sent(), "0 1");
    script.now += ms(50);
    script.link(false);
    script.now += ms(30_000);
    script.link(true);
    script.now += ms(50);
    let before = script.end.view().rto;
    script.ack(2000);
    assert!(
        script.end.view().rto <= before,
        "{:?}",
        script.end.view().rto
    );
}

#[test]
fn a_plain_host_reports_nothing_about_its_link() {
    let mut script = Script::receiver(plain());
    assert!(!script.end.watches_link());
    assert!(m_tcp().m_tcp && Script::receiver(m_tcp()).end.watches_link());
    assert_eq!(script.data(0, 1000), "=1000");
}

#[test]
fn a_syn_that_the_disconnection_took_is_sent_again_at_its_end() {
    let mut script = Script::new(m_tcp(), 0, true);
    script.link(false);
    script.end.open(script.now, &mut script.out);
    assert_eq!(script.sent(), "S");
    assert_eq!(script.wait(ms(20_000)), "");
    assert_eq!(script.link(true)[0].0, "S");
}
