//! Formats times and lists, and searches other programs' texts.

use jiff::{SignedDuration, Timestamp};
use sidecar::alike::distance;

/// `5 min 40 s`, `7 min`, `3 h`, `4 days`.
pub fn span(length: SignedDuration) -> String {
    let seconds = length.as_secs().max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match () {
        () if days >= 2 => format!("{days} days"),
        () if hours >= 3 => format!("{hours} h"),
        () if hours >= 1 && minutes % 60 > 0 => format!("{hours} h {} min", minutes % 60),
        () if hours >= 1 => format!("{hours} h"),
        () if minutes >= 10 || (minutes >= 1 && seconds % 60 == 0) => format!("{minutes} min"),
        () if minutes >= 1 => format!("{minutes} min {} s", seconds % 60),
        () => format!("{seconds} s"),
    }
}

/// `14:26 UTC`.
pub(super) fn clock(time: Timestamp) -> String {
    time.strftime("%H:%M UTC").to_string()
}

/// `a`, `a and b`, `a, b and 3 more`.
pub fn listed<T: AsRef<str>>(names: &[T]) -> String {
    listed_of(names, names.len())
}

/// Number of names that a list shows at most.
pub(super) const LISTED: usize = 3;

/// The same for `all` names, of which `names` are the first.
pub(super) fn listed_of<T: AsRef<str>>(names: &[T], all: usize) -> String {
    let text = |index: usize| names.get(index).map(AsRef::as_ref).unwrap_or_default();
    match all {
        0 => String::new(),
        1 => text(0).to_owned(),
        2 => format!("{} and {}", text(0), text(1)),
        3 => format!("{}, {} and {}", text(0), text(1), text(2)),
        more => format!("{}, {} and {} more", text(0), text(1), more - 2),
    }
}

/// Whether a text contains one of these words, ignoring case.
pub(super) fn has(text: &str, words: &[&str]) -> bool {
    let text = text.to_ascii_lowercase();
    words.iter().any(|word| text.contains(word))
}

/// The gRPC code in a text of a sidecar or of kubelet.
pub(super) fn code(text: &str) -> Option<&str> {
    let (_, behind) = text.split_once("rpc error: code = ")?;
    let end = behind.find(|c: char| !c.is_ascii_alphabetic());
    Some(end.map_or(behind, |end| behind.get(..end).unwrap_or(behind)))
}

/// The most similar of `names`, if any is similar enough.
pub fn nearest<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let measured = names.into_iter().filter(|other| *other != name);
    let measured = measured.map(|other| (distance(name, other), other));
    let (edits, nearest) = measured.min()?;
    let part = nearest.contains(name) || name.contains(nearest);
    (part || edits * 3 <= name.chars().count()).then_some(nearest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_as_people_say_them() {
        for (seconds, text) in [
            (-5, "0 s"),
            (59, "59 s"),
            (60, "1 min"),
            (340, "5 min 40 s"),
            (3599, "59 min"),
            (3600, "1 h"),
            (5400, "1 h 30 min"),
            (90_000, "25 h"),
            (172_800, "2 days"),
        ] {
            assert_eq!(span(SignedDuration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn lists_are_short() {
        assert_eq!(listed::<&str>(&[]), "");
        assert_eq!(listed(&["a", "b"]), "a and b");
        assert_eq!(listed(&["a", "b", "c", "d"]), "a, b and 2 more");
    }

    #[test]
    fn names_that_are_near() {
        let names = ["standard", "fast-ssd", "csi.example.com"];
        assert_eq!(nearest("standart", names), Some("standard"));
        assert_eq!(nearest("ssd", names), Some("fast-ssd"));
        assert_eq!(nearest("quite-else", names), None);
        assert_eq!(nearest("standard", ["standard"]), None);
    }

    #[test]
    fn codes_are_read_out_of_texts() {
        let text = "failed to provision: rpc error: code = DeadlineExceeded desc = context";
        assert_eq!(code(text), Some("DeadlineExceeded"));
        assert_eq!(code("rpc error: code = Internal"), Some("Internal"));
        assert_eq!(code("no code"), None);
    }
}
