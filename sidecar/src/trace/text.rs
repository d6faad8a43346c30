//! Removes the values of headers from the collector's messages before they are logged.
//!
//! Pure. Removes each value that was sent, in any form, and everything that looks like a secret.

use crate::redact;

/// Replaces a removed value.
const HIDDEN: &str = "***";
/// A shorter value is removed only where it is a word by itself: `3` is a digit of many numbers.
const SHORT: usize = 4;

/// `text` without any of the values in `told`, at most 1 KiB of it.
#[must_use]
pub(super) fn without<'a>(text: &str, told: impl IntoIterator<Item = &'a str>) -> String {
    let mut told: Vec<String> = told.into_iter().flat_map(forms).collect();
    // Longest first: removing a prefix of another value must not leave the rest of that behind.
    told.sort_by_key(|one| std::cmp::Reverse(one.len()));
    told.dedup();
    let mut text = text.to_owned();
    for one in told {
        if text.contains(&one) {
            text = replaced(&text, &one);
        }
    }
    redact::words(&text)
}

/// A value, its lines, and both in their escaped forms between quotes.
fn forms(value: &str) -> Vec<String> {
    let lines = value.lines().map(str::trim);
    let parts = [value, value.trim()].into_iter().chain(lines);
    let parts = parts.filter(|part| !part.is_empty() && *part != HIDDEN);
    parts
        .flat_map(|part| {
            let quoted = format!("{part:?}");
            let inside = quoted.get(1..quoted.len() - 1).unwrap_or_default();
            [part.to_owned(), inside.to_owned()]
        })
        .collect()
}

fn replaced(text: &str, value: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(value) {
        let (front, behind) = rest.split_at(at);
        let behind = behind.get(value.len()..).unwrap_or_default();
        shown.push_str(front);
        let of_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        let inside = of_word(shown.chars().next_back()) || of_word(behind.chars().next());
        let hides = value.len() >= SHORT || !inside;
        shown.push_str(if hides { HIDDEN } else { value });
        rest = behind;
    }
    shown.push_str(rest);
    shown
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn o_7_what_was_sent_is_in_no_text() {
        let told = ["hunter2", "gold", "zone-a"];
        for (text, shown) in [
            ("login with hunter2 failed", "login with *** failed"),
            ("xhunter2x", "x***x"),
            ("no type gold in zone-a", "no type *** in ***"),
            ("the array is full", "the array is full"),
            (
                "token: QWxhZGRpbjpvcGVuIHNlc2FtZUFsYWRkaW46b3BlbiBzZXNhbWU4",
                "token: ***",
            ),
            ("a\u{1b}[2J", "a\\x1b[2J"),
        ] {
            assert_eq!(without(text, told), shown, "{text}");
        }
        assert_eq!(without("13 of 3, ü", ["3", "ü"]), "13 of ***, ***");
        let long = without(&"no room ".repeat(1000), []);
        assert!(long.len() <= 1024 + '…'.len_utf8(), "{}", long.len());
    }

    #[test]
    fn o_7_a_value_of_several_lines_is_hidden_line_by_line() {
        let key = "-----BEGIN KEY-----\nplanted-1\nplanted-2\n";
        let shown = without("cannot parse planted-2: \"planted-1\\nplanted-2\"", [key]);
        assert!(!shown.contains("planted"), "{shown}");
    }

    proptest! {
        #[test]
        fn o_7_no_secret_is_left_whatever_it_is_and_wherever_it_stands(
            secret in "[!-~]{4,40}",
            other in "[ -~]{0,12}",
            front in "[ -~]{0,30}",
            behind in "[ -~]{0,30}",
        ) {
            prop_assume!(!"***".contains(&secret) && secret.chars().any(|c| c != '*'));
            let told = [&*secret, &*other];
            let plain = without(&format!("{front}{secret}{behind}"), told);
            prop_assert!(!plain.contains(&secret), "{plain}");
            let quoted = without(&format!("{front}{secret:?}{behind}"), told);
            prop_assert!(!quoted.contains(&secret), "{quoted}");
        }
    }
}
