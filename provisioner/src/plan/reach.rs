//! Whether a volume can be reached from a node, by the volume's node affinity.
//!
//! Only node deployment asks: there each process deletes the volumes of its own node, and of nobody
//! else's.

use crate::model::{AffinityExpression, AffinityTerm, Pairs};

/// Whether a volume with these terms can be reached from a node with these labels. A volume without
/// affinity (`None`) can be reached from everywhere, one with an empty list of terms from nowhere,
/// as in the Kubernetes API.
#[must_use]
pub fn reaches(terms: Option<&[AffinityTerm]>, labels: &Pairs) -> bool {
    terms.is_none_or(|terms| terms.iter().any(|term| matches_term(term, labels)))
}

/// Fields are those of a Node object, which there is none of here; a term without any requirement
/// matches no node.
fn matches_term(term: &AffinityTerm, labels: &Pairs) -> bool {
    let matches = |expression| matches_expression(expression, labels);
    !term.fields && !term.expressions.is_empty() && term.expressions.iter().all(matches)
}

fn matches_expression(expression: &AffinityExpression, labels: &Pairs) -> bool {
    let value = labels.get(&expression.key);
    let listed = |value: &str| expression.values.iter().any(|listed| &**listed == value);
    let compared = |holds: fn(i64, i64) -> bool| {
        let number = value.and_then(|value| value.parse::<i64>().ok());
        let bound = match &*expression.values {
            [bound] => bound.parse::<i64>().ok(),
            _ => None,
        };
        number
            .zip(bound)
            .is_some_and(|(number, bound)| holds(number, bound))
    };
    match &*expression.operator {
        "In" => value.is_some_and(listed),
        "NotIn" => !value.is_some_and(listed),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compared(|number, bound| number > bound),
        "Lt" => compared(|number, bound| number < bound),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term(expressions: &[(&str, &str, &[&str])]) -> AffinityTerm {
        let expression = |(key, operator, values): &(&str, &str, &[&str])| AffinityExpression {
            key: (*key).into(),
            operator: (*operator).into(),
            values: values.iter().map(|value| (*value).into()).collect(),
        };
        AffinityTerm {
            expressions: expressions.iter().map(expression).collect(),
            fields: false,
        }
    }

    #[test]
    fn rows_278_279_a_volume_is_reached_by_its_affinity() {
        let labels: Pairs = [("key", "foo"), ("n", "5")].into_iter().collect();
        let here = term(&[("key", "In", &["foo"])]);
        let there = term(&[("key", "In", &["bar"])]);
        let fields = AffinityTerm {
            fields: true,
            ..here.clone()
        };
        let rows = [
            ("279 own node", Some(vec![here.clone()]), true),
            ("279 no affinity", None, true),
            ("278", Some(vec![there.clone()]), false),
            ("12.4 no terms", Some(vec![]), false),
            ("one of two terms", Some(vec![there, here]), true),
            ("empty term", Some(vec![AffinityTerm::default()]), false),
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
