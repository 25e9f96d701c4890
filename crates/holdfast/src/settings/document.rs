// SPDX-License-Identifier: Apache-2.0
//! The settings as documentation: a page and example files, from the keys themselves.

use std::fmt::Write as _;

use super::keys::{GATEWAY_FILE, MOBILE_FILE, Section, all_sections};
use super::reload::is_live;

/// The limit of characters in a line of the page.
const PAGE_COLUMNS: usize = 116;
/// The limit of characters in a comment of an example file.
const EXAMPLE_COLUMNS: usize = 90;

const INTRODUCTION: &str = "\
<!-- Made by `holdfast generate settings docs/`; a test compares. -->
# Settings

A daemon takes its settings from flags, from the TOML file that `--config` names, and from the
defaults below, in this order. A key that does not exist is refused, with the nearest one that does.
A value that a key does not take is refused by name, with what it takes. The exit status is then 64.

Sizes are numbers of bytes or texts such as `\"256 MiB\"` (KiB, MiB, GiB; kB, MB, GB). Times have their
unit in the key's name.

On SIGHUP or `systemctl reload` a daemon reads its file again ([operating.md](operating.md#reload)). It applies the
keys that a reload applies, and names all others that have changed. A wrong file changes nothing.
";

const DERIVED: &str = "
## What follows from them

These are not set; they come from the keys above or from what is measured.

| value | from |
| --- | --- |
| most memory | twice `cache_bytes_max` and 16 MiB, 4.3 KiB for each of `flows_max` (36 KiB after many losses or in an upload), and the queues of the devices |
| time until an MH is silent | smoothed round trip of the wireless half + the larger of 4 `rttvar` and `silence_min_ms` |
| time between two probes | that round trip, within `probe_interval_min_ms` and `probe_interval_max_ms` |
| most link-signal state | for each `[[mobile]]`: its key, one session, one challenge, 16 addresses |
";

/// `docs/settings.md`.
pub(crate) fn settings_page() -> String {
    let mut page = INTRODUCTION.to_owned();
    for section in all_sections() {
        write_section(&mut page, section);
    }
    page + DERIVED
}

fn write_section(page: &mut String, section: &Section) {
    let _ = writeln!(page, "\n## {}: `{}`", section.title, section.header());
    write_wrapped(page, section.text);
    if let Some(more) = section.page {
        let _ = writeln!(page, "\nMore: [{more}]({more}).");
    }
    for key in &section.keys {
        let default = key.default.as_deref();
        let default = default.map_or("Not set by default".to_owned(), |value| {
            format!("Default `{value}`")
        });
        let _ = writeln!(page, "\n### `{}`", key.name);
        let reload = if is_live(section, key) {
            " A reload applies it."
        } else {
            ""
        };
        write_wrapped(page, &format!("Takes {}. {default}.{reload}", key.takes));
        write_wrapped(page, &key.meaning);
        write_wrapped(page, &format!("*Cost:* {}", key.cost));
    }
}

/// A paragraph.
fn write_wrapped(page: &mut String, text: &str) {
    let _ = writeln!(page, "\n{}", wrapped(text, PAGE_COLUMNS).join("\n"));
}

/// The example files by name: the gateway's and the mobile's.
pub(crate) fn example_files() -> [(&'static str, String); 2] {
    let gateway = "\
# Settings of `holdfast gateway --config /etc/holdfast/holdfast.toml`.
# What is commented out shows the default, or an example where there is none.
# Every key: docs/settings.md.
";
    let mobile = "\
# Settings of `holdfast mobile --config /etc/holdfast/mobile.toml`.
# What is commented out shows the default. Every key: docs/settings.md.
";
    [
        ("holdfast.toml", example(gateway, &GATEWAY_FILE)),
        ("mobile.toml", example(mobile, &MOBILE_FILE)),
    ]
}

/// Sections with their keys. Keys that must be given are in force, all others are commented out.
fn example(introduction: &str, sections: &[Section]) -> String {
    let mut file = introduction.to_owned();
    for section in sections {
        // These sections have no effect without keys that must be given.
        let is_optional = section.is_repeated || section.name == "handoff";
        let comment = if is_optional { "# " } else { "" };
        let _ = writeln!(file, "\n{comment}{}", section.header());
        for key in &section.keys {
            for line in wrapped(&key.meaning, EXAMPLE_COLUMNS) {
                let _ = writeln!(file, "# {line}");
            }
            let is_given = matches!(
                (section.name, key.name),
                ("gateway", "wireless") | ("mobile", "interface" | "gateway")
            );
            let comment = if is_given { "" } else { "# " };
            let value = key.default.as_ref().unwrap_or(&key.example);
            let _ = writeln!(file, "{comment}{} = {value}", key.name);
        }
    }
    file
}

/// `text` in lines of at most this many characters.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for part in text.split_whitespace() {
        let line = lines.last_mut().expect("there is one from the start");
        if !line.is_empty() && line.len() + 1 + part.len() > columns {
            lines.push(part.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(part);
        }
    }
    lines
}
