// SPDX-License-Identifier: Apache-2.0
//! Maps `[gateway]` to the simulator's settings.

use anyhow::bail;
use holdfast_core::{LinkSource, Scheme, Settings};
use holdfast_sim::{BaseStation, GatewayPlan, Hop, LinkSignal, OnHandoff, SplitPlan, TcpSettings};
use holdfast_wire::Duration;

use super::{WIRELESS, host};
use crate::scenario::{
    Conditions, GatewayConditions, HostConditions, SchemeChoice, SignalChoice, seconds,
};

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
        restarts: restarts(conditions),
        resend_dscp: conditions.engine.resend_dscp,
        compression_time: compression_ms.map_or(Duration::ZERO, |ms| seconds(ms / 1e3)),
        ..GatewayPlan::before_last(settings, hops)
    }))
}

/// The time between two messages of a bad link: a few messages in each retransmission timeout. The
/// authors' base station sends a message for each failed attempt.
const BAD_LINK_EVERY: Duration = Duration::from_millis(100);

/// What runs at the base station instead of a gateway; none: plain forwarding.
pub(super) fn base_station(conditions: &Conditions) -> Option<BaseStation> {
    match conditions.gateway.scheme {
        SchemeChoice::Split => Some(BaseStation::Splits(Box::new(SplitPlan {
            // The FH's peer has the MH's TCP settings, but does not move.
            toward_fh: unmoved(&conditions.mh),
            toward_mh: unmoved(&conditions.gateway.split),
            restarts: restarts(&conditions.gateway),
        }))),
        SchemeChoice::Ebsn => Some(BaseStation::ReportsBadLink {
            every: BAD_LINK_EVERY,
        }),
        _ => None,
    }
}

fn restarts(conditions: &GatewayConditions) -> Vec<Duration> {
    conditions.restarts_s.iter().map(|s| seconds(*s)).collect()
}

fn unmoved(host: &HostConditions) -> TcpSettings {
    TcpSettings {
        m_tcp: false,
        on_handoff: OnHandoff::Nothing,
        ..host::tcp(host)
    }
}

/// The engine's settings; none: there is no gateway.
fn settings(conditions: &GatewayConditions) -> anyhow::Result<Option<Settings>> {
    let scheme = match conditions.scheme {
        SchemeChoice::None | SchemeChoice::Split | SchemeChoice::Ebsn => return Ok(None),
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

/// The source of the gateway's link reports.
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
        // A message "down" cannot cross the link that is down; "up" needs the link's delay.
        SignalChoice::Mobile => Some(LinkSignal {
            source: LinkSource::Signal,
            down_after: None,
            up_after: Some(delay + hops[WIRELESS].uplink_delay()),
            warned_before,
        }),
    }
}

#[cfg(test)]
mod tests {
    use holdfast_link::LinkSettings;

    use super::*;

    #[test]
    fn a_report_of_the_mobile_takes_the_delay_of_the_medium_that_it_crosses() {
        let delayed = |delay_ms: f64| {
            let settings = LinkSettings {
                delay_ms,
                ..LinkSettings::default()
            };
            settings.plan().unwrap()
        };
        let mut conditions = GatewayConditions::default();
        conditions.signal = SignalChoice::Mobile;
        conditions.signal_delay_ms = 1.0;
        for (half_duplex, ms) in [(false, 6), (true, 51)] {
            let wired = Hop::of_plans(delayed(0.0), delayed(0.0));
            let wireless = Hop {
                half_duplex,
                ..Hop::of_plans(delayed(50.0), delayed(5.0))
            };
            let report = signal(&conditions, &[wired, wireless]).unwrap();
            assert_eq!(report.up_after, Some(Duration::from_millis(ms)));
        }
    }
}
