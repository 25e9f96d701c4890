// SPDX-License-Identifier: Apache-2.0
//! What goes wrong in a handoff: epochs raised in the middle of it, full buffers, late and
//! unexpected messages.

use super::*;

fn acknowledges(actions: &Actions) -> bool {
    let mut sent = actions.iter().filter_map(body);
    sent.any(|body| matches!(body, Body::StateReceived { .. }))
}

fn body(action: &HandoffAction<Packet>) -> Option<&Body> {
    match action {
        HandoffAction::Send { message, .. } => Some(&message.body),
        _ => None,
    }
}

fn wants(actions: &Actions) -> Vec<(u32, u32)> {
    let wants = actions
        .iter()
        .filter_map(body)
        .filter_map(|body| match body {
            Body::Want(range) => Some((range.from.get(), range.to.get())),
            _ => None,
        });
    wants.collect()
}

#[test]
fn an_epoch_that_is_raised_while_the_state_is_awaited_does_not_lose_the_state() {
    let mut east = about_to_take_over();
    registers(&mut east, 6, at(11));
    let yielded = answer(5, Outcome::StateFollows { datagrams: 1 });
    receives(&mut east, WEST, yielded, at(12));
    let actions = receives(&mut east, WEST, part(5, &[state(200, 300)]), at(13));
    assert_eq!(delivered(&actions), [200]);
    assert_eq!(role(&east, at(13)), Role::Forwarding);
    // The old station receives the second epoch by a repetition.
    let mut west = station(1);
    registers(&mut west, 4, at(0));
    receives(&mut west, EAST, take_over(5, 2), at(10));
    done(&mut west, |west, actions| {
        west.send_state(MOBILE, EAST, &[state(200, 300)], at(10), actions);
    });
    let actions = receives(&mut west, EAST, take_over(6, 2), at(11));
    let sent = HandoffAction::Send {
        to: EAST,
        message: answer(6, Outcome::StateFollows { datagrams: 1 }),
    };
    assert_eq!(actions.last(), Some(&sent));
}

#[test]
fn only_the_station_with_the_state_acknowledges_it_and_with_its_epoch() {
    for (from, epoch, is_repeated) in [(EAST, 5, false), (EAST, 6, true), (WEST, 5, true)] {
        let mut west = station(1);
        registers(&mut west, 4, at(0));
        receives(&mut west, EAST, take_over(5, 2), at(10));
        done(&mut west, |west, actions| {
            west.send_state(MOBILE, EAST, &[state(200, 300)], at(10), actions);
        });
        let received = message(Body::StateReceived { epoch, number: 0 });
        receives(&mut west, from, received, at(11));
        let actions = done(&mut west, |west, actions| {
            west.handle_timeout(at(30), actions);
        });
        let again = HandoffAction::Send {
            to: EAST,
            message: part(5, &[state(200, 300)]),
        };
        assert_eq!(actions.contains(&again), is_repeated, "{from:?} {epoch}");
    }
}

#[test]
fn a_transfer_to_a_neighbour_replaces_the_one_before_and_none_to_others() {
    let mut west = station(1);
    registers(&mut west, 4, at(0));
    receives(&mut west, EAST, take_over(5, 2), at(10));
    for to in [EAST, WEST, EAST] {
        done(&mut west, |west, actions| {
            west.send_state(MOBILE, to, &[state(200, 300)], at(10), actions);
        });
    }
    assert!(west.counters().state_bytes > 0);
    let actions = done(&mut west, |west, actions| {
        west.handle_timeout(at(30), actions);
    });
    for to in [EAST, WEST] {
        let state = HandoffAction::Send {
            to,
            message: part(5, &[state(200, 300)]),
        };
        let repeated = actions.iter().filter(|action| **action == state);
        assert_eq!(repeated.count(), 1, "{to:?}");
    }
}

#[test]
fn a_state_that_is_not_taken_is_not_acknowledged() {
    let mut east = about_to_take_over();
    let actions = receives(&mut east, WEST, part(4, &[state(200, 300)]), at(12));
    assert!(!acknowledges(&actions), "of an epoch before: {actions:?}");
    receives(&mut east, WEST, take_over(7, 1), at(13));
    let actions = receives(&mut east, WEST, part(5, &[state(200, 300)]), at(14));
    assert!(!acknowledges(&actions), "it is elsewhere: {actions:?}");
}

#[test]
fn a_claim_with_the_own_number_is_not_believed() {
    let mut west = station(1);
    registers(&mut west, 4, at(0));
    let not_here = HandoffAction::Send {
        to: EAST,
        message: answer(4, Outcome::NotHere),
    };
    assert_eq!(
        receives(&mut west, EAST, take_over(4, 1), at(1)),
        [not_here]
    );
    assert_eq!(
        receives(&mut west, EAST, status(9, 1, Role::Forwarding, 9), at(2)),
        []
    );
    assert_eq!(role(&west, at(3)), Role::Forwarding);
    assert_eq!(west.arrival(MH.address, at(3)).copy, None);
    assert_eq!(west.counters().own_number, 2);
}

#[test]
fn what_the_mh_has_reported_is_not_waited_for() {
    let mut east = about_to_take_over();
    let mut holes = state(40, 400);
    let seq = SeqNum::new;
    holes.reported = vec![(seq(60), seq(90)), (seq(300), seq(400))];
    let actions = receives(&mut east, WEST, part(5, &[holes]), at(12));
    assert_eq!(wants(&actions), [(40, 60), (90, 100)]);
    let mut actions = Vec::new();
    for (first, len) in [(40, 20), (90, 10)] {
        let copy = packet(first, len);
        actions = done(&mut east, |east, actions| {
            east.handle_copy(MOBILE, copy, at(13), actions);
        });
    }
    assert_eq!(delivered(&actions), [40, 90, 100, 200]);
    assert_eq!(east.counters().sync_timeouts, 0);
}

#[test]
fn what_the_station_before_does_not_have_is_not_waited_for() {
    let mut east = about_to_take_over();
    let actions = receives(&mut east, WEST, part(5, &[state(40, 300)]), at(12));
    assert_eq!(wants(&actions), [(40, 100)]);
    let again = done(&mut east, |east, actions| {
        east.handle_timeout(at(32), actions);
    });
    assert_eq!(
        wants(&again),
        [(40, 100)],
        "requested again: it may be lost"
    );
    let mut west = station(1);
    registers(&mut west, 4, at(0));
    receives(&mut west, EAST, take_over(5, 2), at(11));
    let want = message(Body::Want(range(40, 100)));
    let sent = receives(&mut west, EAST, want, at(32));
    let [HandoffAction::Send { message, .. }] = &sent[..] else {
        panic!("{sent:?}");
    };
    let actions = receives(&mut east, WEST, message.clone(), at(33));
    assert_eq!(delivered(&actions), [100, 200]);
    assert_eq!(east.counters().sync_timeouts, 0);
}

#[test]
fn a_range_that_has_arrived_in_part_is_requested_again() {
    let mut east = about_to_take_over();
    receives(&mut east, WEST, part(5, &[state(40, 300)]), at(12));
    let actions = done(&mut east, |east, actions| {
        east.handle_copy(MOBILE, packet(40, 20), at(13), actions);
    });
    assert_eq!(delivered(&actions), [] as [u32; 0]);
    let again = done(&mut east, |east, actions| {
        east.handle_timeout(at(32), actions);
    });
    assert_eq!(wants(&again), [(40, 100)]);
    let actions = done(&mut east, |east, actions| {
        east.handle_copy(MOBILE, packet(60, 40), at(33), actions);
    });
    assert_eq!(delivered(&actions), [40, 60, 100, 200]);
}

#[test]
fn a_full_buffer_takes_nothing_from_a_mobile_that_is_here() {
    let settings = HandoffSettings {
        station: StationId(2),
        mobile_buffer_bytes_max: 3000,
        ..HandoffSettings::default()
    };
    let mut east = Handoff::new(settings, [WEST, EAST]);
    let buffering = status(4, 1, Role::Forwarding, 10_000);
    receives(&mut east, WEST, buffering, at(0));
    east.keep(MOBILE, packet(100, 1000), at(1));
    registers(&mut east, 5, at(10));
    let mut seen = Vec::new();
    for seq in [1100, 2100, 3100] {
        let copy = packet(seq, 1000);
        assert_eq!(
            east.has_room(MOBILE, core::slice::from_ref(&copy)),
            seq == 1100,
            "{seq}: {}",
            east.buffered_bytes()
        );
        let actions = done(&mut east, |east, actions| {
            east.handle_copy(MOBILE, copy, at(11), actions);
        });
        seen.extend(delivered(&actions));
    }
    assert_eq!(seen, [2100, 3100], "at once");
    let actions = receives(&mut east, WEST, part(5, &[state(100, 4100)]), at(12));
    seen.extend(delivered(&actions));
    let given = message(Body::Given(range(2100, 4100)));
    let actions = receives(&mut east, WEST, given, at(13));
    seen.extend(delivered(&actions));
    assert_eq!(seen, [2100, 3100, 100, 1100]);
    assert_eq!(east.counters().overflowed, 0);
}

#[test]
fn of_the_segments_that_the_engine_releases_the_first_are_kept() {
    let settings = HandoffSettings {
        station: StationId(1),
        mobile_buffer_bytes_max: 3000,
        ..HandoffSettings::default()
    };
    let mut west = Handoff::new(settings, [WEST, EAST]);
    registers(&mut west, 4, at(0));
    receives(&mut west, EAST, take_over(5, 2), at(10));
    for seq in [100, 1100, 2100, 3100] {
        west.keep(MOBILE, packet(seq, 1000), at(10));
    }
    let want = message(Body::Want(range(100, 4100)));
    let sent = receives(&mut west, EAST, want, at(11));
    let copies = sent.iter().filter_map(|action| match action {
        HandoffAction::SendCopy { copy, .. } => Some(copy.segment.seq.get()),
        _ => None,
    });
    assert_eq!(copies.collect::<Vec<_>>(), [100, 1100]);
    assert_eq!(west.counters().overflowed, 2);
    // Later the newest packets are of more use again.
    west.keep(MOBILE, packet(9100, 1000), at(2000));
    assert_eq!(west.counters().overflowed, 3);
}

#[test]
fn a_late_word_of_the_owner_from_before_it_was_the_owner_changes_nothing() {
    let mut west = station(1);
    registers(&mut west, 4, at(0));
    receives(&mut west, EAST, take_over(5, 2), at(10));
    for late in [Role::Buffering, Role::Idle] {
        receives(&mut west, EAST, status(4, 2, late, 0), at(11));
        let arrival = west.arrival(MH.address, at(12));
        assert_eq!(arrival.disposition, Disposition::Keep(MOBILE), "{late:?}");
        assert!(arrival.copy.is_some(), "{late:?}");
    }
}

#[test]
fn a_claim_from_before_is_not_believed_when_the_owner_has_fallen_silent() {
    let mut west = station(1);
    receives(&mut west, EAST, status(5, 2, Role::Forwarding, 0), at(0));
    done(&mut west, |west, actions| {
        west.handle_timeout(at(4000), actions);
    });
    assert_eq!(
        disposition(&west, at(4000)),
        Disposition::Deliver,
        "no station has it"
    );
    receives(&mut west, WEST, status(4, 7, Role::Forwarding, 0), at(4001));
    assert_eq!(disposition(&west, at(4002)), Disposition::Deliver);
    receives(&mut west, WEST, status(6, 7, Role::Forwarding, 0), at(4003));
    assert_eq!(disposition(&west, at(4004)), Disposition::Elsewhere);
}

#[test]
fn an_ack_of_what_was_never_sent_purges_nothing() {
    let mut east = about_to_take_over();
    done(&mut east, |east, actions| {
        east.handle_timeout(at(60), actions);
    });
    let key = FlowKey { fh: FH, mh: MH };
    for forged in [301, 1 << 30] {
        let actions = done(&mut east, |east, actions| {
            east.handle_uplink(&key, SeqNum::new(forged), actions);
        });
        assert_eq!(actions, []);
    }
    let actions = done(&mut east, |east, actions| {
        east.handle_uplink(&key, SeqNum::new(50), actions);
    });
    assert_eq!(
        delivered(&actions),
        [100, 200],
        "the MH lacks more than is kept"
    );
}

#[test]
fn buffered_acks_of_a_flow_without_a_state_are_delivered_too() {
    let mut east = station(2);
    let buffering = status(4, 1, Role::Forwarding, 10_000);
    receives(&mut east, WEST, buffering, at(0));
    for ack in [5001, 5002] {
        let mut empty = packet(300, 0);
        empty.segment.ack = SeqNum::new(ack);
        empty.segment.flags = Flags::ACK;
        east.keep(MOBILE, empty, at(1));
    }
    registers(&mut east, 5, at(10));
    let actions = done(&mut east, |east, actions| {
        east.handle_timeout(at(60), actions);
    });
    let acks = actions.iter().filter_map(|action| match action {
        HandoffAction::Deliver(packet) => Some(packet.segment.ack.get()),
        _ => None,
    });
    assert_eq!(acks.collect::<Vec<_>>(), [5002]);
    assert!(!east.wants_uplink(MH.address));
}

#[test]
fn a_full_table_forgets_a_mobile_that_is_nothing_to_it() {
    let settings = HandoffSettings {
        mobiles_max: 2,
        ..HandoffSettings::default()
    };
    let mut west: Handoff<Packet> = Handoff::new(settings, [WEST]);
    for mobile in 0..5 {
        let mut message = status(4, 1, Role::Forwarding, 0);
        message.mobile = KeyId(mobile);
        if let Body::Status(status) = &mut message.body {
            status.claim.addresses.clear();
        }
        let now = at(u64::from(mobile) * 4000);
        done(&mut west, |west, actions| {
            west.handle_timeout(now, actions);
        });
        receives(&mut west, WEST, message, now);
        assert!(west.views(now).any(|view| view.mobile == KeyId(mobile)));
        assert_eq!(west.views(now).count(), 2.min(mobile as usize + 1));
    }
    assert_eq!(west.counters().table_full, 0);
}

#[test]
fn a_station_that_has_restarted_gets_its_mobiles_back_from_its_neighbours() {
    let mut west = station(1);
    receives(&mut west, EAST, take_over(5, 2), at(0));
    for silence in [0, 4000] {
        let now = at(10 + silence);
        done(&mut west, |west, actions| {
            west.handle_timeout(now, actions);
        });
        let sent = done(&mut west, |west, actions| {
            west.handle_restart(EAST, actions);
        });
        let [HandoffAction::Send { to: EAST, message }] = &sent[..] else {
            panic!("{sent:?}");
        };
        let mut east = station(2);
        let actions = receives(&mut east, WEST, message.clone(), now);
        assert_eq!(role(&east, now), Role::Forwarding);
        assert!(actions.contains(&HandoffAction::Send {
            to: WEST,
            message: take_over(5, 2)
        }));
        // A mobile with a higher epoch is not taken back.
        registers(&mut east, 6, at(5000));
        assert_eq!(receives(&mut east, WEST, message.clone(), at(5001)), []);
        assert_eq!(east.views(at(5001)).map(|view| view.epoch).max(), Some(6));
    }
    let none = done(&mut west, |west, actions| {
        west.handle_restart(WEST, actions);
    });
    assert_eq!(none, [], "it had none");
}

#[test]
fn a_mobile_that_goes_on_before_its_state_has_come_takes_it_along() {
    // West has the mobile, then east, then a peer of both.
    let mut west = station(1);
    registers(&mut west, 4, at(0));
    receives(&mut west, EAST, take_over(5, 2), at(10));
    done(&mut west, |west, actions| {
        west.send_state(MOBILE, EAST, &[state(200, 300)], at(10), actions);
    });
    let actions = receives(&mut west, WEST, take_over(6, 3), at(12));
    let yielded = HandoffAction::Send {
        to: WEST,
        message: answer(6, Outcome::StateFollows { datagrams: 1 }),
    };
    assert!(actions.contains(&yielded), "{actions:?}");
    let state = HandoffAction::Send {
        to: WEST,
        message: part(6, &[state(200, 300)]),
    };
    assert!(actions.contains(&state), "{actions:?}");
    // East, which has no state yet, does not report the end of the transfer.
    let mut east = about_to_take_over();
    receives(&mut east, EAST, take_over(6, 3), at(12));
    let actions = done(&mut east, |east, actions| {
        east.send_state(MOBILE, EAST, &[], at(12), actions);
    });
    let not_here = HandoffAction::Send {
        to: EAST,
        message: answer(6, Outcome::NotHere),
    };
    assert_eq!(actions, [not_here]);
}

#[test]
fn a_neighbour_with_a_lower_claim_is_contradicted_unless_a_take_over_is_on_its_way_to_it() {
    for has_answered in [false, true] {
        let mut west = station(1);
        registers(&mut west, 4, at(0));
        if has_answered {
            receives(&mut west, EAST, answer(4, Outcome::NotHere), at(1));
        }
        let actions = receives(&mut west, EAST, status(3, 2, Role::Forwarding, 0), at(2));
        let contradiction = HandoffAction::Send {
            to: EAST,
            message: take_over(4, 1),
        };
        assert_eq!(actions.contains(&contradiction), has_answered);
    }
}

#[test]
fn a_request_to_buffer_is_repeated_until_the_neighbour_buffers() {
    for (role, is_repeated) in [(Role::Idle, true), (Role::Buffering, false)] {
        let mut west = station(1);
        registers(&mut west, 4, at(0));
        let soon = notice(LinkEvent::GoingDownSoon(None), 4);
        done(&mut west, |west, actions| {
            west.handle_notice(&soon, at(1), actions);
        });
        receives(&mut west, EAST, status(4, 2, role, 0), at(2));
        let actions = done(&mut west, |west, actions| {
            west.handle_timeout(at(21), actions);
        });
        let repeated = actions.iter().any(|action| match action {
            HandoffAction::Send { to, message } => {
                *to == EAST && matches!(message.body, Body::Status(_))
            }
            _ => false,
        });
        assert_eq!(repeated, is_repeated, "{role:?}");
    }
}
