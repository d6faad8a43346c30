//! The tests of a source, and the rows of an acceptance table that their names cite.

use std::collections::{BTreeMap, BTreeSet};

/// The ways in which a test can fail: by a check, or by waiting.
const CHECKS: [&str; 17] = [
    "assert",
    "panic!",
    ".unwrap()",
    ".unwrap_err()",
    ".expect(",
    "until",
    "within(",
    "must_",
    "check",
    "shows(",
    "with_code(",
    "hold(",
    "join!",
    ".logs",
    ".says(",
    ".listening(",
    "traced(",
];

/// Whether `text` is the number of a row: `62`, or `88b`.
#[must_use]
pub fn is_number(text: &str) -> bool {
    let digits = text.trim_end_matches(|last: char| last.is_ascii_lowercase());
    text.len() - digits.len() <= 1
        && !digits.is_empty()
        && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// The numbers after `row_` in a name: `7_and_9_to_12_sizes_and_row_20` has 7, 9, 10, 11, 12 and 20.
/// `words` are those that precede numbers.
#[must_use]
pub fn numbers(rest: &str, words: &[&str]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut parts = rest.split('_');
    let mut counts = true;
    while let Some(part) = parts.next() {
        if words.contains(&part) {
            counts = true;
        } else if counts && is_number(part) {
            found.push(part.to_owned());
        } else if counts && part == "to" {
            let range = found.last().zip(parts.next());
            let range = range.map(|(from, to)| (from.parse::<u32>(), to.parse::<u32>()));
            let Some((Ok(from), Ok(to))) = range else {
                break;
            };
            found.extend((from + 1..=to).map(|number| number.to_string()));
        } else {
            counts &= part == "and";
        }
    }
    found
}

struct Function<'a> {
    body: Vec<&'a str>,
    /// Whether it is a test that is not ignored.
    runs: bool,
}

/// Names of the tests in a source that are not ignored and that can fail: they contain a check or
/// wait, or call a function of the same source that does.
#[must_use]
pub fn tests_that_can_fail(source: &str) -> BTreeSet<String> {
    let functions = functions(source);
    let tests = functions.iter().filter(|(_, function)| function.runs);
    tests
        .filter(|(name, _)| can_fail(name, &functions, &mut BTreeSet::new()))
        .map(|(name, _)| (*name).to_owned())
        .collect()
}

fn can_fail<'a>(
    name: &'a str,
    functions: &BTreeMap<&'a str, Function<'a>>,
    seen: &mut BTreeSet<&'a str>,
) -> bool {
    let Some(function) = functions.get(name) else {
        return false;
    };
    if !seen.insert(name) {
        return false;
    }
    let checks = |line: &&str| CHECKS.iter().any(|check| line.contains(check));
    function.body.iter().any(checks)
        || words(&function.body).any(|word| can_fail(word, functions, seen))
}

fn words<'a>(lines: &[&'a str]) -> impl Iterator<Item = &'a str> {
    let other = |of: char| !of.is_ascii_alphanumeric() && of != '_';
    lines.iter().flat_map(move |line| line.split(other))
}

fn functions(source: &str) -> BTreeMap<&str, Function<'_>> {
    let mut found = BTreeMap::new();
    let mut attributes: Vec<&str> = Vec::new();
    let mut lines = source.lines();
    while let Some(line) = lines.next() {
        let code = line.trim_start();
        if code.starts_with("#[") {
            attributes.push(code);
            continue;
        }
        if let Some(name) = declared(code) {
            let indent = line.len() - code.len();
            let is_end = |line: &&str| line.trim() == "}" && line.len() == indent + 1;
            let body = lines.clone().take_while(|line| !is_end(line));
            let body = body.filter(|line| !line.trim_start().starts_with("//"));
            let is_test = attributes.iter().any(|one| one.contains("test"));
            let waits_to_be_asked = attributes.iter().any(|one| one.starts_with("#[ignore"));
            let function = Function {
                body: body.collect(),
                runs: is_test && !waits_to_be_asked,
            };
            found.insert(name, function);
        }
        if !code.starts_with("//") {
            attributes.clear();
        }
    }
    found
}

/// The name of the function whose declaration the line begins.
fn declared(code: &str) -> Option<&str> {
    let mut code = code;
    for before in ["pub(crate) ", "pub(super) ", "pub ", "async "] {
        code = code.strip_prefix(before).unwrap_or(code);
    }
    let rest = code.strip_prefix("fn ")?;
    let end = rest.find(|of: char| !of.is_ascii_alphanumeric() && of != '_')?;
    rest.get(..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_from_names() {
        let cases: &[(&str, &[&str])] = &[
            ("62_a_claim", &["62"]),
            ("7_and_9_to_12_sizes", &["7", "9", "10", "11", "12"]),
            ("2_to_4_8_and_10_a_name_7", &["2", "3", "4", "8", "10"]),
            ("88b_burst", &["88b"]),
            ("63_that_and_row_65_too", &["63", "65"]),
            ("nothing_5", &[]),
            ("to_3", &[]),
        ];
        for (name, read) in cases {
            assert_eq!(numbers(name, &["row"]), *read, "{name}");
        }
    }

    #[test]
    fn what_cannot_fail_does_not_count() {
        let source = "\
#[test]
fn case_1_empty() {
}

#[test]
fn case_2_a_comment() {
    // assert!(false);
}

#[test]
#[ignore = \"by hand\"]
fn case_3_asked_for() {
    assert!(true);
}

fn case_4_no_test() {
    assert!(true);
}

    #[tokio::test]
    async fn case_5_counts() {
        assert!(true);
    }

#[tokio::test]
async fn case_6_by_cases() {
    together([6], case).await;
}

pub(crate) async fn case(row: u32) {
    assert_eq!(row, 6);
}

#[tokio::test]
async fn case_7_goes_round() {
    round().await;
}

async fn round() {
    round().await;
}
";
        let found: Vec<_> = tests_that_can_fail(source).into_iter().collect();
        assert_eq!(found, ["case_5_counts", "case_6_by_cases"]);
    }
}
