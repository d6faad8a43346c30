//! Node selectors: the nodes from which a volume is accessible.
//!
//! The rules are the scheduler's (`nodeaffinity` in k8s.io/component-helpers): it places pods by them, and whoever
//! serves a volume must not disagree. A term that cannot be parsed matches nothing, whatever else it contains.

use crate::names::{is_label_key, is_label_value};
use crate::text::{List, Pairs, Text};

/// `NodeSelectorTerm`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Term {
    /// `matchExpressions`, in order.
    pub expressions: Vec<Requirement>,
    /// `matchFields`, in order.
    pub fields: Vec<Requirement>,
}

/// `NodeSelectorRequirement`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requirement {
    /// `key`
    pub key: Text,
    /// `operator`, as written.
    pub operator: Text,
    /// `values`, in order.
    pub values: List,
}

/// Whether one of `terms` selects the node with these labels. Without the node's `name`, no term with fields does,
/// since it cannot be evaluated.
#[must_use]
pub fn selects(terms: &[Term], name: Option<&str>, labels: &Pairs) -> bool {
    terms.iter().any(|term| term.selects(name, labels))
}

impl Term {
    fn selects(&self, name: Option<&str>, labels: &Pairs) -> bool {
        let (expressions, fields) = (&self.expressions, &self.fields);
        // An empty term selects nothing.
        !(expressions.is_empty() && fields.is_empty())
            && expressions.iter().all(|one| one.holds(labels))
            && fields
                .iter()
                .all(|one| name.is_some_and(|name| one.holds_of_field(name)))
    }
}

impl Requirement {
    fn holds(&self, labels: &Pairs) -> bool {
        if !is_label_key(&self.key) || !self.values.iter().all(|value| is_label_value(value)) {
            return false;
        }
        let value = labels.get(&self.key);
        let listed = || value.is_some_and(|value| self.lists(value));
        let number = |text: &str| text.parse::<i64>().ok();
        let compared = |bound: &str| value.and_then(number).zip(number(bound));
        match (&*self.operator, &*self.values) {
            ("In", [_, ..]) => listed(),
            ("NotIn", [_, ..]) => !listed(),
            ("Exists", []) => value.is_some(),
            ("DoesNotExist", []) => value.is_none(),
            ("Gt", [bound]) => compared(bound).is_some_and(|(is, than)| is > than),
            ("Lt", [bound]) => compared(bound).is_some_and(|(is, than)| is < than),
            _ => false,
        }
    }

    /// `metadata.name` is the only field; any other one is empty.
    fn holds_of_field(&self, name: &str) -> bool {
        let field = if *self.key == *"metadata.name" {
            name
        } else {
            ""
        };
        match (&*self.operator, &*self.values) {
            ("In", [value]) => **value == *field,
            ("NotIn", [value]) => **value != *field,
            _ => false,
        }
    }

    fn lists(&self, value: &str) -> bool {
        self.values.iter().any(|listed| **listed == *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requirement(key: &str, operator: &str, values: &[&str]) -> Requirement {
        Requirement {
            key: key.into(),
            operator: operator.into(),
            values: values.iter().map(|value| Text::from(*value)).collect(),
        }
    }

    fn expressions(all: &[Requirement]) -> Term {
        Term {
            expressions: all.to_vec(),
            fields: Vec::new(),
        }
    }

    fn fields(all: &[Requirement]) -> Term {
        Term {
            expressions: Vec::new(),
            fields: all.to_vec(),
        }
    }

    fn node() -> Pairs {
        [("zone", "a"), ("cores", "8")].into_iter().collect()
    }

    fn selected(term: Term) -> bool {
        selects(&[term], Some("n1"), &node())
    }

    #[test]
    fn every_operator() {
        let long = "x".repeat(64);
        for (key, operator, values, expected) in [
            ("zone", "In", &["b", "a"][..], true),
            ("zone", "In", &["b"], false),
            ("rack", "In", &["b"], false),
            ("zone", "In", &[], false),
            ("zone", "NotIn", &["b"], true),
            ("zone", "NotIn", &["a"], false),
            ("rack", "NotIn", &["a"], true),
            ("zone", "Exists", &[], true),
            ("rack", "Exists", &[], false),
            ("rack", "DoesNotExist", &[], true),
            ("zone", "DoesNotExist", &[], false),
            ("cores", "Gt", &["4"], true),
            ("cores", "Gt", &["8"], false),
            ("cores", "Gt", &["+4"], false),
            ("cores", "Lt", &["9"], true),
            ("zone", "Lt", &["9"], false),
            ("cores", "Gt", &["four"], false),
            ("rack", "Gt", &["4"], false),
            // None of these can be parsed.
            ("cores", "Gt", &["4", "6"], false),
            ("cores", "Gt", &[], false),
            ("cores", "Lt", &["9", "4"], false),
            ("rack", "NotIn", &[], false),
            ("zone", "Exists", &["a"], false),
            ("rack", "DoesNotExist", &["a"], false),
            ("zone", "Is", &["a"], false),
            ("rack", "NotIn", &["b", "a b"], false),
            ("rack", "NotIn", &[&long], false),
            ("a/b/c", "DoesNotExist", &[], false),
        ] {
            let term = expressions(&[requirement(key, operator, values)]);
            assert_eq!(selected(term), expected, "{key} {operator} {values:?}");
        }
    }

    #[test]
    fn fields_are_the_name_of_the_node() {
        for (key, operator, values, expected) in [
            ("metadata.name", "In", &["n1"][..], true),
            ("metadata.name", "In", &["n2"], false),
            ("metadata.name", "NotIn", &["n2"], true),
            ("metadata.name", "NotIn", &["n1"], false),
            ("metadata.name", "In", &["n1", "n2"], false),
            ("metadata.name", "NotIn", &["n2", "n3"], false),
            ("metadata.name", "Exists", &[], false),
            ("metadata.namespace", "In", &["n1"], false),
            ("metadata.namespace", "NotIn", &["n1"], true),
        ] {
            let term = fields(&[requirement(key, operator, values)]);
            assert_eq!(
                selected(term.clone()),
                expected,
                "{key} {operator} {values:?}"
            );
            assert!(
                !selects(&[term], None, &node()),
                "{key} {operator} {values:?}"
            );
        }
    }

    #[test]
    fn terms_are_alternatives_and_their_parts_are_not() {
        let zone = |zone: &str| requirement("zone", "In", &[zone]);
        let both = Term {
            expressions: vec![zone("a")],
            fields: vec![requirement("metadata.name", "In", &["n2"])],
        };
        for (row, terms, expected) in [
            (
                "one",
                vec![expressions(&[zone("b")]), expressions(&[zone("a")])],
                true,
            ),
            (
                "none of both",
                vec![expressions(&[zone("b"), zone("a")])],
                false,
            ),
            ("fields, too", vec![both], false),
            ("an empty term", vec![Term::default()], false),
            ("no term", vec![], false),
        ] {
            assert_eq!(selects(&terms, Some("n1"), &node()), expected, "{row}");
        }
    }
}
