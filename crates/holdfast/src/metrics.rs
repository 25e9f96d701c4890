// SPDX-License-Identifier: Apache-2.0
//! Metrics for a monitoring system: the status as text, in the formats of Prometheus and OpenMetrics.
//!
//! Names and descriptions of counters are those of their declarations ([`crate::counters`]). No label
//! names a flow or a mobile: the number of series is fixed.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context as _;
use axum::Router;
use axum::extract::State;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use holdfast_core::{CounterInfo, LinkState};
use holdfast_settings::metrics::MetricsSettings;

use crate::control::{
    BucketStatus, ControlReply, ControlRequest, MobileSessionStatus, OutagesStatus, StatusReply,
};
use crate::counters;
use crate::http::{DaemonStatus, HttpServer};

/// The media types of the two formats.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Serves the metrics of the daemon with this control socket, if the settings name an address.
///
/// Errors: one line; it cannot listen there.
pub(crate) fn serve(
    settings: &MetricsSettings,
    control_socket: &Path,
) -> anyhow::Result<Option<HttpServer>> {
    let Some(listen) = &settings.listen else {
        return Ok(None);
    };
    let request = ControlRequest::Status {
        flows_max: 0,
        outages_max: 0,
    };
    let status = DaemonStatus::new(control_socket.to_owned(), request);
    let router = Router::new().route("/metrics", get(answer));
    let server = HttpServer::start(listen, "metrics.listen", router.with_state(status));
    server.map(Some).context("metrics")
}

async fn answer(State(status): State<DaemonStatus>, headers: HeaderMap) -> Response {
    let accepted = headers.get(ACCEPT).and_then(|types| types.to_str().ok());
    let is_open_metrics = accepted.is_some_and(|types| types.contains("application/openmetrics"));
    let media_type = if is_open_metrics {
        OPEN_METRICS
    } else {
        PROMETHEUS
    };
    match status.read().await {
        Ok(reply) => ([(CONTENT_TYPE, media_type)], page(&reply, is_open_metrics)).into_response(),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error:#}\n")).into_response(),
    }
}

/// The name of the metric of a counter.
pub(crate) fn metric_name(name: &str, info: &CounterInfo) -> String {
    let name = name.replace(['.', '-'], "_");
    let suffix = if info.is_gauge { "" } else { "_total" };
    format!("holdfast_{name}{suffix}")
}

/// The metrics of a status.
fn page(reply: &ControlReply, is_open_metrics: bool) -> String {
    let mut page = Page {
        text: String::new(),
        is_open_metrics,
    };
    let (outages, counters) = match reply {
        ControlReply::Gateway(status) => {
            page.write_gateway(status);
            (&status.outages, &status.counters)
        }
        ControlReply::Mobile(status) => {
            page.write_mobile(status);
            (&status.outages, &status.counters)
        }
        ControlReply::Done | ControlReply::Error { .. } => return page.text,
    };
    page.write_outages(outages);
    for (name, value) in counters {
        if let Some(info) = counters::of_name(name) {
            page.write_counter(&metric_name(name, info), info, *value);
        }
    }
    if is_open_metrics {
        page.text.push_str("# EOF\n");
    }
    page.text
}

struct Page {
    text: String,
    is_open_metrics: bool,
}

/// Writing into a String cannot fail.
macro_rules! line {
    ($page:expr, $($arg:tt)*) => {{
        let _ = writeln!($page.text, $($arg)*);
    }};
}

impl Page {
    fn write_head(&mut self, name: &str, kind: &str, description: &str) {
        let description = escaped(description);
        line!(self, "# HELP {name} {description}");
        line!(self, "# TYPE {name} {kind}");
    }

    fn write_counter(&mut self, name: &str, info: &CounterInfo, value: u64) {
        let kind = if info.is_gauge { "gauge" } else { "counter" };
        // In OpenMetrics the family of a counter lacks the suffix of its sample.
        let family = match name.strip_suffix("_total") {
            Some(family) if self.is_open_metrics => family,
            _ => name,
        };
        self.write_head(family, kind, info.description);
        line!(self, "{name} {value}");
    }

    fn write_gauges(&mut self, gauges: &[(&str, &str, u64)]) {
        for (name, description, value) in gauges {
            self.write_head(name, "gauge", description);
            line!(self, "{name} {value}");
        }
    }

    fn write_info(&mut self, labels: &[(&str, &str)]) {
        let name = "holdfast_info";
        self.write_head(name, "gauge", "The daemon; the value is 1.");
        let labels = labels.iter();
        let labels: Vec<_> = labels
            .map(|(label, value)| format!("{label}=\"{}\"", escaped(value)))
            .collect();
        line!(self, "{name}{{{}}} 1", labels.join(","));
    }

    fn write_gateway(&mut self, status: &StatusReply) {
        self.write_info(&[
            ("daemon", "gateway"),
            ("version", &status.version),
            ("scheme", &status.scheme),
            ("interface", &status.wireless),
        ]);
        let mobiles = status.mobiles.iter();
        let down = mobiles.filter(|mobile| mobile.link == LinkState::Down);
        self.write_gauges(&[
            (
                "holdfast_attached",
                "1 while packets reach the daemon.",
                status.attached.into(),
            ),
            (
                "holdfast_flows",
                "Flows in the table.",
                status.flows.tracked,
            ),
            (
                "holdfast_flows_limit",
                "The limit of the flow table.",
                status.flows.flows_max,
            ),
            (
                "holdfast_flows_in_outage",
                "Flows of mobiles whose link is down.",
                status.flows.in_outage,
            ),
            (
                "holdfast_cache_bytes",
                "Payload in the cache.",
                status.cache.bytes,
            ),
            (
                "holdfast_cache_limit_bytes",
                "The limit of the cache.",
                status.cache.bytes_max,
            ),
            (
                "holdfast_owed_bytes",
                "Payload acknowledged to FHs and not yet by MHs.",
                status.cache.owed_bytes,
            ),
            (
                "holdfast_mobiles",
                "Mobiles with flows.",
                status.mobiles_total,
            ),
            (
                "holdfast_mobiles_down",
                "Mobiles whose link is down, up to a thousand.",
                down.count() as u64,
            ),
        ]);
    }

    fn write_mobile(&mut self, status: &MobileSessionStatus) {
        self.write_info(&[
            ("daemon", "mobile"),
            ("version", &status.version),
            ("scheme", status.scheme.as_deref().unwrap_or("none")),
            ("interface", &status.interface),
        ]);
        let is_up = matches!(status.link, LinkState::Up | LinkState::GoingDownSoon);
        self.write_gauges(&[
            ("holdfast_link_up", "1 while the link is up.", is_up.into()),
            (
                "holdfast_gateway_acknowledged",
                "1 if the gateway has acknowledged the newest signal.",
                status.acknowledged.into(),
            ),
        ]);
        let name = "holdfast_link_source_runs";
        self.write_head(name, "gauge", "1 while the link source runs.");
        for source in &status.sources {
            let (label, runs) = (escaped(&source.name), u8::from(source.runs));
            line!(self, "{name}{{source=\"{label}\"}} {runs}");
        }
    }

    fn write_outages(&mut self, outages: &OutagesStatus) {
        let (count, down) = (outages.count, outages.down_s);
        let length = "Length of the outages that have ended.";
        self.write_histogram(
            "holdfast_outage_seconds",
            length,
            &outages.lengths,
            (count, down),
        );
        // What was saved and what could have been saved never add up.
        let (name, stall) = if outages.only_observed {
            (
                "holdfast_stall_avoidable_seconds",
                "Estimated stall that a scheme would have saved, for each outage.",
            )
        } else {
            (
                "holdfast_stall_saved_seconds",
                "Estimated stall that was saved, for each outage.",
            )
        };
        self.write_histogram(name, stall, &outages.stalls, (count, outages.stall_saved_s));
    }

    fn write_histogram(
        &mut self,
        name: &str,
        description: &str,
        buckets: &[BucketStatus],
        (count, sum): (u64, f64),
    ) {
        self.write_head(name, "histogram", description);
        for BucketStatus { up_to_s, outages } in buckets {
            line!(self, "{name}_bucket{{le=\"{up_to_s:?}\"}} {outages}");
        }
        line!(self, "{name}_bucket{{le=\"+Inf\"}} {count}");
        line!(self, "{name}_sum {sum}");
        line!(self, "{name}_count {count}");
    }
}

/// A text as descriptions and values of labels have it.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\\\");
    text.replace('"', "\\\"").replace('\n', "\\n")
}
