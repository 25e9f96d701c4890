// SPDX-License-Identifier: Apache-2.0
//! The schemes: what each does at the points where they differ.
//!
//! All schemes cache segments, detect outages and send what was cached afterwards; the engine does
//! that. A scheme decides what the FH receives meanwhile. It owns its state of a flow. Besides that it
//! sees the flow and a [`Context`].
//!
//! Each module documents its scheme. `hold` has no module: all hooks are the defaults.

use holdfast_wire::{Instant, Segment, SeqNum};

use crate::bandwidth::Share;
use crate::cache::{Insertion, SegmentCache};
use crate::counters::Counters;
use crate::flow::{AckOutcome, Flow};
use crate::key::FlowKey;
use crate::renumber::Renumber;
use crate::settings::{Scheme, Settings};
use crate::split_state::SplitState;
use crate::{Actions, Direction, Payload, Verdict};

mod context;
mod idle;
pub(crate) mod mtcp;
pub(crate) mod mtcp_2007;
pub(crate) mod mtcp_plus;
mod observe;
mod policy;
pub(crate) mod snoop;

pub(crate) use context::Context;
pub(crate) use idle::IdleScheme;
pub(crate) use mtcp::compression::Offer;
pub(crate) use policy::{
    acts_on_idle_flows, expects_changing_rates, notes_transmissions, serves_uploads,
    sets_up_connections, survives_outages,
};

use mtcp::Mtcp;
use mtcp::compression::Compression;
use mtcp_2007::Mtcp2007;
use mtcp_plus::MtcpPlus;
use snoop::Snoop;

/// What a scheme knows of one flow, and what it does at the points where schemes differ. The
/// defaults are those of `hold`.
#[expect(
    unused_variables,
    reason = "the defaults do nothing with their arguments"
)]
pub(crate) trait FlowScheme<P: Payload> {
    /// Forgets all that is known of the flow.
    fn reset(&mut self);

    /// The flow is open: both directions are known.
    fn on_adopted(&mut self, flow: &mut Flow<P>, cx: &mut Context<'_, P>) {}

    /// A report: the MH of the flow will be unreachable soon.
    fn on_going_down_soon(&mut self, flow: &mut Flow<P>, cx: &mut Context<'_, P>) {}

    /// The MH of the flow cannot be reached any more.
    fn on_disconnected(&mut self, flow: &mut Flow<P>, cx: &mut Context<'_, P>) {}

    /// The link is up again; what is cached is about to be sent.
    fn on_reconnected(&mut self, flow: &mut Flow<P>, cx: &mut Context<'_, P>) {}

    /// A report: the link of the MH is up, whether it was known to be down or not.
    fn on_link_up(&mut self, flow: &mut Flow<P>, cx: &mut Context<'_, P>) {}

    /// Data of the FH is cached, and queued in an outage.
    fn caches(&self) -> bool {
        true
    }

    /// Bytes that the cache may take of a segment of the FH.
    fn cache_room(&self, flow: &Flow<P>, segment: &Segment, settings: &Settings) -> usize {
        usize::MAX
    }

    /// A segment of the FH, which acknowledges data of the MH. True: the segment is suppressed.
    fn on_fh_ack(
        &mut self,
        flow: &mut Flow<P>,
        segment: &Segment,
        cx: &mut Context<'_, P>,
    ) -> bool {
        false
    }

    /// Data of the FH that the MH may lack is about to be forwarded.
    fn on_data(
        &mut self,
        flow: &mut Flow<P>,
        segment: &Segment,
        insertion: Insertion,
        cx: &mut Context<'_, P>,
    ) {
    }

    /// Data of the FH is in the cache, and the scheme itself sends it
    /// ([`Flow::has_own_sender`]). `is_new`: some of it was not cached before; `backlog`:
    /// something waited to be sent before it came.
    fn on_data_to_send(
        &mut self,
        flow: &mut Flow<P>,
        segment: &Segment,
        is_new: bool,
        backlog: bool,
        cx: &mut Context<'_, P>,
    ) -> Verdict {
        Verdict::Forward
    }

    /// A segment of the FH was cached and not forwarded.
    fn on_queued(&mut self, flow: &mut Flow<P>, segment: &Segment, cx: &mut Context<'_, P>) {}

    /// A segment of the FH that brings nothing new: an ACK, a probe, or data that the MH has
    /// acknowledged. In an outage or a recovery it may also be a copy of cached bytes. Then the
    /// verdict is ignored.
    fn on_nothing_new(
        &mut self,
        flow: &mut Flow<P>,
        segment: &Segment,
        cx: &mut Context<'_, P>,
    ) -> Verdict {
        Verdict::Forward
    }

    /// A segment of the FH goes to the MH as it came.
    fn on_forwarded(&mut self, segment: &Segment) {}

    /// The MH acknowledges `from..to`, which `cache` still holds.
    fn on_acked(
        &mut self,
        key: &FlowKey,
        cache: &SegmentCache<P>,
        (from, to): (SeqNum, SeqNum),
        shared: &mut Shared,
        counters: &mut Counters,
    ) {
    }

    /// A segment of the MH, after the flow has followed its ACK.
    fn on_mh_segment(
        &mut self,
        flow: &mut Flow<P>,
        segment: &Segment,
        outcome: &AckOutcome,
        cx: &mut Context<'_, P>,
    ) -> Verdict {
        Verdict::Forward
    }

    /// The verdict on a segment of the MH that shows link up. `verdict`: that of [`Self::on_mh_segment`].
    fn verdict_on_return(
        &self,
        flow: &Flow<P>,
        segment: &Segment,
        verdict: Verdict,
        settings: &Settings,
    ) -> Verdict {
        Verdict::Forward
    }

    /// Data in a segment of the MH. `room`: bytes that the cache has left for its mobile.
    fn on_mh_data(
        &mut self,
        flow: &mut Flow<P>,
        segment: &Segment,
        payload: &P,
        room: usize,
        cx: &mut Context<'_, P>,
    ) {
    }

    /// A timer of the scheme may have expired.
    fn on_timeout(&mut self, flow: &mut Flow<P>, cx: &mut Context<'_, P>) {}

    /// When a timer of the scheme expires next.
    fn next_timeout(&self, flow: &Flow<P>, settings: &Settings) -> Option<Instant> {
        None
    }

    /// Everything cached is retransmitted.
    fn on_rewind(&mut self) {}

    /// Both ends have moved on unseen; the MH has acknowledged everything before `una`.
    fn on_resynchronised(&mut self, una: SeqNum) {}

    /// The path to the MH has a smaller MTU now. For a scheme that sends from the cache itself.
    fn on_path_mtu(&mut self, flow: &mut Flow<P>, cx: &mut Context<'_, P>) {}

    /// The gateway stops: the FH receives the ACKs that are due to it.
    fn on_leave(&mut self, flow: &mut Flow<P>, actions: &mut Actions<P>) {}

    /// Another station has the mobile, and is about to be informed of the flow.
    fn on_hand_over(&mut self, flow: &mut Flow<P>, cx: &mut Context<'_, P>) {}

    /// Another station has the mobile, and the flow ends here. False: what is cached is
    /// dropped.
    fn on_release(
        &mut self,
        flow: &mut Flow<P>,
        settings: &Settings,
        counters: &mut Counters,
        actions: &mut Actions<P>,
    ) -> bool {
        true
    }

    /// What another station has to know of a split connection.
    fn split_state(&self, flow: &Flow<P>) -> Option<SplitState> {
        None
    }

    /// Another station split the connection. `has_passed`: what the MH has sent here before has
    /// reached the FH.
    fn on_take_over(
        &mut self,
        flow: &mut Flow<P>,
        state: &SplitState,
        has_passed: bool,
        cx: &mut Context<'_, P>,
    ) {
    }

    /// The highest ACK that the FH was sent. An FH without a connection resets with that number
    /// (RFC 9293, 3.10.7.1).
    fn acked_to_fh(&self, flow: &Flow<P>) -> SeqNum {
        flow.fh.una
    }

    /// The FH has every ACK that is due to it: the flow may close.
    fn has_settled(&self, flow: &Flow<P>) -> bool {
        true
    }

    /// The scheme takes the MH for unreachable, whatever is known of its link.
    fn waits_for_mh(&self) -> bool {
        false
    }

    /// One word for the status of an open flow.
    fn state(&self, flow: &Flow<P>) -> Option<&'static str> {
        None
    }

    /// When the scheme last found that the radio lost something.
    fn radio_lost_at(&self) -> Option<Instant> {
        None
    }

    /// When the scheme last found that segments sent since link up had overflowed the link's queue.
    fn overflowed_at(&self) -> Option<Instant> {
        None
    }

    /// How far the scheme itself has set up the connection, if it does.
    fn set_up_stage(&self) -> Option<SetUpStage> {
        None
    }

    /// Answers a SYN in the other end's name. False: the SYN is forwarded unchanged.
    fn begin_set_up(
        &mut self,
        flow: &mut Flow<P>,
        direction: Direction,
        segment: &Segment,
        payload: &P,
        cx: &mut Context<'_, P>,
    ) -> bool {
        false
    }

    /// A segment of a connection that the scheme sets up. `room`: bytes that the cache has left
    /// for its mobile.
    fn on_set_up_segment(
        &mut self,
        flow: &mut Flow<P>,
        direction: Direction,
        segment: &Segment,
        payload: &P,
        room: usize,
        cx: &mut Context<'_, P>,
    ) -> SetUp<P> {
        SetUp::Unrelated
    }

    /// An end of a connection that the scheme sets up may have been silent for too long. `None`: nothing
    /// changes.
    fn on_set_up_timeout(
        &mut self,
        flow: &mut Flow<P>,
        cx: &mut Context<'_, P>,
    ) -> Option<SetUp<P>> {
        None
    }

    /// Forgets a set-up. True if there was one.
    fn forget_set_up(&mut self, flow: &mut Flow<P>) -> bool {
        false
    }

    /// The compression that the MH can read may have changed.
    fn on_abilities(&mut self, flow: &Flow<P>, shared: &Shared) {}

    /// Compresses a payload. Returns the length of the result, which is then in `shared`; `None`: the
    /// payload is sent as it is.
    fn compress(
        &mut self,
        offer: &Offer<'_, P>,
        shared: &mut Shared,
        counters: &mut Counters,
        now: Instant,
    ) -> Option<usize> {
        None
    }

    /// The part of its cell that the flow's own sender may take.
    fn share_mut(&mut self) -> Option<&mut Share> {
        None
    }
}

/// `hold` has no state of its own.
#[derive(Default)]
pub(crate) struct Hold;

impl<P: Payload> FlowScheme<P> for Hold {
    fn reset(&mut self) {}
}

/// Declares the schemes, each with its state of a flow.
macro_rules! schemes {
    ($($scheme:ident($state:ty),)*) => {
        /// The scheme of one flow.
        pub(crate) enum AnyScheme<P> {
            $($scheme(Box<$state>),)*
        }

        impl<P: Payload> AnyScheme<P> {
            /// The scheme of the settings, for a flow about which nothing is known.
            pub(crate) fn new(scheme: Scheme) -> Self {
                match scheme {
                    $(Scheme::$scheme => Self::$scheme(Box::default()),)*
                }
            }

            pub(crate) fn get(&self) -> &dyn FlowScheme<P> {
                match self {
                    $(Self::$scheme(scheme) => &**scheme,)*
                }
            }

            pub(crate) fn get_mut(&mut self) -> &mut dyn FlowScheme<P> {
                match self {
                    $(Self::$scheme(scheme) => &mut **scheme,)*
                }
            }
        }
    };
}

schemes! {
    Hold(Hold),
    Auto(Snoop<P>),
    Observe(observe::Observe),
    MtcpPlus(MtcpPlus),
    Mtcp2007(Mtcp2007),
    Mtcp(Mtcp<P>),
    Snoop(Snoop<P>),
}

/// How far a scheme has set up a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetUpStage {
    /// The gateway has answered the end that opens.
    Begun,
    /// That end has confirmed the answer, and its SYN was sent to the other end.
    Confirmed,
}

/// What a segment, or a timer, means for a connection that a scheme sets up.
pub(crate) enum SetUp<P> {
    /// The segment belongs to another connection between the same ports, and is forwarded.
    Unrelated,
    /// The segment is suppressed.
    Handled,
    /// The other end is connected already: the set-up is forgotten, and the segment is handled as usual.
    Contradicted,
    /// The end that opens begins anew with this segment.
    Restarted,
    /// The set-up is over without a connection.
    Closed,
    /// Both halves are there.
    Joined(Box<Joined<P>>),
}

/// The two halves of a connection that was set up.
pub(crate) struct Joined<P> {
    pub numbers: Renumber,
    /// The FH has opened the connection.
    pub answers_fh: bool,
    /// The other end's answer, by the numbers of the MH's half.
    pub answer: Segment,
    /// What the end that opens has sent meanwhile, and the direction of that.
    pub queued_segments: Vec<(Segment, P)>,
    pub direction: Direction,
}

/// What a scheme holds for all flows together.
pub(crate) struct Shared {
    pub compression: Option<Compression>,
}

impl Shared {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            compression: settings.compression.map(Compression::new),
        }
    }

    /// Flows with a dictionary.
    pub(crate) fn dictionaries(&self) -> usize {
        self.compression
            .as_ref()
            .map_or(0, Compression::dictionaries)
    }
}
