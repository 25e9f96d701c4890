// SPDX-License-Identifier: Apache-2.0
//! Reads `cases.txt`: the number and window with which an ACK leaves. The tests of the rule use it, and, by
//! its path, the tests of the kernel's program in `holdfast-net`.

/// One line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    /// The line itself.
    pub(crate) text: &'static str,
    /// The MH's own ACK: number, window as in the header, and its shift.
    pub(crate) ack: u32,
    pub(crate) window: u16,
    pub(crate) scale: u8,
    /// No lower number may leave.
    pub(crate) floor: u32,
    /// The FH's segment boundaries: from, to, bytes of each segment.
    pub(crate) start: u32,
    pub(crate) end: u32,
    pub(crate) segment_bytes: u32,
    /// The ACK that leaves.
    pub(crate) ack_left: u32,
    pub(crate) window_left: u16,
}

/// All cases; some of them lower an ACK.
pub(crate) fn cases() -> Vec<Case> {
    let lines = include_str!("cases.txt").lines();
    let cases: Vec<_> = lines
        .filter(|line| !line.starts_with('#'))
        .map(case)
        .collect();
    let lowered = cases.iter().filter(|line| line.ack_left != line.ack);
    assert!(cases.len() > 150 && lowered.count() > 50);
    cases
}

fn case(text: &'static str) -> Case {
    let fields: Vec<_> = text.split_whitespace().collect();
    let ["lowered", numbers @ ..] = &fields[..] else {
        panic!("{text}");
    };
    let numbers: Vec<u32> = numbers.iter().map(|field| field.parse().unwrap()).collect();
    let [
        ack,
        window,
        scale,
        floor,
        start,
        end,
        segment_bytes,
        ack_left,
        window_left,
    ] = numbers.try_into().unwrap();
    Case {
        text,
        ack,
        window: window.try_into().unwrap(),
        scale: scale.try_into().unwrap(),
        floor,
        start,
        end,
        segment_bytes,
        ack_left,
        window_left: window_left.try_into().unwrap(),
    }
}
