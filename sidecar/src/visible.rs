//! Makes hidden characters visible.
//!
//! Drivers and users choose texts that others read in a terminal. Control characters move its cursor;
//! format characters reorder or hide the text around them.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Characters of Unicode's categories Cf, Zl and Zp (Unicode 16), which are invisible.
const FORMAT: [(u32, u32); 21] = [
    (0x00ad, 0x00ad),
    (0x0600, 0x0605),
    (0x061c, 0x061c),
    (0x06dd, 0x06dd),
    (0x070f, 0x070f),
    (0x0890, 0x0891),
    (0x08e2, 0x08e2),
    (0x180e, 0x180e),
    (0x200b, 0x200f),
    (0x2028, 0x202e),
    (0x2060, 0x2064),
    (0x2066, 0x206f),
    (0xfeff, 0xfeff),
    (0xfff9, 0xfffb),
    (0x1_10bd, 0x1_10bd),
    (0x1_10cd, 0x1_10cd),
    (0x1_3430, 0x1_343f),
    (0x1_bca0, 0x1_bca3),
    (0x1_d173, 0x1_d17a),
    (0xe_0001, 0xe_0001),
    (0xe_0020, 0xe_007f),
];

/// Whether a character is invisible and may change how others are shown. Go's `%q` escapes these too.
pub fn is_hidden(c: char) -> bool {
    let number = u32::from(c);
    c.is_control()
        || FORMAT
            .iter()
            .any(|(first, last)| (*first..=*last).contains(&number))
}

/// Appends a character in Go's escaped form.
pub(crate) fn escape_into(c: char, text: &mut String) {
    let number = u32::from(c);
    let _ = match number {
        0..=0x7f => write!(text, "\\x{number:02x}"),
        0x80..=0xffff => write!(text, "\\u{number:04x}"),
        _ => write!(text, "\\U{number:08x}"),
    };
}

/// `text` with every hidden character but line feed and tabulator escaped; for events, conditions and
/// other places that show a driver's message. All other text, in any script, stays as it is.
pub fn visible(text: &str) -> Cow<'_, str> {
    let hides = |c: char| is_hidden(c) && !matches!(c, '\n' | '\t');
    if !text.contains(hides) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if hides(c) {
            escape_into(c, &mut shown);
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// The start of `text` that takes at most `longest` bytes when quoted; an ellipsis replaces the rest.
pub fn shortened(text: &str, longest: usize) -> String {
    const ELLIPSIS: &str = "...";
    let quoted = |c: char| c.escape_debug().map(char::len_utf8).sum::<usize>();
    if text.chars().map(quoted).sum::<usize>() <= longest {
        return text.to_owned();
    }
    let mut room = longest.saturating_sub(ELLIPSIS.len());
    let fitting = text.chars().take_while(|c| {
        let left = room.checked_sub(quoted(*c));
        room = left.unwrap_or(0);
        left.is_some()
    });
    let fitting: String = fitting.collect();
    fitting + ELLIPSIS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fa_10_what_hides_is_shown() {
        for (text, shown) in [
            ("a\u{202e}b", r"a\u202eb"),
            (
                "\u{200b}\u{2066}\u{2028}\u{2029}",
                r"\u200b\u2066\u2028\u2029",
            ),
            ("\u{feff}\u{ad}\u{61c}", r"\ufeff\u00ad\u061c"),
            ("\u{1b}[31m\r\u{9b}", r"\x1b[31m\x0d\u009b"),
            ("\u{e0041}", r"\U000e0041"),
        ] {
            assert_eq!(visible(text), shown);
        }
    }

    #[test]
    fn long_texts_are_cut_as_they_look_in_quotes() {
        for (text, longest, shown) in [
            ("", 0, ""),
            ("abcdef", 6, "abcdef"),
            ("abcdefg", 6, "abc..."),
            ("ééé", 6, "ééé"),
            ("éééé", 6, "é..."),
            ("\"\"\"\"", 8, "\"\"\"\""),
            ("\"\"\"\"", 7, "\"\"..."),
        ] {
            assert_eq!(shortened(text, longest), shown, "{text}");
        }
    }

    #[test]
    fn fa_10_ordinary_text_stays() {
        for text in [
            "",
            "rpc error: code = Internal desc = \"x\"\n\tat y\\z",
            "größe, 容量不足, объём, حجم, 용량 \u{1f4be}",
        ] {
            assert!(matches!(visible(text), Cow::Borrowed(same) if same == text));
        }
    }
}
