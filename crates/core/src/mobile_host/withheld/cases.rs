// SPDX-License-Identifier: Apache-2.0
//! `cases.txt`, read: with which number and window an ACK leaves. Tests of the rule read it, and, by
//! its path, those of the kernel's program in `holdfast-net`.

/// One line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    /// The line itself.
    pub(crate) text: &'static str,
    /// What the MH says: number, window as it stands in the header, and by how many bits that is shifted.
    pub(crate) ack: u32,
    pub(crate) window: u16,
    pub(crate) scale: u8,
    /// The number below which nothing leaves.
    pub(crate) floor: u32,
    /// Where the FH's segments end: from, to, bytes of each.
    pub(crate) start: u32,
    pub(crate) end: u32,
    pub(crate) segment_bytes: u32,
    /// What leaves.
    pub(crate) ack_left: u32,
    pub(crate) window_left: u16,
}

/// All of them; some change something.
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
    let words: Vec<_> = text.split_whitespace().collect();
    let ["lowered", numbers @ ..] = &words[..] else {
        panic!("{text}");
    };
    let numbers: Vec<u32> = numbers.iter().map(|word| word.parse().unwrap()).collect();
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
