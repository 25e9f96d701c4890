// SPDX-License-Identifier: Apache-2.0
//! The receiver: delayed ACKs, holes, SACK blocks, windows, timestamps (RFC 5681, 4.2;
//! RFC 2018; RFC 9293, 3.8.6.2.2; RFC 7323; RFC 5961).

use super::*;
use crate::content::ContentKind;

fn delayed(heartbeat: bool) -> TcpSettings {
    TcpSettings {
        delayed_ack: DelayedAck::On {
            every: 2,
            delay: ms(200),
            heartbeat,
        },
        ..plain()
    }
}

/// RFC 5681, 4.2: at least every second segment, within 500 ms.
#[test]
fn every_second_segment_is_acknowledged_and_a_single_one_late() {
    let mut s = Script::receiver(delayed(false));
    assert_eq!(s.data(0, 1000), "");
    assert_eq!(s.data(1000, 2000), "=2000");
    s.now += ms(50);
    assert_eq!(s.data(2000, 3000), "");
    assert_eq!(s.wait(ms(1000)), "200: =3000");
    assert_eq!(s.end.poll_timeout(), None);
}

/// Linux: the sender's slow start does not wait for a delayed ACK.
#[test]
fn the_first_segments_are_acknowledged_at_once_if_so_set() {
    let mut s = Script::receiver(TcpSettings {
        quick_acks: 2,
        ..delayed(false)
    });
    assert_eq!(s.data(0, 1000), "=1000");
    assert_eq!(s.data(1000, 2000), "=2000");
    assert_eq!(s.data(2000, 3000), "");
    assert_eq!(s.data(3000, 4000), "=4000");
}

#[test]
fn without_delay_each_segment_is_acknowledged() {
    let mut s = Script::receiver(plain());
    assert_eq!(s.data(0, 1000), "=1000");
    assert_eq!(s.data(1000, 2000), "=2000");
}

/// 4.3BSD's fast timer beats each 200 ms for all connections.
#[test]
fn heartbeat_ends_the_wait_at_the_next_beat() {
    let mut s = Script::receiver(delayed(true));
    s.now += ms(130);
    s.data(0, 1000);
    assert_eq!(s.wait(ms(1000)), "70: =1000");
}

/// RFC 5681, 4.2: an ACK at once for data out of order, and for data that fills a hole.
#[test]
fn out_of_order_and_hole_filling_segments_are_acknowledged_at_once() {
    let mut s = Script::receiver(delayed(false));
    assert_eq!(s.data(1000, 2000), "=0");
    assert_eq!(s.data(3000, 4000), "=0");
    assert_eq!(s.data(0, 1000), "=2000");
    assert_eq!(s.data(2000, 3000), "=4000");
    assert_eq!(s.data(4000, 5000), "");
}

/// RFC 2018, 4: the first block is that of the segment just come; the others repeat
/// the most recent ones.
#[test]
fn sack_blocks_are_the_newest_first_and_at_most_three_beside_timestamps() {
    for (timestamps, most) in [(false, 4), (true, 3)] {
        let settings = TcpSettings {
            sack: true,
            timestamps,
            mss: if timestamps { 1012 } else { 1000 },
            ..plain()
        };
        let mut s = Script::receiver(settings);
        assert_eq!(s.data(1000, 2000), "=0[1-2]");
        assert_eq!(s.data(3000, 4000), "=0[3-4][1-2]");
        assert_eq!(s.data(5000, 6000), "=0[5-6][3-4][1-2]");
        let four = s.data(7000, 8000);
        assert_eq!(four.matches('[').count(), most);
        assert!(four.starts_with("=0[7-8][5-6][3-4]"), "{four}");
        let grown = s.data(2000, 3000);
        assert!(grown.starts_with("=0[1-4][7-8]"), "{grown}");
        assert!(s.data(0, 1000).starts_with("=4000["));
    }
}

/// RFC 9293, 3.10.7.4: a segment that is not acceptable is answered with an ACK.
#[test]
fn old_data_is_answered_and_counted_as_duplicate() {
    let mut s = Script::receiver(plain());
    s.data(0, 1000);
    assert_eq!(s.data(0, 1000), "=1000");
    assert_eq!(s.data(500, 1500), "=1500");
    assert_eq!(s.end.counters().duplicate_bytes_received, 1500);
    assert_eq!(s.end.view().delivered, 1500);
}

/// RFC 9293, 3.10.7.4: trimmed to the window.
#[test]
fn data_beyond_the_window_is_trimmed() {
    let settings = TcpSettings {
        receive_buffer_bytes: 2500,
        ..plain()
    };
    let mut s = Script::new(settings, 0, false);
    s.end.app.reading = Reading::NotBefore {
        until: s.now.saturating_since(Instant::ZERO) + ms(5000),
    };
    s.deliver(s.segment(0, Flags::SYN, 0, s.options(true)), 0);
    s.sent();
    s.deliver(s.segment(1, Flags::ACK, 1, s.options(false)), 0);
    assert_eq!(s.data(0, 1000), "=1000");
    assert_eq!(s.data(1000, 2000), "=2000");
    assert_eq!(s.data(2000, 3000), "=2500w0");
    // A probe into the closed window, and one below it.
    assert_eq!(s.data(2500, 2501), "=2500w0");
    assert_eq!(s.data(2499, 2499), "=2500w0");
    // The application reads: the window opens.
    let sent = s.wait(ms(6000));
    assert!(sent.ends_with(": =2500"), "{sent}");
    assert_eq!(s.end.view().delivered, 2500);
}

/// RFC 9293, 3.8.6.2.2: a window that opens by little is not announced. A window that opens by two
/// segments is.
#[test]
fn slow_reader_opens_the_window_in_steps_worth_sending() {
    let settings = TcpSettings {
        receive_buffer_bytes: 8000,
        ..plain()
    };
    let mut s = Script::new(settings, 0, false);
    s.end.app.reading = Reading::Chunks {
        bytes: 100,
        every: ms(10),
    };
    s.deliver(s.segment(0, Flags::SYN, 0, s.options(true)), 0);
    s.deliver(s.segment(1, Flags::ACK, 1, s.options(false)), 0);
    s.sent();
    for segment in 0..8 {
        s.data(segment * 1000, (segment + 1) * 1000);
    }
    let sent = s.wait(ms(1000));
    // 8000 bytes take 800 ms; an update at each 2000 bytes.
    assert_eq!(sent, "200: =8000, 400: =8000, 600: =8000, 800: =8000");
}

/// RFC 7323, 5.3: PAWS; 4.3: which timestamp is echoed.
#[test]
fn old_timestamp_is_refused_and_the_echo_is_of_the_left_edge() {
    let settings = TcpSettings {
        timestamps: true,
        mss: 1012,
        delayed_ack: DelayedAck::RFC5681,
        ..plain()
    };
    let mut s = Script::receiver(settings);
    let echo_of = |s: &mut Script| {
        let out = std::mem::take(&mut s.out);
        let last = out.last().and_then(Packet::segment).copied();
        last.and_then(|segment| segment.options.timestamps)
            .map(|timestamps| timestamps.tsecr)
    };
    let deliver = |s: &mut Script, from: u64, tsval: u32| {
        s.tsval = tsval;
        let mut segment = s.segment(1 + from, Flags::ACK, 1, s.options(false));
        segment.payload_len = 1000;
        s.deliver(segment, from);
    };
    // Delayed: the echo is of the first segment that waits.
    deliver(&mut s, 0, 600);
    deliver(&mut s, 1000, 610);
    assert_eq!(echo_of(&mut s), Some(600));
    // A hole: the echo stays that of the last one in order.
    deliver(&mut s, 3000, 620);
    assert_eq!(echo_of(&mut s), Some(600));
    deliver(&mut s, 2000, 630);
    assert_eq!(echo_of(&mut s), Some(630));
    let delivered = s.end.view().delivered;
    deliver(&mut s, 4000, 500);
    assert_eq!(s.end.view().delivered, delivered);
}

/// RFC 7323, 3.2: "If a non-<RST> segment is received without a TSopt, a TCP SHOULD
/// silently drop the segment."
#[test]
fn segment_without_agreed_timestamps_is_dropped_in_silence() {
    let settings = TcpSettings {
        timestamps: true,
        mss: 1012,
        ..plain()
    };
    let mut s = Script::receiver(settings);
    let mut segment = s.segment(1, Flags::ACK, 1, Options::default());
    segment.payload_len = 1000;
    s.deliver(segment, 0);
    assert_eq!((s.sent().as_str(), s.end.view().delivered), ("", 0));
    s.deliver(s.segment(1, Flags::RST, 0, Options::default()), 0);
    assert_eq!(s.end.view().ending, crate::tcp::Ending::Reset);
}

/// RFC 5961, 3.2 and 4.2.
#[test]
fn only_a_reset_at_rcv_nxt_is_believed() {
    let mut s = Script::receiver(plain());
    s.data(0, 1000);
    let reset = |s: &mut Script, offset: u64| {
        s.deliver(s.segment(1 + offset, Flags::RST, 0, Options::default()), 0);
        s.sent()
    };
    assert_eq!(reset(&mut s, 1500), "=1000");
    assert_eq!(reset(&mut s, 50_000), "");
    assert_eq!(s.end.view().state, State::Established);
    s.deliver(s.segment(700, Flags::SYN, 0, Options::default()), 0);
    assert_eq!(s.sent(), "=1000");
    assert_eq!(reset(&mut s, 1000), "");
    assert_eq!(s.end.view().ending, crate::tcp::Ending::Reset);
}

#[test]
fn corrupted_segment_is_dropped_and_a_misplaced_byte_is_seen() {
    let mut s = Script::receiver(plain());
    let mut segment = s.segment(1, Flags::ACK, 1, Options::default());
    segment.payload_len = 1000;
    let (me, peer) = ends();
    let mut packet = Packet {
        from: peer.node,
        to: me.node,
        body: Body::Tcp(TcpPacket {
            segment,
            origin: Origin {
                stream: 2,
                offset: 0,
            },
            repeated: false,
            content: ContentKind::Bulk,
            wire: None,
        }),
        corrupted: true,
    };
    s.end.handle_segment(&packet, s.now, &mut s.out);
    assert_eq!((s.sent(), s.end.view().delivered), (String::new(), 0));
    packet.corrupted = false;
    s.end.handle_segment(&packet, s.now, &mut s.out);
    assert_eq!((s.end.view().delivered, s.end.view().intact), (1000, true));
    if let Body::Tcp(tcp) = &mut packet.body {
        tcp.segment.seq += 1000;
    }
    s.end.handle_segment(&packet, s.now, &mut s.out);
    assert!(!s.end.view().intact);
}

/// Goff and others, 2000: a window of 0 on request, and ACKs at its end.
#[test]
fn frozen_receiver_sends_zero_and_then_its_last_window() {
    let mut s = Script::receiver(plain());
    s.data(0, 1000);
    s.end.freeze(true, 1, s.now, &mut s.out);
    assert_eq!(s.sent(), "=1000w0");
    s.end.freeze(false, 3, s.now, &mut s.out);
    assert_eq!(s.sent(), "=1000 =1000 =1000");
}

fn with_delayed_dup_acks() -> TcpSettings {
    TcpSettings {
        dup_ack_delay: Some(ms(100)),
        ..plain()
    }
}

/// Vaidya and others (1999): the third and later duplicate ACKs wait. If the link fills the hole
/// meanwhile, they are not sent.
#[test]
fn third_dup_ack_waits_for_the_missing_segment() {
    let mut s = Script::receiver(with_delayed_dup_acks());
    assert_eq!(s.data(1000, 2000), "=0");
    assert_eq!(s.data(2000, 3000), "=0");
    assert_eq!(s.data(3000, 4000), "");
    assert_eq!(s.wait(ms(60)), "");
    assert_eq!(s.data(4000, 5000), "");
    assert_eq!(s.data(0, 1000), "=5000");
    assert_eq!(s.wait(ms(1000)), "");
    // The next hole begins anew.
    assert_eq!(s.data(6000, 7000), "=5000");
    assert_eq!(s.data(7000, 8000), "=5000");
    assert_eq!(s.data(8000, 9000), "");
}

/// The delay counts from the first ACK that waits. Then all are sent, and later ones at once.
#[test]
fn dup_acks_that_waited_in_vain_go_together() {
    let mut s = Script::receiver(with_delayed_dup_acks());
    for segment in 1..5 {
        s.data(segment * 1000, (segment + 1) * 1000);
    }
    assert_eq!(s.wait(ms(1000)), "100: =0 =0");
    assert_eq!(s.data(5000, 6000), "=0");
    assert_eq!(s.data(0, 1000), "=6000");
    assert_eq!(s.end.poll_timeout(), None);
}
