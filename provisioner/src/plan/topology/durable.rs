//! The durable form of a requirement: few bytes, because it goes into an annotation.
//!
//! The form is a contract between versions of the program. With topology per node a requirement has a term for every
//! node; names of nodes mostly differ in a few characters, so each value has the lengths of the prefix and of the
//! suffix that it shares with the value before, and then the characters in between.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::requirement::Requirement;
use super::term::Term;
use crate::model::Text;

/// Terms, grouped by their keys; in practice there is one group.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Durable {
    terms: Vec<Group>,
    /// Index of the preferred term.
    first: usize,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    keys: Vec<String>,
    /// Number of terms. Versions before this form wrote no count, and one list of values per term.
    #[serde(default)]
    count: Option<usize>,
    /// The terms' values for each key, shortened.
    values: Vec<Vec<String>>,
}

/// Sign of a shared length of 0; the characters after it stand for 1, 2 and so on.
const NOTHING: char = '0';

/// Greatest shared length, so that its sign stays printable.
const MOST: usize = 63;

fn sign(common: usize) -> char {
    (NOTHING..).nth(common).unwrap_or(NOTHING)
}

fn read(sign: char) -> Option<usize> {
    (NOTHING..).take(MOST + 1).position(|known| known == sign)
}

/// Length of the common prefix.
fn common<'a>(one: impl Iterator<Item = &'a char>, other: impl Iterator<Item = &'a char>) -> usize {
    { one.zip(other).take(MOST) }
        .take_while(|(one, other)| one == other)
        .count()
}

fn shorten<'a>(values: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut before: Vec<char> = Vec::new();
    let mut all = Vec::new();
    for value in values {
        let value: Vec<char> = value.chars().collect();
        let start = common(before.iter(), value.iter());
        let rest = value.iter().skip(start);
        let end = common(before.iter().skip(start).rev(), rest.clone().rev());
        let middle = rest.take(value.len() - start - end);
        all.push([sign(start), sign(end)].iter().chain(middle).collect());
        before = value;
    }
    all
}

fn lengthen(values: &[String]) -> Option<Vec<Text>> {
    let mut before: Vec<char> = Vec::new();
    let mut all = Vec::with_capacity(values.len());
    for value in values {
        let mut middle = value.chars();
        let (start, end) = (read(middle.next()?)?, read(middle.next()?)?);
        let after = before.len().checked_sub(start + end)? + start;
        let (first, last) = (before.get(..start)?, before.get(after..)?);
        let whole: Vec<char> = { first.iter().copied() }
            .chain(middle)
            .chain(last.iter().copied())
            .collect();
        all.push(whole.iter().collect::<String>().as_str().into());
        before = whole;
    }
    Some(all)
}

impl Group {
    fn new(terms: &[Term]) -> Option<Self> {
        let keys: Vec<String> = { terms.first()?.iter() }
            .map(|(key, _)| key.to_string())
            .collect();
        let column = |index| {
            let values = terms.iter().filter_map(move |term| term.iter().nth(index));
            shorten(values.map(|(_, value)| &**value))
        };
        let values = (0..keys.len()).map(column).collect();
        Some(Self {
            keys,
            count: Some(terms.len()),
            values,
        })
    }

    fn terms(&self) -> Option<Vec<Term>> {
        let Some(count) = self.count else {
            return self.values.iter().map(|row| self.term(row)).collect();
        };
        let columns: Option<Vec<Vec<Text>>> = { self.values.iter() }
            .map(|column| lengthen(column))
            .collect();
        let columns = columns?;
        let even = columns.iter().all(|column| column.len() == count);
        // Terms without a key are all the same one.
        if columns.len() != self.keys.len() || !even || columns.is_empty() && count > 1 {
            return None;
        }
        let keys: Vec<Text> = self.keys.iter().map(|key| key.as_str().into()).collect();
        let term = |index: usize| {
            let values = columns.iter().filter_map(|column| column.get(index));
            Term::new(keys.iter().cloned().zip(values.cloned()))
        };
        Some((0..count).map(term).collect())
    }

    /// A term in the older form, whose values are not shortened.
    fn term(&self, values: &[String]) -> Option<Term> {
        let text = |text: &String| Text::from(text.as_str());
        (values.len() == self.keys.len())
            .then(|| Term::new(self.keys.iter().map(text).zip(values.iter().map(text))))
    }
}

impl Serialize for Requirement {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let same = |one: &Term, other: &Term| {
            let keys = |term: &Term| term.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>();
            keys(one) == keys(other)
        };
        let terms = self.requisite().chunk_by(same).filter_map(Group::new);
        let durable = Durable {
            terms: terms.collect(),
            first: self.first(),
        };
        durable.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Requirement {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let durable = Durable::deserialize(deserializer)?;
        let groups: Option<Vec<Vec<Term>>> = durable.terms.iter().map(Group::terms).collect();
        let groups =
            groups.ok_or_else(|| serde::de::Error::custom("the terms are not complete"))?;
        let terms: Arc<[Term]> = groups.concat().into();
        Self::new(terms, durable.first)
            .ok_or_else(|| serde::de::Error::custom("the preferred term is not one of the terms"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
        let expected = concat!(
            r#"{"terms":[{"keys":["disk"],"count":1,"values":[["00ssd"]]},"#,
            r#"{"keys":["rack","zone"],"count":2,"values":[["00A","00B"],["001","10"]]}],"first":1}"#,
        );
        assert_eq!(json, expected);
    }

    #[test]
    fn what_earlier_versions_wrote_is_read() {
        let json = r#"{"terms":[{"keys":["disk"],"values":[["ssd"]]},{"keys":["rack","zone"],"values":[["A","1"],["B","1"]]}],"first":1}"#;
        let terms = ["disk=ssd", "rack=A zone=1", "rack=B zone=1"].map(term);
        let requirement = Requirement::new(terms.into(), 1).unwrap();
        assert_eq!(
            serde_json::from_str::<Requirement>(json).unwrap(),
            requirement
        );
    }

    proptest! {
        #[test]
        fn any_values_come_back(
            values in proptest::collection::vec(("[a-c\u{e9}]{0,70}", "[a-b]{0,3}"), 1..20),
        ) {
            let label = |key: &str, value: &String| (Text::from(key), Text::from(value.as_str()));
            let terms: Vec<Term> = { values.iter() }
                .map(|(one, other)| Term::new([label("one", one), label("other", other)]))
                .collect();
            let requirement = Requirement::new(terms.into(), 0).unwrap();
            let json = serde_json::to_string(&requirement).unwrap();
            prop_assert_eq!(serde_json::from_str::<Requirement>(&json).unwrap(), requirement);
        }
    }

    #[test]
    fn what_is_no_requirement_is_refused() {
        for json in [
            r#"{"terms":[],"first":0}"#,
            r#"{"terms":[{"keys":["a"],"count":1,"values":[["001"]]}],"first":1}"#,
            r#"{"terms":[{"keys":["a","b"],"count":1,"values":[["001"]]}],"first":0}"#,
            r#"{"terms":[{"keys":["a"],"count":2,"values":[["001"]]}],"first":0}"#,
            r#"{"terms":[{"keys":["a"],"count":1,"values":[["101"]]}],"first":0}"#,
            r#"{"terms":[{"keys":["a"],"count":1,"values":[[""]]}],"first":0}"#,
            r#"{"terms":[{"keys":["a"],"count":1,"values":[["001"]]}]}"#,
            r#"{"terms":[{"keys":["a","b"],"values":[["1"]]}],"first":0}"#,
            r#"{"terms":[{"keys":[],"count":1000000000000,"values":[]}],"first":0}"#,
            r#"{"terms":[{"keys":["a"],"count":1,"values":[["001"]]}],"first":-1}"#,
            r#"{"terms":[{"keys":["a"],"count":1,"values":[["001"]]}],"first":0,"later":1}"#,
            r#"{"terms":[{"keys":["a"],"count":1,"values":[["001"]],"later":1}],"first":0}"#,
        ] {
            assert!(serde_json::from_str::<Requirement>(json).is_err(), "{json}");
        }
    }
}
