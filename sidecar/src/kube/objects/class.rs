//! VolumeAttributesClasses on the wire.

use serde::Deserialize;

use crate::kube::lean::{Meta, Object, Pairs, Text, nullable};

/// A VolumeAttributesClass.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct AttributesClass<'a> {
    /// `metadata`
    #[serde(deserialize_with = "nullable")]
    pub metadata: Meta<'a>,
    /// `driverName`
    pub driver_name: Option<Text<'a>>,
    /// `parameters`
    pub parameters: Pairs<'a>,
}

impl Object for AttributesClass<'_> {
    fn meta(&self) -> &Meta<'_> {
        &self.metadata
    }
}
