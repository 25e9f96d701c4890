// SPDX-License-Identifier: Apache-2.0
//! `holdfast lab` as a user runs it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use holdfast_lab::claims::Paper;
use holdfast_lab::results::ResultLine;
use holdfast_lab::scenario::Run;
use holdfast_net::virtual_kernel::goes_on_here;

const HOLDFAST: &str = env!("CARGO_BIN_EXE_holdfast");

const SCENARIO: &str = r#"
description = "one outage of a second"
record = ["cwnd", "sequence", "queue", "link-state"]
[transfer]
bytes = 2_000_000
limit_s = 30
[wired]
rate_mbit_per_s = 100
delay_ms = 2
[wireless]
rate_mbit_per_s = 20
delay_ms = 10
queue_packets_max = 100
outages = { kind = "list", list = [{ at_s = 0.4, for_s = 1 }] }
[hosts]
delayed_ack = false
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

fn folder_with(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.toml");
    fs::write(&path, text).unwrap();
    (folder, path)
}

fn lines(output: &Output) -> Vec<ResultLine> {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn list_counts_the_runs_of_each_scenario() {
    let (folder, _) = folder_with(SCENARIO);
    let output = lab(folder.path(), &["list", "--json", "."]);
    let entries: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(entries[0]["runs"], 2);
    assert_eq!(entries[0]["variants"][1], "scheme=hold");
    assert_eq!(entries[0]["description"], "one outage of a second");
}

#[test]
fn a_scenario_with_a_wrong_key_is_refused_in_one_line_with_status_64() {
    let (folder, _) = folder_with(&SCENARIO.replace("delay_ms = 10", "delay = 10"));
    let output = lab(folder.path(), &["run", "s.toml"]);
    assert_eq!(output.status.code(), Some(64));
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "holdfast: s.toml: key `wireless.delay`: got 10; there is no such key; did you mean `wireless.delay_ms`?\n"
    );
}

#[test]
fn a_scenario_with_hosts_that_the_substrate_lacks_is_skipped_in_a_folder_and_refused_by_name() {
    let (folder, _) = folder_with(SCENARIO);
    let today = "[hosts]\ncongestion_control = \"vegas\"\n";
    fs::write(
        folder.path().join("t.toml"),
        SCENARIO.replacen("[hosts]\n", today, 1),
    )
    .unwrap();
    let list = lab(folder.path(), &["list", "--json", "."]);
    let entries: serde_json::Value = serde_json::from_slice(&list.stdout).unwrap();
    assert_eq!(
        entries[1]["runs_on"],
        serde_json::json!({"linux": 2, "live": 2, "model": 0})
    );
    let why = "fh.congestion_control: got vegas, the model takes reno, cubic and bbr; \
               set fh.preset, or run it on live or linux\n";
    let all = lab(folder.path(), &["run", ".", "--out", "-"]);
    let stderr = String::from_utf8(all.stderr.clone()).unwrap();
    let line = stderr
        .lines()
        .find(|line| line.starts_with("left out"))
        .unwrap();
    let name = |entry: &serde_json::Value| entry["name"].as_str().unwrap().to_owned();
    let expected = format!("left out: 2 runs of {}: {why}", name(&entries[1]));
    assert_eq!(format!("{line}\n"), expected);
    let ran = lines(&all);
    assert_eq!(ran.len(), 2);
    assert!(ran.iter().all(|line| line.scenario == name(&entries[0])));
    let named = lab(folder.path(), &["run", "t.toml"]);
    assert!(!named.status.success());
    assert_eq!(
        String::from_utf8(named.stderr).unwrap(),
        format!("holdfast: t.toml: {why}")
    );
}

#[test]
fn the_model_gives_the_same_bytes_for_any_jobs_and_shards() {
    let (folder, _) = folder_with(SCENARIO);
    let run = |more: &[&str]| {
        let output = lab(
            folder.path(),
            &[&["run", "s.toml", "--out", "-"], more].concat(),
        );
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    let whole = run(&["--jobs", "1"]);
    assert_eq!(run(&["--jobs", "2"]), whole);
    assert_eq!(run(&["--shard", "1/2"]) + &run(&["--shard", "2/2"]), whole);
    assert_eq!(whole.lines().count(), 2);
}

#[test]
fn the_model_writes_packets_that_begin_with_the_mhs_syn() {
    let (folder, _) = folder_with(SCENARIO);
    let output = lab(
        folder.path(),
        &["run", "s.toml", "--shard", "2/2", "--pcap", "packets"],
    );
    assert!(output.status.success());
    let files: Vec<_> = fs::read_dir(folder.path().join("packets"))
        .unwrap()
        .collect();
    assert_eq!(files.len(), 4, "one for each device");
    let paths = files.iter().map(|file| file.as_ref().unwrap().path());
    let mut at_mh = paths.filter(|path| path.to_string_lossy().ends_with("-at-mh.pcapng"));
    let bytes = fs::read(at_mh.next().unwrap()).unwrap();
    // The section header of pcapng.
    assert_eq!(&bytes[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
    assert!(bytes.len() > 100_000, "{}", bytes.len());
}

/// The papers' folder of this repository.
fn papers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../papers")
}

#[test]
fn the_undisturbed_table_of_mtcp_plus_has_the_printed_figures() {
    let arguments = ["run", "mtcp-plus-2007/undisturbed.toml", "--out", "-"];
    let lines = lines(&lab(&papers(), &arguments));
    assert_eq!(lines.len(), 8);
    for line in &lines {
        let printed = if line.parameters["delayed_ack"] == "on" {
            261.0
        } else {
            287.4
        };
        let off = line.transfer_s.unwrap() - printed;
        assert!(line.intact && off.abs() < 0.5, "{}: {off}", line.variant);
    }
}

#[test]
fn a_claim_has_an_entry_with_a_verdict_and_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let paper = folder.path().join("papers/p");
    fs::create_dir_all(&paper).unwrap();
    fs::write(paper.join("s.toml"), SCENARIO).unwrap();
    let claims = r#"
        title = "t"
        [tolerance]
        transfer_s = { percent = 50 }
        [[table]]
        id = "times"
        metric = "transfer_s"
        scenario = "s.toml"
        variants = "scheme"
        column = "scheme"
        columns = ["none", "hold", "other"]
        row = [{ where = {}, printed = [2.3, 1.9, 100] }]
    "#;
    fs::write(paper.join("claims.toml"), claims).unwrap();
    let output = lab(folder.path(), &["claims", "--paper", "p", "--json"]);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let entries: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let value = |index: usize, key: &str| entries[index][key].clone();
    assert_eq!(value(0, "id"), "times//scheme=none");
    assert_eq!(
        (value(0, "printed"), value(0, "verdict")),
        (2.3.into(), "holds".into())
    );
    assert!(value(0, "model").as_f64().unwrap() > 1.0);
    assert_eq!(value(2, "verdict"), "not comparable");
    assert_eq!(
        (value(3, "id"), value(3, "verdict")),
        ("times/order/".into(), "not comparable".into())
    );
    assert_eq!(value(3, "model"), "hold < none");
}

#[test]
fn every_scenario_of_a_paper_is_valid_and_every_claim_has_runs() {
    for paper in Paper::find(&papers()).unwrap() {
        let runs = paper.runs(true).unwrap();
        assert!(!runs.is_empty());
        for table in &paper.claims.table {
            for row in &table.row {
                for column in &table.columns {
                    let has = |run: &&Run| {
                        let parameter = |key: &String| run.parameters.get(key);
                        parameter(&table.column) == Some(column)
                            && row
                                .selection
                                .iter()
                                .all(|(key, value)| parameter(key) == Some(value))
                    };
                    assert!(
                        runs.iter().any(|run| has(&run)),
                        "{}: no run of {:?} {column}",
                        table.id,
                        row.selection
                    );
                }
            }
        }
    }
}

#[test]
fn linux_runs_the_same_scenario_in_a_virtual_kernel() {
    let test = "linux_runs_the_same_scenario_in_a_virtual_kernel";
    if holdfast_lab::virtual_kernel::available_or_skip(test).is_none() {
        return;
    }
    let (folder, _) = folder_with(SCENARIO);
    let arguments = [
        "run",
        "s.toml",
        "--substrate",
        "linux",
        "--out",
        "-",
        "--pcap",
        "packets",
    ];
    let linux = lines(&lab(folder.path(), &arguments));
    assert_eq!(linux.len(), 2);
    for line in &linux {
        assert_eq!(line.substrate, "linux");
        assert!(line.finished && line.intact, "{line:?}");
        assert!(line.transfer_s >= line.optimal_s, "{line:?}");
        assert_eq!((line.outages, line.stalls_s.len()), (1, 1), "{line:?}");
    }
    assert!(linux[1].stalls_s[0].unwrap() < 0.2, "{:?}", linux[1]);
    assert!(linux[1].transfer_s < linux[0].transfer_s);
    let packets = fs::read_dir(folder.path().join("packets")).unwrap().count();
    // One for each device of each run.
    assert_eq!(packets, 2 * 4);
}

/// Twenty uploads by `auto` at the mobile, with an outage of 3 s: each goes on soon after it.
fn twenty_uploads_go_on_soon(test: &str, outage_at_s: f64, signal: &str) {
    if holdfast_lab::virtual_kernel::available_or_skip(test).is_none() {
        return;
    }
    let scenario = format!(
        "description = \"twenty uploads\"\nseed = 1\n\
        transfer = {{ bytes = 2_000_000_000, limit_s = 10, flows = 20, direction = \"uplink\" }}\n\
        hosts.congestion_control = \"cubic\"\n\
        wired = {{ rate_mbit_per_s = 100, delay_ms = 1 }}\n\
        mobile = {{ scheme = \"auto\", signal = \"{signal}\" }}\n\
        [wireless]\nrate_mbit_per_s = 20\ndelay_ms = 24\nqueue_packets_max = 200\n\
        outages = {{ kind = \"list\", list = [{{ at_s = {outage_at_s}, for_s = 3 }}] }}\n"
    );
    let (folder, _) = folder_with(&scenario);
    let arguments = ["run", "s.toml", "--substrate", "linux", "--out", "-"];
    let line = &lines(&lab(folder.path(), &arguments))[0];
    assert!(line.intact, "{line:?}");
    assert_eq!(line.flow_stalls_s.len(), 20);
    for stall in &line.flow_stalls_s {
        // Without a report a flow waits for the answer to its probe; the queue is 0.12 s long.
        assert!(stall[0].is_some_and(|stall_s| stall_s < 0.5), "{stall:?}");
    }
}

/// The server has received more than its last ACK that came through, and the sockets retransmit in the
/// silence too. No flow waits for its socket's timer after that.
#[test]
fn each_of_twenty_uploads_goes_on_soon_after_an_outage_without_a_report() {
    let test = "each_of_twenty_uploads_goes_on_soon_after_an_outage_without_a_report";
    twenty_uploads_go_on_soon(test, 4.3, "none");
}

/// The server's SYN has come, and no ACK of data yet.
#[test]
fn each_of_twenty_uploads_goes_on_soon_after_an_outage_that_takes_its_first_data() {
    let test = "each_of_twenty_uploads_goes_on_soon_after_an_outage_that_takes_its_first_data";
    twenty_uploads_go_on_soon(test, 0.09, "carrier");
}

#[test]
fn live_runs_the_same_scenario_in_namespaces() {
    if !goes_on_here() {
        return;
    }
    let (folder, _) = folder_with(SCENARIO);
    let run = |substrate| {
        let arguments = [
            "run",
            "s.toml",
            "--substrate",
            substrate,
            "--out",
            "-",
            "--pcap",
            "packets",
        ];
        lines(&lab(folder.path(), &arguments))
    };
    let model = run("model");
    let live = run("live");
    assert_same_scenario(&model, &live);
    // The carrier shows link up, and the gateway retransmits from its cache.
    let [(all_without, _), (all, stall)] =
        [0, 1].map(|run| (live[run].transfer_s, live[run].stalls_s[0]));
    let is_shorter = all < all_without && stall.unwrap() < 0.2;
    assert!(is_shorter, "{stall:?}, {all:?} of {all_without:?} s");
    let packets = fs::read_dir(folder.path().join("packets")).unwrap().count();
    // One file for each of four devices, for each run, on each substrate.
    assert_eq!(packets, 2 * 4 + 2 * 4);
}

/// Compares runs of one scenario on the model and on real hosts.
fn assert_same_scenario(model: &[ResultLine], live: &[ResultLine]) {
    assert_eq!(live.len(), 2);
    for (model, live) in model.iter().zip(live) {
        assert_eq!(
            (live.substrate.as_str(), model.substrate.as_str()),
            ("live", "model")
        );
        assert_eq!((&live.variant, live.seed), (&model.variant, model.seed));
        assert!(live.finished && live.intact, "{live:?}");
        assert!((live.optimal_s.unwrap() - model.optimal_s.unwrap()).abs() < 1e-9);
        assert!(live.transfer_s >= live.optimal_s, "{live:?}");
        assert_eq!((live.outages, live.stalls_s.len()), (1, 1), "{live:?}");
        assert!(live.kernel.is_some() && model.kernel.is_none());
        assert!(
            live.sysctls
                .iter()
                .any(|(name, value)| name == "fh: route" && value == "quickack 1")
        );
        let series = live.series.as_ref().unwrap();
        assert!(
            series.t_s.len() > 3 && series.cwnd.iter().any(|&bytes| bytes > 0),
            "{series:?}"
        );
        assert!(series.link_up.contains(&false) && series.link_up.contains(&true));
        let points = series.t_s.len();
        assert_eq!(
            (series.queue_packets.len(), series.link_up.len()),
            (points, points)
        );
        let longest = series.queue_packets.iter().max().unwrap();
        assert!((10..=100).contains(longest), "{longest} packets");
    }
}

#[test]
fn an_uplink_on_live_is_whole_and_its_stall_is_the_fhs() {
    if !goes_on_here() {
        return;
    }
    let text = SCENARIO.replacen(
        "limit_s = 30",
        "limit_s = 30\ndirection = \"uplink\"\nstart_s = 0.1",
        1,
    );
    // On the uplink the sender is the MH.
    let text = text.replacen(
        "[[sweep]]",
        "[mh]\ncongestion_control = \"cubic\"\nmss = 1000\n[[sweep]]",
        1,
    );
    let (folder, _) = folder_with(&text);
    let arguments = ["run", "s.toml", "--substrate", "live", "--out", "-"];
    for line in lines(&lab(folder.path(), &arguments)) {
        assert!(
            line.finished && line.intact && line.bytes == 2_000_000,
            "{line:?}"
        );
        assert_eq!((line.sender.as_str(), line.outages), ("cubic", 1));
        // 1000 bytes less 12 of timestamps.
        assert!(
            (2_000_000 / 988..2_600).contains(&line.segments),
            "{line:?}"
        );
        assert!(line.retransmitted_segments > 0, "{line:?}");
        assert!(line.transfer_s >= line.optimal_s, "{line:?}");
        // At least a round trip: nothing is in flight at link up.
        let stall_s = line.stalls_s[0].unwrap();
        assert!((0.01..5.0).contains(&stall_s), "{line:?}");
        let series = line.series.unwrap();
        assert!(series.t_s[0] >= 0.1 && series.t_s[0] < 0.5, "{series:?}");
        assert!(series.cwnd.iter().all(|&bytes| bytes >= 988), "{series:?}");
        assert!(*series.snd_nxt.last().unwrap() <= 2_000_000);
        let pairs = series.rcv_nxt.iter().zip(&series.snd_nxt);
        assert!(
            pairs.clone().all(|(received, sent)| received <= sent),
            "{series:?}"
        );
        let points = series.t_s.len();
        assert_eq!(
            (series.queue_packets.len(), series.link_up.len()),
            (points, points)
        );
    }
}

#[test]
fn a_transfer_that_is_not_in_time_is_reported_with_the_bytes_received() {
    if !goes_on_here() {
        return;
    }
    let text = SCENARIO.replacen("limit_s = 30", "limit_s = 0.5\nrequest_bytes = 300", 1);
    let (folder, _) = folder_with(&text);
    let arguments = [
        "run",
        "s.toml",
        "--substrate",
        "live",
        "--shard",
        "1/2",
        "--out",
        "-",
    ];
    let line = lines(&lab(folder.path(), &arguments)).remove(0);
    assert!(
        !line.finished && line.intact && line.transfer_s.is_none(),
        "{line:?}"
    );
    assert_eq!(line.ending, "not in time");
    assert_eq!(line.stalls_s, [None]);
    // Half a second of 20 Mbit/s less slow start.
    let bytes = line.bytes;
    assert!((100_000..2_000_000).contains(&bytes), "{bytes} bytes");
}

#[test]
fn the_link_keeps_packets_in_an_outage_although_the_mhs_device_has_no_carrier() {
    if !goes_on_here() {
        return;
    }
    let sweep = SCENARIO.find("[[sweep]]").unwrap();
    // Many packets are in flight at link down, and no queue overflows.
    let text = SCENARIO[..sweep]
        .replacen("delay_ms = 2\n", "delay_ms = 20\n", 1)
        .replacen(
            "= 100\noutages",
            "= 5000\noutage_effect = \"keep\"\noutages",
            1,
        );
    let (folder, _) = folder_with(&format!("{text}[mobile]\nscheme = \"wake\"\n"));
    let arguments = ["run", "s.toml", "--substrate", "live", "--out", "-"];
    let line = lines(&lab(folder.path(), &arguments)).remove(0);
    assert!(line.finished && line.intact, "{line:?}");
    // The sender's timer retransmits only its first segment. If the gateway's device lost its carrier,
    // all packets in the outage would be lost.
    let retransmitted = line.retransmitted_segments;
    assert!(retransmitted <= 10, "{retransmitted} segments");
}

#[test]
fn a_table_compares_the_results_of_several_files() {
    let (folder, _) = folder_with(SCENARIO);
    let ran = lab(folder.path(), &["run", "s.toml", "--out", "s.jsonl"]);
    assert!(ran.status.success());
    // A run that is in both files counts once.
    let output = lab(folder.path(), &["table", "s.jsonl", "s.jsonl"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<&str> = text.lines().collect();
    assert!(
        rows[0].starts_with("| none ") && rows[0].contains("| hold "),
        "{text}"
    );
    assert_eq!(rows[2].matches(" s, ").count(), 2, "{text}");
    assert!(
        text.contains("2 runs of ") && text.contains("/s on model, commit "),
        "{text}"
    );
    let output = lab(folder.path(), &["table", "s.jsonl", "--across", "sender"]);
    assert_eq!(
        String::from_utf8(output.stderr).unwrap().trim(),
        "holdfast: no parameter sender; there are: scheme"
    );
    let output = lab(folder.path(), &["table", "s.toml"]);
    assert!(!output.status.success() && output.stdout.is_empty());
}

/// A shell's exit status for a program that SIGPIPE ended.
const CLOSED: i32 = 141;

#[test]
fn a_closed_output_ends_the_command_without_a_message() {
    let (folder, _) = folder_with(SCENARIO);
    for arguments in [
        &["list", "."][..],
        &["list", "--json", "."],
        &["run", "s.toml"],
        &["run", "s.toml", "--out", "-"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = Command::new(HOLDFAST)
            .arg("lab")
            .args(arguments)
            .current_dir(folder.path())
            .stdout(writer)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
            .wait_with_output()
            .unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            (output.status.code(), stderr.as_str()),
            (Some(CLOSED), ""),
            "{arguments:?}"
        );
    }
}

#[test]
fn a_full_disk_leaves_whole_lines() {
    let (folder, _) = folder_with(SCENARIO);
    let path = folder.path().join("lines");
    let run = ["run", "s.toml", "--jobs", "1", "--out", "lines"];
    assert!(lab(folder.path(), &run).status.success());
    let whole = fs::read_to_string(&path).unwrap();
    let first = whole.split_inclusive('\n').next().unwrap();
    // The file's limit, in blocks of 512 bytes, is within the second line.
    let blocks = first.len() / 512 + 1;
    assert!(blocks * 512 < whole.len());
    let limited = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
    let output = Command::new("dash")
        .args(["-c", &limited, env!("CARGO_BIN_EXE_holdfast"), "lab"])
        .args(run)
        .current_dir(folder.path())
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains("--out: cannot write to lines: File too large"),
        "{stderr}"
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), first);
}

#[test]
fn a_file_that_another_run_writes_to_is_refused() {
    let (folder, _) = folder_with(SCENARIO);
    let path = folder.path().join("lines");
    fs::write(&path, "the other's\n").unwrap();
    let held = fs::File::open(&path).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let output = lab(folder.path(), &["run", "s.toml", "--out", "lines"]);
    assert!(!output.status.success());
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "holdfast: --out: another run writes to lines; give each run a file of its own\n"
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), "the other's\n");
}

#[test]
fn a_shard_without_runs_gets_a_message() {
    let (folder, _) = folder_with(SCENARIO);
    let output = lab(folder.path(), &["run", "s.toml", "--shard", "3/3"]);
    assert!(output.status.success());
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "--shard 3/3: none of the 2 runs is in that part\n"
    );
}

/// The run would take hours.
#[test]
fn a_run_on_the_model_is_interrupted_by_sigterm() {
    let endless = SCENARIO.replace("2_000_000", "1_000_000_000_000");
    let (folder, _) = folder_with(&endless.replace("limit_s = 30", "limit_s = 90_000"));
    let mut child = Command::new(HOLDFAST)
        .args(["lab", "run", "s.toml", "--out", "lines"])
        .current_dir(folder.path())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let began = Instant::now();
    // The file exists once the signals are handled.
    while !folder.path().join("lines").exists() {
        assert!(began.elapsed() < Duration::from_secs(30));
        thread::sleep(Duration::from_millis(5));
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let limit = Duration::from_secs(60);
    let ended = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break Some(status);
        }
        if began.elapsed() > limit {
            child.kill().unwrap();
            child.wait().unwrap();
            break None;
        }
        thread::sleep(Duration::from_millis(5));
    };
    assert_eq!(ended.expect("the run ignored SIGTERM").code(), Some(130));
    assert_eq!(fs::read_to_string(folder.path().join("lines")).unwrap(), "");
}
