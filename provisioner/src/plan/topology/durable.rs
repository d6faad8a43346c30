//! The durable form of a requirement: few bytes, because it goes into an annotation.
//!
//! Separate, because the form is a contract between versions of the program. Kubernetes takes 256 KiB
//! of annotations per object; the two lists as CSI has them are four times as long as this.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::requirement::Requirement;
use super::term::Term;
use crate::model::Text;

/// Terms by the keys they have in common, which in practice is one group.
#[derive(Serialize, Deserialize)]
struct Durable {
    terms: Vec<Group>,
    /// Index of the preferred term.
    first: usize,
}

#[derive(Serialize, Deserialize)]
struct Group {
    keys: Vec<String>,
    /// For each term its values, as many as there are keys.
    values: Vec<Vec<String>>,
}

impl Serialize for Requirement {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut terms: Vec<Group> = Vec::new();
        for term in self.requisite() {
            let keys = || term.iter().map(|(key, _)| &**key);
            let values = term.iter().map(|(_, value)| value.to_string()).collect();
            match terms.last_mut() {
                Some(group) if group.keys.iter().map(String::as_str).eq(keys()) => {
                    group.values.push(values);
                }
                Some(_) | None => terms.push(Group {
                    keys: keys().map(str::to_owned).collect(),
                    values: vec![values],
                }),
            }
        }
        let first = self.first();
        Durable { terms, first }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Requirement {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let durable = Durable::deserialize(deserializer)?;
        let mut terms = Vec::new();
        for group in &durable.terms {
            let keys: Vec<Text> = group.keys.iter().map(|key| key.as_str().into()).collect();
            for values in &group.values {
                if values.len() != keys.len() {
                    return Err(serde::de::Error::custom("a value for each key is needed"));
                }
                let values = values.iter().map(|value| value.as_str().into());
                terms.push(Term::new(keys.iter().cloned().zip(values)));
            }
        }
        let terms: Arc<[Term]> = terms.into();
        Self::new(terms, durable.first)
            .ok_or_else(|| serde::de::Error::custom("the preferred term is not one of the terms"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::term::term;
    use super::*;

    #[test]
    fn a_requirement_comes_back_as_it_was() {
        let terms = ["disk=ssd", "rack=A zone=1", "rack=B zone=1"].map(term);
        for first in 0..3 {
            let requirement = Requirement::new(terms.clone().into(), first).unwrap();
            let json = serde_json::to_string(&requirement).unwrap();
            let back: Requirement = serde_json::from_str(&json).unwrap();
            assert_eq!(back, requirement, "{json}");
        }
        let requirement = Requirement::new(terms.into(), 1).unwrap();
        let json = serde_json::to_string(&requirement).unwrap();
        let expected = r#"{"terms":[{"keys":["disk"],"values":[["ssd"]]},{"keys":["rack","zone"],"values":[["A","1"],["B","1"]]}],"first":1}"#;
        assert_eq!(json, expected);
    }

    #[test]
    fn what_is_no_requirement_is_refused() {
        for json in [
            r#"{"terms":[],"first":0}"#,
            r#"{"terms":[{"keys":["a"],"values":[["1"]]}],"first":1}"#,
            r#"{"terms":[{"keys":["a","b"],"values":[["1"]]}],"first":0}"#,
            r#"{"terms":[{"keys":["a"],"values":[["1"]]}]}"#,
            r#"{"terms":[{"keys":["a"],"values":[["1"]]}],"first":-1}"#,
        ] {
            assert!(serde_json::from_str::<Requirement>(json).is_err(), "{json}");
        }
    }
}
