//! `metadata.managedFields` are half of an object. They are cut out before decoding: otherwise each cache
//! of a feed would parse them again, only to find their end.

use std::borrow::Cow;

use serde::Deserialize;

/// The start of the field as API servers write it: without blanks, after other fields of the metadata.
/// Within a text the quotes would be escaped.
const MANAGED_FIELDS: &str = r#","managedFields":[{"#;

/// The JSON of an object, usually without `managedFields`.
pub(crate) struct Json<'a> {
    whole: &'a str,
    lean: Cow<'a, str>,
}

impl<'a> Json<'a> {
    pub(crate) fn new(whole: &'a str) -> Self {
        let lean = match without_managed_fields(whole) {
            Some((before, after)) => Cow::Owned([before, after].concat()),
            None => Cow::Borrowed(whole),
        };
        Self { whole, lean }
    }

    /// Decodes the object without `managedFields`.
    pub(crate) fn decode<'b, T: Deserialize<'b>>(&'b self) -> Result<T, serde_json::Error> {
        // Text that was cut in a wrong place is not JSON any more.
        serde_json::from_str(&self.lean).or_else(|_| serde_json::from_str(self.whole))
    }
}

/// The text after the field: API servers write it as the last field of the metadata, or sorted by name
/// where they have no type of the object.
const FOLLOWS: [&str; 2] = ["}", r#","name":"#];

/// The text before the first `managedFields`, and after their first `}]`.
///
/// That is their end, as they are a list of objects. But a text in them may contain those two bytes: then
/// the rest begins within a text, and its last text has no end. Or a nested list ends so: then the rest
/// closes more than it opens.
fn without_managed_fields(json: &str) -> Option<(&str, &str)> {
    let (before, list) = json.split_once(MANAGED_FIELDS)?;
    let mut ends = list.match_indices(']').map(|(at, _)| at);
    let end = ends.find(|at| list.get(..*at).is_some_and(|list| list.ends_with('}')))?;
    let after = list.get(end + 1..)?;
    let follows = FOLLOWS.iter().any(|next| after.starts_with(next));
    follows.then_some((before, after))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn is_lean(json: &str) -> bool {
        matches!(Json::new(json).lean, Cow::Owned(_))
    }

    fn without(mut object: Value) -> Value {
        let metadata = object["metadata"].as_object_mut().unwrap();
        metadata.remove("managedFields");
        object
    }

    /// The decoded object equals the original, with or without `managedFields`.
    fn decoded(json: &str) -> Value {
        without(Json::new(json).decode().unwrap())
    }

    fn object(managed_fields: &Value) -> (String, Value) {
        let json = json!({
            "metadata": {
                "annotations": {"a": r#"{"x":1,"managedFields":[{"#}, "managedFields": managed_fields,
                "name": "é",
            },
            "spec": {"a": [{"b": "}]"}]},
        });
        (json.to_string(), without(json))
    }

    #[test]
    fn everything_else_is_read() {
        let fields = json!([
            {"manager": "a", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": {
                "f:metadata": {"f:finalizers": {".": {}, "v:\"x\"": {}}},
                "f:status": {"f:conditions": {"k:{\"type\":\"Ready\"}": {".": {}, "f:type": {}}}},
            }},
            {"manager": "b", "operation": "Apply", "fieldsV1": {}, "subresource": "status"},
        ]);
        let (json, rest) = object(&fields);
        let lean = Json::new(&json).lean.len();
        assert_eq!(
            lean,
            json.len() - fields.to_string().len() - r#","managedFields":"#.len()
        );
        assert_eq!(decoded(&json), rest);
    }

    #[test]
    fn they_are_the_last_of_the_metadata_or_come_before_the_name() {
        for (json, lean) in [
            (
                r#"{"metadata":{"uid":"a","managedFields":[{}]},"spec":[{}]}"#,
                r#"{"metadata":{"uid":"a"},"spec":[{}]}"#,
            ),
            (
                r#"{"metadata":{"labels":{},"managedFields":[{"a":{}},{}],"name":"a"}}"#,
                r#"{"metadata":{"labels":{},"name":"a"}}"#,
            ),
        ] {
            assert_eq!(Json::new(json).lean, lean);
        }
    }

    /// Users choose the names of managers.
    #[test]
    fn what_looks_like_the_end_is_none() {
        for name in [
            "}]",
            "}],",
            "}]}",
            "}]},",
            "\\\"}],\\\"x\\\":\\\"",
            "}],\"a\":\"",
            "\"}]",
        ] {
            for fields in [
                json!([{"manager": name, "operation": "Update"}]),
                json!([{"fieldsV1": {name: {}}}]),
                json!([{"fieldsV1": {}, "manager": name}]),
            ] {
                let (json, rest) = object(&fields);
                assert_eq!(decoded(&json), rest, "{json}");
            }
        }
        let (json, rest) = object(&json!([{"a": [{}], "b": [{"c": "d"}]}]));
        assert_eq!(decoded(&json), rest, "{json}");
    }

    #[test]
    fn another_form_is_left_as_it_is() {
        for json in [
            r#"{"metadata":{"name":"a"}}"#,
            r#"{"metadata":{"managedFields":[{}]}}"#,
            r#"{"metadata":{"name":"a", "managedFields" : [{}]}}"#,
            r#"{"metadata":{"name":"a","managedFields":null}}"#,
            r#"{"metadata":{"name":"a","managedFields":[]},"x":[{}]}"#,
            r#"{"metadata":{"name":"a","managedFields":[{},1],"ownerReferences":[{"uid":"x"}],"uid":"5"}}"#,
            r#"{"metadata":{"name":"a","managedFields":[{} ]},"spec":{"l":[{}],"finalizers":["x"]}}"#,
        ] {
            assert!(!is_lean(json));
            let whole: Value = serde_json::from_str(json).unwrap();
            assert_eq!(Json::new(json).decode::<Value>().unwrap(), whole);
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let text = r#"[\[\]{}"\\,:a-cé\n]{0,6}"#;
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i32>().prop_map(Value::from),
            text.prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 30, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((text, inner), 0..4).prop_map(object_of),
            ]
        })
    }

    fn object_of(fields: Vec<(String, Value)>) -> Value {
        Value::Object(fields.into_iter().collect())
    }

    fn any_list() -> impl Strategy<Value = Value> {
        let entry =
            prop::collection::vec((r#"[\]}"\\a]{0,4}"#, any_json()), 0..4).prop_map(object_of);
        prop::collection::vec(entry, 0..4).prop_map(Value::from)
    }

    proptest! {
        #[test]
        fn whatever_they_are_nothing_else_changes(list in any_list()) {
            let (json, rest) = object(&list);
            prop_assert_eq!(decoded(&json), rest);
        }

        /// No input causes a panic.
        #[test]
        fn no_text_is_too_strange(text in r#"(\{"a":1,"managedFields":\[\{)?[\[\]{}"\\é]{0,12}"#) {
            drop(Json::new(&text).decode::<Value>());
        }
    }
}
