//! VolumeAttachments on the wire.

use serde::Deserialize;

use super::volume;
use crate::kube::lean::{Text, nullable};

/// The fields of `spec` that this program reads.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct Spec<'a> {
    /// `attacher`
    pub attacher: Option<Text<'a>>,
    /// `nodeName`
    pub node_name: Option<Text<'a>>,
    /// `source`
    #[serde(deserialize_with = "nullable")]
    pub source: Source<'a>,
}

/// The volume to attach.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub struct Source<'a> {
    /// `persistentVolumeName`
    pub persistent_volume_name: Option<Text<'a>>,
    /// `inlineVolumeSpec`
    pub inline_volume_spec: Option<volume::Spec<'a>>,
}
