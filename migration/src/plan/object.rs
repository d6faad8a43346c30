//! Access to parts of a JSON object. `null` counts as absent. A part with another type than in the API is an error
//! where it is needed, and otherwise left unchanged.

use serde_json::{Map, Value};

use crate::model::error::{Cause, Error};

pub(super) type Object = Map<String, Value>;

/// The object at `path`.
pub(super) fn object<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Object> {
    let mut value = value;
    for field in path {
        value = value.get(field)?;
    }
    value.as_object()
}

/// The object at `path`, created if it is absent.
pub(super) fn object_mut<'a>(value: &'a mut Value, path: &[&str]) -> Option<&'a mut Object> {
    let mut value = value;
    for field in path {
        value = made(value.as_object_mut()?, field, Map::new().into());
    }
    value.as_object_mut()
}

/// The value of `field`, set to `new` if it is absent.
pub(super) fn made<'a>(object: &'a mut Object, field: &str, new: Value) -> &'a mut Value {
    let value = object.entry(field).or_insert(Value::Null);
    if value.is_null() {
        *value = new;
    }
    value
}

/// `metadata.name`
pub(super) fn name(value: &Value) -> &str {
    let name = value
        .get("metadata")
        .and_then(|metadata| metadata.get("name"));
    name.and_then(Value::as_str).unwrap_or_default()
}

/// The text under `key` in a map of `metadata`.
pub(super) fn lookup<'a>(value: &'a Value, map: &str, key: &str) -> Option<&'a str> {
    object(value, &["metadata", map])?.get(key)?.as_str()
}

/// A JSON object with the path of its fields.
pub(super) struct Section<'a> {
    pub(super) path: String,
    pub(super) fields: &'a Object,
}

impl Section<'_> {
    pub(super) fn error(&self, field: &str, cause: Cause) -> Error {
        Error::at(format!("{}.{field}", self.path), cause)
    }

    fn read<'a, T>(
        &'a self,
        field: &str,
        kind: &'static str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        match self.fields.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match read(value) {
                Some(read) => Ok(Some(read)),
                None => Err(self.error(field, Cause::NotA(kind))),
            },
        }
    }

    pub(super) fn text(&self, field: &str) -> Result<Option<&str>, Error> {
        self.read(field, "string", Value::as_str)
    }

    pub(super) fn text_or_empty(&self, field: &str) -> Result<&str, Error> {
        Ok(self.text(field)?.unwrap_or_default())
    }

    pub(super) fn flag(&self, field: &str) -> Result<bool, Error> {
        Ok(self
            .read(field, "boolean", Value::as_bool)?
            .unwrap_or_default())
    }

    pub(super) fn number(&self, field: &str) -> Result<i64, Error> {
        Ok(self
            .read(field, "number", Value::as_i64)?
            .unwrap_or_default())
    }

    /// A field that is an object itself; `None` if it is absent.
    pub(super) fn section(&self, field: &str) -> Result<Option<Section<'_>>, Error> {
        let fields = self.read(field, "object", Value::as_object)?;
        let path = format!("{}.{field}", self.path);
        Ok(fields.map(|fields| Section { path, fields }))
    }
}
