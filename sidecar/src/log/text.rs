//! klog's text notation.

use std::fmt::Write as _;
use std::time::Duration;

use super::fields::{Entry, Value};
use crate::visible::{escape_into, is_hidden};

/// Origin of an event: time and source line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin<'a> {
    pub(super) severity: char,
    /// Time since the epoch.
    pub(super) time: Duration,
    pub(super) process: u32,
    pub(super) file: &'a str,
    pub(super) line: u32,
}

/// Formats an event as one line, with its line feed.
pub(super) fn line(origin: Origin<'_>, entry: &Entry) -> String {
    let mut text = header(origin);
    quote_into(&entry.message, &mut text);
    for (key, value) in entry.fields.iter(origin.severity == 'E') {
        let _ = write!(text, " {key}=");
        match value {
            Value::Text(value) => quote_into(value, &mut text),
            Value::Plain(value) => text.push_str(value),
        }
    }
    text.push('\n');
    text
}

fn header(origin: Origin<'_>) -> String {
    let seconds = origin.time.as_secs();
    let (month, day) = month_and_day(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!(
        "{}{month:02}{day:02} {hour:02}:{minute:02}:{second:02}.{:06} {:7} {}:{}] ",
        origin.severity,
        origin.time.subsec_micros(),
        origin.process,
        origin.file,
        origin.line,
    )
}

/// Month and day in UTC, in the Gregorian calendar, of a day counted since the epoch.
///
/// Counts years from March, so that the leap day is the last of its year (Howard Hinnant,
/// "chrono-Compatible Low-Level Date Algorithms").
fn month_and_day(days_since_epoch: u64) -> (u64, u64) {
    let days = days_since_epoch + 719_468;
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    (month, day)
}

/// Quotes like Go's `%q`: control and format characters are escaped, so that a value can neither
/// start a new line nor reorder its own.
pub fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quote_into(text, &mut quoted);
    quoted
}

fn quote_into(text: &str, quoted: &mut String) {
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{b}' => quoted.push_str("\\v"),
            '\u{c}' => quoted.push_str("\\f"),
            c if is_hidden(c) => escape_into(c, quoted),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calendar() {
        for (days, expected) in [
            (0, (1, 1)),
            (58, (2, 28)),
            (59, (3, 1)),
            (364, (12, 31)),
            (11_016, (2, 29)),
            (11_017, (3, 1)),
            (19_782, (2, 29)),
            (20_088, (12, 31)),
            (47_540, (2, 28)),
            (47_541, (3, 1)),
        ] {
            assert_eq!(month_and_day(days), expected, "{days}");
        }
    }

    #[test]
    fn header_is_klogs() {
        let origin = Origin {
            severity: 'I',
            time: Duration::new(1_704_207_845, 678_901_000),
            process: 42,
            file: "run.rs",
            line: 7,
        };
        assert_eq!(header(origin), "I0102 15:04:05.678901      42 run.rs:7] ");
    }

    #[test]
    fn quoting() {
        assert_eq!(
            quote("a\"b\\c\nd\u{1}\u{e9}\u{85}"),
            r#""a\"b\\c\nd\x01é\u0085""#
        );
    }

    #[test]
    fn fa_10_quoting_of_what_hides() {
        assert_eq!(
            quote("a\u{202e}\u{200b}\u{2028}\u{feff}\u{e0041}容量"),
            r#""a\u202e\u200b\u2028\ufeff\U000e0041容量""#
        );
    }
}
