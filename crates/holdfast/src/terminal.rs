// SPDX-License-Identifier: Apache-2.0
//! Text from settings, the network or a daemon, made safe for a terminal.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::Write as _;

/// The text with each character that controls a terminal written as JSON writes it, `\u001b`:
/// it is harmless, and valid JSON stays valid. Ends of lines and tabs stay.
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    replaced(text, |char| char == '\n' || char == '\t')
}

/// Prints to standard output, without characters that control a terminal. A reader that left early
/// is no error.
pub(crate) fn print_text(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().write_all(escaped(text).as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// The same as [`escaped`] for a text that must stay on one line.
pub(crate) fn escaped_line(text: &str) -> Cow<'_, str> {
    replaced(text, |_| false)
}

fn replaced(text: &str, stays: impl Fn(char) -> bool) -> Cow<'_, str> {
    let controls = |char: char| is_control(char) && !stays(char);
    if !text.contains(controls) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for char in text.chars() {
        if controls(char) {
            // Writing into a String cannot fail.
            let _ = write!(safe, "\\u{:04x}", u32::from(char));
        } else {
            safe.push(char);
        }
    }
    Cow::Owned(safe)
}

/// C0, DEL and C1, and characters that change the direction of a text: they show it in a false order.
fn is_control(char: char) -> bool {
    char.is_control()
        || matches!(char, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Makes each text within a JSON value safe for a line of a terminal.
pub(crate) fn escape_within(value: &mut serde_json::Value) {
    use serde_json::Value;
    match value {
        Value::String(text) => {
            if let Cow::Owned(safe) = escaped_line(text) {
                *text = safe;
            }
        }
        Value::Array(values) => values.iter_mut().for_each(escape_within),
        Value::Object(map) => map.values_mut().for_each(escape_within),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_controls_a_terminal_is_shown_and_not_done() {
        let safe = escaped("a\x1b[2J\u{9b}31m\x7f\u{202e}b\tc\nü");
        assert_eq!(safe, "a\\u001b[2J\\u009b31m\\u007f\\u202eb\tc\nü");
        assert_eq!(escaped_line("a\nb\t"), "a\\u000ab\\u0009");
        assert!(matches!(escaped("nothing to do\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn json_stays_json_with_the_same_text() {
        let text = "x\u{9b}\u{202e}\x7f";
        let line = serde_json::to_string(text).unwrap();
        let safe = escaped(&line);
        assert!(safe.is_ascii());
        assert_eq!(serde_json::from_str::<String>(&safe).unwrap(), text);
    }

    #[test]
    fn each_text_of_a_reply_is_made_safe() {
        let mut value = serde_json::json!({"a": ["\x1b", 1], "b": {"c": "x\ny"}});
        escape_within(&mut value);
        assert_eq!(
            value,
            serde_json::json!({"a": ["\\u001b", 1], "b": {"c": "x\\u000ay"}})
        );
    }
}
