//! Translates a pod's own volume into a PersistentVolume of the CSI driver.

use serde_json::{Value, json};

use super::handle::Context;
use super::object::{Section, object};
use super::volume::csi;
use crate::model::driver::{Driver, InlineMode};
use crate::model::error::Error;

/// The source of the driver's plugin in a pod's volume.
pub(super) fn source<'a>(driver: &Driver, volume: &'a Value) -> Option<Section<'a>> {
    let fields = object(volume, &[driver.source])?;
    let path = driver.source.to_owned();
    Some(Section { path, fields })
}

pub(super) fn to_csi(
    driver: &Driver,
    name: &str,
    source: Section<'_>,
    namespace: &str,
) -> Result<Value, Error> {
    let rules = &driver.inline;
    let context = Context {
        source,
        volume: &Value::Null,
        name,
        pod: Some(namespace),
    };
    let csi = csi(driver, rules.attributes, &context)?;
    let mode = match rules.access_mode {
        InlineMode::Always(mode) => mode,
        InlineMode::ByReadOnly if context.source.flag("readOnly")? => "ReadOnlyMany",
        InlineMode::ByReadOnly => "ReadWriteOnce",
    };
    Ok(json!({
        "metadata": { "name": context.text(rules.name)? },
        "spec": { "csi": csi, "accessModes": [mode], "volumeMode": "Filesystem" },
    }))
}
