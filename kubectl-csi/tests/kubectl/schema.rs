//! `docs/why.schema.json` describes exactly what `-o json` prints.

use crate::world::{World, rows, shown, stored};
use kubectl_csi::plan::Answered;
use kubectl_csi::show::{Format, Style, audit, overview, verdict};
use serde_json::Value;

const SCHEMA: &str = include_str!("../../../docs/why.schema.json");

/// Checks a value against the part of JSON Schema that the file uses; every printed field has to be
/// in it.
fn check(root: &Value, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    if let Some(name) = schema["$ref"].as_str() {
        let target = root.pointer(name.trim_start_matches('#')).unwrap();
        return check(root, target, value, at);
    }
    if let Some(any) = schema["anyOf"].as_array() {
        let mut results = any.iter().map(|one| check(root, one, value, at));
        return results
            .find(Result::is_ok)
            .unwrap_or(Err(format!("{at}: none fits")));
    }
    if let Some(values) = schema["enum"].as_array() {
        return match values.contains(value) {
            true => Ok(()),
            false => Err(format!("{at}: {value}")),
        };
    }
    let kind = match value {
        Value::Null => "null",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
        Value::Number(_) => "integer",
        Value::Bool(_) => "boolean",
    };
    let kinds = &schema["type"];
    let known = kinds == kind
        || kinds
            .as_array()
            .is_some_and(|all| all.contains(&kind.into()));
    if !known {
        return Err(format!("{at}: {kind}, not {kinds}"));
    }
    for (name, one) in value.as_object().into_iter().flatten() {
        let own = schema["properties"].get(name);
        let own = own.ok_or_else(|| format!("{at}.{name} is not in the schema"))?;
        check(root, own, one, &format!("{at}.{name}"))?;
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        if value.get(name.as_str().unwrap()).is_none() {
            return Err(format!("{at} has no {name}"));
        }
    }
    for (index, one) in value.as_array().into_iter().flatten().enumerate() {
        check(root, &schema["items"], one, &format!("{at}[{index}]"))?;
    }
    Ok(())
}

#[test]
fn w_36_the_schema_says_what_is_printed() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let verdicts = &schema["$defs"]["verdict"];
    for row in rows() {
        let (mut answer, _) = row.world().ask(&row.subject, true);
        answer.controllers.push(Answered {
            pod: "storage/ctl-0".to_owned(),
            object: answer.subject.clone(),
            answer: serde_json::json!({
                "program": "csi-attacher",
                "queue": {"state": "waiting", "laneAhead": 4},
                "driverLink": {"state": "away", "since": "2026-11-28T14:32:10.000Z"},
                "waitsFor": [{"kind": "CSINode", "name": "worker-3"}],
            }),
        });
        let text = verdict(&answer, Format::Json, Style::default());
        let value: Value = serde_json::from_str(&text).unwrap();
        let checked = check(&schema, verdicts, &value, "");
        assert_eq!(checked, Ok(()), "{} of {}", row.id, row.subject);
        let (answer, _) = row.world().survey(None);
        let text = overview(&answer, "", Format::Json, Style::default());
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            check(&schema, &schema["$defs"]["overview"], &value, ""),
            Ok(())
        );
        assert_eq!(check(&schema, &schema, &value, ""), Ok(()));
    }
    let refused = World::healthy().audit(&stored(&["!volumes"]), "");
    for answer in [shown(), refused] {
        let text = audit(&answer, Format::Json, Style::default());
        let value: Value = serde_json::from_str(&text).unwrap();
        let audits = &schema["$defs"]["audit"];
        assert_eq!(check(&schema, audits, &value, ""), Ok(()));
        assert_eq!(check(&schema, &schema, &value, ""), Ok(()));
    }
}
