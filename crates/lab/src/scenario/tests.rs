// SPDX-License-Identifier: Apache-2.0
use super::*;
use holdfast_link::OutageSettings;

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

fn error_of(text: &str) -> String {
    let scenario = Scenario::parse(Path::new("s.toml"), text).unwrap();
    scenario.runs(None).unwrap_err().to_string()
}

#[test]
fn a_scenario_without_sweeps_is_one_run() {
    let scenario = scenario("");
    let runs = scenario.runs(None).unwrap();
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
    let runs = scenario.runs(Some(7)).unwrap();
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
    let runs = scenario("half_duplex = true\nuplink = { rate_mbit_per_s = 5 }\nloss = 0.1")
        .runs(None)
        .unwrap();
    let hop = &runs[0].conditions.wireless;
    assert_eq!(hop.downlink.rate_mbit_per_s, Some(20.0));
    assert_eq!(hop.uplink.rate_mbit_per_s, Some(5.0));
    assert!((hop.uplink.loss - 0.1).abs() < 1e-9 && hop.half_duplex);
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
    let runs = scenario(text).runs(Some(3)).unwrap();
    let outages = |run: &Run| run.conditions.wireless.outages().to_vec();
    assert!(outages(&runs[0]).len() > 20);
    assert_eq!(outages(&runs[0]), outages(&runs[1]));
    assert_ne!(
        outages(&runs[0]),
        outages(&scenario(text).runs(Some(4)).unwrap()[0])
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
            "{file} `gateway.scheme`: got `mtcp_plus`, takes one of none, hold, mtcp-plus, mtcp-2007, haproxy; did you mean `mtcp-plus`?"
        )
    );
    assert!(
        error("[[cross_traffic]]\nover = \"wireless\"\nrate_mbit_per_s = 0").starts_with(&format!(
            "{file} `cross_traffic.0.rate_mbit_per_s`: got 0; takes"
        ))
    );
    assert!(error("[[sweep]]\nname = \"x\"\nkey = \"gateway.scheme\"").contains("`sweep.0.name`"));
    assert!(error("rate_trace = \"none.mm\"").contains("`wireless.rate_trace`"));
    assert_eq!(
        error_of("[wireless]"),
        "s.toml: key `transfer`: missing; give it a value"
    );
    assert!(
        error_of("[transfer]\nbytes = 0\n[wireless]")
            .starts_with("s.toml: key `transfer.bytes`: got 0; takes")
    );
    assert!(
        error("[hosts]\nmss = 10").starts_with(&format!("{file} `hosts.mss`: got 10; takes 64"))
    );
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
