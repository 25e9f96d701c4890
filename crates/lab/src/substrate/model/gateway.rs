// SPDX-License-Identifier: Apache-2.0
//! `[gateway]` as the simulator has it.

use anyhow::bail;
use holdfast_core::{LinkSource, Scheme, Settings};
use holdfast_sim::{GatewayPlan, Hop, LinkSignal};

use super::WIRELESS;
use crate::scenario::{GatewayConditions, SchemeChoice, SignalChoice, seconds};

/// The gateway; none: there is none.
pub(super) fn plan(
    conditions: &GatewayConditions,
    hops: &[Hop],
) -> anyhow::Result<Option<GatewayPlan>> {
    let Some(settings) = settings(conditions)? else {
        return Ok(None);
    };
    let compression_ms = conditions.compression_ms;
    Ok(Some(GatewayPlan {
        before_hop: WIRELESS,
        signal: signal(conditions, hops),
        resend_dscp: conditions.engine.resend_dscp,
        compression_time: compression_ms
            .map_or(holdfast_wire::Duration::ZERO, |ms| seconds(ms / 1e3)),
        ..GatewayPlan::before_last(settings, hops)
    }))
}

/// The engine's settings; none: there is no gateway.
fn settings(conditions: &GatewayConditions) -> anyhow::Result<Option<Settings>> {
    let scheme = match conditions.scheme {
        SchemeChoice::None => return Ok(None),
        SchemeChoice::Hold => Scheme::Hold,
        SchemeChoice::Auto => Scheme::Auto,
        SchemeChoice::MtcpPlus => Scheme::MtcpPlus,
        SchemeChoice::Mtcp => Scheme::Mtcp,
        SchemeChoice::Mtcp2007 => Scheme::Mtcp2007,
        SchemeChoice::Snoop => Scheme::Snoop,
        scheme @ (SchemeChoice::Keep | SchemeChoice::Haproxy) => {
            bail!("{} does not run on the model", scheme.name())
        }
    };
    Ok(Some(Settings {
        scheme,
        ..conditions.engine.clone()
    }))
}

/// The source of its link reports.
fn signal(conditions: &GatewayConditions, hops: &[Hop]) -> Option<LinkSignal> {
    let delay = seconds(conditions.signal_delay_ms / 1e3);
    let warned_before = (conditions.warning_ms > 0.0).then(|| seconds(conditions.warning_ms / 1e3));
    match conditions.signal {
        SignalChoice::None => None,
        SignalChoice::Carrier | SignalChoice::Both => Some(LinkSignal {
            source: LinkSource::Carrier,
            down_after: Some(delay),
            up_after: Some(delay),
            warned_before,
        }),
        // "Down" cannot cross a link that is down; "up" takes the link's own delay.
        SignalChoice::Mobile => Some(LinkSignal {
            source: LinkSource::Signal,
            down_after: None,
            up_after: Some(delay + hops[WIRELESS].uplink.delay),
            warned_before,
        }),
    }
}
