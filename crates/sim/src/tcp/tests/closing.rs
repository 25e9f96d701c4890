// SPDX-License-Identifier: Apache-2.0
//! Opening and closing (RFC 9293, 3.5 and 3.6), options of the SYN (RFC 7323, RFC 2018).

use super::*;
use crate::tcp::variables::Ending;

fn fin(s: &mut Script, at: u64, ack: u64) -> String {
    let flags = Flags::ACK.with(Flags::FIN);
    let segment = s.segment(1 + at, flags, 1 + ack, s.options(false));
    s.deliver(segment, at);
    s.sent()
}

fn state(s: &Script) -> State {
    s.end.view().state
}

/// RFC 9293, figure 12: normal close, from the end that closes first.
#[test]
fn active_close_passes_fin_wait_and_time_wait() {
    let mut s = Script::sender(plain(), 2);
    assert_eq!(s.sent(), "0 1F");
    assert_eq!(state(&s), State::FinWait1);
    s.ack(2001);
    assert_eq!(state(&s), State::FinWait2);
    assert_eq!(fin(&mut s, 0, 2001), "=1");
    assert_eq!(state(&s), State::TimeWait);
    // A retransmitted FIN is acknowledged again, and 2 MSL begin again.
    s.now += ms(30_000);
    assert_eq!(fin(&mut s, 0, 2001), "=1");
    assert_eq!(s.wait(ms(59_999)), "");
    assert_eq!(state(&s), State::TimeWait);
    s.wait(ms(1));
    assert_eq!((state(&s), s.end.ending()), (State::Closed, Ending::Closed));
}

/// RFC 9293, figure 12, from the other end: CLOSE-WAIT, LAST-ACK.
#[test]
fn passive_close_answers_the_fin_with_its_own() {
    let mut s = Script::receiver(plain());
    s.data(0, 1000);
    assert_eq!(fin(&mut s, 1000, 0), "=1001 0+0F");
    assert_eq!(state(&s), State::LastAck);
    s.sent = 1001;
    s.ack(1);
    assert_eq!((state(&s), s.end.ending()), (State::Closed, Ending::Closed));
}

/// RFC 9293, figure 13: simultaneous close.
#[test]
fn fins_that_cross_pass_closing() {
    let mut s = Script::sender(plain(), 2);
    assert_eq!(s.sent(), "0 1F");
    assert_eq!(fin(&mut s, 0, 0), "=1");
    assert_eq!(state(&s), State::Closing);
    s.sent = 1;
    s.ack(2001);
    assert_eq!(state(&s), State::TimeWait);
}

/// The timer retransmits a FIN like any segment. A FIN out of order waits.
#[test]
fn lost_fin_is_repeated_and_an_early_one_waits() {
    let mut s = Script::sender(plain(), 2);
    s.sent();
    s.ack(2000);
    assert_eq!(s.wait(ms(1000)), "1000: 2000+0F");
    let mut r = Script::receiver(plain());
    assert_eq!(fin(&mut r, 1000, 0), "=0");
    assert_eq!(state(&r), State::Established);
    assert_eq!(r.data(0, 1000), "=1001 0+0F");
    assert_eq!(r.end.view().delivered, 1000);
}

/// RFC 7323, 1.3; RFC 2018, 2: an option is used only if both SYNs have it.
#[test]
fn options_are_used_only_if_both_ends_offer_them() {
    let settings = TcpSettings {
        window_scale: Some(3),
        sack: true,
        timestamps: true,
        ..plain()
    };
    let mut s = Script::new(settings, 1000, true);
    s.end.open(s.now, &mut s.out);
    let syn = *s.out[0].segment().unwrap();
    assert_eq!(syn.options.window_scale, Some(3));
    assert!(syn.options.sack_permitted && syn.options.timestamps.is_some());
    s.out.clear();
    // The other end has none of them.
    let mut answer = s.segment(0, Flags::SYN.with(Flags::ACK), 1, Options::default());
    answer.options.mss = Some(1000);
    s.deliver(answer, 0);
    assert!(
        s.out
            .iter()
            .all(|packet| { packet.segment().unwrap().options == Options::default() })
    );
    s.window(0, 5000);
    assert_eq!(s.end.view().rwnd, 5000);
    // A SYN,ACK has no option that was not offered.
    let mut r = Script::new(settings, 0, false);
    let mut syn = r.segment(0, Flags::SYN, 0, Options::default());
    syn.options.mss = Some(1000);
    r.deliver(syn, 0);
    let answer = *r.out[0].segment().unwrap();
    assert_eq!(
        answer.options,
        Options {
            mss: Some(1000),
            ..Options::default()
        }
    );
}

/// RFC 7323, 2.2 and 2.3: the window of a SYN is not scaled, later ones are.
#[test]
fn windows_are_scaled_after_the_handshake() {
    let settings = TcpSettings {
        window_scale: Some(2),
        receive_buffer_bytes: 200_000,
        ..plain()
    };
    let mut s = Script::new(settings, 100_000, true);
    s.end.open(s.now, &mut s.out);
    assert_eq!(s.out[0].segment().unwrap().window, 65_535);
    s.out.clear();
    let mut options = s.options(true);
    options.window_scale = Some(5);
    s.window = 1000;
    s.deliver(s.segment(0, Flags::SYN.with(Flags::ACK), 1, options), 0);
    assert_eq!(s.end.view().rwnd, 1000);
    assert_eq!(s.out[0].segment().unwrap().window, 50_000);
    s.out.clear();
    s.window(0, 1000);
    assert_eq!(s.end.view().rwnd, 32_000);
}

/// RFC 9293, 3.10.7.1 and 3.10.7.2.
#[test]
fn segment_for_no_connection_is_answered_with_a_reset() {
    let mut s = Script::new(plain(), 0, false);
    s.deliver(s.segment(77, Flags::ACK, 5, Options::default()), 0);
    assert_eq!(s.sent(), "R");
    s.deliver(s.segment(77, Flags::RST, 5, Options::default()), 0);
    assert_eq!(s.sent(), "");
    assert_eq!(state(&s), State::Listen);
}

/// The SYN,ACK is retransmitted by the timer, and when the SYN comes again.
#[test]
fn lost_syn_ack_is_repeated() {
    let mut s = Script::new(plain(), 0, false);
    s.deliver(s.segment(0, Flags::SYN, 0, s.options(true)), 0);
    assert_eq!(s.sent(), "S=");
    assert_eq!(s.wait(ms(1000)), "1000: S=");
    s.deliver(s.segment(0, Flags::SYN, 0, s.options(true)), 0);
    assert_eq!(s.sent(), "S=");
    s.deliver(s.segment(1, Flags::ACK, 1, s.options(false)), 0);
    assert_eq!(state(&s), State::Established);
}
