//! Translates a PersistentVolume of the CSI driver into one of the plugin.

use serde_json::{Map, Value};

use super::object::{Object, Section, object, object_mut};
use super::{azure, lower, topology};
use crate::model::driver::{Driver, Fallback, Origin, Otherwise};
use crate::model::error::{Cause, Error};

/// `spec.csi`
pub(super) fn source(volume: &Value) -> Option<Section<'_>> {
    let fields = object(volume, &["spec", "csi"])?;
    let path = "spec.csi".to_owned();
    Some(Section { path, fields })
}

pub(super) fn to_in_tree(
    driver: &Driver,
    volume: &Value,
    csi: &Section<'_>,
) -> Result<Value, Error> {
    let mut source = Map::new();
    for rule in driver.to_in_tree.fields {
        let mut found = None;
        for origin in rule.from {
            found = value(*origin, csi)?;
            if found.is_some() {
                break;
            }
        }
        let otherwise = match rule.otherwise {
            Otherwise::Omit => None,
            Otherwise::Text(text) => Some(text.into()),
            Otherwise::False => Some(false.into()),
        };
        if let Some(value) = found.or(otherwise) {
            source.insert(rule.field.to_owned(), value);
        }
    }
    let annotation = match &driver.to_in_tree.fallback {
        None => None,
        Some(fallback) => complete(fallback, csi, &mut source)?,
    };
    let mut out = volume.clone();
    if let Some(spec) = object_mut(&mut out, &["spec"]) {
        spec.remove("csi");
        spec.insert(driver.source.to_owned(), source.into());
    }
    if let Some((key, value)) = annotation
        && let Some(annotations) = object_mut(&mut out, &["metadata", "annotations"])
    {
        annotations.insert(key.to_owned(), value.into());
    }
    if let Some(keys) = &driver.topology {
        topology::to_in_tree(keys, &mut out)?;
    }
    Ok(out)
}

fn value(origin: Origin, csi: &Section<'_>) -> Result<Option<Value>, Error> {
    let attributes = csi.section("volumeAttributes")?;
    let attribute = |key: &str| match &attributes {
        None => Ok(None),
        Some(attributes) => attributes.text(key),
    };
    // Of several spellings the last one in byte order counts: the lower case, if it exists.
    let spelling = |key: &str| {
        let keys = attributes.iter().flat_map(|section| section.fields.keys());
        keys.filter(|spelt| lower(spelt) == key).max()
    };
    let any_case = |key: &str| spelling(key).map_or(Ok(None), |key| attribute(key));
    let text = |text: Option<&str>| text.map(Value::from);
    let some = |text: &&str| !text.is_empty();
    let handle = csi.text_or_empty("volumeHandle")?;
    Ok(match origin {
        Origin::Handle => text(Some(handle)),
        Origin::HandlePart { part, of } => {
            let parts: Vec<&str> = handle.split('/').collect();
            if parts.len() < of {
                let (got, wanted) = (parts.len(), of);
                return Err(csi.error("volumeHandle", Cause::HandleParts { got, wanted }));
            }
            text(parts.get(part).copied())
        }
        Origin::AzureDiskName => {
            let name = azure::disk_name(handle);
            Some(
                name.map_err(|cause| csi.error("volumeHandle", cause))?
                    .into(),
            )
        }
        Origin::FsType => text(csi.text("fsType")?.filter(some)),
        Origin::ReadOnly => csi.flag("readOnly")?.then_some(true.into()),
        Origin::Fixed(fixed) => text(Some(fixed)),
        Origin::Attribute(key) => text(attribute(key)?),
        Origin::AnyCase(key) => text(any_case(key)?),
        Origin::AnyCaseUnlessEmpty(key) => text(any_case(key)?.filter(some)),
        Origin::Number { key, may_be_empty } => match attribute(key)? {
            None => None,
            Some("") if may_be_empty => None,
            Some(value) => {
                let path = format!("volumeAttributes[{key}]");
                let number = number(value).map_err(|cause| csi.error(&path, cause))?;
                (number != 0).then(|| number.into())
            }
        },
        Origin::SecretName | Origin::SecretNamespace => {
            let Some(secret) = csi.section("nodeStageSecretRef")? else {
                return Ok(None);
            };
            let name = secret.text("name")?.filter(some);
            let namespace = || secret.text_or_empty("namespace");
            match (origin, name) {
                (_, None) => None,
                (Origin::SecretNamespace, Some(_)) => text(Some(namespace()?)),
                (_, name) => text(name),
            }
        }
    })
}

fn number(value: &str) -> Result<i32, Cause> {
    let digits = value.strip_prefix(['+', '-']).unwrap_or(value);
    let too_large = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    value.parse().map_err(|_| {
        let value = value.to_owned();
        Cause::Partition { value, too_large }
    })
}

/// Completes `source` from the handle, and returns the annotation to write.
fn complete(
    fallback: &Fallback,
    csi: &Section<'_>,
    source: &mut Object,
) -> Result<Option<(&'static str, String)>, Error> {
    let empty = |source: &Object, field: &str| source.get(field).is_none_or(|value| value == "");
    let fields = || fallback.fields.iter();
    if !fields().any(|(field, ..)| empty(source, field)) {
        return Ok(None);
    }
    let handle = csi.text_or_empty("volumeHandle")?;
    let parts: Vec<&str> = handle.split(fallback.separator).collect();
    if parts.len() < fallback.at_least {
        let handle = handle.to_owned();
        let cause = Cause::HandleSeparators { handle };
        return Err(csi.error("volumeHandle", cause));
    }
    let part = |at: usize| parts.get(at).copied().unwrap_or_default();
    for (field, before, at, after) in fields() {
        if empty(source, field) {
            let text = format!("{before}{}{after}", part(*at));
            source.insert((*field).to_owned(), text.into());
        }
    }
    let (key, at) = fallback.annotation;
    let value = part(at).to_owned();
    Ok((!value.is_empty()).then_some((key, value)))
}
