// SPDX-License-Identifier: Apache-2.0
//! The documents that are made of the keys.

use super::schemes::bandwidth_of_the_example;
use super::*;

#[test]
fn every_key_is_documented_and_takes_its_example_and_its_default() {
    for section in GATEWAY_FILE.iter().chain(MOBILE_FILE.iter()) {
        for key in &section.keys {
            let name = format!("{}.{}", section.name, key.name);
            for text in [&key.meaning, &key.cost, &key.takes, &key.example] {
                assert!(!text.is_empty(), "{name} is not documented");
            }
        }
    }
    // A value that a key does not take is refused, whatever else the file lacks.
    for section in GATEWAY_FILE.iter() {
        for key in &section.keys {
            for value in [Some(&key.example), key.default.as_ref()]
                .into_iter()
                .flatten()
            {
                let text = format!("{}\n{} = {value}", section.header(), key.name);
                let Err(error) = settings_with(&["--wireless", "wlan0"], &text) else {
                    continue;
                };
                let refused = format!("{}`: got ", key.name);
                assert!(!error.to_string().contains(&refused), "{text}: {error}");
            }
        }
    }
}

#[test]
fn the_page_and_the_example_files_list_the_keys_of_both_daemons() {
    let page = settings_page();
    let [(_, gateway), (_, mobile)] = example_files();
    for (file, sections) in [(gateway, &GATEWAY_FILE), (mobile, &MOBILE_FILE)] {
        for section in sections.iter() {
            assert!(file.contains(&section.header()), "{}", section.name);
            for key in &section.keys {
                let name = format!("{}.{}", section.name, key.name);
                assert!(
                    page.contains(&format!(
                        "### `{}`
",
                        key.name
                    )),
                    "{name}"
                );
                assert!(file.contains(&format!("{} = ", key.name)), "{name}");
            }
        }
    }
}

#[test]
fn the_documentation_is_that_of_the_keys() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |name: &str| std::fs::read_to_string(root.join(name)).expect(name);
    let remedy = "run `holdfast generate settings docs && holdfast generate examples etc`";
    assert!(
        read("docs/settings.md") == settings_page(),
        "docs/settings.md is old: {remedy}"
    );
    for (name, text) in example_files() {
        assert!(
            read(&format!("etc/{name}")) == text,
            "etc/{name} is old: {remedy}"
        );
    }
}

#[test]
fn the_example_file_is_understood_as_it_is_and_with_every_line_in_force() {
    let [(_, gateway), _] = example_files();
    settings_with(&[], &gateway).expect("as it is");
    // The key of a mobile is given itself, that of the stations by a file.
    let key_file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(&key_file, KEY).expect("written");
    let stations = key_file.path().to_str().expect("a path");
    let in_force: String = gateway
        .lines()
        .map(|line| line.strip_prefix("# ").unwrap_or(line))
        .filter(|line| line.starts_with('[') || line.contains(" = "))
        .filter(|line| !line.contains("train-7.key"))
        .map(|line| line.replace("hf1:...", KEY) + "\n")
        .map(|line| line.replace("/etc/holdfast/stations.key", stations))
        .collect();
    let settings = settings_with(&[], &in_force).expect("with every line in force");
    assert_eq!(settings.mobiles.len(), 1);
    assert_eq!(settings.station.expect("one").name, "west");
    // Some lines have no default to be an example of.
    let mut expected = Settings::default();
    expected.mtcp.window_bytes = 128 << 10;
    expected.bandwidth = bandwidth_of_the_example();
    expected.resend_dscp = Some(40);
    assert_eq!(format!("{:?}", settings.core), format!("{expected:?}"));
    assert_eq!(settings.core.resend_dscp, Some(40));
}

#[test]
fn the_page_shows_where_the_sets_of_snoop_differ() {
    let (paper, today) = (SnoopSettings::paper_1995(), SnoopSettings::today());
    let page = settings_page();
    for (name, differs, text) in [
        (
            "retransmit_interval_min_ms",
            paper.retransmit_interval_min != today.retransmit_interval_min,
            format!("`1995`: {}.", paper.retransmit_interval_min.as_millis()),
        ),
        (
            "high_water_mark_bytes",
            paper.high_water_mark_bytes != today.high_water_mark_bytes,
            format!("`1995`: {}.", size_text(paper.high_water_mark_bytes as u64)),
        ),
        (
            "nack_wait_ms",
            paper.nack_wait != today.nack_wait,
            format!("`1995`: {}.", paper.nack_wait.as_millis()),
        ),
        (
            "alpha",
            paper.alpha.to_bits() != today.alpha.to_bits(),
            String::new(),
        ),
        ("persist_ms", paper.persist != today.persist, String::new()),
    ] {
        let (_, entry) = page.split_once(&format!("### `{name}`")).expect(name);
        let (entry, _) = entry.split_once("\n### ").expect(name);
        assert_eq!(entry.contains("`1995`"), differs, "{name}");
        assert!(entry.contains(&text), "{name}: {text}");
    }
}

/// The page's figures of buffers are those of the pool.
#[test]
fn the_page_shows_what_a_small_segment_pins_and_where_the_pool_ends() {
    use holdfast_net::frame::{BufferPool, FRAME_BYTES_MAX};
    use holdfast_net::tun::VNET_HDR_BYTES;

    let page = settings_page();
    let has = |bytes: usize| {
        let digits = bytes.to_string();
        let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().collect();
        let text = String::from_utf8(groups.join(&b","[..])).unwrap();
        assert!(
            page.contains(&text),
            "docs/settings.md does not have {text}"
        );
    };
    has(BufferPool::new(usize::MAX).bytes_max());
    has(FRAME_BYTES_MAX);
    for packet_bytes in [52, 2_000, 9_000] {
        let mut pool = BufferPool::new(1 << 24);
        let frame = pool.read(|_| Ok(VNET_HDR_BYTES + packet_bytes)).unwrap();
        // One of the largest stands ready for the next read.
        has(pool.in_use_bytes() - FRAME_BYTES_MAX);
        drop(frame);
    }
}
