//! Similarity of texts: whether two errors say the same, and the distance between two names.
//!
//! Drivers put request ids and times into their messages, and each new one would cost a status
//! write and an event while nothing has changed.

/// Whether the texts are equal except for UUIDs, long hexadecimal numbers and times.
#[must_use]
pub fn alike(one: &str, other: &str) -> bool {
    one == other || skeleton(one) == skeleton(other)
}

/// The words of a text without those that change from attempt to attempt.
fn skeleton(text: &str) -> Vec<&str> {
    let ends = |c: char| !(c.is_alphanumeric() || matches!(c, '-' | ':' | '.' | '+'));
    let words = text.split_inclusive(ends);
    words
        .map(|word| {
            let core = word.trim_matches(|c: char| ends(c) || matches!(c, ':' | '.' | '-'));
            if changes(core) { "" } else { word }
        })
        .collect()
}

/// Whether a word changes between attempts: an id or a time.
fn changes(word: &str) -> bool {
    is_hexadecimal(word) || is_time(word)
}

/// A UUID, or 8 and more digits of which some are letters: sizes and codes are decimal.
fn is_hexadecimal(word: &str) -> bool {
    let digits = word.chars().filter(|c| *c != '-');
    let (mut count, mut letters, mut numbers) = (0, false, false);
    for digit in digits {
        if !digit.is_ascii_hexdigit() {
            return false;
        }
        count += 1;
        letters |= digit.is_ascii_alphabetic();
        numbers |= digit.is_ascii_digit();
    }
    let uuid = count == 32 && word.len() == 36;
    uuid || (count >= 8 && letters && numbers)
}

/// `03:04:05`, `2026-01-02`, `2026-01-02T03:04:05.123Z` and the like.
fn is_time(word: &str) -> bool {
    let numbers = word.chars().filter(char::is_ascii_digit).count();
    let marks = word.chars().filter(|c| matches!(c, ':' | '-')).count();
    let fits = |c: char| c.is_ascii_digit() || matches!(c, ':' | '-' | '.' | '+' | 'T' | 'Z');
    numbers >= 5
        && marks >= 2
        && word.starts_with(|c: char| c.is_ascii_digit())
        && word.chars().all(fits)
}

/// Number of single-character edits between two short names (Levenshtein).
#[must_use]
pub fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, y) in row.iter_mut().skip(1).zip(b.chars()) {
            let edit = diagonal + usize::from(x != y);
            diagonal = *cell;
            left = edit.min(left + 1).min(*cell + 1);
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s_68_what_says_the_same() {
        let rows = [
            ("a", "a", true),
            ("a", "b", false),
            (
                "failed (request 0123abcd-4567-89ab-cdef-0123456789ab): busy",
                "failed (request 1123abcd-4567-89ab-cdef-0123456789ab): busy",
                true,
            ),
            (
                "failed (request 0123abcd-4567-89ab-cdef-0123456789ab): busy",
                "failed (request 0123abcd-4567-89ab-cdef-0123456789ab): gone",
                false,
            ),
            ("request id: 5f3a9c01e2", "request id: 77aa01bc9d", true),
            (
                "at 2026-01-02T03:04:05Z: no",
                "at 2026-01-02T03:04:06.12Z: no",
                true,
            ),
            (
                "at 2026/01/02 03:04:05 no",
                "at 2026/01/02 03:04:09 no",
                true,
            ),
            ("needs 10737418240 bytes", "needs 21474836480 bytes", false),
            ("code 404", "code 405", false),
            ("pool deadbeef is full", "pool facebead is full", false),
        ];
        for (one, other, expected) in rows {
            assert_eq!(alike(one, other), expected, "{one} | {other}");
            assert_eq!(alike(other, one), expected, "{other} | {one}");
        }
    }
}
