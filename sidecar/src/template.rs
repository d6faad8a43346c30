//! Names with tokens in them, such as `${pvc.name}`.
//!
//! The notation is that of Go's `os.Expand`, with all its edge cases: classes are written for it,
//! and an edge case read differently names another Secret.

use std::collections::BTreeSet;

use crate::log::quote;

/// Unknown tokens of a template, in alphabetical order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid tokens: [{}]", quoted(.0))]
pub struct UnknownTokens(pub Vec<String>);

/// Formats a list of quoted texts as Go does.
fn quoted(tokens: &[String]) -> String {
    let tokens: Vec<String> = tokens.iter().map(|token| quote(token)).collect();
    tokens.join(" ")
}

/// Replaces the tokens of `template` by their values from `value`.
///
/// # Errors
/// All tokens for which `value` returns none.
pub fn resolve<'v>(
    template: &str,
    value: impl Fn(&str) -> Option<&'v str>,
) -> Result<String, UnknownTokens> {
    let mut resolved = String::with_capacity(template.len());
    let mut unknown = BTreeSet::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('$') {
        resolved.push_str(before);
        let (token, len) = token(after);
        match (token, len) {
            // Not followed by a name: kept as it is.
            ("", 0) => resolved.push('$'),
            // `${}` and `${` without end vanish.
            ("", _) => {}
            (token, _) => match value(token) {
                Some(value) => resolved.push_str(value),
                None => {
                    unknown.insert(token.to_owned());
                }
            },
        }
        rest = after.get(len..).unwrap_or_default();
    }
    resolved.push_str(rest);
    if unknown.is_empty() {
        Ok(resolved)
    } else {
        Err(UnknownTokens(unknown.into_iter().collect()))
    }
}

/// The token after a dollar sign, and its length in bytes.
fn token(after: &str) -> (&str, usize) {
    let part = |from: usize, to: usize| after.get(from..to).unwrap_or_default();
    let mut bytes = after.bytes();
    match bytes.next() {
        None => ("", 0),
        Some(b'{') => {
            // One special character between the braces is a token, as `${$}`.
            match (bytes.next(), bytes.next()) {
                (Some(first), Some(b'}')) if is_special(first) => return (part(1, 2), 3),
                _ => {}
            }
            match after.find('}') {
                Some(end) => (part(1, end), end + 1),
                None => ("", 1),
            }
        }
        Some(first) if is_special(first) => (part(0, 1), 1),
        Some(_) => {
            let in_name = |c: char| c == '_' || c.is_ascii_alphanumeric();
            let end = after.find(|c| !in_name(c)).unwrap_or(after.len());
            (part(0, end), end)
        }
    }
}

/// Characters that are a token by themselves, as in a shell.
fn is_special(byte: u8) -> bool {
    matches!(
        byte,
        b'*' | b'#' | b'$' | b'@' | b'!' | b'?' | b'-' | b'0'..=b'9'
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value(token: &str) -> Option<&'static str> {
        match token {
            "pvc.name" => Some("c1"),
            "pvc.namespace" => Some("ns1"),
            "pvc.annotations['akey']" => Some("avalue"),
            "plain" => Some("p"),
            "1" => Some("one"),
            _ => None,
        }
    }

    #[test]
    fn tokens_as_os_expand_reads_them() {
        let rows = [
            ("c1", Ok("c1")),
            ("${pvc.name}", Ok("c1")),
            ("a-${pvc.namespace}-${pvc.name}-", Ok("a-ns1-c1-")),
            ("${pvc.annotations['akey']}", Ok("avalue")),
            (
                "${pvc.annotations['other']}",
                Err(&["pvc.annotations['other']"][..]),
            ),
            ("${b}${a}${b}", Err(&["a", "b"])),
            ("x$y", Err(&["y"])),
            ("x$plain-z", Ok("xp-z")),
            ("x$plain.z", Ok("xp.z")),
            ("x$$", Err(&["$"])),
            ("x$1z", Ok("xonez")),
            ("x${1}z", Ok("xonez")),
            ("x$-", Err(&["-"])),
            ("x${", Ok("x")),
            ("x${}y", Ok("xy")),
            ("x${}}y", Ok("x}y")),
            ("x${abc", Ok("xabc")),
            ("x$", Ok("x$")),
            ("x$.y", Ok("x$.y")),
            ("x$é", Ok("x$é")),
            ("x${é}", Err(&["é"])),
            ("${$}", Err(&["$"])),
            ("", Ok("")),
        ];
        for (template, expected) in rows {
            let expected = expected
                .map(str::to_owned)
                .map_err(|tokens| UnknownTokens(tokens.iter().map(|t| (*t).to_owned()).collect()));
            assert_eq!(resolve(template, value), expected, "{template}");
        }
    }

    #[test]
    fn unknown_tokens_are_listed_as_go_does() {
        let unknown = resolve("${b}${a}", value).unwrap_err();
        assert_eq!(unknown.to_string(), r#"invalid tokens: ["a" "b"]"#);
    }

    proptest! {
        #[test]
        fn no_template_panics_and_what_has_no_dollar_stays(template in r"[a${}*.'é\[\]-]{0,20}") {
            let resolved = resolve(&template, value);
            if !template.contains('$') {
                prop_assert_eq!(resolved, Ok(template));
            }
        }

        #[test]
        fn a_value_is_put_in_verbatim(text in ".{0,12}") {
            // Replacements are not parsed again: a hostile annotation adds no tokens.
            let resolved = resolve("a${x}b", |_| Some(&text));
            prop_assert_eq!(resolved, Ok(format!("a{text}b")));
        }
    }
}
