// SPDX-License-Identifier: Apache-2.0
use super::*;
use holdfast_net::frame::FRAME_BYTES_MAX;

mod contained;

/// The pool's state if the frame that only passes is kept all the same.
#[test]
fn a_pool_without_a_buffer_has_another_error_than_a_frame_that_is_none() {
    let mut pool = BufferPool::new(1);
    let mut held = Vec::new();
    let failure = loop {
        assert!(held.len() < 1000, "the pool has no end");
        match pool.read(|buffer| Ok(buffer.len().min(FRAME_BYTES_MAX))) {
            Ok(frame) => held.push(frame),
            Err(error) => break error.kind(),
        }
    };
    assert_eq!(failure, io::ErrorKind::OutOfMemory);
    held.pop();
    assert!(pool.read(|buffer| Ok(buffer.len())).is_ok());
    let short = pool.read(|_| Ok(1)).expect_err("less than a header");
    assert_eq!(short.kind(), io::ErrorKind::InvalidData);
}

/// What a test lets the worker fall over.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PlantedDefect {
    /// A segment to or from this port.
    pub(super) port: Option<u16>,
    /// The next deadlines, up to a count.
    pub(super) deadlines: u32,
}

impl PlantedDefect {
    pub(super) fn meet(self, segment: &holdfast_wire::Segment) {
        let ports = [segment.from.port, segment.to.port];
        assert!(
            !self.port.is_some_and(|port| ports.contains(&port)),
            "a planted defect"
        );
    }

    pub(super) fn meet_deadline(&mut self) {
        if self.deadlines > 0 {
            self.deadlines -= 1;
            panic!("a planted defect of a deadline");
        }
    }
}
