//! Node selectors on the wire.

use serde::Deserialize;

use crate::kube::interner::Interner;
use crate::kube::lean::{Text, interned, list, nullable};
use crate::node_selector;

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Selector<'a> {
    #[serde(deserialize_with = "nullable")]
    node_selector_terms: Vec<Term<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Term<'a> {
    #[serde(deserialize_with = "nullable")]
    match_expressions: Vec<Requirement<'a>>,
    #[serde(deserialize_with = "nullable")]
    match_fields: Vec<Requirement<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Requirement<'a> {
    key: Option<Text<'a>>,
    operator: Option<Text<'a>>,
    #[serde(deserialize_with = "nullable")]
    values: Vec<Text<'a>>,
}

/// Decodes the terms of a `NodeSelector`; `None` if it is unreadable.
#[must_use]
pub fn terms(json: &str, strings: &Interner) -> Option<Vec<node_selector::Term>> {
    let selector: Selector<'_> = serde_json::from_str(json).ok()?;
    let all = |wire: &[Requirement<'_>]| wire.iter().map(|one| one.read(strings)).collect();
    let terms = selector.node_selector_terms.iter();
    let terms = terms.map(|wire| node_selector::Term {
        expressions: all(&wire.match_expressions),
        fields: all(&wire.match_fields),
    });
    Some(terms.collect())
}

impl Requirement<'_> {
    fn read(&self, strings: &Interner) -> node_selector::Requirement {
        node_selector::Requirement {
            key: interned(&self.key, strings),
            operator: interned(&self.operator, strings),
            values: list(&self.values, strings),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_absent_is_empty_and_what_cannot_be_read_is_none() {
        let strings = Interner::default();
        for (json, expected) in [
            ("no JSON", None),
            ("{}", Some(0)),
            (r#"{"nodeSelectorTerms":null}"#, Some(0)),
            (
                r#"{"nodeSelectorTerms":[{"matchExpressions":null}]}"#,
                Some(1),
            ),
        ] {
            assert_eq!(
                terms(json, &strings).map(|terms| terms.len()),
                expected,
                "{json}"
            );
        }
        let json = r#"{"nodeSelectorTerms":[{
            "matchExpressions":[{"key":"zone","operator":"In","values":["a"]}],
            "matchFields":[{"key":"metadata.name","operator":"In","values":null}]}]}"#;
        let read = terms(json, &strings).unwrap();
        assert_eq!(&*read[0].expressions[0].values, ["a".into()]);
        assert_eq!(&*read[0].fields[0].key, "metadata.name");
        assert!(read[0].fields[0].values.is_empty());
    }
}
