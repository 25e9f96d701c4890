// SPDX-License-Identifier: Apache-2.0
//! The settings as documentation: a page and example files, from the keys themselves.

use std::fmt::Write as _;

use super::gateway::{
    BANDWIDTH_KEYS, GATEWAY_KEYS, HANDOFF_KEYS, MOBILE_ENTRY_KEYS, MTCP_KEYS, SIGNAL_KEYS,
    SNOOP_KEYS,
};
use super::keep::KEYS as KEEP_KEYS;
use super::keys::{Key, Kind};
use super::mobile::{MOBILE_DAEMON_KEYS, SOURCE_KEYS};

const INTRODUCTION: &str = "\
<!-- Made by `holdfast generate settings docs/`; a test compares. -->
# Settings

A daemon takes its settings from flags, from the TOML file that `--config` names, and from the
defaults below, in this order. A key that does not exist is refused, with the nearest one that does.
A value that a key does not take is refused by name, with what it takes. The exit status is then 64.

Sizes are numbers of bytes or texts such as `\"256 MiB\"` (KiB, MiB, GiB; kB, MB, GB). Times have their
unit in the key's name.
";

const DERIVED: &str = "\
## What follows from them

These are not set; they come from the keys above or from what is measured.

| value | from |
| --- | --- |
| most memory | twice `cache_bytes_max` and 16 MiB, about 3 KiB for each of `flows_max`, and what the kernel queues in the TUN or TAP devices |
| time until an MH is silent | smoothed round trip of the wireless half + the larger of 4 `rttvar` and `silence_min_ms` |
| time between two probes | that round trip, within `probe_interval_min_ms` and `probe_interval_max_ms` |
| most link-signal state | for each `[[mobile]]`: its key, one session, one challenge, 16 addresses |
";

/// `docs/settings.md`.
pub(crate) fn settings_page() -> String {
    let mut page = INTRODUCTION.to_owned();
    section(&mut page, "The gateway: `[gateway]`", "", GATEWAY_KEYS);
    let text = "What the cells carry, for all schemes that send from the cache: \
        [schemes/mtcp.md](schemes/mtcp.md#bandwidth-management).\n";
    section(&mut page, "The cells: `[bandwidth]`", text, BANDWIDTH_KEYS);
    let text = "States, timers, and what the paper says: [schemes/mtcp.md](schemes/mtcp.md).\n";
    section(&mut page, "The scheme `mtcp`: `[mtcp]`", text, MTCP_KEYS);
    let text = "Names of parameters and their values are those of the paper (Balakrishnan, Seshan, Amir \
        and Katz, 1995), where it has them.\n";
    section(&mut page, "The scheme `snoop`: `[snoop]`", text, SNOOP_KEYS);
    let text =
        "In the gateway's file and in the mobile's own: [schemes/keep.md](schemes/keep.md).\n";
    section(&mut page, "The scheme `keep`: `[keep]`", text, KEEP_KEYS);
    let text = "How mobiles tell of their links: [link-signals.md](link-signals.md).\n";
    section(&mut page, "Link signals: `[signals]`", text, SIGNAL_KEYS);
    let text = "Several gateways as base stations, between which mobiles move: \
        [schemes/handoff.md](schemes/handoff.md). Without `name` there is no handoff.\n";
    section(&mut page, "Handoff: `[handoff]`", text, HANDOFF_KEYS);
    let text = "One section for each mobile that sends signals, at most 4096. Mobiles without one are \
        served too: their outages are seen by the interface and by silence.\n";
    section(
        &mut page,
        "The mobiles: `[[mobile]]`",
        text,
        MOBILE_ENTRY_KEYS,
    );
    page.push('\n');
    page.push_str(DERIVED);
    let text = "The file of `holdfast mobile` is another one, on the mobile itself.\n";
    section(
        &mut page,
        "The mobile's own file: `[mobile]`",
        text,
        MOBILE_DAEMON_KEYS,
    );
    let text = "In the mobile's own file: what tells of its link, beside the interface's carrier. What each \
        knows, and how good predictions are: [link-signals.md](link-signals.md#sources).\n";
    section(
        &mut page,
        "The mobile's sources: `[sources]`",
        text,
        SOURCE_KEYS,
    );
    page
}

fn section(page: &mut String, title: &str, text: &str, keys: &[Key]) {
    let _ = write!(page, "\n## {title}\n\n{text}");
    if !text.is_empty() {
        page.push('\n');
    }
    page.push_str("| key | takes | default | meaning | cost |\n| --- | --- | --- | --- | --- |\n");
    for key in keys {
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {} | {} |",
            last(key),
            key.kind.takes(),
            key.default
                .map_or("none".into(), |default| format!("`{default}`")),
            key.meaning,
            key.cost
        );
    }
}

fn last(key: &Key) -> &'static str {
    key.path.rsplit('.').next().unwrap_or_default()
}

/// The example files by name: the gateway's and the mobile's.
pub(crate) fn example_files() -> [(&'static str, String); 2] {
    let mut gateway = "\
# Settings of `holdfast gateway --config /etc/holdfast/holdfast.toml`.
# What is commented out shows the default, or an example where there is none.
# Every key: docs/settings.md.
"
    .to_owned();
    example(&mut gateway, "[gateway]", GATEWAY_KEYS, "");
    example(&mut gateway, "[bandwidth]", BANDWIDTH_KEYS, "");
    example(&mut gateway, "[mtcp]", MTCP_KEYS, "");
    example(&mut gateway, "[snoop]", SNOOP_KEYS, "");
    example(&mut gateway, "[keep]", KEEP_KEYS, "");
    example(&mut gateway, "[signals]", SIGNAL_KEYS, "");
    example(&mut gateway, "[handoff]", HANDOFF_KEYS, "# ");
    example(&mut gateway, "[[mobile]]", MOBILE_ENTRY_KEYS, "# ");
    let mut mobile = "\
# Settings of `holdfast mobile --config /etc/holdfast/mobile.toml`.
# What is commented out shows the default. Every key: docs/settings.md.
"
    .to_owned();
    example(&mut mobile, "[mobile]", MOBILE_DAEMON_KEYS, "");
    example(&mut mobile, "[keep]", KEEP_KEYS, "");
    example(&mut mobile, "[sources]", SOURCE_KEYS, "");
    [("holdfast.toml", gateway), ("mobile.toml", mobile)]
}

/// A section with its keys: those that must be given in force, all others commented out.
fn example(file: &mut String, header: &str, keys: &[Key], comment: &str) {
    let _ = writeln!(file, "\n{comment}{header}");
    for key in keys {
        let given = matches!(
            key.path,
            "gateway.wireless" | "mobile.interface" | "mobile.gateway"
        );
        let comment = if given && comment.is_empty() {
            ""
        } else {
            "# "
        };
        let value = match key.kind {
            Kind::SecretKey => "\"hf1:...\"",
            _ => key.default.unwrap_or(key.example),
        };
        for line in wrapped(key.meaning) {
            let _ = writeln!(file, "# {line}");
        }
        let _ = writeln!(file, "{comment}{} = {value}", last(key));
    }
}

/// `text` in lines of at most 90 characters.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is one from the start");
        if !line.is_empty() && line.len() + 1 + word.len() > 90 {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}
