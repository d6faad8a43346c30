//! The three kinds of patch, with the server's deviations from the RFCs.

use serde_json::Value;

use super::kind::Kind;
use super::refusal::Refusal;
use super::strategic;

/// Applies the patch to `current`.
pub(super) fn apply(
    kind: &Kind,
    content_type: &str,
    body: &[u8],
    current: &Value,
) -> Result<Value, Refusal> {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    let patch = |body| {
        serde_json::from_slice::<Value>(body)
            .map_err(|error| Refusal::new(400, format!("error decoding patch: {error}")))
    };
    match essence {
        "application/merge-patch+json" => {
            let mut patched = current.clone();
            json_patch::merge(&mut patched, &patch(body)?);
            Ok(patched)
        }
        "application/json-patch+json" => operations(&patch(body)?, current),
        "application/strategic-merge-patch+json" if !kind.custom => {
            let mut patched = current.clone();
            strategic::merge(&mut patched, &patch(body)?);
            Ok(patched)
        }
        other => Err(Refusal::new(
            415,
            format!("the body of the request was in an unknown format - {other}"),
        )),
    }
}

fn operations(patch: &Value, current: &Value) -> Result<Value, Refusal> {
    let list = patch
        .as_array()
        .ok_or_else(|| Refusal::new(400, "error decoding patch: not a list of operations"))?;
    let mut patched = current.clone();
    for step in list {
        let failed = |why: String| {
            Refusal::new(
                422,
                format!("the server rejected our request due to an error in our request: {why}"),
            )
        };
        if step["op"] == "test" {
            // The server's library treats a missing path as null, unlike RFC 6902.
            let path = step["path"].as_str().unwrap_or_default();
            let found = patched.pointer(path).unwrap_or(&Value::Null);
            if found != step.get("value").unwrap_or(&Value::Null) {
                return Err(failed(format!("testing value {path} failed")));
            }
            continue;
        }
        let one: json_patch::PatchOperation =
            serde_json::from_value(step.clone()).map_err(|error| failed(error.to_string()))?;
        json_patch::patch(&mut patched, &[one]).map_err(|error| failed(error.to_string()))?;
    }
    Ok(patched)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn json_patch(patch: &Value, current: &Value) -> Result<Value, u16> {
        let kind = Kind::new("", "v1", "persistentvolumes", "PersistentVolume");
        let body = patch.to_string();
        apply(
            &kind,
            "application/json-patch+json",
            body.as_bytes(),
            current,
        )
        .map_err(|refusal| refusal.code)
    }

    #[test]
    fn a_test_for_null_accepts_a_missing_path_and_refuses_a_present_one() {
        let patch = json!([
            {"op": "test", "path": "/metadata/finalizers", "value": null},
            {"op": "add", "path": "/metadata/finalizers", "value": ["a/b"]},
        ]);
        let bare = json!({"metadata": {}});
        let added = json!({"metadata": {"finalizers": ["a/b"]}});
        assert_eq!(json_patch(&patch, &bare), Ok(added.clone()));
        assert_eq!(json_patch(&patch, &added), Err(422));
    }

    #[test]
    fn adding_at_the_end_needs_a_list() {
        let patch = json!([{"op": "add", "path": "/metadata/finalizers/-", "value": "a/b"}]);
        assert_eq!(json_patch(&patch, &json!({"metadata": {}})), Err(422));
        let had = json!({"metadata": {"finalizers": ["x/y"]}});
        let want = json!({"metadata": {"finalizers": ["x/y", "a/b"]}});
        assert_eq!(json_patch(&patch, &had), Ok(want));
    }

    #[test]
    fn removing_checks_the_value_at_its_index() {
        let patch = json!([
            {"op": "test", "path": "/metadata/finalizers/1", "value": "a/b"},
            {"op": "remove", "path": "/metadata/finalizers/1"},
        ]);
        let had = json!({"metadata": {"finalizers": ["x/y", "a/b", "c/d"]}});
        let want = json!({"metadata": {"finalizers": ["x/y", "c/d"]}});
        assert_eq!(json_patch(&patch, &had), Ok(want));
        let moved = json!({"metadata": {"finalizers": ["a/b", "x/y"]}});
        assert_eq!(json_patch(&patch, &moved), Err(422));
    }

    #[test]
    fn custom_types_refuse_strategic_merge() {
        let kind = Kind::new("g", "v1", "things", "Thing").custom();
        let refused = apply(
            &kind,
            "application/strategic-merge-patch+json",
            b"{}",
            &json!({}),
        );
        assert_eq!(refused.map_err(|refusal| refusal.code), Err(415));
    }
}
