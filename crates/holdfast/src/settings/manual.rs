// SPDX-License-Identifier: Apache-2.0
//! `holdfast.toml(5)`: the settings as a manual page, from the keys themselves.

use roff::{Inline, Roff, bold, roman};

use super::keys::{Section, all_sections};
use super::reload::is_live;

/// Name of the page's file.
pub(crate) const MANUAL_FILE: &str = "holdfast.toml.5";

const DESCRIPTION: &str = "\
`holdfast gateway` and `holdfast mobile` take their settings from flags, from the TOML file that \
`--config` names, and from the defaults below, in this order. A key that does not exist is refused, \
with the nearest one that does. A value that a key does not take is refused by name, with what it \
takes. The exit status is then 64. Sizes are numbers of bytes or texts such as \"256 MiB\" (KiB, \
MiB, GiB; kB, MB, GB). Times have their unit in the key's name. On SIGHUP a daemon reads its file \
again, applies the keys that a reload applies, and names all others that have changed.";

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
    for section in all_sections() {
        write_section(&mut page, section);
    }
    page.control("SH", ["EXAMPLE"]);
    page.control("nf", []);
    for line in EXAMPLE.lines() {
        page.text([roman(line)]);
    }
    page.control("fi", []);
    page.control("SH", ["SEE ALSO"]);
    let others = [
        ("holdfast", "(1),"),
        ("holdfast-gateway", "(8),"),
        ("holdfast-mobile", "(8)"),
    ];
    for (name, section) in others {
        page.control("BR", [name, section]);
    }
    page.render()
}

fn write_section(page: &mut Roff, section: &Section) {
    let title = section.title.replace('`', "").to_uppercase();
    let title = format!("{title}: {}", section.header());
    page.control("SH", [title.as_str()]);
    let more = section.page.map(|page| format!(" More: docs/{page}."));
    let text = format!("{}{}", section.text, more.unwrap_or_default());
    page.text(inlines(&text));
    for key in &section.keys {
        let default = key.default.as_deref();
        let default = default.map_or("no default".to_owned(), |value| format!("default {value}"));
        page.control("TP", []);
        page.text(inlines(&format!(
            "`{}`: {}; {default}{}",
            key.name,
            key.takes,
            if is_live(section, key) {
                "; a reload applies it"
            } else {
                ""
            }
        )));
        page.text(inlines(&format!("{} Cost: {}", key.meaning, key.cost)));
    }
}

/// The text, in which parts between backquotes are bold.
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
        for key in all_sections().flat_map(|section| &section.keys) {
            let entry = format!(".TP\n\\fB{}\\fR", key.name.replace('-', "\\-"));
            assert!(page.contains(&entry), "{} is missing in\n{page}", key.name);
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
        for name in ["gateway", "mobile"] {
            let known = all_sections().find(|section| section.name == name).unwrap();
            let section = &file[name];
            let entry = section.as_array().map_or(section, |entries| &entries[0]);
            for given in entry.as_table().unwrap().keys() {
                assert!(known.keys.iter().any(|key| key.name == given), "{given}");
            }
        }
    }
}
