//! Whether a volume can be reached from a node, by the volume's node affinity.
//!
//! Used only in node deployment, where each process deletes the volumes of its own node and no others.

use sidecar::node_selector::{Term, selects};

use crate::model::Pairs;

/// Whether a node with these labels can reach a volume with these terms. Every node reaches a volume without affinity
/// (`None`), and no node one with an empty list of terms, as in the Kubernetes API. The labels are the driver's
/// topology segments; the driver does not know the names of Nodes.
#[must_use]
pub fn reaches(terms: Option<&[Term]>, labels: &Pairs) -> bool {
    terms.is_none_or(|terms| selects(terms, None, labels))
}

#[cfg(test)]
mod tests {
    use sidecar::node_selector::Requirement;

    use super::*;

    fn term(expressions: &[(&str, &str, &[&str])]) -> Term {
        let expression = |(key, operator, values): &(&str, &str, &[&str])| Requirement {
            key: (*key).into(),
            operator: (*operator).into(),
            values: values.iter().map(|value| (*value).into()).collect(),
        };
        Term {
            expressions: expressions.iter().map(expression).collect(),
            fields: Vec::new(),
        }
    }

    #[test]
    fn rows_278_279_a_volume_is_reached_by_its_affinity() {
        let labels: Pairs = [("key", "foo"), ("n", "5")].into_iter().collect();
        let here = term(&[("key", "In", &["foo"])]);
        let there = term(&[("key", "In", &["bar"])]);
        let fields = Term {
            fields: term(&[("metadata.name", "In", &["n1"])]).expressions,
            ..here.clone()
        };
        let rows = [
            ("279 own node", Some(vec![here.clone()]), true),
            ("279 no affinity", None, true),
            ("278", Some(vec![there.clone()]), false),
            ("12.4 no terms", Some(vec![]), false),
            ("one of two terms", Some(vec![there, here]), true),
            ("empty term", Some(vec![Term::default()]), false),
            ("fields", Some(vec![fields]), false),
            (
                "all expressions",
                Some(vec![term(&[("key", "Exists", &[]), ("x", "Exists", &[])])]),
                false,
            ),
            (
                "not in",
                Some(vec![term(&[("key", "NotIn", &["bar"])])]),
                true,
            ),
            (
                "not in, absent",
                Some(vec![term(&[("x", "NotIn", &["bar"])])]),
                true,
            ),
            (
                "absent",
                Some(vec![term(&[("x", "DoesNotExist", &[])])]),
                true,
            ),
            (
                "not in, no values",
                Some(vec![term(&[("x", "NotIn", &[])])]),
                false,
            ),
            ("greater", Some(vec![term(&[("n", "Gt", &["4"])])]), true),
            ("less", Some(vec![term(&[("n", "Lt", &["4"])])]), false),
            (
                "no number",
                Some(vec![term(&[("key", "Gt", &["4"])])]),
                false,
            ),
            (
                "unknown operator",
                Some(vec![term(&[("key", "Like", &["foo"])])]),
                false,
            ),
        ];
        for (row, terms, expected) in rows {
            assert_eq!(reaches(terms.as_deref(), &labels), expected, "{row}");
        }
    }
}
