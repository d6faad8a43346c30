//! Translates a PersistentVolume of a plugin into one of the CSI driver.

use serde_json::{Map, Value, json};

use super::handle::Context;
use super::object::{Object, Section, lookup, name, object, object_mut};
use super::topology;
use crate::model::driver::{AccessModes, Attribute, Driver, Secrets};
use crate::model::error::{Cause, Error};

/// The source of the driver's plugin in `spec`.
pub(super) fn source<'a>(driver: &Driver, volume: &'a Value) -> Option<Section<'a>> {
    let fields = object(volume, &["spec", driver.source])?;
    let path = format!("spec.{}", driver.source);
    Some(Section { path, fields })
}

pub(super) fn to_csi(driver: &Driver, volume: &Value, source: Section<'_>) -> Result<Value, Error> {
    let context = Context {
        source,
        volume,
        name: name(volume),
        pod: None,
    };
    let csi = csi(driver, driver.to_csi.attributes, &context)?;
    let mut out = volume.clone();
    if let Some(spec) = object_mut(&mut out, &["spec"]) {
        spec.remove(driver.source);
        spec.insert("csi".to_owned(), csi.into());
        if driver.to_csi.access_modes == AccessModes::One
            && let Some(Value::Array(modes)) = spec.get_mut("accessModes")
        {
            *modes = vec![one(modes).into()];
        }
    }
    if let Some(keys) = &driver.topology {
        topology::to_csi(keys, &mut out);
    }
    Ok(out)
}

/// `spec.csi`
pub(super) fn csi(
    driver: &Driver,
    attributes: &[(&'static str, Attribute)],
    context: &Context<'_>,
) -> Result<Object, Error> {
    let rules = &driver.to_csi;
    let source = &context.source;
    for (field, permitted) in rules.only {
        if let Some(value) = source.text(field)?
            && !value.eq_ignore_ascii_case(permitted)
        {
            return Err(source.error(field, Cause::Kind(value.to_owned())));
        }
    }
    let mut csi = Map::new();
    csi.insert("driver".to_owned(), driver.name.into());
    csi.insert(
        "volumeHandle".to_owned(),
        context.text(rules.handle)?.into(),
    );
    for field in rules.copied {
        match source.fields.get(*field) {
            None | Some(Value::Null | Value::Bool(false)) => {}
            Some(Value::String(text)) if text.is_empty() => {}
            Some(value @ (Value::Bool(true) | Value::String(_))) => {
                csi.insert((*field).to_owned(), value.clone());
            }
            Some(Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
                return Err(source.error(field, Cause::NotA("string or boolean")));
            }
        }
    }
    let mut values = Map::new();
    for (key, attribute) in attributes {
        if let Some(value) = value(*attribute, source)? {
            values.insert((*key).to_owned(), value.into());
        }
    }
    if !values.is_empty() {
        csi.insert("volumeAttributes".to_owned(), values.into());
    }
    secrets(rules.secrets, context, &mut csi)?;
    Ok(csi)
}

fn value(attribute: Attribute, source: &Section<'_>) -> Result<Option<String>, Error> {
    Ok(match attribute {
        Attribute::Fixed(text) => Some(text.to_owned()),
        Attribute::Field(field) => Some(source.text_or_empty(field)?.to_owned()),
        Attribute::IfSet(field) => source.text(field)?.map(str::to_owned),
        Attribute::UnlessEmpty(field) => { source.text(field)? }
            .filter(|text| !text.is_empty())
            .map(str::to_owned),
        Attribute::Number { field, zero } => Some(match source.number(field)? {
            0 => zero.to_owned(),
            number => number.to_string(),
        }),
    })
}

fn secrets(secrets: Secrets, context: &Context<'_>, csi: &mut Object) -> Result<(), Error> {
    match secrets {
        Secrets::None => {}
        Secrets::NodeStage { name, namespace } => {
            let name = context.source.text_or_empty(name)?;
            let namespace = context.namespace(namespace)?;
            let secret = json!({"name": name, "namespace": namespace});
            csi.insert("nodeStageSecretRef".to_owned(), secret);
        }
        Secrets::Annotated {
            name,
            namespace,
            references,
        } => {
            let annotation = |key| lookup(context.volume, "annotations", key);
            // A Secret without name or namespace cannot be read: empty counts as absent.
            let annotation = |key| annotation(key).filter(|text| !text.is_empty());
            if let (Some(name), Some(namespace)) = (annotation(name), annotation(namespace)) {
                let secret = json!({"name": name, "namespace": namespace});
                let references = references.iter().map(|one| (*one).to_owned());
                csi.extend(references.map(|one| (one, secret.clone())));
            }
        }
    }
    Ok(())
}

/// The single access mode for a driver that supports no volumes with several.
fn one(modes: &[Value]) -> &'static str {
    let asked = |mode: &str| modes.iter().any(|asked| asked == mode);
    let writes = asked("ReadWriteOnce") || asked("ReadWriteMany");
    if !writes && asked("ReadOnlyMany") {
        "ReadOnlyMany"
    } else {
        "ReadWriteOnce"
    }
}
