// SPDX-License-Identifier: Apache-2.0
//! The handoff of one mobile, step by step, and the datagrams of stations.
//! `gateway/tests/handoff.rs` tests handoff in a whole network.

mod channel;
mod trouble;

use core::time::Duration;

use holdfast_wire::{Flags, Instant, SeqNum};

use super::*;
use crate::link_state::LinkEvent;
use crate::signal::LinkNotice;
use crate::testing::{FH, MH, Packet, data};
use crate::{FlowKey, handoff::message::Outcome};

const MOBILE: KeyId = KeyId(9);
const WEST: PeerId = PeerId(0);
const EAST: PeerId = PeerId(1);

type Actions = Vec<HandoffAction<Packet>>;

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn station(number: u32) -> Handoff<Packet> {
    let settings = HandoffSettings {
        station: StationId(number),
        ..HandoffSettings::default()
    };
    Handoff::new(settings, [WEST, EAST])
}

fn notice(event: LinkEvent, epoch: u64) -> LinkNotice {
    LinkNotice {
        key: MOBILE,
        event,
        addresses: vec![MH.address],
        removed: Vec::new(),
        epoch,
    }
}

/// What `input` makes a station do.
fn done(
    station: &mut Handoff<Packet>,
    input: impl FnOnce(&mut Handoff<Packet>, &mut Actions),
) -> Actions {
    let mut actions = Vec::new();
    input(station, &mut actions);
    actions
}

fn registers(station: &mut Handoff<Packet>, epoch: u64, now: Instant) -> Actions {
    let notice = notice(LinkEvent::Up, epoch);
    done(station, |station, actions| {
        station.handle_notice(&notice, now, actions);
    })
}

fn receives(
    station: &mut Handoff<Packet>,
    from: PeerId,
    message: Message,
    now: Instant,
) -> Actions {
    done(station, |station, actions| {
        station.handle_message(from, message, now, actions);
    })
}

const fn message(body: Body) -> Message {
    Message {
        mobile: MOBILE,
        body,
    }
}

fn claim(epoch: u64, number: u32) -> Claim {
    Claim {
        epoch,
        station: StationId(number),
        addresses: vec![MH.address],
    }
}

fn status(epoch: u64, number: u32, role: Role, prepare_ms: u32) -> Message {
    message(Body::Status(Status {
        claim: claim(epoch, number),
        role,
        prepare_ms,
    }))
}

fn take_over(epoch: u64, number: u32) -> Message {
    message(Body::TakeOver(claim(epoch, number)))
}

fn answer(epoch: u64, outcome: Outcome) -> Message {
    message(Body::Answer { epoch, outcome })
}

/// Bytes of the one flow.
fn range(from: u32, to: u32) -> FlowRange {
    FlowRange {
        flow: FlowKey { fh: FH, mh: MH },
        from: SeqNum::new(from),
        to: SeqNum::new(to),
    }
}

fn packet(seq: u32, len: usize) -> Packet {
    let (segment, bytes) = data(seq, &vec![7; len]);
    Packet::new(segment, &bytes.0, 1000)
}

fn role(station: &Handoff<Packet>, now: Instant) -> Role {
    let view = station.views(now).next();
    view.map_or(Role::Idle, |view| view.role)
}

fn disposition(station: &Handoff<Packet>, now: Instant) -> Disposition {
    station.arrival(MH.address, now).disposition
}

fn delivered(actions: &Actions) -> Vec<u32> {
    let seqs = actions.iter().filter_map(|action| match action {
        HandoffAction::Deliver(packet) => Some(packet.segment.seq.get()),
        _ => None,
    });
    seqs.collect()
}

/// A record of a flow in which the MH has everything before `una`, and the FH has sent what
/// lies before `max`.
fn state(una: u32, max: u32) -> FlowState {
    let seq = SeqNum::new;
    FlowState {
        key: FlowKey { fh: FH, mh: MH },
        fh_max: seq(max),
        fh_una: seq(una),
        fh_ack: seq(5000),
        fh_window: 500,
        fh_window_largest: 500,
        fh_window_scale: Some(7),
        fh_tsecr: 1,
        fh_fin: None,
        fh_sack: true,
        mh_nxt: seq(5000),
        mh_window_scale: Some(7),
        mh_window_largest: 500,
        mh_right_edge: None,
        mh_timestamps: None,
        mh_fin: None,
        tsval_sent: None,
        path_mtu: None,
        reported: Vec::new(),
        srtt: None,
        bytes_per_s: None,
        split: None,
        renumber: None,
    }
}

fn part(epoch: u64, states: &[FlowState]) -> Message {
    let records = states.iter().map(FlowState::to_bytes);
    let mut sending = Sending::new(records, Duration::from_millis(20), 1, at(0));
    let (number, records) = sending.poll_transmit(at(0)).remove(0);
    message(Body::State(StatePart {
        epoch,
        number,
        count: sending.count(),
        records,
    }))
}

#[test]
fn the_first_registration_is_forwarded_for_at_once_and_announced_until_all_have_answered() {
    let mut west = station(1);
    let actions = registers(&mut west, 4, at(0));
    assert_eq!(role(&west, at(0)), Role::Forwarding);
    let announced = |actions: &Actions| -> Vec<PeerId> {
        let sent = actions.iter().filter_map(|action| match action {
            HandoffAction::Send { to, message } if *message == take_over(4, 1) => Some(*to),
            _ => None,
        });
        sent.collect()
    };
    assert_eq!(announced(&actions), [WEST, EAST]);
    assert!(actions.contains(&HandoffAction::Join(9)));
    receives(&mut west, EAST, answer(4, Outcome::NotHere), at(1));
    let again = done(&mut west, |west, actions| {
        west.handle_timeout(at(20), actions);
    });
    assert_eq!(announced(&again), [WEST], "the one that has not answered");
    let mut tries = 2;
    for ms in (40..2000).step_by(20) {
        let actions = done(&mut west, |west, actions| {
            west.handle_timeout(at(ms), actions);
        });
        tries += announced(&actions).len();
    }
    assert_eq!(tries, 10, "bounded");
}

#[test]
fn a_neighbour_buffers_for_as_long_as_requested() {
    let mut east = station(2);
    assert_eq!(
        disposition(&east, at(0)),
        Disposition::Deliver,
        "no station has it"
    );
    let actions = receives(
        &mut east,
        WEST,
        status(4, 1, Role::Forwarding, 10_000),
        at(0),
    );
    assert!(actions.contains(&HandoffAction::Join(9)));
    assert!(actions.contains(&HandoffAction::Send {
        to: WEST,
        message: status(4, 2, Role::Buffering, 0)
    }));
    assert_eq!(role(&east, at(1)), Role::Buffering);
    assert_eq!(disposition(&east, at(1)), Disposition::Keep(MOBILE));
    let actions = done(&mut east, |east, actions| {
        east.handle_copy(MOBILE, packet(100, 50), at(1), actions);
    });
    assert_eq!(actions, [], "kept, and nothing sent");
    assert!(east.buffered_bytes() > 50);
    let actions = done(&mut east, |east, actions| {
        east.handle_timeout(at(10_000), actions);
    });
    assert!(actions.contains(&HandoffAction::Leave(9)));
    assert_eq!(
        (role(&east, at(10_000)), east.buffered_bytes()),
        (Role::Idle, 0)
    );
}

#[test]
fn a_neighbour_forgets_packets_that_are_older_than_its_buffering_time() {
    let mut east = station(2);
    for (seq, ms) in [(100, 0), (200, 5_000)] {
        let request = status(4, 1, Role::Forwarding, 10_000);
        receives(&mut east, WEST, request, at(ms));
        east.keep(MOBILE, packet(seq, 100), at(ms));
    }
    let buffered = |east: &mut Handoff<Packet>, ms| {
        done(east, |east, actions| east.handle_timeout(at(ms), actions));
        let view = east.views(at(ms)).next().expect("the mobile");
        assert_eq!(view.buffered_bytes, east.buffered_bytes());
        view.buffered_packets
    };
    assert_eq!(buffered(&mut east, 10_000), 2);
    assert_eq!(buffered(&mut east, 12_000), 1);
}

#[test]
fn a_mobile_that_is_about_to_leave_makes_its_station_send_requests_and_copies() {
    let mut west = station(1);
    registers(&mut west, 4, at(0));
    assert_eq!(
        west.arrival(MH.address, at(0)).copy,
        None,
        "no station is in the group"
    );
    let soon = notice(LinkEvent::GoingDownSoon(None), 4);
    let actions = done(&mut west, |west, actions| {
        west.handle_notice(&soon, at(1), actions);
    });
    let request = HandoffAction::Send {
        to: EAST,
        message: status(4, 1, Role::Forwarding, 10_000),
    };
    assert!(actions.contains(&request), "{actions:?}");
    receives(&mut west, EAST, status(4, 2, Role::Buffering, 0), at(2));
    let arrival = west.arrival(MH.address, at(3));
    assert_eq!(arrival.copy, Some((MOBILE, 9)));
    assert_eq!(arrival.disposition, Disposition::Deliver);
    // A neighbour that is silent for long is no longer in the group.
    assert_eq!(west.arrival(MH.address, at(3003)).copy, None);
}

/// The previous station has the mobile with epoch 4; this one has buffered 100 to 300.
fn about_to_take_over() -> Handoff<Packet> {
    let mut east = station(2);
    receives(
        &mut east,
        WEST,
        status(4, 1, Role::Forwarding, 10_000),
        at(0),
    );
    for seq in [100, 200] {
        let copy = packet(seq, 100);
        done(&mut east, |east, actions| {
            east.handle_copy(MOBILE, copy, at(1), actions);
        });
    }
    registers(&mut east, 5, at(10));
    assert_eq!(role(&east, at(10)), Role::Synchronising);
    assert_eq!(disposition(&east, at(10)), Disposition::Keep(MOBILE));
    east
}

#[test]
fn the_new_station_purges_up_to_the_ack_and_delivers_what_the_mh_lacks() {
    let mut east = about_to_take_over();
    receives(
        &mut east,
        WEST,
        answer(5, Outcome::StateFollows { datagrams: 1 }),
        at(11),
    );
    let actions = receives(&mut east, WEST, part(5, &[state(200, 300)]), at(12));
    assert!(matches!(actions[1], HandoffAction::Adopt(_)), "{actions:?}");
    assert_eq!(delivered(&actions), [200], "100 is at the MH");
    assert_eq!(
        actions.last(),
        Some(&HandoffAction::ResumeSending(vec![FlowKey {
            fh: FH,
            mh: MH
        }]))
    );
    assert_eq!(role(&east, at(12)), Role::Forwarding);
    assert_eq!(east.buffered_bytes(), 0);
    let again = receives(&mut east, WEST, part(5, &[state(200, 300)]), at(13));
    assert_eq!(
        again.len(),
        1,
        "acknowledged again, and nothing else: {again:?}"
    );
}

#[test]
fn packets_from_before_the_buffering_are_requested() {
    let mut east = about_to_take_over();
    let actions = receives(&mut east, WEST, part(5, &[state(40, 300)]), at(12));
    let want = message(Body::Want(range(40, 100)));
    let request = HandoffAction::Send {
        to: WEST,
        message: want.clone(),
    };
    assert!(actions.contains(&request), "{actions:?}");
    assert_eq!(
        role(&east, at(12)),
        Role::Synchronising,
        "it waits for that"
    );
    // The previous station has the state from its engine.
    let mut west = station(1);
    registers(&mut west, 4, at(0));
    let actions = receives(&mut west, EAST, take_over(5, 2), at(11));
    assert!(
        matches!(actions[0], HandoffAction::Export { .. }),
        "{actions:?}"
    );
    assert!(
        matches!(actions[1], HandoffAction::Stop { .. }),
        "{actions:?}"
    );
    west.keep(MOBILE, packet(40, 60), at(11));
    let sent = receives(&mut west, EAST, want, at(12));
    let [
        HandoffAction::SendCopy { copy, .. },
        HandoffAction::Send { .. },
    ] = &sent[..]
    else {
        panic!("{sent:?}");
    };
    let actions = done(&mut east, |east, actions| {
        east.handle_copy(MOBILE, copy.clone(), at(13), actions);
    });
    assert_eq!(delivered(&actions), [40, 100, 200], "in order");
}

#[test]
fn without_a_state_of_the_old_station_the_mh_itself_shows_what_it_has() {
    let mut east = about_to_take_over();
    let actions = done(&mut east, |east, actions| {
        east.handle_timeout(at(60), actions);
    });
    assert_eq!(delivered(&actions), [200], "the newest, as a question");
    assert_eq!(role(&east, at(60)), Role::Forwarding);
    assert!(east.wants_uplink(MH.address));
    let key = FlowKey { fh: FH, mh: MH };
    let actions = done(&mut east, |east, actions| {
        east.handle_uplink(&key, SeqNum::new(150), actions);
    });
    assert_eq!(
        delivered(&actions),
        [100, 200],
        "all that ends after the ACK"
    );
    assert!(!east.wants_uplink(MH.address));
    assert_eq!(east.buffered_bytes(), 0);
}

#[test]
fn an_address_returns_to_the_mobile_that_had_it_before() {
    let mut west = station(1);
    registers(&mut west, 1, at(0));
    assert_eq!(disposition(&west, at(0)), Disposition::Deliver);
    // Another mobile, at the other station, has the address.
    let other = Message {
        mobile: KeyId(8),
        ..status(1, 2, Role::Forwarding, 0)
    };
    receives(&mut west, EAST, other, at(1));
    assert_eq!(disposition(&west, at(1)), Disposition::Elsewhere);
    registers(&mut west, 2, at(2));
    assert_eq!(disposition(&west, at(2)), Disposition::Deliver);
}

#[test]
fn a_claim_with_a_lower_epoch_changes_nothing_and_is_contradicted() {
    let mut west = station(1);
    registers(&mut west, 7, at(0));
    let actions = receives(&mut west, EAST, take_over(6, 2), at(1));
    let stale = Outcome::Stale {
        epoch: 7,
        station: StationId(1),
    };
    let refusal = HandoffAction::Send {
        to: EAST,
        message: answer(6, stale),
    };
    assert_eq!(actions, [refusal]);
    assert_eq!(role(&west, at(1)), Role::Forwarding);
    // The station that receives the refusal stops. Its state is for the other station.
    let mut east = station(2);
    registers(&mut east, 6, at(0));
    let actions = receives(&mut east, WEST, answer(6, stale), at(2));
    let handed_over = matches!(
        actions[..2],
        [
            HandoffAction::Export { to: WEST, .. },
            HandoffAction::Stop { .. }
        ]
    );
    assert!(handed_over, "{actions:?}");
    assert!(actions.contains(&HandoffAction::EpochElsewhere {
        mobile: MOBILE,
        epoch: 7
    }));
    assert_eq!(role(&east, at(2)), Role::Buffering);
    // A registration with an epoch that is out of date elsewhere does not count.
    receives(&mut east, WEST, status(7, 1, Role::Forwarding, 0), at(3));
    registers(&mut east, 6, at(4));
    assert_eq!(role(&east, at(4)), Role::Buffering);
}

#[test]
fn of_two_stations_with_the_same_epoch_the_one_with_the_higher_number_has_it() {
    let (mut west, mut east) = (station(1), station(2));
    registers(&mut west, 4, at(0));
    registers(&mut east, 4, at(0));
    receives(&mut west, EAST, take_over(4, 2), at(1));
    receives(&mut east, WEST, take_over(4, 1), at(1));
    assert_eq!(role(&west, at(1)), Role::Buffering);
    assert_eq!(role(&east, at(1)), Role::Forwarding);
}

#[test]
fn a_station_that_has_died_is_forgotten_and_packets_pass_as_without_handoff() {
    let mut west = station(1);
    receives(&mut west, EAST, status(4, 2, Role::Forwarding, 0), at(0));
    assert_eq!(disposition(&west, at(2999)), Disposition::Elsewhere);
    assert!(west.arrival(MH.address, at(2999)).copy.is_some());
    assert_eq!(disposition(&west, at(3000)), Disposition::Deliver);
    assert_eq!(west.arrival(MH.address, at(3000)).copy, None);
}

#[test]
fn however_much_comes_no_more_is_kept_than_the_limits_allow() {
    let settings = HandoffSettings {
        mobile_buffer_bytes_max: 10_000,
        buffer_bytes_max: 15_000,
        mobiles_max: 3,
        ..HandoffSettings::default()
    };
    let (per_mobile, in_all) = (settings.mobile_buffer_bytes_max, settings.buffer_bytes_max);
    let mut east: Handoff<Packet> = Handoff::new(settings, [WEST]);
    for mobile in 0..10 {
        let mut message = status(4, 1, Role::Forwarding, 10_000);
        message.mobile = KeyId(mobile);
        receives(&mut east, WEST, message, at(0));
        for number in 0..100 {
            let copy = packet(number * 1000, 1000);
            done(&mut east, |east, actions| {
                east.handle_copy(KeyId(mobile), copy, at(1), actions);
            });
            assert!(east.buffered_bytes() <= in_all);
        }
    }
    let views: Vec<_> = east.views(at(1)).collect();
    assert_eq!(views.len(), 3);
    assert!(views.iter().all(|view| view.buffered_bytes <= per_mobile));
    assert!(east.counters().overflowed > 0 && east.counters().table_full > 0);
}

#[test]
fn of_packets_without_data_the_newest_alone_is_delivered() {
    let mut east = about_to_take_over();
    for ack in [5001, 5002, 5003] {
        let mut empty = packet(300, 0);
        empty.segment.ack = SeqNum::new(ack);
        empty.segment.flags = Flags::ACK;
        east.keep(MOBILE, empty, at(11));
    }
    let actions = receives(&mut east, WEST, part(5, &[state(200, 300)]), at(12));
    let acks = actions.iter().filter_map(|action| match action {
        HandoffAction::Deliver(packet) if packet.segment.is_empty() => Some(packet.segment.ack),
        _ => None,
    });
    assert_eq!(acks.collect::<Vec<_>>(), [SeqNum::new(5003)]);
}

#[test]
fn a_registration_with_an_epoch_below_one_that_was_known_is_reported_to_the_mobile() {
    for (epoch, is_reported) in [(6, true), (7, false), (8, false)] {
        let mut west = station(1);
        receives(&mut west, EAST, status(7, 2, Role::Forwarding, 0), at(0));
        // After the other station's silence no owner is known.
        let actions = registers(&mut west, epoch, at(3_000));
        let report = HandoffAction::EpochElsewhere {
            mobile: MOBILE,
            epoch: 7,
        };
        assert_eq!(actions.contains(&report), is_reported, "{epoch}");
        assert_eq!(role(&west, at(3_000)), Role::Forwarding, "{epoch}");
    }
}

#[test]
fn a_packet_that_just_fits_into_the_buffers_of_all_mobiles_is_kept() {
    let bytes = packet(100, 1000).bytes();
    for (left, kept) in [(0, 2), (1, 1)] {
        let settings = HandoffSettings {
            station: StationId(2),
            buffer_bytes_max: 2 * buffer::Buffer::<Packet>::taken_by(bytes) - left,
            ..HandoffSettings::default()
        };
        let mut east = Handoff::new(settings, [WEST, EAST]);
        receives(
            &mut east,
            WEST,
            status(4, 1, Role::Forwarding, 10_000),
            at(0),
        );
        for seq in [100, 1100] {
            east.keep(MOBILE, packet(seq, 1000), at(1));
        }
        let view = east.views(at(1)).next().expect("the mobile");
        assert_eq!(view.buffered_packets, kept);
        assert_eq!(east.counters().overflowed, 2 - kept as u64);
    }
}

#[test]
fn a_packet_that_just_fits_into_the_buffer_of_its_mobile_is_kept() {
    let each = buffer::Buffer::<Packet>::taken_by(packet(100, 1000).bytes());
    for (bytes_max, kept) in [(each - 1, 0), (each, 1), (2 * each - 1, 1), (2 * each, 2)] {
        for drops_newest in [false, true] {
            let mut buffer = buffer::Buffer::default();
            for seq in [100, 1100] {
                let _ = buffer.push(packet(seq, 1000), bytes_max, drops_newest, at(1));
            }
            assert_eq!(buffer.len(), kept, "{bytes_max} {drops_newest}");
        }
    }
}

#[test]
fn a_mobile_that_is_here_has_room_up_to_its_own_limit_and_that_of_all() {
    let copy = packet(100, 1000);
    let each = buffer::Buffer::<Packet>::taken_by(copy.bytes());
    for (own, of_all, has_room) in [
        (each, each, true),
        (each - 1, each, false),
        (each, each - 1, false),
    ] {
        let settings = HandoffSettings {
            station: StationId(1),
            mobile_buffer_bytes_max: own,
            buffer_bytes_max: of_all,
            ..HandoffSettings::default()
        };
        let mut west = Handoff::new(settings, [WEST, EAST]);
        registers(&mut west, 4, at(0));
        let copies = core::slice::from_ref(&copy);
        assert_eq!(west.has_room(MOBILE, copies), has_room, "{own} {of_all}");
    }
}
