// SPDX-License-Identifier: Apache-2.0
//! Metrics for a monitoring system: the status as text, in the formats of Prometheus and OpenMetrics.
//!
//! Names and descriptions of counters are those of their declarations ([`CountersByName`]). No label
//! names a flow or a mobile: the number of series is fixed.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use axum::Router;
use axum::extract::State;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use holdfast_core::{CounterInfo, LinkState};
use holdfast_settings::metrics::MetricsSettings;

use crate::control::{BucketStatus, ControlReply, MobileSessionStatus, OutagesStatus, StatusReply};
use crate::counters::CountersByName;
use crate::http::{DaemonStatus, HttpServer, serve_status};

/// The media types of the two formats.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Serves the metrics of the daemon with this control socket and these counters, if the settings name an
/// address.
///
/// Errors: one line; it cannot listen there.
pub(crate) fn serve(
    settings: &MetricsSettings,
    control_socket: &Path,
    counters: CountersByName,
) -> anyhow::Result<Option<HttpServer>> {
    let listen = settings.listen.as_ref();
    let routes = |status| {
        let routes = Router::new().route("/metrics", get(answer));
        routes.with_state((status, Arc::new(counters)))
    };
    serve_status(listen, "metrics.listen", control_socket, 0, routes).context("metrics")
}

async fn answer(
    State((status, counters)): State<(DaemonStatus, Arc<CountersByName>)>,
    headers: HeaderMap,
) -> Response {
    let accepted = headers.get(ACCEPT).and_then(|types| types.to_str().ok());
    let is_open_metrics = accepted.is_some_and(|types| types.contains("application/openmetrics"));
    let media_type = if is_open_metrics {
        OPEN_METRICS
    } else {
        PROMETHEUS
    };
    match status.read().await {
        Ok(reply) => {
            let page = page(&reply, &counters, is_open_metrics);
            ([(CONTENT_TYPE, media_type)], page).into_response()
        }
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error:#}\n")).into_response(),
    }
}

/// The name of the metric of a counter.
fn metric_name(name: &str, info: &CounterInfo) -> String {
    let name = name.replace(['.', '-'], "_");
    let suffix = if info.is_gauge { "" } else { "_total" };
    format!("holdfast_{name}{suffix}")
}

/// The metrics of a status.
fn page(reply: &ControlReply, described: &CountersByName, is_open_metrics: bool) -> String {
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
        if let Some(info) = described.get(name) {
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
                "Flows in the table. A closed one stays for a minute or more.",
                status.flows.tracked,
            ),
            (
                "holdfast_flows_limit",
                "The limit of the flow table.",
                status.flows.flows_max,
            ),
            (
                "holdfast_flows_in_outage",
                "Open flows of mobiles whose link is down.",
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
            ("scheme", &status.scheme),
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

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use prometheus_parse::{Scrape, Value};

    use super::*;
    use crate::control::{MobileStatus, SourceStatus};
    use crate::counters::by_name;
    use crate::gateway::counters as gateway_counters;
    use crate::mobile::counters as mobile_counters;

    fn described(reply: &ControlReply) -> CountersByName {
        match reply {
            ControlReply::Mobile(_) => of_mobile(),
            _ => of_gateway(),
        }
    }

    fn of_gateway() -> CountersByName {
        by_name(gateway_counters::groups())
    }

    fn of_mobile() -> CountersByName {
        by_name(mobile_counters::groups())
    }

    fn page(reply: &ControlReply, is_open_metrics: bool) -> String {
        super::page(reply, &described(reply), is_open_metrics)
    }

    fn buckets() -> Vec<BucketStatus> {
        [(0.1, 1), (10.0, 3)]
            .map(|(up_to_s, outages)| BucketStatus { up_to_s, outages })
            .to_vec()
    }

    fn outages() -> OutagesStatus {
        OutagesStatus {
            count: 4,
            down_s: 12.5,
            stall_saved_s: 7.25,
            lengths: buckets(),
            stalls: buckets(),
            ..OutagesStatus::default()
        }
    }

    /// Every counter of a daemon, each with another value.
    fn counted(described: CountersByName) -> BTreeMap<String, u64> {
        described.into_keys().zip(1_000..).collect()
    }

    fn gateway() -> ControlReply {
        ControlReply::Gateway(Box::new(StatusReply {
            scheme: "hold".into(),
            wireless: "a\"b\\c".into(),
            outages: outages(),
            counters: counted(of_gateway()),
            ..StatusReply::default()
        }))
    }

    fn mobile() -> ControlReply {
        ControlReply::Mobile(Box::new(MobileSessionStatus {
            link: LinkState::Up,
            sources: vec![SourceStatus {
                name: "carrier".into(),
                runs: true,
                ..SourceStatus::default()
            }],
            outages: outages(),
            counters: counted(of_mobile()),
            ..MobileSessionStatus::default()
        }))
    }

    fn parsed(reply: &ControlReply) -> Scrape {
        let lines = page(reply, false);
        Scrape::parse(lines.lines().map(|line| Ok(line.to_owned()))).expect("it parses")
    }

    fn value(scrape: &Scrape, name: &str) -> String {
        let mut samples = scrape.samples.iter().filter(|sample| sample.metric == name);
        let found = samples.next().unwrap_or_else(|| panic!("no {name}"));
        assert!(samples.next().is_none(), "{name} is there twice");
        match found.value {
            Value::Counter(value) | Value::Gauge(value) | Value::Untyped(value) => {
                value.to_string()
            }
            ref other => panic!("{name}: {other:?}"),
        }
    }

    #[test]
    fn another_parser_reads_every_counter_with_its_type_and_description() {
        for reply in [gateway(), mobile()] {
            let scrape = parsed(&reply);
            for (count, (name, info)) in (1_000..).zip(described(&reply)) {
                let metric = metric_name(&name, info);
                assert_eq!(value(&scrape, &metric), count.to_string(), "{metric}");
                assert_eq!(scrape.docs.get(&metric), Some(&info.description.to_owned()));
                let sample = scrape.samples.iter().find(|sample| sample.metric == metric);
                let is_gauge = matches!(sample.expect("just found").value, Value::Gauge(_));
                assert_eq!(is_gauge, info.is_gauge, "{metric}");
            }
        }
    }

    #[test]
    fn the_outages_are_histograms() {
        let scrape = parsed(&gateway());
        for (name, sum) in [
            ("holdfast_outage_seconds", "12.5"),
            ("holdfast_stall_saved_seconds", "7.25"),
        ] {
            assert_eq!(value(&scrape, &format!("{name}_sum")), sum);
            assert_eq!(value(&scrape, &format!("{name}_count")), "4");
            let found = scrape.samples.iter().find(|sample| sample.metric == name);
            let Some(Value::Histogram(buckets)) = found.map(|sample| &sample.value) else {
                panic!("{name} is no histogram");
            };
            let counts: Vec<_> = buckets
                .iter()
                .map(|one| (one.less_than, one.count))
                .collect();
            assert_eq!(counts, [(0.1, 1.0), (10.0, 3.0), (f64::INFINITY, 4.0)]);
        }
    }

    #[test]
    fn what_a_scheme_could_have_saved_is_another_metric_than_what_one_saved() {
        let observed = ControlReply::Gateway(Box::new(StatusReply {
            outages: OutagesStatus {
                only_observed: true,
                ..outages()
            },
            ..StatusReply::default()
        }));
        let text = page(&observed, false);
        assert!(
            text.contains("holdfast_stall_avoidable_seconds_sum 7.25"),
            "{text}"
        );
        assert!(!text.contains("stall_saved"), "{text}");
    }

    #[test]
    fn texts_of_labels_are_escaped() {
        let text = page(&gateway(), false);
        assert!(text.contains(r#"interface="a\"b\\c"}"#), "{text}");
    }

    /// No series for each mobile or flow.
    #[test]
    fn the_number_of_series_does_not_depend_on_the_number_of_mobiles() {
        let with = |count: u8| {
            let mobile = |_| MobileStatus::default();
            let status = StatusReply {
                mobiles: (0..count).map(mobile).collect(),
                ..StatusReply::default()
            };
            page(&ControlReply::Gateway(Box::new(status)), false)
                .lines()
                .count()
        };
        assert_eq!(with(0), with(200));
    }

    /// A board or a rule with a metric that does not exist shows nothing, and reports nothing.
    #[test]
    fn board_alert_rules_and_page_name_metrics_that_exist() {
        let observed = OutagesStatus {
            only_observed: true,
            ..outages()
        };
        let observing = ControlReply::Gateway(Box::new(StatusReply {
            outages: observed,
            ..StatusReply::default()
        }));
        let text: String = [gateway(), mobile(), observing]
            .iter()
            .map(|reply| page(reply, false))
            .collect();
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        let known: BTreeSet<_> = samples
            .filter_map(|line| line.split([' ', '{']).next())
            .collect();
        let files = [
            include_str!("../../../dist/grafana/holdfast.json"),
            include_str!("../../../dist/prometheus/holdfast.rules.yml"),
            include_str!("../../../docs/metrics.md"),
        ];
        for file in files {
            let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let names = file
                .split(|c| !is_part(c))
                .filter(|name| name.starts_with("holdfast_"));
            let mut found = 0;
            for name in names {
                let is_family = known.contains(format!("{name}_count").as_str());
                assert!(
                    known.contains(name) || is_family,
                    "there is no metric {name}"
                );
                found += 1;
            }
            assert!(found > 5, "few metrics were found in a file");
        }
    }

    #[test]
    fn open_metrics_has_families_without_a_suffix_and_an_end() {
        for reply in [gateway(), mobile()] {
            let text = page(&reply, true);
            assert!(text.ends_with("\n# EOF\n"));
            let mut families = BTreeSet::new();
            let mut present = String::new();
            for line in text.lines().filter(|line| *line != "# EOF") {
                if let Some(head) = line.strip_prefix("# HELP ") {
                    present = head.split(' ').next().expect("a name").to_owned();
                    assert!(families.insert(present.clone()), "{present} is there twice");
                    assert!(!present.ends_with("_total"), "{present}");
                } else if let Some(head) = line.strip_prefix("# TYPE ") {
                    assert_eq!(head.split(' ').next(), Some(present.as_str()));
                } else {
                    assert!(line.starts_with(&present), "{line} is not of {present}");
                }
            }
        }
    }
}
