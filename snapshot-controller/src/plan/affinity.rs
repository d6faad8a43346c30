//! Which nodes a volume can be reached from.

use serde::Deserialize;

use crate::model::Node;

/// `nodeAffinity.required`: a node fits if one of the terms does.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Affinity {
    node_selector_terms: Option<Vec<Term>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Term {
    match_expressions: Option<Vec<Requirement>>,
    match_fields: Option<Vec<Requirement>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Requirement {
    key: String,
    operator: String,
    values: Option<Vec<String>>,
}

impl Affinity {
    /// What `json` says; nothing fits what cannot be read.
    #[must_use]
    pub fn new(json: &str) -> Self {
        serde_json::from_str(json).unwrap_or_default()
    }

    /// Whether the node of this name fits.
    #[must_use]
    pub fn fits(&self, name: &str, node: &Node) -> bool {
        let mut terms = self.node_selector_terms.iter().flatten();
        terms.any(|term| term.fits(name, node))
    }
}

impl Term {
    fn fits(&self, name: &str, node: &Node) -> bool {
        let expressions = self.match_expressions.as_deref().unwrap_or_default();
        let fields = self.match_fields.as_deref().unwrap_or_default();
        // An empty term is no term: Kubernetes lets it match nothing.
        !(expressions.is_empty() && fields.is_empty())
            && expressions
                .iter()
                .all(|one| one.holds(node.labels.get(&one.key)))
            && fields.iter().all(|one| {
                let value = (one.key == "metadata.name").then_some(name);
                one.holds(value)
            })
    }
}

impl Requirement {
    fn holds(&self, value: Option<&str>) -> bool {
        let values = self.values.as_deref().unwrap_or_default();
        let listed = || value.is_some_and(|value| values.iter().any(|one| one == value));
        let bound = || values.first().and_then(|text| text.parse::<i64>().ok());
        let number = || value.and_then(|text| text.parse::<i64>().ok());
        match &*self.operator {
            "In" => listed(),
            "NotIn" => !listed(),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            "Gt" => number().zip(bound()).is_some_and(|(is, than)| is > than),
            "Lt" => number().zip(bound()).is_some_and(|(is, than)| is < than),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn fits(terms: Value) -> bool {
        let labels = [("zone", "a"), ("cores", "8")].into_iter().collect();
        let affinity = json!({"nodeSelectorTerms": terms}).to_string();
        Affinity::new(&affinity).fits("n1", &Node { labels })
    }

    #[test]
    fn every_operator() {
        for (key, operator, values, expected) in [
            ("zone", "In", json!(["b", "a"]), true),
            ("zone", "In", json!(["b"]), false),
            ("rack", "In", json!(["b"]), false),
            ("zone", "NotIn", json!(["b"]), true),
            ("zone", "NotIn", json!(["a"]), false),
            ("rack", "NotIn", json!(["a"]), true),
            ("zone", "Exists", json!(null), true),
            ("rack", "Exists", json!(null), false),
            ("rack", "DoesNotExist", json!([]), true),
            ("zone", "DoesNotExist", json!([]), false),
            ("cores", "Gt", json!(["4"]), true),
            ("cores", "Gt", json!(["8"]), false),
            ("cores", "Lt", json!(["9"]), true),
            ("zone", "Lt", json!(["9"]), false),
            ("zone", "Is", json!(["a"]), false),
        ] {
            let one = json!({"key": key, "operator": operator, "values": values});
            let term = json!([{"matchExpressions": [one]}]);
            assert_eq!(fits(term), expected, "{key} {operator} {values}");
        }
    }

    #[test]
    fn terms_are_alternatives_and_their_parts_are_not() {
        let zone = |zone: &str| json!({"key": "zone", "operator": "In", "values": [zone]});
        let name = |name: &str| json!({"key": "metadata.name", "operator": "In", "values": [name]});
        for (terms, expected) in [
            (
                json!([{"matchExpressions": [zone("b")]}, {"matchExpressions": [zone("a")]}]),
                true,
            ),
            (json!([{"matchExpressions": [zone("b"), zone("a")]}]), false),
            (json!([{"matchFields": [name("n1")]}]), true),
            (
                json!([{"matchFields": [name("n2")], "matchExpressions": [zone("a")]}]),
                false,
            ),
            (json!([{}]), false),
            (json!([]), false),
            (json!(null), false),
        ] {
            assert_eq!(fits(terms.clone()), expected, "{terms}");
        }
        assert!(!Affinity::new("no JSON").fits("n1", &Node::default()));
    }
}
