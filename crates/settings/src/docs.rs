// SPDX-License-Identifier: Apache-2.0
//! The documentation of the keys: the comments of the fields, read from the source of this crate.

/// The files with sections.
const SOURCES: [&str; 11] = [
    include_str!("bandwidth.rs"),
    include_str!("gateway.rs"),
    include_str!("handoff.rs"),
    include_str!("keep.rs"),
    include_str!("metrics.rs"),
    include_str!("mobile.rs"),
    include_str!("mtcp.rs"),
    include_str!("signals.rs"),
    include_str!("snoop.rs"),
    include_str!("sources.rs"),
    include_str!("web.rs"),
];

/// The comment of a field in its parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyDocs {
    /// What the key means.
    pub meaning: String,
    /// The paragraph `Cost:`, without that word: what more of it costs, or less.
    pub cost: String,
    /// The value of the paragraph `Example:`, as TOML.
    pub example: Option<String>,
}

/// The documentation of a key, by the name of its struct and by its name in the file.
pub fn of_key(structure: &str, key: &str) -> Option<KeyDocs> {
    let begin = format!("pub struct {structure}");
    let after = SOURCES.iter().find_map(|source| {
        let (_, after) = source.split_once(&begin)?;
        after.starts_with([' ', '<']).then_some(after)
    })?;
    let (fields, _) = after.split_once("\n}")?;
    let (mut comment, mut attributes) = (String::new(), String::new());
    for line in fields.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("///") {
            comment.push_str(if text.is_empty() { "\n" } else { text });
        } else if let Some(field) = line.strip_prefix("pub ") {
            let renamed = attributes.split_once("rename = \"");
            let name = match renamed.and_then(|(_, after)| after.split_once('"')) {
                Some((name, _)) => name,
                None => field.split(':').next()?,
            };
            if name == key {
                return Some(KeyDocs::of_comment(&comment));
            }
            comment.clear();
            attributes.clear();
        } else {
            attributes.push_str(line);
        }
    }
    None
}

impl KeyDocs {
    fn of_comment(comment: &str) -> Self {
        let mut docs = Self::default();
        for paragraph in comment.split('\n').map(str::trim) {
            if let Some(cost) = paragraph.strip_prefix("Cost: ") {
                cost.clone_into(&mut docs.cost);
            } else if let Some(example) = paragraph.strip_prefix("Example: ") {
                docs.example = Some(example.trim_matches('`').to_owned());
            } else {
                docs.meaning.push_str(paragraph);
            }
        }
        docs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_is_found_by_struct_and_key_and_taken_apart() {
        let docs = of_key("MtcpSettings", "window_bytes").expect("a key");
        assert!(docs.meaning.starts_with("The largest window that FHs see;"));
        assert!(
            docs.meaning
                .ends_with("twice what the share takes in a round trip.")
        );
        assert!(
            docs.cost
                .starts_with("Smaller than what the path holds: slower.")
        );
        assert_eq!(docs.example.as_deref(), Some("\"128 KiB\""));
        let renamed = of_key("EngineSettings", "silence_min_ms").expect("a key");
        assert!(renamed.meaning.starts_with("The least time that is added"));
        assert_eq!(renamed.example, None);
        assert_eq!(of_key("EngineSettings", "silence_min"), None);
        assert_eq!(of_key("Engine", "silence_min_ms"), None);
    }
}
