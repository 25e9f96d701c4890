// SPDX-License-Identifier: Apache-2.0
//! `holdfast lab` for one's own questions: from a new scenario to what is made of its results.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const HOLDFAST: &str = env!("CARGO_BIN_EXE_holdfast");

/// Six short runs.
const SCENARIO: &str = r#"
repetitions = 3
record = ["cwnd", "sequence", "queue", "link-state"]
[transfer]
bytes = 100_000
[wireless]
rate_mbit_per_s = 5
delay_ms = 20
loss = 0.01
outages = { kind = "list", list = [{ at_s = 0.1, for_s = 0.5 }] }
[[sweep]]
name = "scheme"
key = "gateway.scheme"
values = ["none", "hold"]
"#;

fn lab(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(HOLDFAST)
        .arg("lab")
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap()
}

/// The standard output of a command that succeeds.
fn done(folder: &Path, arguments: &[&str]) -> String {
    let output = lab(folder, arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// The one line of error of a command that fails.
fn refused(folder: &Path, arguments: &[&str]) -> String {
    let output = lab(folder, arguments);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{arguments:?}");
    assert_eq!(error.lines().count(), 1, "{error}");
    error
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("s.toml"), SCENARIO).unwrap();
    folder
}

#[test]
fn exported_results_have_every_parameter_of_each_run() {
    let folder = folder();
    let folder = folder.path();
    done(folder, &["run", "s.toml", "--out", "r.jsonl"]);
    done(folder, &["export", "r.jsonl", "--out", "r.csv"]);
    let text = fs::read_to_string(folder.join("r.csv")).unwrap();
    let mut rows = text.lines();
    let names = rows.next().unwrap();
    for name in ["scenario", "seed", "parameters.scheme", "goodput_mbps"] {
        assert!(names.split(',').any(|other| other == name), "{names}");
    }
    assert!(names.contains(",conditions.gateway.scheme,"), "{names}");
    // What the scenario leaves at its default too.
    assert!(names.contains(",conditions.transfer.limit_s,"), "{names}");
    // No column behind it has a comma.
    let mut behind = names.rsplit(',');
    let rate = behind.position(|name| name == "conditions.wireless.rate_mbit_per_s");
    let rate = rate.expect(names);
    assert!(!names.contains("series"), "{names}");
    let rows: Vec<&str> = rows.collect();
    assert_eq!(rows.len(), 6);
    let mut rates = rows.iter().map(|row| row.rsplit(',').nth(rate));
    assert!(rates.all(|cell| cell == Some("5")), "{text}");
    // A file of the same kind is replaced, any other one is not.
    done(folder, &["export", "r.jsonl", "--out", "r.csv"]);
    done(folder, &["export", "r.jsonl", "--out", "r.parquet"]);
    let octets = fs::read(folder.join("r.parquet")).unwrap();
    assert!(octets.starts_with(b"PAR1") && octets.ends_with(b"PAR1"));
    fs::write(folder.join("mine.csv"), "a,b\n").unwrap();
    let error = refused(folder, &["export", "r.jsonl", "--out", "mine.csv"]);
    assert!(
        error.contains("mine.csv") && error.contains("remove it"),
        "{error}"
    );
    let error = refused(folder, &["export", "r.jsonl", "--out", "r.xls"]);
    assert!(error.contains("ends in .csv or .parquet"), "{error}");
    let error = refused(folder, &["export", "s.toml", "--out", "s.csv"]);
    assert!(error.contains("s.toml, line 1: no result"), "{error}");
}

#[test]
fn a_setting_that_the_substrate_would_ignore_is_refused_in_one_line() {
    let folder = folder();
    let folder = folder.path();
    let hosts = "[hosts]\nsysctls = { \"net.ipv4.tcp_frto\" = \"0\" }\n[[sweep]]";
    fs::write(folder.join("s.toml"), SCENARIO.replace("[[sweep]]", hosts)).unwrap();
    let error = refused(folder, &["run", "s.toml"]);
    let key = "s.toml: hosts.sysctls.net.ipv4.tcp_frto: got 0, which the model would ignore";
    assert!(error.contains(key), "{error}");
    assert!(
        error.contains("; set hosts.preset beside it, or run it on live or linux"),
        "{error}"
    );
    let hosts = "[hosts]\npreset = \"reno43bsd\"\n[[sweep]]";
    fs::write(folder.join("s.toml"), SCENARIO.replace("[[sweep]]", hosts)).unwrap();
    let error = refused(folder, &["run", "s.toml", "--substrate", "live"]);
    assert!(
        error.contains("s.toml: hosts.preset: got reno43bsd, which linux"),
        "{error}"
    );
    assert!(
        error.contains("; set hosts.congestion_control beside it, or run it"),
        "{error}"
    );
}

#[test]
fn a_resumed_command_keeps_whole_lines_and_repeats_what_is_missing() {
    let folder = folder();
    let folder = folder.path();
    let path = folder.join("r.jsonl");
    done(folder, &["run", "s.toml", "--out", "r.jsonl"]);
    let whole = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    assert_eq!(lines.len(), 6);
    let resume = |text: &str| {
        fs::write(&path, text).unwrap();
        let output = lab(folder, &["run", "s.toml", "--out", "r.jsonl", "--resume"]);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), whole, "{error}");
        error
    };
    // The last line is torn.
    let torn = format!("{}\n{}\n{}", lines[0], lines[1], &lines[2][..100]);
    let error = resume(&torn);
    assert!(error.contains("line 3 is not complete"), "{error}");
    assert!(error.contains("r.jsonl has 2 of 6 runs"), "{error}");
    // Nothing is missing, nothing is there.
    assert!(resume(&whole).contains("has 6 of 6 runs"));
    assert!(resume("").contains("has 0 of 6 runs"));
    fs::remove_file(&path).unwrap();
    done(folder, &["run", "s.toml", "--out", "r.jsonl", "--resume"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), whole);
    // Shards that overlap, one without its end, in any order.
    for shard in ["1/2", "2/2"] {
        let part = format!("{}.jsonl", &shard[..1]);
        done(folder, &["run", "s.toml", "--shard", shard, "--out", &part]);
    }
    let [one, two] =
        ["1.jsonl", "2.jsonl"].map(|part| fs::read_to_string(folder.join(part)).unwrap());
    let error = resume(&format!("{two}{one}{}", &two[..two.len() - 30]));
    assert!(error.contains("has 6 of 6 runs"), "{error}");
    assert!(error.contains("results are there twice"), "{error}");
}

#[test]
fn results_of_another_scenario_or_of_other_settings_are_not_resumed() {
    let folder = folder();
    let folder = folder.path();
    done(folder, &["run", "s.toml", "--out", "r.jsonl"]);
    let text = fs::read_to_string(folder.join("r.jsonl")).unwrap();
    fs::write(
        folder.join("s.toml"),
        SCENARIO.replace("delay_ms = 20", "delay_ms = 25"),
    )
    .unwrap();
    let resumed = ["run", "s.toml", "--out", "r.jsonl", "--resume"];
    let error = refused(folder, &resumed);
    assert!(
        error.contains("r.jsonl, line 1: wireless.delay_ms was 20, and is 25 now"),
        "{error}"
    );
    fs::write(folder.join("s.toml"), SCENARIO).unwrap();
    fs::write(folder.join("t.toml"), SCENARIO).unwrap();
    let error = refused(folder, &["run", "t.toml", "--out", "r.jsonl", "--resume"]);
    assert!(error.contains("line 1: no run of this command"), "{error}");
    let error = refused(
        folder,
        &[
            "run", "s.toml", "--seed", "9", "--out", "r.jsonl", "--resume",
        ],
    );
    assert!(error.contains("no run of this command"), "{error}");
    assert_eq!(fs::read_to_string(folder.join("r.jsonl")).unwrap(), text);
    let error = refused(folder, &["run", "s.toml", "--out", "-", "--resume"]);
    assert!(error.contains("--resume: got --out -"), "{error}");
}

#[test]
fn a_new_scenario_runs_as_it_is_and_is_never_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    assert_eq!(done(folder, &["new"]), "scenario.toml\n");
    let scenario = fs::read_to_string(folder.join("scenario.toml")).unwrap();
    let table = done(
        folder,
        &["run", "scenario.toml", "--shard", "1/9", "--out", "r.jsonl"],
    );
    assert!(table.contains("scheme=none delay_ms=10"), "{table}");
    let error = refused(folder, &["new"]);
    assert!(
        error.contains("scenario.toml is there and is not overwritten"),
        "{error}"
    );
    assert_eq!(
        fs::read_to_string(folder.join("scenario.toml")).unwrap(),
        scenario
    );
    // A packet of 1500 bytes each 2 ms, and a gap of a second.
    let times = (1..=2000)
        .map(|n| n * 2)
        .filter(|ms| !(1000..2000).contains(ms));
    let trace: Vec<String> = times.map(|ms| ms.to_string()).collect();
    fs::write(folder.join("train.down"), trace.join("\n")).unwrap();
    assert_eq!(
        done(folder, &["new", "--trace", "train.down"]),
        "train.toml\n"
    );
    done(folder, &["run", "train.toml", "--out", "train.jsonl"]);
    let text = fs::read_to_string(folder.join("train.jsonl")).unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 3);
    for line in &lines {
        assert_eq!(line["finished"], true, "{line}");
        assert_eq!(line["outages"], 1, "{line}");
        let conditions = &line["conditions"];
        assert_eq!(conditions["wireless.rate_trace"], "train.down");
        let of_uplink = conditions.get("wireless.uplink.rate_trace");
        assert_eq!(of_uplink, Some(&Value::Null));
    }
    let error = refused(
        folder,
        &["new", "--trace", "scenario.toml", "--out", "t.toml"],
    );
    assert!(
        error.contains("scenario.toml: ") && error.contains("Mahimahi"),
        "{error}"
    );
    assert!(!folder.join("t.toml").exists());
}

#[test]
fn results_are_drawn_as_a_sweep_a_distribution_and_time_series() {
    let folder = folder();
    let folder = folder.path();
    done(folder, &["run", "s.toml", "--out", "r.jsonl"]);
    let draw = |arguments: &[&str]| {
        let arguments = [&["plot", "r.jsonl", "--out", "r.svg"], arguments].concat();
        done(folder, &arguments);
        fs::read_to_string(folder.join("r.svg")).unwrap()
    };
    for (arguments, texts) in [
        (
            &["--over", "scheme"][..],
            &["goodput_mbps", "scheme", "hold", "medians"][..],
        ),
        (
            &["--kind", "cdf", "--measure", "stalls_s"],
            &["stalls_s", "share of values", "scheme hold"],
        ),
        (
            &["--kind", "series"],
            &[
                "received (MB)",
                "cwnd (kB)",
                "queue (packets)",
                "grey: link down",
            ],
        ),
    ] {
        let svg = draw(arguments);
        assert!(svg.starts_with("<svg"), "{svg}");
        for text in texts {
            assert!(svg.contains(text), "{arguments:?} {text}: {svg}");
        }
    }
    let one = draw(&["--kind", "series", "--where", "scheme=hold"]);
    assert!(!one.contains("scheme none"), "{one}");
    let error = refused(
        folder,
        &["plot", "r.jsonl", "--out", "r.svg", "--measure", "speed"],
    );
    assert!(
        error.contains("--measure: got speed, takes one of"),
        "{error}"
    );
    let error = refused(folder, &["plot", "r.jsonl", "--out", "r.png"]);
    assert!(error.contains("ends in .svg"), "{error}");
}

#[test]
fn a_value_that_looks_like_a_number_selects_runs_and_a_wrong_parameter_is_named() {
    let folder = folder();
    let folder = folder.path();
    let points = "points = [{ name = \"none\", set = {} }, { name = \"1995\", set = { \"gateway.scheme\" = \"snoop\" } }]";
    let text = SCENARIO.replace("key = \"gateway.scheme\"\n", "");
    let text = text.replace("values = [\"none\", \"hold\"]", points);
    let text = format!(
        "{text}[[sweep]]\nname = \"delay_ms\"\nkey = \"wireless.delay_ms\"\nvalues = [10, 20]\n"
    );
    fs::write(folder.join("s.toml"), text).unwrap();
    done(folder, &["run", "s.toml", "--out", "r.jsonl"]);
    let plot = ["plot", "r.jsonl", "--out", "r.svg", "--where"];
    let plot = |selection: &'static str| [&plot[..], &[selection]].concat();
    for selection in ["scheme=1995", "scheme=none", "delay_ms=10", "delay_ms=10.0"] {
        done(folder, &plot(selection));
    }
    let error = refused(folder, &plot("schem=1995"));
    let expected = "holdfast: --where: got schem, takes one of delay_ms, scheme\n";
    assert_eq!(error, expected);
    let error = refused(folder, &plot("delay_ms=30"));
    assert!(
        error.contains("--where: got delay_ms=30, takes one of 10, 20"),
        "{error}"
    );
}

#[test]
fn earlier_results_stay_until_the_first_new_one() {
    let folder = folder();
    let folder = folder.path();
    done(folder, &["run", "s.toml", "--out", "r.jsonl"]);
    let earlier = fs::read_to_string(folder.join("r.jsonl")).unwrap();
    // There is no virtual kernel in this cache.
    let output = Command::new(HOLDFAST)
        .args([
            "lab",
            "run",
            "s.toml",
            "--substrate",
            "linux",
            "--out",
            "r.jsonl",
        ])
        .env("XDG_CACHE_HOME", folder.join("cache"))
        .current_dir(folder)
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && error.contains("lab setup"),
        "{error}"
    );
    let now = || fs::read_to_string(folder.join("r.jsonl")).unwrap();
    assert_eq!(now(), earlier);
    done(
        folder,
        &["run", "s.toml", "--seed", "7", "--out", "r.jsonl"],
    );
    assert_eq!(now().lines().count(), 6);
    assert_ne!(now(), earlier);
    // A part without runs has no results.
    done(
        folder,
        &["run", "s.toml", "--shard", "9/9", "--out", "r.jsonl"],
    );
    assert_eq!(now(), "");
}

#[test]
fn a_list_has_each_variant_once() {
    let folder = folder();
    let list = done(folder.path(), &["list", ".", "--json"]);
    let list: Value = serde_json::from_str(&list).unwrap();
    assert_eq!(list[0]["runs"], 6);
    let variants = serde_json::json!(["scheme=none", "scheme=hold"]);
    assert_eq!(list[0]["variants"], variants);
}

#[test]
fn the_scenarios_and_claims_in_the_program_need_no_files() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let listed = done(folder, &["list"]);
    assert!(listed.contains("mtcp-plus-2007/undisturbed"), "{listed}");
    assert!(done(folder, &["list", "scenarios"]).contains("scenarios/wake-flows"));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let own = fs::read_to_string(root.join("papers/mtcp-1997/long.toml")).unwrap();
    assert_eq!(done(folder, &["show", "mtcp-1997/long"]), own);
    let claims = done(folder, &["show", "papers/mtcp-1997/claims.toml"]);
    assert!(claims.contains("[[figure]]"), "{claims}");
    let run = [
        "run",
        "mtcp-plus-2007/undisturbed",
        "--shard",
        "1/40",
        "--out",
        "-",
    ];
    assert!(done(folder, &run).contains("\"scenario\":\"mtcp-plus-2007/undisturbed\""));
    // One of its senders is Linux's alone: by name it is refused, beside others too, as a file is.
    for name in ["lc-cwe-2005/today", "papers/lc-cwe-2005/today.toml"] {
        let error = refused(folder, &["run", "mtcp-plus-2007/undisturbed", name]);
        let begin = "holdfast: papers/lc-cwe-2005/today.toml: mh.congestion_control: got ";
        assert!(error.starts_with(begin), "{error}");
    }
    // Copies are files, and are never overwritten.
    let copied = done(folder, &["copy", "mtcp-1997/long", "mine"]);
    assert_eq!(copied, "mine/papers/mtcp-1997/long.toml\n");
    assert_eq!(fs::read_to_string(folder.join(copied.trim())).unwrap(), own);
    fs::write(
        folder.join(copied.trim()),
        own.replace("[transfer]", "# mine\n[transfer]"),
    )
    .unwrap();
    let error = refused(folder, &["copy", "mtcp-1997", "mine"]);
    assert!(
        error.contains("long.toml: is there and is not overwritten"),
        "{error}"
    );
    assert!(!folder.join("mine/papers/mtcp-1997/claims.toml").exists());
    let error = refused(folder, &["show", "mtcp-1997/lon"]);
    assert!(
        error.contains("takes a name from `holdfast lab list`"),
        "{error}"
    );
    let error = refused(folder, &["copy", "mine", "yours"]);
    assert!(error.contains("mine: is not in the program"), "{error}");
}
