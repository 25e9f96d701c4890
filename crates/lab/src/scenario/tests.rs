// SPDX-License-Identifier: Apache-2.0
use super::*;
use holdfast_link::OutageSettings;
use holdfast_settings::snoop::SnoopSet;

const BASE: &str = r#"
    description = "for tests"
    [transfer]
    bytes = 1000000
    [wireless]
    rate_mbit_per_s = 20
    delay_ms = 25
"#;

fn scenario(more: &str) -> Scenario {
    Scenario::parse(Path::new("papers/p/s.toml"), &format!("{BASE}{more}")).unwrap()
}

fn error(more: &str) -> String {
    scenario(more).runs(None).unwrap_err().to_string()
}

/// All runs, with drawn outages.
fn drawn(scenario: &Scenario, seed: Option<u64>) -> Vec<Run> {
    let runs = scenario.runs(seed).unwrap();
    runs.iter().map(|run| run.drawn().unwrap()).collect()
}

fn error_of(text: &str) -> String {
    let scenario = Scenario::parse(Path::new("s.toml"), text).unwrap();
    scenario.runs(None).unwrap_err().to_string()
}

#[test]
fn a_scenario_without_sweeps_is_one_run() {
    let scenario = scenario("");
    let runs = drawn(&scenario, None);
    assert_eq!((scenario.name.as_str(), runs.len()), ("p/s", 1));
    assert_eq!((runs[0].seed, runs[0].variant.as_str()), (1, ""));
    assert_eq!(
        runs[0].conditions.wireless.plans().unwrap()[0]
            .delay
            .as_millis(),
        25
    );
}

#[test]
fn sweeps_multiply_the_last_one_fastest_and_repetitions_outermost() {
    let scenario = scenario(
        r#"
        [[sweep]]
        name = "scheme"
        key = "gateway.scheme"
        values = ["none", "hold"]
        [[sweep]]
        name = "outage"
        points = [
            { name = "short", set = { "wireless.outages" = { kind = "list", list = [{ at_s = 1, for_s = 1 }] }, repetitions = 2 } },
            { name = "long", set = { "wireless.outages" = { kind = "list", list = [{ at_s = 1, for_s = 9 }] }, repetitions = 1 } },
        ]
        "#,
    );
    let runs = drawn(&scenario, Some(7));
    let shown: Vec<_> = runs
        .iter()
        .map(|run| (run.variant.as_str(), run.seed))
        .collect();
    assert_eq!(
        shown,
        [
            ("scheme=none outage=short", 7),
            ("scheme=none outage=long", 7),
            ("scheme=hold outage=short", 7),
            ("scheme=hold outage=long", 7),
            ("scheme=none outage=short", 8),
            ("scheme=hold outage=short", 8),
        ]
    );
    assert_eq!(runs[2].conditions.gateway.scheme, SchemeChoice::Hold);
    assert!((runs[3].conditions.wireless.outages()[0].for_s - 9.0).abs() < 1e-9);
}

#[test]
fn directions_have_what_is_common_and_what_is_their_own() {
    let runs = scenario("uplink = { rate_mbit_per_s = 5 }\nloss = 0.1")
        .runs(None)
        .unwrap();
    let hop = &runs[0].conditions.wireless;
    assert_eq!(hop.downlink.rate_mbit_per_s, Some(20.0));
    assert_eq!(hop.uplink.rate_mbit_per_s, Some(5.0));
    assert!((hop.uplink.loss - 0.1).abs() < 1e-9);
}

#[test]
fn a_setting_of_the_uplink_that_a_half_duplex_hop_ignores_is_refused() {
    let own_rate = "uplink = { rate_mbit_per_s = 5 }";
    let line = error(&format!("half_duplex = true\n{own_rate}"));
    assert!(
        line.contains(
            "s.toml: key `wireless.uplink.rate_mbit_per_s`: got 5; half_duplex would ignore it"
        ) && line.ends_with("remove it, or half_duplex"),
        "{line}"
    );
    assert!(!line.contains('\n'), "{line}");
    // The downlink's own value, and a value that the hop has for both directions.
    for keys in [
        "half_duplex = true\nuplink = { rate_mbit_per_s = 20 }",
        "half_duplex = true\ndownlink = { rate_mbit_per_s = 5 }",
    ] {
        assert!(scenario(keys).runs(None).is_ok(), "{keys}");
    }
}

#[test]
fn headers_are_compressed_on_no_hop_that_changes_the_order_or_cannot_read_them() {
    let compressed = "header_compression = true";
    for keys in [
        "jitter = { kind = \"uniform\", max_ms = 5, reorder = true }",
        "uplink = { priority_dscp_min = 46 }",
    ] {
        let line = error(&format!("{compressed}\n{keys}"));
        let problem = "key `wireless.header_compression`: got true; takes false on a link that";
        assert!(line.contains(problem) && !line.contains('\n'), "{line}");
        assert!(scenario(keys).runs(None).is_ok());
    }
    let text = "[transfer]\nbytes = 1\nencrypted = true\n[wireless]\nheader_compression = true";
    let line = error_of(text);
    assert!(
        line.contains("key `transfer.encrypted`: got true; takes false"),
        "{line}"
    );
}

#[test]
fn arq_on_a_half_duplex_hop_is_refused_with_its_key() {
    let arq = "arq = { retransmit_after_ms = 10 }";
    for keys in [arq, &format!("uplink = {{ {arq} }}")] {
        let half = format!("half_duplex = true\n{keys}");
        let error = scenario(&half).runs(None).unwrap_err().to_string();
        assert!(
            error.contains("`wireless.arq`: ") && error.contains("leave one"),
            "{error}"
        );
        assert!(!error.contains('\n'), "{error}");
        assert!(scenario(keys).runs(None).is_ok());
    }
}

#[test]
fn hosts_have_what_is_common_and_what_is_their_own() {
    let text =
        format!("{BASE}[hosts]\nsack = false\nmss = 1000\n[mh]\nmss = 500\ndelayed_ack = false");
    let scenario = Scenario::parse(Path::new("s.toml"), &text).unwrap();
    let conditions = &scenario.runs(None).unwrap()[0].conditions;
    assert_eq!(
        (conditions.fh.mss, conditions.fh.sack),
        (Some(1000), Some(false))
    );
    assert_eq!(
        (conditions.mh.mss, conditions.mh.sack),
        (Some(500), Some(false))
    );
    assert_eq!(
        conditions.mh.linux_route_options(),
        ["advmss", "500", "quickack", "1"]
    );
    assert_eq!(
        conditions.fh.linux_sysctls(),
        [("net.ipv4.tcp_sack".to_owned(), "0".to_owned())]
    );
}

#[test]
fn outages_depend_on_the_seed_alone_and_end_with_the_run() {
    let text = r#"
        outages = { kind = "exponential", up_mean_s = 10, down_mean_s = 1 }
        [[sweep]]
        name = "scheme"
        key = "gateway.scheme"
        values = ["none", "hold"]
    "#;
    let runs = drawn(&scenario(text), Some(3));
    let outages = |run: &Run| run.conditions.wireless.outages().to_vec();
    assert!(outages(&runs[0]).len() > 20);
    assert_eq!(outages(&runs[0]), outages(&runs[1]));
    assert_ne!(
        outages(&runs[0]),
        outages(&drawn(&scenario(text), Some(4))[0])
    );
    assert!(outages(&runs[0]).iter().all(|outage| outage.at_s < 600.0));
    assert_eq!(
        runs[0].conditions.wireless.downlink.outages,
        runs[0].conditions.wireless.uplink.outages
    );
}

#[test]
fn a_direction_may_have_outages_of_its_own() {
    let runs = scenario(
        "uplink = { outages = { kind = \"periodic\", first_at_s = 1, every_s = 9, for_s = 1 } }",
    )
    .runs(None)
    .unwrap();
    let hop = &runs[0].conditions.wireless;
    assert_eq!(hop.downlink.outages, OutageSettings::None);
    assert!(!hop.outages_shared && hop.outages().is_empty());
}

#[test]
fn an_unknown_key_is_refused_wherever_it_stands() {
    let file = "papers/p/s.toml: key";
    assert_eq!(
        error("dely_ms = 3"),
        format!(
            "{file} `wireless.dely_ms`: got 3; there is no such key; did you mean `wireless.delay_ms`?"
        )
    );
    assert_eq!(
        error("half_dublex = true"),
        format!(
            "{file} `wireless.half_dublex`: got true; there is no such key; did you mean `wireless.half_duplex`?"
        )
    );
    assert_eq!(
        error("uplink = { rat_mbit_per_s = 5 }"),
        format!(
            "{file} `wireless.uplink.rat_mbit_per_s`: got 5; there is no such key; did you mean `wireless.uplink.rate_mbit_per_s`?"
        )
    );
    assert_eq!(
        error("[gateway]\nshceme = \"hold\""),
        format!(
            "{file} `gateway.shceme`: got \"hold\"; there is no such key; did you mean `gateway.scheme`?"
        )
    );
    assert_eq!(
        error("[gatway]\nscheme = \"hold\""),
        format!(
            "{file} `gatway`: got {{ scheme = \"hold\" }}; there is no such key; did you mean `gateway`?"
        )
    );
    assert_eq!(
        error("[mh]\nsak = true"),
        format!("{file} `mh.sak`: got true; there is no such key; did you mean `mh.sack`?")
    );
    assert!(
        error("[[sweep]]\nname = \"x\"\nkey = \"gateway.shceme\"\nvalues = [\"hold\"]")
            .contains("did you mean `gateway.scheme`?")
    );
    assert!(error("[[sweep]]\nname = \"x\"\nkei = \"a\"").contains("did you mean `sweep.0.key`?"));
}

#[test]
fn a_value_that_cannot_be_is_refused_by_name() {
    let file = "papers/p/s.toml: key";
    assert_eq!(
        error("loss = 2"),
        format!("{file} `wireless.loss`: got 2, takes 0 to 1 (a probability)")
    );
    assert_eq!(
        error("[gateway]\nscheme = \"mtcp_plus\""),
        format!(
            "{file} `gateway.scheme`: got `mtcp_plus`, takes one of none, hold, auto, mtcp-plus, mtcp, mtcp-2007, snoop, keep, haproxy, split, ebsn; did you mean `mtcp-plus`?"
        )
    );
    assert!(
        error("[[cross_traffic]]\nover = \"wireless\"\nrate_mbit_per_s = 0").starts_with(&format!(
            "{file} `cross_traffic.0.rate_mbit_per_s`: got 0, takes"
        ))
    );
    assert_eq!(
        error("[[sweep]]\nname = \"x\"\nkey = \"gateway.scheme\""),
        format!("{file} `sweep.0.values`: takes at least one value")
    );
    assert!(error("[[sweep]]\nname = \"x\"\nvalues = [1]").contains("`sweep.0.key`"));
    assert!(error("[[sweep]]\nname = \"x\"").contains("`sweep.0.points`"));
    assert!(error("rate_trace = \"none.mm\"").contains("`wireless.rate_trace`"));
    assert_eq!(
        error_of("[wireless]"),
        "s.toml: key `transfer`: missing; give it a value"
    );
    assert!(
        error_of("[transfer]\nbytes = 0\n[wireless]")
            .starts_with("s.toml: key `transfer.bytes`: got 0, takes")
    );
    assert_eq!(
        error_of("[transfer]\nbytes = 1\ndirection = \"uplink\"\nrequest_bytes = 3\n[wireless]"),
        "s.toml: key `transfer.request_bytes`: got 3; an uplink has no request; \
         leave it out, or take downlink"
    );
    assert!(error("[hosts]\nmss = 10").starts_with(&format!(
        "{file} `hosts.mss`: got 10, takes a whole number from 64"
    )));
}

#[test]
fn shards_are_disjoint_and_together_everything() {
    for count in 1..8 {
        let mut seen = vec![0; 50];
        for number in 1..=count {
            let shard: Shard = format!("{number}/{count}").parse().unwrap();
            for (index, seen) in seen.iter_mut().enumerate() {
                *seen += usize::from(shard.has(index));
            }
        }
        assert!(seen.iter().all(|&n| n == 1), "{count}: {seen:?}");
    }
    for text in ["0/2", "3/2", "1", "a/b", "1/0"] {
        assert!(
            text.parse::<Shard>().unwrap_err().starts_with("got `"),
            "{text}"
        );
    }
}

#[test]
fn snoop_and_the_priority_of_its_retransmissions_are_read() {
    let runs = scenario(
        r#"
        priority_dscp_min = 40
        [wireless.uplink]
        priority_dscp_min = 48
        [gateway]
        scheme = "snoop"
        resend_dscp = 46
        snoop = { set = "1995", persist_ms = 100 }
        "#,
    )
    .runs(None)
    .unwrap();
    let conditions = &runs[0].drawn().unwrap().conditions;
    let gateway = &conditions.gateway;
    assert_eq!(gateway.scheme, SchemeChoice::Snoop);
    assert_eq!(gateway.engine.resend_dscp, Some(46));
    let snoop = &gateway.engine.snoop;
    assert_eq!(snoop.set, SnoopSet::Paper1995);
    assert_eq!(snoop.persist.as_millis(), 100);
    let plans = conditions.wireless.plans().unwrap();
    let least = plans.each_ref().map(|plan| plan.priority_dscp_min);
    assert_eq!(least, [Some(40), Some(48)]);
}

#[test]
fn a_dscp_or_a_parameter_of_snoop_out_of_range_is_refused() {
    for (more, expected) in [
        ("priority_dscp_min = 64", "priority_dscp_min"),
        ("[gateway]\nresend_dscp = 64", "gateway.resend_dscp"),
        ("[gateway.snoop]\nalpha = 2", "gateway.snoop.alpha"),
        ("[gateway.snoop]\nset = \"1996\"", "gateway.snoop.set"),
        ("[gateway.snoop]\nalfa = 1", "alfa"),
    ] {
        let error = error(more);
        assert!(error.contains(expected), "{more}: {error}");
    }
}

fn sweep_error(sweeps: &str) -> String {
    let error = error(sweeps);
    error
        .strip_prefix("papers/p/s.toml: key ")
        .unwrap_or(&error)
        .to_owned()
}

#[test]
fn two_conditions_never_have_one_name() {
    let points = r#"
        [[sweep]]
        name = "a"
        points = [
            { name = 5, set = { "wireless.delay_ms" = 1 } },
            { name = "5", set = { "wireless.delay_ms" = 100 } },
        ]
    "#;
    assert!(
        sweep_error(points).ends_with("two of them are called 5; give each its own"),
        "{}",
        sweep_error(points)
    );
    assert!(sweep_error(points).starts_with("`sweep.0.points`"));
    let values = "[[sweep]]\nname = \"a\"\nkey = \"wireless.delay_ms\"\nvalues = [5, 6, 5]";
    assert!(sweep_error(values).starts_with("`sweep.0.values`: got [5, 6, 5]; two of them"));
}

#[test]
fn a_sweep_sets_nothing_that_another_sets() {
    let two = |one: &str, other: &str| {
        let sweep = |name: &str, key: &str| {
            format!("[[sweep]]\nname = \"{name}\"\nkey = \"{key}\"\nvalues = [3]\n")
        };
        sweep_error(&(sweep("a", one) + &sweep("b", other)))
    };
    assert_eq!(
        two("wireless.delay_ms", "wireless.delay_ms"),
        "`sweep.1.name`: got \"b\"; sets `wireless.delay_ms`, and a sweep before it \
         `wireless.delay_ms`; leave one out"
    );
    assert!(two("wireless", "wireless.delay_ms").contains("a sweep before it `wireless`"));
    assert!(two("wireless.delay_ms", "wireless").contains("leave one out"));
    // Keys with similar names do not clash.
    assert!(!two("wireless.delay_ms", "wireless.delay").contains("leave one out"));
    let point = r#"
        [[sweep]]
        name = "a"
        points = [{ name = 1, set = { "wireless" = { loss = 0.1 }, "wireless.delay_ms" = 1 } }]
    "#;
    assert!(
        sweep_error(point).contains("sets `wireless` and `wireless.delay_ms` in it"),
        "{}",
        sweep_error(point)
    );
}

#[test]
fn a_sweeps_key_is_one_of_the_scenario() {
    let deep = ".".repeat(100_000);
    for key in [
        "",
        "..wireless..delay_ms",
        "wireless.",
        ".",
        "sweep",
        "sweep.0.name",
        &deep,
    ] {
        let sweep = format!("[[sweep]]\nname = \"a\"\nkey = \"{key}\"\nvalues = [3]");
        let error = sweep_error(&sweep);
        assert!(error.starts_with("`sweep.0.key`: got \""), "{key}: {error}");
        assert!(error.len() < 300 && error.contains("as in wireless.delay_ms"));
    }
    let sixteen = "a.".repeat(16) + "b";
    let sweep = format!("[[sweep]]\nname = \"a\"\nkey = \"{sixteen}\"\nvalues = [3]");
    assert!(sweep_error(&sweep).contains("at most 16 names"));
}

#[test]
fn what_the_daemon_would_refuse_the_model_does_not_do_either() {
    for line in [
        "silence_min_ms = 0",
        "silence_min_ms = nan",
        "silence_min_ms = -4",
        "silence_min_ms = 1e300",
        "probe_interval_min_ms = 0",
        "probe_interval_max_ms = 9",
        "probe_interval_max_ms = inf",
        "flow_cache_bytes_max = 0",
        "flow_cache_bytes_max = 1000",
        "flow_cache_bytes_max = 268435457",
    ] {
        let (key, value) = line.split_once(" = ").unwrap();
        let error = error(&format!("[gateway]\nscheme = \"hold\"\n{line}"));
        let expected = format!("papers/p/s.toml: key `gateway.{key}`: got ");
        assert!(error.starts_with(&expected), "{line}: {error}");
        assert!(
            error.contains(", takes ") || error.contains("; takes "),
            "{value}: {error}"
        );
    }
    let apart = error("[gateway]\nprobe_interval_min_ms = 500\nprobe_interval_max_ms = 400");
    assert!(
        apart.contains("takes at most gateway.probe_interval_max_ms, 400 ms"),
        "{apart}"
    );
    let below = error("[gateway]\nprobe_interval_max_ms = 10");
    assert!(
        below.contains("got 10 ms, takes at least gateway.probe_interval_min_ms, 20 ms"),
        "{below}"
    );
    let right = "[gateway]\nscheme = \"hold\"\nsilence_min_ms = 10\nflow_cache_bytes_max = 65536";
    assert!(scenario(right).runs(None).is_ok());
    // On the model the SH of that paper may cache nothing.
    let sh = "[gateway]\nscheme = \"mtcp-2007\"\nflow_cache_bytes_max = 0";
    assert!(scenario(sh).runs(None).is_ok());
}

#[test]
fn a_transfer_and_a_frame_have_bounds() {
    let get = |bytes: &str| error_of(&format!("[transfer]\nbytes = {bytes}\n[wireless]"));
    assert!(get("1000000000001").contains("from 1 to 1000000000000"));
    assert!(get("9223372036854775807").contains("from 1 to"));
    assert!(
        error("frame_overhead_bytes = 65536")
            .contains("`wireless.frame_overhead_bytes`: got 65536; takes 0 to 65535 bytes")
    );
}

#[test]
fn a_timers_phase_is_below_its_presets_tick() {
    let hosts = |lines: &str| error(&format!("[hosts]\n{lines}"));
    let error = hosts("preset = \"newreno-2007\"\ntick_phase_s = 0.5");
    assert!(
        error.contains("got 0.5, takes less than the tick of newreno-2007, 0.5 s"),
        "{error}"
    );
    assert!(hosts("tick_phase_s = 0.1").contains("the timer of linux-reno has no tick"));
    let apart = "[hosts]\ntick_phase_s = 0.25\n[fh]\npreset = \"newreno-2007\"\n\
        [mh]\npreset = \"reno43bsd\"";
    assert!(scenario(apart).runs(None).is_ok());
}

#[test]
fn too_many_outages_are_refused_when_the_run_begins_and_cost_nothing_before() {
    let outages = "outages = { kind = \"exponential\", up_mean_s = 0.001, down_mean_s = 0.001 }";
    let text = format!(
        "repetitions = 100000\n[transfer]\nbytes = 1000\nlimit_s = 1e6\n[wireless]\n{outages}"
    );
    let scenario = Scenario::parse(Path::new("s.toml"), &text).unwrap();
    let runs = scenario.runs(None).unwrap();
    assert_eq!(runs.len(), 100_000);
    assert_eq!(
        runs[99_999].drawn().unwrap_err().to_string(),
        "s.toml: key `wireless.outages`: more than 100000 outages in a run; take fewer"
    );
}

#[test]
fn a_scenario_that_is_no_regular_file_is_refused_unread() {
    let error = format!("{:#}", Scenario::load(Path::new("/dev/zero")).unwrap_err());
    assert_eq!(
        error,
        "/dev/zero: cannot be read; name a file, or a scenario of `holdfast lab list`: not a file or a pipe"
    );
    let trace = error_of("[transfer]\nbytes = 1\n[wireless]\nrate_trace = \"/dev/zero\"");
    assert!(trace.contains("not a file or a pipe"), "{trace}");
}

#[test]
fn a_scenarios_name_does_not_depend_on_the_way_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let paper = folder.path().join("paper-1999");
    std::fs::create_dir_all(paper.join("figures")).unwrap();
    std::fs::write(paper.join("s.toml"), BASE).unwrap();
    for path in ["s.toml", "./s.toml", "figures/../s.toml"] {
        let scenario = Scenario::load(&paper.join(path)).unwrap();
        assert_eq!(scenario.name, "paper-1999/s", "{path}");
    }
    let own = std::env::current_dir().unwrap();
    assert_eq!(in_full(Path::new("s.toml")), own.join("s.toml"));
    assert_eq!(in_full(Path::new("./s.toml")), own.join("s.toml"));
    assert_eq!(in_full(Path::new(".")), own);
    assert_eq!(
        in_full(Path::new("../s.toml")),
        own.parent().unwrap().join("s.toml")
    );
}

#[test]
fn the_half_of_a_split_connection_is_the_fhs_host_with_its_own_keys_over_it() {
    let text = |gateway: &str| {
        format!(
            "[transfer]\nbytes = 1\n[wireless]\n[hosts]\nmss = 512\n[fh]\npreset = \"reno43bsd\"\n\
             [mh]\ndup_ack_delay_ms = 40\n[gateway]\n{gateway}"
        )
    };
    let read = |gateway: &str| {
        let scenario = Scenario::parse(Path::new("s.toml"), &text(gateway)).unwrap();
        scenario
            .runs(None)
            .map(|mut runs| runs.remove(0).conditions)
    };
    let plain = read("scheme = \"split\"\nrestarts_s = [1.5, 3]").unwrap();
    assert_eq!(plain.gateway.split, plain.fh);
    assert_eq!(plain.gateway.restarts_s, [1.5, 3.0]);
    let own = read("scheme = \"split\"\nsplit = { preset = \"sack\" }").unwrap();
    assert_eq!(own.gateway.split.preset, Some(holdfast_sim::Preset::Sack));
    assert_eq!(
        (own.gateway.split.mss, own.fh.preset),
        (Some(512), plain.fh.preset)
    );
    for (gateway, key, takes) in [
        (
            "scheme = \"hold\"\nsplit = { mss = 900 }",
            "gateway.split",
            "scheme split",
        ),
        (
            "scheme = \"split\"\nsplit = { mss = 1 }",
            "gateway.split.mss",
            "takes",
        ),
        ("scheme = \"split\"\nsplit = 5", "gateway.split", "table"),
        (
            "scheme = \"split\"\nsplit = { lc_cwe = { first_history = 2 } }",
            "gateway.split.lc_cwe",
            "leave it out",
        ),
        (
            "scheme = \"split\"\nsplit = { congestion_control = \"bbr\" }",
            "gateway.split.congestion_control",
            "split.preset",
        ),
        (
            "scheme = \"ebsn\"\n[[cells]]\n[[cells]]\n[wired]",
            "gateway.scheme",
            "one cell",
        ),
        ("restarts_s = [-1]", "gateway.restarts_s", "0 to 86400"),
    ] {
        let error = read(gateway).unwrap_err().to_string();
        assert!(error.contains(key) && error.contains(takes), "{error}");
    }
}

#[test]
fn what_the_model_alone_has_is_refused_elsewhere_by_its_key() {
    use crate::substrate::SubstrateKind;
    for (keys, key) in [
        ("[gateway]\nscheme = \"split\"", "gateway.scheme: got split"),
        ("[gateway]\nscheme = \"ebsn\"", "gateway.scheme: got ebsn"),
        (
            "[gateway]\nscheme = \"hold\"\nrestarts_s = [1]",
            "gateway.restarts_s",
        ),
        ("[mh]\ndup_ack_delay_ms = 40", "mh.dup_ack_delay_ms"),
    ] {
        let text = format!("[transfer]\nbytes = 1\n[wireless]\n{keys}");
        let runs = Scenario::parse(Path::new("s.toml"), &text)
            .unwrap()
            .runs(None);
        let run = &runs.unwrap()[0];
        assert_eq!(SubstrateKind::Model.refusal(run), None);
        for kind in [SubstrateKind::Linux, SubstrateKind::Live] {
            let why = kind.refusal(run).unwrap().why;
            assert!(
                why.starts_with(key) && why.ends_with("run it on the model"),
                "{why}"
            );
        }
    }
}
