// SPDX-License-Identifier: Apache-2.0
use std::path::Path;

use crate::claims::Paper;
use crate::framing::Framing;
use crate::report::{page, runs};
use crate::results::ResultLine;
use crate::scenario::{Run, Scenario};

const FIXTURE: &str = "src/report/fixture/rates";

fn paper() -> Paper {
    Paper::load(Path::new(FIXTURE)).unwrap()
}

/// Two runs for each point, `apart` from each other. `goodput` is given for a run's parameters.
fn lines(
    file: &str,
    substrate: &str,
    apart: f64,
    goodput: impl Fn(&str, u64) -> f64,
) -> Vec<ResultLine> {
    let scenario = Scenario::load(&Path::new(FIXTURE).join(file)).unwrap();
    let line = |run: &Run| {
        let mut line = ResultLine::of(run, substrate, "reno".into(), Framing::new(1460, false));
        let scheme = line.parameters["scheme"].as_str().unwrap();
        let kbit = line.parameters["kbit_per_error"].as_u64().unwrap();
        let off = if line.seed == 1 { -apart } else { apart };
        line.goodput_mbps = goodput(scheme, kbit) + off / 2.0;
        line.intact = true;
        line.finished = kbit == 256;
        line
    };
    scenario.runs(None).unwrap().iter().map(line).collect()
}

fn own() -> Vec<ResultLine> {
    lines("rates.toml", "model", 0.1, |scheme, kbit| {
        match (scheme, kbit) {
            ("snoop", 64) => 0.8,
            ("plain", 64) => 0.2,
            _ => 1.8,
        }
    })
}

/// At 256 the sender alone is much faster than Snoop of 1995; at 64 the intervals overlap.
fn today() -> Vec<ResultLine> {
    let goodput = |scheme: &str, kbit| match (scheme, kbit) {
        ("none", 64) => 0.5,
        ("snoop-1995", 64) => 0.51,
        ("snoop-today", 64) => 0.1,
        ("snoop-1995", _) => 1.5,
        _ => 1.9,
    };
    lines("today-rates.toml", "linux", 0.01, goodput)
}

/// A page's text without tags.
fn page_text(lines: &[ResultLine]) -> String {
    text_of(&page(&paper(), lines, "x").unwrap())
}

fn text_of(page: &str) -> String {
    let body = &page[page.find("<body>").unwrap()..];
    let mut page_text = String::new();
    for part in body.split('<') {
        let text = part.split_once('>').map_or(part, |(_, text)| text);
        if !text.trim().is_empty() {
            page_text.push_str(text);
            page_text.push('|');
        }
    }
    page_text
}

#[test]
fn a_figures_table_has_means_with_deviations_and_their_shares_of_the_most() {
    let page_text = page_text(&own());
    // Without loss: 2 Mb/s less 40 bytes of 1,500. With a loss of one half: half of that. The
    // deviation of two values that are 0.1 apart is 0.07.
    assert!(
        page_text.contains("|64|50.0%|0.97|printed 1.25|0.80 ± 0.07|2 of 2 not finished|82%|0.20 ± 0.07|2 of 2 not finished|21%|4.0|"),
        "{page_text}"
    );
    assert!(
        page_text.contains("|256|0.0%|1.95|1.80 ± 0.07|92%|1.80 ± 0.07|92%|1.0|"),
        "{page_text}"
    );
    assert!(
        page_text.contains("means of 2 runs that differ in seed; bars are standard deviations")
    );
    assert!(page_text.contains("the most that the link can carry"));
    assert!(!page_text.contains("with today's senders|"));
}

#[test]
fn a_sender_alone_is_better_only_where_the_intervals_are_apart() {
    let page_text = page_text(&[own(), today()].concat());
    // Compared with Snoop and the same sender, and with the paper's 1.8 ± 0.64 and 0.8 ± 0.64.
    assert!(
        page_text.contains("|64|not distinguished|0.50 for 0.51|not distinguished|0.50 for 0.80|"),
        "{page_text}"
    );
    assert!(
        page_text.contains("|256|better|1.90 for 1.50|not distinguished|1.90 for 1.80|"),
        "{page_text}"
    );
}

#[test]
fn each_set_of_parameters_of_a_scheme_is_judged_in_a_column_of_its_own() {
    let page_text = page_text(&[own(), today()].concat());
    assert!(
        page_text.contains("|cubic, snoop-1995|cubic, snoop-today|"),
        "{page_text}"
    );
    // 1.5 / 1.9 and 0.51 / 0.5; 0.1 / 0.5 and 1.9 / 1.9.
    assert!(
        page_text.contains("|snoop against plain: 1.00 to 20.00 times|0.79 to 1.02 times (1.50 for 1.90, 0.51 for 0.50) |✗"),
        "{page_text}"
    );
    assert!(
        page_text.contains("|0.20 to 1.00 times (1.90 for 1.90, 0.10 for 0.50) |✗"),
        "{page_text}"
    );
    assert!(
        page_text.contains("snoop: the sender with the gateway's scheme snoop-1995"),
        "{page_text}"
    );
}

#[test]
fn what_todays_senders_record_is_not_run_on_the_model() {
    let runs = runs(&paper()).unwrap();
    assert!(runs.iter().all(|run| run.scenario == "rates/rates"));
    assert_eq!(runs.len(), 8);
}

/// Two runs for each point, 2 s apart: 10 and 20 s at 5 hops, and 1000 s at 15 hops, which the
/// figure leaves out. One run with TCP at 3.5 s did not finish.
fn times() -> (Paper, Vec<ResultLine>) {
    let paper = Paper::load(Path::new("src/report/fixture/times")).unwrap();
    let lines = runs(&paper).unwrap().into_iter().map(|run| {
        let run = run.drawn().unwrap();
        let mut line = ResultLine::of(&run, "model", "reno".into(), Framing::new(1460, false));
        let is = |name: &str, value: serde_json::Value| line.parameters[name] == value;
        let base = match (is("hops", 15.into()), is("scheme", "tcp".into())) {
            (true, _) => 1000.0,
            (_, true) => 20.0,
            _ => 10.0,
        };
        let late = is("scheme", "tcp".into()) && is("disconnection_s", 3.5.into()) && run.seed == 2;
        line.transfer_s = (!late).then_some(base + (run.seed * 2) as f64);
        line.finished = !late;
        line
    });
    let lines = lines.collect();
    (paper, lines)
}

#[test]
fn a_figure_of_times_has_intervals_the_optimum_and_its_own_runs_alone() {
    let (paper, lines) = times();
    let page = page(&paper, &lines, "x").unwrap();
    let page_text = text_of(&page);
    // The interval of two values that are 2 apart is 12.706. The optimum: 69 headers of 40 bytes
    // and 100,000 bytes at 0.8 Mb/s.
    assert!(
        page_text.contains("|0.5|13.0 ± 12.7|23.0 ± 12.7|1.0|0.6|"),
        "{page_text}"
    );
    assert!(
        page_text.contains("|3.5|13.0 ± 12.7|22.0|1 of 2 not finished|1.0|0.6|"),
        "{page_text}"
    );
    assert!(page_text.contains("bars are 95% confidence intervals"));
    assert!(page_text.contains("optimum: the link busy whenever it is up"));
    assert!(!page_text.contains("1003"), "{page_text}");
}

/// 0.5 to 1.5 is half of 1.5 to 3.5.
#[test]
fn a_linear_axis_is_in_proportion() {
    let (paper, lines) = times();
    let page = page(&paper, &lines, "x").unwrap();
    // The first curve, through its three means.
    let curve = page
        .split("<polyline")
        .find(|part| part.contains("stroke=\"#0072B2\" stroke-width=\"4\""))
        .unwrap();
    let points = curve.split("points=\"").nth(1).unwrap();
    let points = points.split('"').next().unwrap().trim();
    let x: Vec<f64> = points
        .split(' ')
        .map(|pair| pair.split(',').next().unwrap().parse().unwrap())
        .collect();
    assert_eq!(x.len(), 3);
    let ratio = (x[2] - x[1]) / (x[1] - x[0]);
    assert!((ratio - 2.0).abs() < 0.01, "{x:?}");
}
