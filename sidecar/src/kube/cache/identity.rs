//! The identity and version of an object.

use serde::Deserialize;

use super::ObjectError;
use crate::kube::key::Key;
use crate::kube::lean::{Json, Meta, Text};

/// The key and version of an otherwise unreadable object.
pub(super) fn identity(json: &Json<'_>) -> Result<(Key, u64), ObjectError> {
    #[derive(Deserialize)]
    struct Named<'a> {
        #[serde(borrow, default)]
        metadata: Identity<'a>,
    }
    #[derive(Deserialize, Default)]
    #[serde(default, rename_all = "camelCase")]
    struct Identity<'a> {
        #[serde(borrow)]
        name: Option<Text<'a>>,
        #[serde(borrow)]
        namespace: Option<Text<'a>>,
        #[serde(borrow)]
        resource_version: Option<Text<'a>>,
    }
    let Named { metadata } = json.decode().map_err(ObjectError::Decode)?;
    let Identity {
        name,
        namespace,
        resource_version,
    } = metadata;
    key_and_version(&Meta {
        name,
        namespace,
        resource_version,
        ..Meta::default()
    })
}

pub(super) fn key_and_version(meta: &Meta<'_>) -> Result<(Key, u64), ObjectError> {
    let name = meta.name.as_deref().unwrap_or_default();
    let key = Key::new(meta.namespace.as_deref(), name).ok_or(ObjectError::Nameless)?;
    let version = meta
        .resource_version
        .as_deref()
        .and_then(|text| text.parse().ok());
    Ok((key, version.unwrap_or(0)))
}
