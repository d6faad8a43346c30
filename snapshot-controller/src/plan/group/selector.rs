//! The label selector of a VolumeGroupSnapshot, as a request for claims has it.

use serde::Deserialize;

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

/// A selector that selects everything would take a whole namespace for one group.
const EMPTY: &str = "the label selector of the group snapshot is empty";

/// The selector as text, all of its terms.
///
/// # Errors
/// It has none, or one that nobody understands.
pub(super) fn text(json: &str) -> Result<String, String> {
    let selector: Selector = serde_json::from_str(json).map_err(|error| error.to_string())?;
    let labels = selector.match_labels.unwrap_or_default();
    let labels = labels
        .into_iter()
        .map(|(key, value)| Ok(format!("{key}={value}")));
    let expressions = selector.match_expressions.unwrap_or_default();
    let expressions = expressions.iter().map(expression);
    let terms: Vec<String> = labels.chain(expressions).collect::<Result<_, String>>()?;
    if terms.is_empty() {
        return Err(EMPTY.to_owned());
    }
    Ok(terms.join(","))
}

fn expression(one: &Expression) -> Result<String, String> {
    let Expression {
        key,
        operator,
        values,
    } = one;
    let values = values.as_deref().unwrap_or_default();
    let list = values.join(",");
    match (operator.as_str(), values.is_empty()) {
        ("In", false) => Ok(format!("{key} in ({list})")),
        ("NotIn", false) => Ok(format!("{key} notin ({list})")),
        ("Exists", true) => Ok(key.clone()),
        ("DoesNotExist", true) => Ok(format!("!{key}")),
        (operator, _) => Err(format!(
            "{operator:?} is not a valid label selector operator"
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn g_13_every_term_counts() {
        let term = |operator, values| json!({"key": "k", "operator": operator, "values": values});
        for (selector, expected) in [
            (json!({"matchLabels": {"b": "2", "a": "1"}}), Ok("a=1,b=2")),
            (
                json!({"matchExpressions": [term("In", json!(["x", "y"]))]}),
                Ok("k in (x,y)"),
            ),
            (
                json!({
                    "matchLabels": {"app": "x"},
                    "matchExpressions": [
                        term("NotIn", json!(["x"])), term("Exists", json!(null)),
                        term("DoesNotExist", json!([])),
                    ],
                }),
                Ok("app=x,k notin (x),k,!k"),
            ),
            (json!({}), Err(EMPTY)),
            (
                json!({"matchLabels": {}, "matchExpressions": null}),
                Err(EMPTY),
            ),
            (
                json!({"matchExpressions": [term("In", json!([]))]}),
                Err("\"In\" is not a valid label selector operator"),
            ),
            (
                json!({"matchExpressions": [term("Like", json!(["x"]))]}),
                Err("\"Like\" is not a valid label selector operator"),
            ),
        ] {
            let expected = expected.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(text(&selector.to_string()), expected, "{selector}");
        }
    }
}
