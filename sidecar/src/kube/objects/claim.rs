//! PersistentVolumeClaims on the wire.

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::kube::lean::{Pairs, Text, nullable};

/// The fields of `spec` that this program reads.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct Spec<'a> {
    /// `storageClassName`
    pub storage_class_name: Option<Text<'a>>,
    /// `volumeName`
    pub volume_name: Option<Text<'a>>,
    /// `accessModes`
    #[serde(deserialize_with = "nullable")]
    pub access_modes: Vec<Text<'a>>,
    /// `volumeMode`
    pub volume_mode: Option<Text<'a>>,
    /// `selector`
    pub selector: Option<IgnoredAny>,
    /// `resources`
    #[serde(deserialize_with = "nullable")]
    pub resources: Resources<'a>,
    /// `dataSource`
    pub data_source: Option<DataSource<'a>>,
    /// `dataSourceRef`
    pub data_source_ref: Option<DataSource<'a>>,
    /// `volumeAttributesClassName`
    pub volume_attributes_class_name: Option<Text<'a>>,
}

/// The fields of `spec.resources` that this program reads.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub struct Resources<'a> {
    /// `requests`
    pub requests: Pairs<'a>,
}

/// The source of a new volume's contents.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct DataSource<'a> {
    /// `apiGroup`
    pub api_group: Option<Text<'a>>,
    /// `kind`
    pub kind: Option<Text<'a>>,
    /// `name`
    pub name: Option<Text<'a>>,
    /// `namespace`
    pub namespace: Option<Text<'a>>,
}
