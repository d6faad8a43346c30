//! The end of a run.

use std::collections::HashSet;
use std::fmt::Debug;

/// More steps than any terminating work needs.
const MOST: usize = 4_000;

/// Works until there is nothing to do unless time advances.
///
/// # Errors
/// The work does not terminate.
pub fn drain<W>(
    world: &mut W,
    mut is_idle: impl FnMut(&mut W) -> bool,
    mut work: impl FnMut(&mut W),
) -> Result<(), String> {
    for _ in 0..MOST {
        if is_idle(world) {
            return Ok(());
        }
        work(world);
    }
    Err("the work does not end".into())
}

/// The state that `object` keeps beyond the stateless `empty`: one line of its `Debug` each. Fields named in `but` may
/// keep state.
pub fn remembered<T: Debug>(object: &T, empty: &T, but: &[&str]) -> Vec<String> {
    let (text, empty) = (format!("{object:#?}"), format!("{empty:#?}"));
    let known: HashSet<&str> = empty.lines().collect();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut within = None;
    let mut left = Vec::new();
    for line in text.lines() {
        if let Some(outer) = within {
            if indent(line) <= outer {
                within = None;
            }
            continue;
        }
        let field = line.trim_start().split(':').next();
        if field.is_some_and(|field| but.contains(&field)) {
            within = line.ends_with(['{', '[', '(']).then_some(indent(line));
        } else if !known.contains(line) {
            left.push(line.trim().to_owned());
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn what_is_remembered_is_told_but_for_what_may_be() {
        #[derive(Debug, Default)]
        #[expect(dead_code, reason = "only `Debug` reads them")]
        struct State {
            one: BTreeMap<&'static str, Option<u32>>,
            other: BTreeMap<&'static str, Option<u32>>,
        }
        let full = || BTreeMap::from([("a", None)]);
        let state = State {
            one: full(),
            other: full(),
        };
        let empty = State::default();
        let told = |but: &[&str]| remembered(&state, &empty, but);
        assert_eq!(told(&["other"]), ["one: {", "\"a\": None,", "},"]);
        assert!(told(&["one", "other"]).is_empty());
        assert_eq!(told(&[]).len(), 6);
        assert!(remembered(&empty, &empty, &[]).is_empty());
    }
}
