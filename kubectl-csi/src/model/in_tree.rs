//! Sources of in-tree plugins; CSI drivers have taken over some of these plugins.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Value, json};

use super::Text;

/// The source of an in-tree plugin or of another kind: its field in the volume, and that field's
/// value.
#[derive(Clone, Debug, Default)]
pub struct InTree(Option<Box<(String, Value)>>);

/// Sources that name nothing outside their pod.
const WITHIN: &[&str] = &["emptyDir", "downwardAPI", "gitRepo", "image"];

impl InTree {
    /// `object` with the source in it; `None` for a volume without one.
    pub fn within(&self, mut object: Value) -> Option<Value> {
        let (field, source) = &**self.0.as_ref()?;
        if let Some(object) = object.as_object_mut() {
            object.insert(field.clone(), source.clone());
        }
        Some(object)
    }

    /// All texts in the source, such as a path on a server.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let mut left: Vec<&Value> = self.0.iter().map(|one| &one.1).collect();
        std::iter::from_fn(move || {
            loop {
                match left.pop()? {
                    Value::String(text) => return Some(&**text),
                    Value::Array(all) => left.extend(all),
                    Value::Object(all) => left.extend(all.values()),
                    Value::Null | Value::Bool(_) | Value::Number(_) => {}
                }
            }
        })
    }
}

impl<'de> Deserialize<'de> for InTree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FieldVisitor;
        impl<'de> Visitor<'de> for FieldVisitor {
            type Value = InTree;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the fields of a volume")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<InTree, A::Error> {
                let mut found = InTree::default();
                while let Some(field) = map.next_key::<Text>()? {
                    if WITHIN.contains(&&*field) {
                        map.next_value::<IgnoredAny>()?;
                        continue;
                    }
                    let source: Value = map.next_value()?;
                    if source.is_object() {
                        found.0 = Some(Box::new((field.to_string(), source)));
                    }
                }
                Ok(found)
            }
        }
        deserializer.deserialize_map(FieldVisitor)
    }
}

/// Driver and handle after translation to CSI, or the reason why the translation failed.
pub type Translated = Result<(String, String), String>;

/// Reads driver and handle out of a translated volume.
pub(super) fn translated(volume: Result<Value, migration::Error>) -> Translated {
    let volume = volume.map_err(|error| error.to_string())?;
    let text = |field: &str| {
        let text = volume.pointer(&format!("/spec/csi/{field}"));
        text.and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    Ok((text("driver"), text("volumeHandle")))
}

/// Labels or annotations as JSON.
pub(super) fn map(pairs: &sidecar::text::Pairs) -> Value {
    pairs
        .iter()
        .map(|(name, value)| (name, json!(value)))
        .collect()
}
