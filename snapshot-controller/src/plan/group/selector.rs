//! Turns the label selector of a VolumeGroupSnapshot into a query parameter.
//!
//! The CRD's schema accepts any text for a label. The API server would parse an invalid one as
//! additional or different terms.

use std::fmt::Write as _;

use serde::Deserialize;
use sidecar::names::{is_label_key, is_label_value};

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Selector {
    match_labels: Option<std::collections::BTreeMap<String, String>>,
    match_expressions: Option<Vec<Expression>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Expression {
    key: String,
    operator: String,
    values: Option<Vec<String>>,
}

/// An empty selector matches everything, and would take a whole namespace for one group.
const EMPTY: &str = "the label selector of the group snapshot is empty";

/// Why a selector is invalid.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Problem {
    /// The selector matches everything, or cannot be parsed.
    Whole(String),
    /// The path of an invalid field below the selector, and the error.
    Field(String, String),
}

/// The selector as a query parameter, with all of its terms.
///
/// # Errors
/// The selector is empty or invalid.
pub(super) fn text(json: &str) -> Result<String, Problem> {
    let selector: Selector =
        serde_json::from_str(json).map_err(|error| Problem::Whole(error.to_string()))?;
    let labels = selector.match_labels.unwrap_or_default();
    let labels = labels.into_iter().map(|(key, value)| {
        known_key("matchLabels".to_owned(), &key)?;
        known_value(format!("matchLabels[{key}]"), &value)?;
        Ok(format!("{key}={value}"))
    });
    let expressions = selector.match_expressions.unwrap_or_default();
    let expressions = expressions.iter().enumerate().map(expression);
    let terms: Vec<String> = labels.chain(expressions).collect::<Result<_, Problem>>()?;
    if terms.is_empty() {
        return Err(Problem::Whole(EMPTY.to_owned()));
    }
    Ok(terms.join(","))
}

fn expression((number, one): (usize, &Expression)) -> Result<String, Problem> {
    let Expression {
        key,
        operator,
        values,
    } = one;
    let field = |name: &str| format!("matchExpressions[{number}].{name}");
    known_key(field("key"), key)?;
    let values = values.as_deref().unwrap_or_default();
    for (index, value) in values.iter().enumerate() {
        known_value(field(&format!("values[{index}]")), value)?;
    }
    let wrong = |name: &str, text: String| Err(Problem::Field(field(name), text));
    match (operator.as_str(), values) {
        ("In", [_, ..]) => Ok(format!("{key} in ({})", values.join(","))),
        ("NotIn", [_, ..]) => Ok(format!("{key} notin ({})", values.join(","))),
        ("Exists", []) => Ok(key.clone()),
        ("DoesNotExist", []) => Ok(format!("!{key}")),
        ("In" | "NotIn", []) => wrong("values", format!("{operator} needs at least one value")),
        ("Exists" | "DoesNotExist", _) => wrong("values", format!("{operator} takes no values")),
        (operator, _) => {
            let text = format!("{operator:?} is not a valid label selector operator");
            wrong("operator", text)
        }
    }
}

fn known_key(field: String, key: &str) -> Result<(), Problem> {
    let rule = "is no label key, which is a name, at most 63 letters, digits, '-', '_' and '.' that \
                begin and end with a letter or digit, perhaps after a DNS subdomain and '/'";
    known(field, key, is_label_key(key), rule)
}

fn known_value(field: String, value: &str) -> Result<(), Problem> {
    let rule = "is no label value, which is empty, or at most 63 letters, digits, '-', '_' and '.' \
                that begin and end with a letter or digit";
    known(field, value, is_label_value(value), rule)
}

fn known(field: String, text: &str, is: bool, rule: &str) -> Result<(), Problem> {
    if is {
        return Ok(());
    }
    // The text may be long: this much of it is enough.
    let mut shown: String = text.chars().take(80).collect();
    if shown.len() < text.len() {
        let _ = write!(shown, "…");
    }
    Err(Problem::Field(field, format!("{shown:?} {rule}")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn g_13_every_term_counts() {
        let term = |operator, values| json!({"key": "k", "operator": operator, "values": values});
        let empty = || Err(Problem::Whole(EMPTY.to_owned()));
        let wrong = |name: &str, text: &str| {
            let field = format!("matchExpressions[0].{name}");
            Err(Problem::Field(field, text.to_owned()))
        };
        for (selector, expected) in [
            (
                json!({"matchLabels": {"b": "2", "a": "1", "x.y/c": ""}}),
                Ok("a=1,b=2,x.y/c=".to_owned()),
            ),
            (
                json!({"matchExpressions": [term("In", json!(["x", "y"]))]}),
                Ok("k in (x,y)".to_owned()),
            ),
            (
                json!({
                    "matchLabels": {"app": "x"},
                    "matchExpressions": [
                        term("NotIn", json!(["x"])), term("Exists", json!(null)),
                        term("DoesNotExist", json!([])),
                    ],
                }),
                Ok("app=x,k notin (x),k,!k".to_owned()),
            ),
            (json!({}), empty()),
            (
                json!({"matchLabels": {}, "matchExpressions": null}),
                empty(),
            ),
            (
                json!({"matchExpressions": [term("In", json!([]))]}),
                wrong("values", "In needs at least one value"),
            ),
            (
                json!({"matchExpressions": [term("DoesNotExist", json!(["x"]))]}),
                wrong("values", "DoesNotExist takes no values"),
            ),
            (
                json!({"matchExpressions": [term("Like", json!(["x"]))]}),
                wrong(
                    "operator",
                    "\"Like\" is not a valid label selector operator",
                ),
            ),
        ] {
            assert_eq!(text(&selector.to_string()), expected, "{selector}");
        }
    }
}
