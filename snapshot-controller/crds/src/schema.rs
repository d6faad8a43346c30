//! Schemas in the form that the API server requires.

use kube::core::schema::{OptionalEnum, OptionalIntOrString, StructuralSchemaRewriter};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

/// The schema of a type, with all referenced types inlined.
pub fn of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::openapi3()
        .with(|it| {
            it.inline_subschemas = true;
            it.meta_schema = None;
        })
        .with_transform(StructuralSchemaRewriter)
        .with_transform(OptionalEnum)
        .with_transform(OptionalIntOrString);
    let mut schema = settings
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value();
    patch(&mut schema);
    schema
}

/// Removes parts that the snapshot API lacks: an absent field is omitted, it is never null.
fn patch(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else {
        return;
    };
    fields.remove("nullable");
    fields.remove("title");
    for list in ["properties", "items", "additionalProperties"] {
        match fields.get_mut(list) {
            Some(Value::Object(properties)) if list == "properties" => {
                properties.values_mut().for_each(patch);
            }
            Some(other) => patch(other),
            None => {}
        }
    }
}
