//! The words of drivers, as they may leave the cluster: without anything that the driver was told.
//!
//! Pure. Drivers repeat what they were asked in their errors, Secrets, parameters and contexts included. What a call
//! carried is known, and is taken out whatever it looks like; what looks like a secret is taken out as well.

use crate::redact;

/// What stands in place of what was taken out.
const HIDDEN: &str = "***";
/// What is shorter is taken out only where it stands by itself: `3` is a parameter, and a digit of many numbers.
const SHORT: usize = 4;
/// Messages in messages; CSI's are no deeper.
const DEEPEST: usize = 8;

/// `text` without anything in `told`, at most 1 KiB of it.
#[must_use]
pub(super) fn without<'a>(text: &str, told: impl IntoIterator<Item = &'a str>) -> String {
    let mut told: Vec<String> = told.into_iter().flat_map(forms).collect();
    // What another one begins with must not leave the rest of that behind.
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

/// A value, its lines, and both as they are written between quotes.
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

/// All texts in an encoded message but the keys of maps, as far as they can be told from other bytes; more rather
/// than less.
#[must_use]
pub(super) fn texts(message: &[u8]) -> Vec<&str> {
    let mut texts = Vec::new();
    let _ = walk(message, 0, &mut texts);
    texts
}

/// `None` if this is no message.
fn walk<'a>(message: &'a [u8], depth: usize, texts: &mut Vec<&'a str>) -> Option<()> {
    let fields = fields(message)?;
    let is_entry = depth > 0 && matches!(&*fields, [(1, _), (2, _)]);
    for (number, bytes) in fields {
        if let (Ok(text), false) = (std::str::from_utf8(bytes), is_entry && number == 1)
            && !text.is_empty()
        {
            texts.push(text);
        }
        if depth < DEEPEST {
            let _ = walk(bytes, depth + 1, texts);
        }
    }
    Some(())
}

/// The fields of a message that have a length.
fn fields(mut message: &[u8]) -> Option<Vec<(u64, &[u8])>> {
    let mut fields = Vec::new();
    while !message.is_empty() {
        let key = varint(&mut message)?;
        let length = match key & 7 {
            0 => {
                varint(&mut message)?;
                0
            }
            1 => 8,
            2 => usize::try_from(varint(&mut message)?).ok()?,
            5 => 4,
            _ => return None,
        };
        let (bytes, rest) = message.split_at_checked(length)?;
        message = rest;
        if key & 7 == 2 {
            fields.push((key >> 3, bytes));
        }
    }
    Some(fields)
}

fn varint(message: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = message.split_first()?;
        *message = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use csi_proto::csi::{CreateVolumeRequest, Topology, TopologyRequirement};
    use proptest::prelude::*;
    use prost::Message as _;

    use super::*;

    fn request(secret: &str, parameter: &str) -> Vec<u8> {
        let zone = [("topology/zone".to_owned(), "zone-a".to_owned())].into();
        let request = CreateVolumeRequest {
            name: "pvc-1".to_owned(),
            secrets: [("password".to_owned(), secret.to_owned())].into(),
            parameters: [("type".to_owned(), parameter.to_owned())].into(),
            accessibility_requirements: Some(TopologyRequirement {
                requisite: vec![Topology { segments: zone }],
                preferred: Vec::new(),
            }),
            ..CreateVolumeRequest::default()
        };
        request.encode_to_vec()
    }

    #[test]
    fn o_26_what_a_call_carried_is_in_no_text() {
        let message = request("hunter2", "gold");
        let found = texts(&message);
        for text in ["hunter2", "gold", "zone-a", "pvc-1"] {
            assert!(found.contains(&text), "{text}: {found:?}");
        }
        assert!(!found.contains(&"topology/zone") && !found.contains(&"type"));
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
            assert_eq!(without(text, found.iter().copied()), shown, "{text}");
        }
        let message = request("3", "ü");
        let short = texts(&message);
        assert_eq!(without("13 of 3, ü", short), "13 of ***, ***");
        let long = without(&"no room ".repeat(1000), []);
        assert!(long.len() <= 1024 + '…'.len_utf8(), "{}", long.len());
    }

    #[test]
    fn o_26_a_value_of_several_lines_is_hidden_line_by_line() {
        let key = "-----BEGIN KEY-----\nplanted-1\nplanted-2\n";
        let shown = without("cannot parse planted-2: \"planted-1\\nplanted-2\"", [key]);
        assert!(!shown.contains("planted"), "{shown}");
    }

    proptest! {
        #[test]
        fn o_26_no_secret_is_left_whatever_it_is_and_wherever_it_stands(
            secret in "[!-~]{4,40}",
            parameter in "[ -~]{0,12}",
            front in "[ -~]{0,30}",
            behind in "[ -~]{0,30}",
        ) {
            prop_assume!(!"***".contains(&secret) && secret.chars().any(|c| c != '*'));
            let message = request(&secret, &parameter);
            let plain = without(&format!("{front}{secret}{behind}"), texts(&message));
            prop_assert!(!plain.contains(&secret), "{plain}");
            let quoted = without(&format!("{front}{secret:?}{behind}"), texts(&message));
            prop_assert!(!quoted.contains(&secret), "{quoted}");
        }

        #[test]
        fn any_bytes_are_walked(message in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = texts(&message);
        }
    }
}
