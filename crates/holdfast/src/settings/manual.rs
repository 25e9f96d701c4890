// SPDX-License-Identifier: Apache-2.0
//! `holdfast.toml(5)`: the settings as a manual page, from the keys themselves.

use roff::{Inline, Roff, bold, roman};

use super::gateway::{
    BANDWIDTH_KEYS, GATEWAY_KEYS, HANDOFF_KEYS, MOBILE_ENTRY_KEYS, MTCP_KEYS, SIGNAL_KEYS,
    SNOOP_KEYS,
};
use super::keep::KEYS as KEEP_KEYS;
use super::keys::Key;
use super::mobile::{MOBILE_DAEMON_KEYS, SOURCE_KEYS};

/// Name of the page's file.
pub(crate) const MANUAL_FILE: &str = "holdfast.toml.5";

const DESCRIPTION: &str = "\
`holdfast gateway` and `holdfast mobile` take their settings from flags, from the TOML file that \
`--config` names, and from the defaults below, in this order. A key that does not exist is refused, \
with the nearest one that does. A value that a key does not take is refused by name, with what it \
takes. The exit status is then 64. Sizes are numbers of bytes or texts such as \"256 MiB\" (KiB, \
MiB, GiB; kB, MB, GB). Times have their unit in the key's name.";

const EXAMPLE: &str = "\
[gateway]
wireless = \"wlan0\"
cache_bytes_max = \"512 MiB\"

[[mobile]]
name = \"train-7\"
key_file = \"/etc/holdfast/train-7.key\"
addresses = [\"10.9.0.0/24\"]";

/// The page in roff.
pub(crate) fn settings_manual() -> String {
    let version = concat!("holdfast ", env!("CARGO_PKG_VERSION"));
    let mut page = Roff::new();
    page.control("TH", ["holdfast.toml", "5", "", version, ""]);
    page.control("SH", ["NAME"]);
    page.text([roman(
        "holdfast.toml, mobile.toml - settings of the holdfast daemons",
    )]);
    page.control("SH", ["DESCRIPTION"]);
    page.text(inlines(DESCRIPTION));
    let text = "In holdfast.toml, the file of `holdfast gateway`.";
    section(&mut page, "THE GATEWAY: [gateway]", text, GATEWAY_KEYS);
    let text = "In the same file: what the cells carry.";
    section(&mut page, "CELLS: [bandwidth]", text, BANDWIDTH_KEYS);
    let text = "In the same file: the parameters of the scheme mtcp.";
    section(&mut page, "M-TCP: [mtcp]", text, MTCP_KEYS);
    let text = "In the same file: the parameters of the scheme snoop.";
    section(&mut page, "SNOOP: [snoop]", text, SNOOP_KEYS);
    let text = "In the same file, and in mobile.toml: the parameters of the scheme keep.";
    section(&mut page, "KEEP: [keep]", text, KEEP_KEYS);
    let text = "In the same file: how mobiles tell of their links.";
    section(&mut page, "LINK SIGNALS: [signals]", text, SIGNAL_KEYS);
    let text = "In the same file: several gateways as base stations, between which mobiles move.";
    section(&mut page, "HANDOFF: [handoff]", text, HANDOFF_KEYS);
    let text = "In the same file, one section for each mobile that sends signals, at most 4096. \
        Mobiles without one are served too: their outages are seen by the interface and by silence.";
    section(
        &mut page,
        "THE MOBILES: [[mobile]]",
        text,
        MOBILE_ENTRY_KEYS,
    );
    let text = "In mobile.toml, the file of `holdfast mobile`, on the mobile itself.";
    section(
        &mut page,
        "THE MOBILE'S OWN FILE: [mobile]",
        text,
        MOBILE_DAEMON_KEYS,
    );
    let text =
        "In mobile.toml too: what tells of the mobile's link, beside the interface's carrier.";
    section(
        &mut page,
        "THE MOBILE'S SOURCES: [sources]",
        text,
        SOURCE_KEYS,
    );
    page.control("SH", ["EXAMPLE"]);
    page.control("nf", []);
    for line in EXAMPLE.lines() {
        page.text([roman(line)]);
    }
    page.control("fi", []);
    page.control("SH", ["SEE ALSO"]);
    let others = ["holdfast", "holdfast-gateway", "holdfast-mobile"];
    for (index, name) in others.iter().enumerate() {
        let after = if index + 1 < others.len() {
            "(1),"
        } else {
            "(1)"
        };
        page.control("BR", [*name, after]);
    }
    page.render()
}

fn section(page: &mut Roff, title: &str, text: &str, keys: &[Key]) {
    page.control("SH", [title]);
    page.text(inlines(text));
    for key in keys {
        let name = key.path.rsplit('.').next().unwrap_or_default();
        let default = key.default.map_or_else(
            || "no default".to_owned(),
            |value| format!("default {value}"),
        );
        page.control("TP", []);
        let takes = format!("`{name}`: {}; {default}", key.kind.takes());
        page.text(inlines(&takes));
        page.text(inlines(&format!("{} Cost: {}", key.meaning, key.cost)));
    }
}

/// Text in which what stands between backquotes is bold.
fn inlines(text: &str) -> Vec<Inline> {
    let parts = text.split('`').enumerate();
    parts
        .filter(|(_, part)| !part.is_empty())
        .map(|(index, part)| {
            if index % 2 == 1 {
                bold(part)
            } else {
                roman(part)
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_its_entry_and_no_line_is_taken_for_a_request() {
        let page = settings_manual();
        for keys in [
            GATEWAY_KEYS,
            BANDWIDTH_KEYS,
            MTCP_KEYS,
            SNOOP_KEYS,
            KEEP_KEYS,
            SIGNAL_KEYS,
            MOBILE_ENTRY_KEYS,
            MOBILE_DAEMON_KEYS,
            SOURCE_KEYS,
        ] {
            for key in keys {
                let name = key.path.rsplit('.').next().unwrap();
                let entry = format!(".TP\n\\fB{}\\fR", name.replace('-', "\\-"));
                assert!(page.contains(&entry), "{name} is missing in\n{page}");
            }
        }
        for line in page.lines().filter(|line| line.starts_with(['.', '\''])) {
            let request = line.trim_start_matches(['.', '\'']);
            let known = ["TH", "SH", "TP", "nf", "fi", "BR", "ie", "el", "ds"];
            assert!(known.iter().any(|name| request.starts_with(name)), "{line}");
        }
        assert!(!page.contains('`'));
    }

    #[test]
    fn the_example_is_one_that_the_gateway_takes() {
        let file: toml::Table = EXAMPLE.parse().unwrap();
        for (section, keys) in [("gateway", GATEWAY_KEYS), ("mobile", MOBILE_ENTRY_KEYS)] {
            let section = &file[section];
            let entry = section.as_array().map_or(section, |entries| &entries[0]);
            for key in entry.as_table().unwrap().keys() {
                let known = keys
                    .iter()
                    .any(|known| known.path.rsplit('.').next() == Some(key));
                assert!(known, "{key}");
            }
        }
    }
}
