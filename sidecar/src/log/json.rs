//! klog's JSON notation: one object per line.

use std::fmt::Write as _;

use super::fields::{Entry, Value};
use super::text::Origin;
use crate::visible::is_hidden;

/// Formats an event as one line, with its line feed. `v` is for messages, `err` for errors.
pub(super) fn line(origin: Origin<'_>, entry: &Entry) -> String {
    let mut text = String::from("{\"ts\":");
    // Milliseconds since the epoch, with the microseconds as decimals.
    let _ = write!(
        text,
        "{}.{:03},\"caller\":",
        origin.time.as_millis(),
        origin.time.subsec_micros() % 1000
    );
    string(&format!("{}:{}", origin.file, origin.line), &mut text);
    text.push_str(",\"msg\":");
    string(&entry.message, &mut text);
    if origin.severity != 'E' {
        let _ = write!(text, ",\"v\":{}", entry.verbosity);
    }
    for (key, value) in entry.fields.iter(origin.severity == 'E') {
        text.push(',');
        string(key, &mut text);
        text.push(':');
        match value {
            Value::Text(value) => string(value, &mut text),
            Value::Plain(value) => text.push_str(value),
        }
    }
    text.push_str("}\n");
    text
}

fn string(value: &str, text: &mut String) {
    text.push('"');
    for c in value.chars() {
        match c {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            c if is_hidden(c) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(text, "\\u{unit:04x}");
                }
            }
            c => text.push(c),
        }
    }
    text.push('"');
}
